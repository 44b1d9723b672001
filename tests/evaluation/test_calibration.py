"""Probabilities: no other temperature is better, errors by hand, labels by the selection rule."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.evaluation.calibration import (
    LEAST_LABELS,
    RANGE,
    Calibration,
    Scale,
    _slopes,
    calibrate,
    expected_calibration_error,
    fit_scale,
    fit_temperature,
    labelled_scores,
    negative_log_likelihood,
    reliability,
)
from numcoke_jax.system.errors import UserError
from tests import graphs


def graph_of(train: Any, valid: Any, test: Any, *, entities: int = 4, relations: int = 2) -> NumericGraph:
    return graphs.graph_of(graphs.numbered(entities, relations, digits=1), train, valid, test)


def by_formula(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
    """Score 100 h + 10 r + t, in pieces of two heads."""
    for begin in range(0, len(heads), 2):
        block = heads[begin : begin + 2]
        yield begin, (100 * block[:, None] + 10 * relation + np.arange(4)).astype(np.float32)


OF_3 = {(310, False), (311, False), (312, True), (313, False)}  # of (3, r1)
GRAPH = graph_of(train=[[0, 0, 1]], valid=[[0, 0, 2], [3, 1, 2]], test=[[0, 0, 3]])


@pytest.mark.parametrize(
    ("split", "selection", "expected"),
    [
        # (0, r0): tail 1 is known; the test's tail 3 has no label.
        ("valid", "seen", {(0, False), (2, True), (3, False), *OF_3}),
        ("valid", "all", {(0, False), (2, True), (3, False), *OF_3}),
        ("test", "seen", {(0, False), (3, True)}),
        ("valid", "reversed", {(2, True), (200, False), (312, True), (213, False)}),
        ("test", "reversed", {(3, True), (300, False)}),
    ],
)  # fmt: skip
def test_labels_follow_the_rule_that_selected_the_model(split: str, selection: str, expected: set) -> None:
    found = labelled_scores(GRAPH, split, by_formula, selection=selection, seed=0)
    assert set(zip(found.scores.tolist(), found.labels.tolist(), strict=True)) == expected
    assert len(found.scores) == len(expected)
    assert [int(score) // 10 % 10 for score in found.scores] == found.relations.tolist()


def test_facts_of_the_test_split_count_as_unlabelled_unless_reverses_are_the_false_ones() -> None:
    """Two validation facts and one test fact among the tails of their queries: two of three are labelled."""
    shares = {
        (split, rule): labelled_scores(GRAPH, split, by_formula, selection=rule, seed=0).share
        for split in ("valid", "test")
        for rule in ("seen", "all", "reversed")
    }
    assert shares.pop(("valid", "seen")) == shares.pop(("valid", "all")) == 2 / 3
    assert set(shares.values()) == {1.0}


def test_of_a_pair_that_is_a_fact_both_ways_each_way_is_won_half_of_the_time() -> None:
    """Won and lost once each: a coin is calibrated there, and not one that calls both ways true."""
    both_ways = graph_of(train=[[0, 0, 1]], valid=[[1, 0, 2], [2, 0, 1], [3, 0, 0]], test=[])
    found = labelled_scores(both_ways, "valid", by_formula, selection="reversed", seed=0)
    assert sorted(zip(found.scores.tolist(), found.labels.tolist(), strict=True)) == [
        (3, False), (102, False), (102, True), (201, False), (201, True), (300, True)
    ]  # fmt: skip


def test_two_symmetric_scores_have_a_temperature_that_can_be_computed_by_hand() -> None:
    """3 of 4 scores +2 are true and 1 of 4 scores -2: p must be 3/4 at 2, so 2 / T = ln 3."""
    scores = np.array([2.0] * 4 + [-2.0] * 4)
    labels = np.array([1, 1, 1, 0, 1, 0, 0, 0], bool)
    temperature = fit_temperature(scores, labels)
    assert temperature == pytest.approx(2 / math.log(3), rel=1e-12)
    assert Calibration(Scale(temperature, 0.0)).probability(np.array([2.0]), 0)[0] == pytest.approx(
        0.75, rel=1e-12
    )


@given(st.lists(st.tuples(st.floats(-30, 30), st.booleans()), min_size=2, max_size=40))
def test_no_other_temperature_is_better(pairs: list[tuple[float, bool]]) -> None:
    scores = np.array([score for score, _ in pairs])
    labels = np.array([label for _, label in pairs])
    best = fit_temperature(scores, labels)
    assert RANGE[0] <= best <= RANGE[1]
    loss = negative_log_likelihood(scores / best, labels)
    for other in np.geomspace(*RANGE, 60):
        assert loss <= negative_log_likelihood(scores / other, labels) * (1 + 1e-9) + 1e-9


def test_a_scale_recovers_the_one_that_made_the_labels() -> None:
    """Labels with p = sigmoid((score + 4) / 2): scores too low, as after training on a tenth of the facts."""
    rng = np.random.default_rng(0)
    scores = rng.normal(-5.0, 4.0, 200_000)
    labels = rng.random(len(scores)) < expit((scores + 4.0) / 2.0)
    found = fit_scale(scores, labels)
    assert found.temperature == pytest.approx(2.0, rel=0.02) and found.shift == pytest.approx(-4.0, abs=0.05)
    error = {}
    for name, scale in {"raw": Scale(1, 0), "alone": Scale(fit_temperature(scores, labels), 0)}.items():
        error[name] = expected_calibration_error(reliability(expit(scale.logits(scores)), labels))
    after = expected_calibration_error(reliability(expit(found.logits(scores)), labels))
    assert after < 0.005 < 0.05 < error["alone"] < error["raw"]


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_a_scale_is_recovered_where_only_a_share_of_the_true_ones_is_labelled(share: float) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(-5.0, 4.0, 400_000)
    true = rng.random(len(scores)) < expit((scores + 4.0) / 2.0)
    labels = true & (rng.random(len(scores)) < share)
    found = fit_scale(scores, labels, share)
    assert found.temperature == pytest.approx(2.0, rel=0.05) and found.shift == pytest.approx(-4.0, abs=0.1)
    assert expected_calibration_error(reliability(expit(found.logits(scores)), true)) < 0.005
    blind = fit_scale(scores, labels)
    assert expected_calibration_error(reliability(expit(blind.logits(scores)), true)) > 0.02


@pytest.mark.parametrize("share", [0.9, 0.1])
def test_the_loss_of_a_share_has_the_slopes_and_the_value_of_its_formula(share: float) -> None:
    """-y log(c p) - (1 - y) log(1 - c p), its derivative by central differences; also where p rounds to 1."""
    logits, labels = np.array([-3.0, 0.5, 2.0, 4.0]), np.array([1.0, 0.0, 1.0, 0.25])
    labelled = share / (1.0 + np.exp(-logits))
    by_formula = -labels * np.log(labelled) - (1.0 - labels) * np.log(1.0 - labelled)
    assert negative_log_likelihood(logits, labels, share) == pytest.approx(by_formula.sum(), rel=1e-12)
    for place in range(len(logits)):
        step = 1e-5 * (np.arange(len(logits)) == place)
        above, below = (negative_log_likelihood(logits + sign * step, labels, share) for sign in (1.0, -1.0))
        assert _slopes(logits, labels, share)[0][place] == pytest.approx((above - below) / 2e-5, rel=1e-6)
    assert all(np.isfinite(part).all() for part in _slopes(np.array([-1e4, 1e4]), np.ones(2), share))


@pytest.mark.parametrize("rule", ["seen", "all", "reversed"])
def test_probabilities_of_a_graph_with_most_facts_in_the_test_split_are_calibrated(rule: str) -> None:
    """A total order of 60, split 10/10/80, and a scorer that knows every fact but for some noise."""
    size = 60
    rng = np.random.default_rng(0)
    facts = rng.permutation([[i, 0, j] for i in range(size) for j in range(i)])
    tenth = len(facts) // 10
    graph = graph_of(facts[:tenth], facts[tenth : 2 * tenth], facts[2 * tenth :], entities=size, relations=1)
    noise = rng.logistic(size=(size, size))

    def scored(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, (heads[:, None] - np.arange(size) - 0.5) / 4.0 + noise[heads] - 1.0

    found = calibrate(graph, scored, kind="global", selection=rule, seed=0)
    assert found is not None and found["test"]["after"]["ece"] < 0.05
    calibration = Calibration.from_report(found, ("r0",), "report.json")
    scores = np.array([(h - t - 0.5) / 4.0 + noise[h, t] - 1.0 for h, _, t in graph.test.tolist()])
    assert calibration.probability(scores, 0).mean() > 0.8


@given(st.lists(st.tuples(st.floats(-30, 30), st.booleans()), min_size=2, max_size=30))
def test_no_other_scale_is_better(pairs: list[tuple[float, bool]]) -> None:
    scores = np.array([score for score, _ in pairs] + [1.0, -1.0])
    labels = np.array([label for _, label in pairs] + [True, False])
    targets = np.where(labels, (labels.sum() + 1) / (labels.sum() + 2), 1 / ((~labels).sum() + 2))
    best = fit_scale(scores, labels)
    loss = negative_log_likelihood(best.logits(scores), targets)
    for temperature in np.geomspace(1e-2, RANGE[1], 13):
        for shift in np.linspace(-30, 30, 13):
            other = negative_log_likelihood(Scale(temperature, shift).logits(scores), targets)
            assert loss <= other * (1 + 1e-6) + 1e-6 or best.temperature == RANGE[1]


def test_scores_that_separate_the_classes_end_at_the_limit() -> None:
    assert fit_temperature(np.array([1.0, -1.0]), np.array([True, False])) == RANGE[0]
    assert fit_temperature(np.array([1.0, -1.0]), np.array([False, True])) == RANGE[1]


def test_scores_that_rank_the_wrong_way_round_tell_the_share_of_true_labels() -> None:
    """50 of 1,000 true, and those 6 deviations below the others."""
    labels = np.arange(1000) < 50
    scores = np.random.default_rng(0).normal(size=1000) - 6.0 * labels
    found = fit_scale(scores, labels)
    assert found.temperature == RANGE[1]
    np.testing.assert_allclose(expit(found.logits(scores)), 0.05, rtol=5e-3)


def test_the_threshold_of_scores_too_close_for_the_range_stays_between_them() -> None:
    scores = 3.0 + 1e-6 * np.array([1.0, 1.0, 1.0, 0.0])
    found = fit_scale(scores, np.array([True, True, True, False]))
    assert found.temperature == RANGE[0]
    assert 3.0 < found.shift < 3.0 + 1e-6


def test_extreme_logits_have_a_finite_loss() -> None:
    assert negative_log_likelihood(np.array([1e4, -1e4]), np.array([False, True])) == 2e4


def test_the_calibration_error_by_hand() -> None:
    """Bins [0.1, 0.2): mean 0.15, half true; [0.9, 1]: mean 0.95, all true. (2 x 0.35 + 2 x 0.05) / 4."""
    bins = reliability(np.array([0.1, 0.2 - 1e-9, 0.9, 1.0]), np.array([True, False, True, True]))
    assert [(part["count"], part["true"]) for part in bins] == [(2, 0.5), (2, 1.0)]
    assert expected_calibration_error(bins) == pytest.approx(0.2)


def test_a_relation_has_its_own_temperature_where_it_has_labels_enough() -> None:
    """Relation 0 has twice the temperature of relation 1's scores; relation 2 has one fact only."""
    rng = np.random.default_rng(0)
    entities = 2 * LEAST_LABELS
    valid = [[i, r, j] for r in (0, 1) for i in range(entities) for j in range(i) if (i + j) % 7 == 0]
    graph = graph_of([[0, 2, 1]], [*valid, [1, 2, 0]], valid[:3], entities=entities, relations=3)
    noise = rng.logistic(size=(entities, entities))

    def scored(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
        order = np.subtract.outer(heads, np.arange(entities)) / 10 + noise[heads]
        yield 0, (2.0 if relation == 0 else 1.0) * order

    found = calibrate(graph, scored, kind="relation", selection="reversed", seed=0)
    assert found is not None
    own = found["relations"]
    assert set(own) == {"r0", "r1"} and own["r0"] == pytest.approx(
        {"temperature": 2 * own["r1"]["temperature"], "shift": 2 * own["r1"]["shift"]}, rel=1e-6
    )
    read = Calibration.from_report(found, graph.vocabulary.relations, "report.json")
    assert read.probability(np.array([1.0]), 0) == expit(Scale(**own["r0"]).logits(np.array([1.0])))
    assert read.probability(np.array([1.0]), 2) == expit(
        Scale(found["temperature"], found["shift"]).logits(np.array([1.0]))
    )
    assert found["valid"]["after"]["nll"] <= found["valid"]["before"]["nll"]
    assert found["valid"]["temperature"]["nll"] <= found["valid"]["before"]["nll"]
    assert found["test"]["count"] == 6 and found["test"]["positives"] == 3


@pytest.mark.parametrize("kind", ["global", "relation"])
def test_scores_that_are_log_odds_already_stay_as_they_are(kind: str) -> None:
    """Relation 0 is an order core's: the scale of the others is the one that they have without it."""
    rng = np.random.default_rng(1)
    entities = 2 * LEAST_LABELS
    facts = [[i, r, j] for r in (0, 1) for i in range(entities) for j in range(i) if (i + j) % 7 == 0]
    graph = graph_of([[0, 0, 1]], facts, facts[:3], entities=entities)
    alone = graph_of([[0, 0, 1]], [fact for fact in facts if fact[1] == 1], facts[:3], entities=entities)
    noise = rng.logistic(size=(entities, entities))

    def scored(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
        yield (
            0,
            (3.0 if relation == 0 else 0.5)
            * (np.subtract.outer(heads, np.arange(entities)) / 10 + noise[heads]),
        )

    found = calibrate(graph, scored, kind=kind, selection="reversed", seed=0, log_odds=(0,))
    other = calibrate(alone, scored, kind=kind, selection="reversed", seed=0)
    assert found is not None and other is not None
    assert found["relations"]["r0"] == {"temperature": 1.0, "shift": 0.0}
    for name in ("temperature", "shift"):
        assert found[name] == pytest.approx(other[name], rel=1e-9)
    read = Calibration.from_report(found, graph.vocabulary.relations, "report.json")
    scores = np.array([-30.0, -1.0, 0.0, 4.0])
    np.testing.assert_array_equal(read.probability(scores, 0), expit(scores))
    assert not np.allclose(read.probability(scores, 1), expit(scores))


def test_where_all_scores_are_log_odds_nothing_is_scaled() -> None:
    graph = graph_of([[0, 0, 1]], [[2, 0, 1], [3, 0, 2]], [[3, 0, 1]])

    def scored(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, np.subtract.outer(heads, np.arange(4)).astype(float)

    found = calibrate(graph, scored, kind="global", selection="reversed", seed=0, log_odds=(0,))
    assert found is not None and (found["temperature"], found["shift"]) == (1.0, 0.0)
    assert found["valid"]["after"] == found["valid"]["before"] == found["valid"]["temperature"]


def test_without_labels_of_both_kinds_nothing_is_fitted() -> None:
    for valid in ([], [[0, 0, 1]]):
        graph = graph_of([[0, 1, 1]], valid, [], entities=1 if not valid else 2)
        one_class = {"kind": "global", "selection": "reversed", "seed": 0}

        def scored(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
            yield 0, np.zeros((len(heads), 2))

        found = calibrate(graph, scored, **one_class)  # type: ignore[arg-type]
        assert (found is None) == (not valid)


@pytest.mark.parametrize(
    "stored",
    [3, {}, {"temperature": "x", "relations": {}}, {"temperature": 0, "shift": 0, "relations": {}},
     {"temperature": 1, "shift": 0, "relations": {"other": 1}}],
)  # fmt: skip
def test_a_foreign_calibration_is_refused(stored: Any) -> None:
    with pytest.raises(UserError, match=r"report\.json: its calibration is not from this run .*numcoke eval"):
        Calibration.from_report(stored, ("r",), "report.json")


def test_without_a_calibration_probabilities_are_sigmoids() -> None:
    none = Calibration.from_report(None, ("r",), "report.json")
    assert not none.fitted and none.probability(np.array([0.0]), 0) == 0.5
