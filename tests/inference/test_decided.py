"""Facts that an order core decides: their explanation, what-ifs, probabilities of unknown entities."""

import functools
import io

import numpy as np
import pytest
from scipy import stats

from numcoke_jax.cli.explain_view import show
from numcoke_jax.data.variants import Change
from numcoke_jax.evaluation.calibration import UNCHANGED, Calibration
from numcoke_jax.inference.explain import explain
from numcoke_jax.inference.frames import score_triples
from numcoke_jax.inference.trained import Trained
from numcoke_jax.system.console import Console
from tests.inference.decided_runs import complete, decided
from tests.inference.imputed import Holes
from tests.tiny_runs import compiled_fast


@functools.cache
def known() -> tuple[Holes, Trained]:
    holes = complete(0)
    return holes, decided(holes)


@functools.cache
def with_holes() -> tuple[Holes, Trained]:
    """Entities 0 to 4 have neither a value of a nor a fact; 5 to 9 have facts only."""
    holes = complete(1, 40)
    holes.observed[:10, 0] = False
    pairs = holes.pairs(0, 400)
    return holes, decided(holes, {"above": pairs[(pairs >= 5).all(axis=1)]})


def test_the_one_term_of_a_decided_fact_is_its_score() -> None:
    holes, trained = known()
    order = np.argsort(holes.values[:, 0])
    with compiled_fast():
        found = explain(trained, int(order[20]), 0, int(order[8]))
    assert list(found["terms"]) == ["order core"] and found["decided_by"] == "order core"
    assert found["terms"]["order core"] == pytest.approx(found["score"], rel=1e-5, abs=1e-5)
    assert "attention" not in found and "experts" not in found, "they have no say"
    assert found["compared"][0]["field"] == "a" and found["compared"][0]["weight"] == 1.0
    assert found["compared"][0]["head"] == holes.values[order[20], 0]


@pytest.mark.parametrize(("head", "tail"), [(5, 20), (20, 5), (7, 8), (0, 30), (30, 0), (0, 1)])
def test_the_probability_is_that_of_the_positions_and_widths(head: int, tail: int) -> None:
    _, trained = with_holes()
    with compiled_fast():
        found = explain(trained, head, 0, tail)
    order = found["order"]
    assert set(order) == {
        *(f"{side}_{what}" for side in ("head", "tail") for what in ("position", "width", "membership")),
        "margin", "noise", "reversed_share", "above",
    }  # fmt: skip
    assert order["margin"] == pytest.approx(order["head_position"] - order["tail_position"])
    deviation = np.sqrt(order["head_width"] ** 2 + order["tail_width"] ** 2 + order["noise"] ** 2)
    share = order["reversed_share"]
    above = share + (1 - 2 * share) * stats.norm.cdf(order["margin"] / deviation)
    assert found["probability"] == order["above"] == pytest.approx(above, rel=1e-6)


def test_an_entity_without_value_and_facts_is_near_one_half_and_never_extreme() -> None:
    """It was above 0.9 for three pairs in four, and right in half of them."""
    _, trained = with_holes()
    predictor = trained.predictor()
    rows, columns = np.meshgrid(np.arange(5), np.arange(10, 40), indexing="ij")
    heads, tails = rows.ravel(), columns.ravel()
    for one, other in ((heads, tails), (tails, heads)):
        with compiled_fast():
            found = predictor.probabilities(np.zeros(len(one)), one, other, 0)
        assert 0.35 < found.mean() < 0.65 and found.min() > 0.01 and found.max() < 0.99
        assert (np.abs(found - 0.5) < 0.4).mean() > 0.6
    both = predictor.probabilities(np.zeros(4), np.arange(4), np.arange(1, 5), 0)
    np.testing.assert_allclose(both, 0.5, atol=0.25)


def rows_of_kinds(*, core: bool) -> Trained:
    """Entities 0 to 2 are the kinds of the others; 3 is in no fact and without value, as a new row may be."""
    holes = complete(2, 40)
    holes.observed[:4] = False
    pairs = holes.pairs(0, 400)
    kinds = np.array([(row, row % 3) for row in range(4, 40)])
    relations = {"above": pairs[(pairs >= 4).all(axis=1)], "kind": kinds}
    return decided(holes, relations, score__order_core=core)


def test_what_is_only_a_category_has_no_place_among_rows() -> None:
    trained = rows_of_kinds(core=True)
    predictor = trained.predictor()
    above = trained.names.relations.id("above")
    heads, tails = np.array([5, 1, 5, 0, 3, 5]), np.array([1, 5, 6, 2, 5, 3])
    with compiled_fast():
        found = predictor.probabilities(np.zeros(6), heads, tails, above)
        asked = score_triples(predictor, np.array([(5, above, 1), (5, above, 6)]))
        told = explain(trained, 5, above, 1, [Change("tail", 0, 1.0)])
    assert np.isnan(found).tolist() == [True, True, False, True, False, False]
    assert asked["likelier"][0] == "" and asked["likelier"][1]
    assert (
        told["probability"] is told["order"]["above"] is None and told["what_if"]["probability"] is not None
    )
    show(told, Console(text := io.StringIO()))
    assert "above with probability unknown" in text.getvalue()


