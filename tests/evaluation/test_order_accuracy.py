"""Order accuracy against hand-made scores: which pairs count as right, by gap and by what is observed."""

import dataclasses

import numpy as np
import pytest

from experiments.order_accuracy import over_runs
from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.evaluation.orders import field_of_relation, pair_orders, summary
from numcoke_jax.system.errors import UserError
from tests.examples import scored_by
from tests.graphs import graph_of

# Entities 0..4 weigh 10, 20, 30, 40 and unknown; the facts say who is heavier.
FACTS = np.array([[1, 0, 0], [2, 0, 1], [3, 0, 0], [4, 0, 0], [3, 0, 2]], np.int32)
POSITIONS = np.array([[0.0], [1 / 3], [2 / 3], [1.0], [0.0]])
# scores[h, t]; (1, 0) right, (2, 1) wrong, (3, 0) right, (4, 0) tied, (3, 2) right.
SCORES = np.zeros((5, 5), np.float32)
SCORES[1, 0], SCORES[1, 2], SCORES[3, 0], SCORES[3, 2] = 1, 1, 2, 3


def graph(relation: str = "weight_comp") -> NumericGraph:
    names = Vocabulary(("a", "b", "c", "d", "e"), (relation,), ("weight",))
    return graph_of(names, test=FACTS, values=[10, 20, 30, 40, np.nan])


def orders(chunk: int, relation: str = "weight_comp"):
    return pair_orders(graph(relation), FACTS, POSITIONS, scored_by([SCORES], chunk))


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
def test_a_fact_is_right_when_it_scores_above_its_reverse_whatever_the_chunk(chunk):
    result = orders(chunk)
    np.testing.assert_array_equal(result.model, [1, 0, 1, 0.5, 1])
    np.testing.assert_array_equal(result.observed, [2, 2, 2, 1, 2])
    np.testing.assert_array_equal(result.rule, [1, 1, 1, 0.5, 1])
    np.testing.assert_allclose(result.gap, [1 / 3, 1 / 3, 1.0, np.nan, 1 / 3])


def test_of_a_relation_named_after_no_field_nothing_is_said_to_be_missing():
    rows = {row["pairs"]: row["count"] for row in summary(orders(5, "older than"))}
    assert rows["all pairs"] == 5 and rows["no value observed"] == 0


def test_the_rule_turns_round_for_a_relation_whose_heads_are_the_lower():
    """The same facts the other way round, as `data.direction="<"` has them: (lighter, r, heavier)."""
    lighter = FACTS[:, ::-1]
    graph_of_lighter = dataclasses.replace(graph(), train=lighter[:1], test=lighter)
    result = pair_orders(graph_of_lighter, lighter, POSITIONS, scored_by([SCORES.T], 5))
    np.testing.assert_array_equal(result.model, [1, 0, 1, 0.5, 1])
    np.testing.assert_array_equal(result.rule, [1, 1, 1, 0.5, 1])
    np.testing.assert_allclose(result.gap, [1 / 3, 1 / 3, 1.0, np.nan, 1 / 3])


def test_the_table_counts_pairs_by_what_is_observed_and_by_gap():
    rows = {row["pairs"]: row for row in summary(orders(5))}
    assert rows["all pairs"] == {"pairs": "all pairs", "count": 5, "model": 3.5 / 5, "raw values": 4.5 / 5}
    assert rows["both values observed"]["count"] == 4
    assert rows["both values observed"]["model"] == 3 / 4
    assert rows["one value observed"]["model"] == 0.5
    assert rows["no value observed"] == {
        "pairs": "no value observed",
        "count": 0,
        "model": None,
        "raw values": None,
    }
    gaps = [row for name, row in rows.items() if name.startswith("both observed, gap")]
    assert sum(row["count"] for row in gaps) == 4
    assert gaps[-1]["count"] == 1 and gaps[-1]["model"] == 1.0  # the pair with gap 1


def test_a_relation_that_names_no_field_has_no_gap():
    result = orders(5, relation="near")
    assert np.isnan(result.gap).all() and (result.observed == -1).all()
    np.testing.assert_array_equal(result.model, [1, 0, 1, 0.5, 1])
    assert field_of_relation(graph("near"), 0) is None
    assert field_of_relation(graph(), 0) == 0


def test_runs_of_one_graph_become_mean_and_standard_deviation():
    one, two = ([{"pairs": "all", "count": 3, "model": share, "raw values": 0.5}] for share in (0.5, 0.75))
    assert over_runs([one]) == [{**one[0], "model std": None}]
    (row,) = over_runs([one, two])
    assert row == {**one[0], "model": 0.625, "model std": pytest.approx(0.125 * 2**0.5)}
    with pytest.raises(UserError, match=r"the runs differ in their pairs or values: give runs of one graph"):
        over_runs([one, [{**two[0], "count": 4}]])