@pytest.mark.parametrize(
    ("relation", "directions", "known"),
    [("above", True, [False, False, True, True]), ("above", False, [True] * 4), ("kind", True, [True] * 4)],
)
def test_calibrated_scores_say_nothing_of_which_of_a_row_and_a_category_is_above(
    relation: str, directions: bool, known: list[bool]
) -> None:
    """A model without the core can score "single" above every client: no validation fact tells that it is."""
    predictor = rows_of_kinds(core=False).predictor()
    asked = predictor.graph.vocabulary.relations.index(relation)
    predictor.calibration = Calibration({asked: UNCHANGED}, directions, predictor.graph.num_entities)
    heads, tails = np.array([5, 1, 5, 3]), np.array([1, 5, 39, 5])
    with compiled_fast():
        found = predictor.probabilities(np.zeros(4), heads, tails, asked)
        asked_both = score_triples(predictor, np.stack([heads, np.full(4, asked), tails], axis=1))
    compared = [
        relation == "above" and row >= 2 for row in range(4)
    ]  # of the first two, one end is a category
    assert (asked_both["likelier"] != "").tolist() == compared
    unlearned = ~predictor.graph.index("train").has(heads, asked, tails) | directions
    assert (np.isfinite(found) == (known & unlearned)).all()


def test_an_entity_with_facts_alone_is_placed_as_its_value_would_place_it() -> None:
    holes, trained = with_holes()
    predictor = trained.predictor()
    rows, columns = np.meshgrid(np.arange(5, 10), np.arange(10, 40), indexing="ij")
    with compiled_fast():
        found = predictor.probabilities(np.zeros(rows.size), rows.ravel(), columns.ravel(), 0)
    truth = holes.values[rows.ravel(), 0] > holes.values[columns.ravel(), 0]
    assert ((found > 0.5) == truth).mean() > 0.93
    assert np.mean((found - truth) ** 2) < 0.06


@pytest.mark.parametrize(("side", "value", "up"), [("head", 9.0, True), ("head", -9.0, False)])
def test_another_compared_value_moves_the_rank_the_right_way(side: str, value: float, up: bool) -> None:
    """The tails that a higher head stands above are more; the fact itself becomes sure, or impossible."""
    holes, trained = known()
    middle, tail = (int(np.argsort(holes.values[:, 0])[place]) for place in (15, 14))
    with compiled_fast():
        found = explain(trained, middle, 0, tail, [Change(side, 0, value)])
    what_if = found["what_if"]
    assert (what_if["probability"] > 0.99) if up else (what_if["probability"] < 0.05)
    assert (what_if["score"] > found["score"]) == up or what_if["score"] == pytest.approx(found["score"])


def test_a_tail_whose_value_falls_below_all_is_likelier() -> None:
    holes, trained = known()
    middle, upper = (int(np.argsort(holes.values[:, 0])[place]) for place in (15, 25))
    with compiled_fast():
        found = explain(trained, middle, 0, upper, [Change("tail", 0, -9.0)])
    assert found["probability"] < 0.05 < 0.95 < found["what_if"]["probability"]
    assert found["what_if"]["rank"] < found["rank"]


@pytest.mark.parametrize("further", [0.01, 1.0, 1e6])
def test_a_value_beyond_all_others_is_above_the_highest_and_below_the_lowest(further: float) -> None:
    holes, trained = known()
    order = np.argsort(holes.values[:, 0])
    middle, highest, lowest = int(order[15]), int(order[-1]), int(order[0])
    ends = float(holes.values[highest, 0]) + further, float(holes.values[lowest, 0]) - further
    with compiled_fast():
        upwards = explain(trained, middle, 0, highest, [Change("head", 0, ends[0])])
        downwards = explain(trained, lowest, 0, middle, [Change("tail", 0, ends[1])])
    assert upwards["probability"] < 0.01 and upwards["what_if"]["probability"] > 0.99
    assert downwards["probability"] < 0.01 and downwards["what_if"]["probability"] > 0.99


def test_a_value_that_is_missing_leaves_the_place_to_the_facts() -> None:
    holes, trained = known()
    order = np.argsort(holes.values[:, 0])
    high, low = int(order[27]), int(order[3])
    with compiled_fast():
        found = explain(trained, high, 0, low, [Change("head", 0, None)])
    assert 0.9 < found["what_if"]["probability"] <= 1.0


def test_a_field_that_is_not_compared_changes_nothing() -> None:
    _, trained = known()
    with compiled_fast():
        found = explain(trained, 3, 0, 4, [Change("head", 1, 50.0)])
    assert found["what_if"]["score"] == found["score"] and not found["what_if"]["moved"]


def test_the_class_of_an_entity_is_read_off_its_value() -> None:
    """(entity, is, high) above 0; entities 0 to 3 are in no fact, and 2 and 3 have no value of a either."""
    holes = complete(2, 42)
    holes.observed[[2, 3, 40, 41], 0] = False
    pairs = np.array([(e, 40 + int(holes.values[e, 0] > 0)) for e in range(4, 40)])
    trained = decided(holes, {"is": pairs})
    assert trained.run.sizes.classes == (0,)
    heads, tails = np.repeat(np.arange(40), 2), np.tile([40, 41], 40)
    with compiled_fast():
        found = trained.predictor().probabilities(np.zeros(80), heads, tails, 0).reshape(40, 2)
        told = explain(trained, 0, 0, 40 + int(holes.values[0, 0] > 0))
    assert told["decided_by"] == "value classes" and told["probability"] > 0.99
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)
    seen = np.setdiff1d(np.arange(40), [2, 3])
    clear = seen[np.abs(holes.values[seen, 0]) > 0.2]
    np.testing.assert_array_equal(found[clear, 1] > 0.5, holes.values[clear, 0] > 0)
    assert found[[2, 3]].max() < 0.9, "without a value it is not known"
