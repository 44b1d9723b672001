"""Probabilities: no other scale is better, errors by hand, and unknown where validation says nothing."""

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
    UNCHANGED,
    Calibration,
    Scale,
    _slopes,
    calibrate,
    expected_calibration_error,
    fit_scale,
    negative_log_likelihood,
    reliability,
)
from numcoke_jax.evaluation.labelled_scores import Question
from numcoke_jax.evaluation.scorer import ScoredHeads
from numcoke_jax.system.errors import UserError
from tests import graphs


def graph_of(train: Any, valid: Any, test: Any, *, entities: int = 4, relations: int = 2) -> NumericGraph:
    return graphs.graph_of(graphs.numbered(entities, relations, digits=1), train, valid, test)


def test_a_scale_recovers_the_one_that_made_the_labels() -> None:
    """Labels with p = sigmoid((score + 4) / 2): scores too low, as after training on a tenth of the facts."""
    rng = np.random.default_rng(0)
    scores = rng.normal(-5.0, 4.0, 200_000)
    labels = rng.random(len(scores)) < expit((scores + 4.0) / 2.0)
    found = fit_scale(scores, labels)
    assert found.temperature == pytest.approx(2.0, rel=0.02) and found.shift == pytest.approx(-4.0, abs=0.05)
    error = {}
    for name, scale in {"raw": Scale(1, 0), "alone": Scale(2.0, 0)}.items():
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


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_scores_that_rank_the_wrong_way_round_tell_the_share_of_true_triples(share: float) -> None:
    """50 of 1,000 labelled true, and those 6 deviations below the others."""
    labels = np.arange(1000) < 50
    scores = np.random.default_rng(0).normal(size=1000) - 6.0 * labels
    found = fit_scale(scores, labels, share)
    assert found.temperature == RANGE[1]
    np.testing.assert_allclose(expit(found.logits(scores)), 0.05 / share, rtol=5e-3)


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


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_weight_of_two_is_the_same_as_two_of_them(share: float) -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=40), rng.random(40) < 0.4
    weights = rng.integers(1, 4, 40)
    every = np.repeat(np.arange(40), weights)
    found, expected = (
        fit_scale(scores, labels, share, weights),
        fit_scale(scores[every], labels[every], share),
    )
    assert found == pytest.approx(expected, rel=1e-9)
    bins = reliability(expit(scores), labels, weights)
    for part, other in zip(bins, reliability(expit(scores[every]), labels[every]), strict=True):
        assert part == pytest.approx(other, rel=1e-12)


# --- of a graph

SIZE = 60  # of a total order, of which every pair is a fact


def scorer(*, times: tuple[float, ...] = (1.0, 1.0)) -> tuple[ScoredHeads, np.ndarray]:
    """A scorer that knows the order but for logistic noise, and its scores [R, N, N]."""
    rng = np.random.default_rng(0)
    order = np.subtract.outer(np.arange(SIZE), np.arange(SIZE)) / 4.0
    scores = np.stack([much * (order + rng.logistic(size=order.shape)) for much in times])

    def scored(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, scores[relation][heads]

    return scored, scores


def ordered(relations: int = 1, *, tenths: tuple[int, int] = (1, 1)) -> NumericGraph:
    """Total orders whose facts are split at random."""
    rng = np.random.default_rng(0)
    parts: list[list[np.ndarray]] = [[], [], []]
    for relation in range(relations):
        facts = rng.permutation([[i, relation, j] for i in range(SIZE) for j in range(i)])
        ends = np.cumsum(tenths) * (len(facts) // 10)
        for part, some in zip(parts, np.split(facts, ends), strict=True):
            part.append(some)
    train, valid, test = (np.concatenate(part) for part in parts)
    return graph_of(train, valid, test, entities=SIZE, relations=relations)


def asked(scored: ScoredHeads, selection: str, *relations: int, log_odds: bool = False) -> Question:
    return Question(relations or (0,), scored, selection, log_odds)


def shown(found: Any, graph: NumericGraph, scores: np.ndarray, relation: int = 0) -> np.ndarray:
    """What is told of scores whose heads have training facts and whose facts are not among them."""
    read = Calibration.from_report(found, graph.vocabulary.relations, graph.num_entities, "report.json")
    yes = np.ones(len(scores), bool)
    return read.probability(scores, relation, further=yes, trained=~yes)


@pytest.mark.parametrize("rule", ["seen", "all", "reversed"])
def test_probabilities_of_a_graph_with_most_facts_in_the_test_split_are_calibrated(rule: str) -> None:
    graph, (scored, scores) = ordered(), scorer()
    found = calibrate(graph, [asked(scored, rule)], kind="global", seed=0)
    assert found is not None and found["test"]["after"]["ece"] < 0.05
    of_test = scores[0][graph.test[:, 0], graph.test[:, 2]]
    assert shown(found, graph, of_test).mean() > 0.8
    assert found["valid"]["after"]["nll"] <= found["valid"]["before"]["nll"] + 0.001  # Platt's labels


def test_one_scale_is_of_all_relations_and_a_scale_of_each_its_own() -> None:
    """Relation 0 has twice the scores of relation 1."""
    graph, (scored, _) = ordered(2), scorer(times=(2.0, 1.0))
    questions = [asked(scored, "reversed", 0, 1)]
    found = calibrate(graph, questions, kind="relation", seed=0)
    assert found is not None and found["directions"]
    own, facts = found["relations"], len(graph.valid) // 2
    assert all((entry["first"], entry["further"]) == (facts, 0) for entry in own.values())
    alone = [
        calibrate(graph, [asked(scored, "reversed", relation)], kind="global", seed=0) for relation in (0, 1)
    ]
    for relation, other in enumerate(alone):
        assert other is not None and other["relations"] == {f"r{relation}": own[f"r{relation}"]}
    assert own["r0"]["temperature"] == pytest.approx(2 * own["r1"]["temperature"], rel=0.25)
    common = calibrate(graph, questions, kind="global", seed=0)
    assert common is not None
    one, two = common["relations"].values()
    assert one == two and own["r1"]["temperature"] < one["temperature"] < own["r0"]["temperature"]


@pytest.mark.parametrize("kind", ["global", "relation"])
def test_scores_that_are_log_odds_already_stay_as_they_are(kind: str) -> None:
    """Relation 0 is an order core's: the scale of the other is the one that it has without it."""
    graph, (scored, _) = ordered(2), scorer(times=(3.0, 0.5))
    decided, rest = asked(scored, "reversed", 0, log_odds=True), asked(scored, "seen", 1)
    found = calibrate(graph, [decided, rest], kind=kind, seed=0)
    other = calibrate(graph, [rest], kind=kind, seed=0)
    assert found is not None and other is not None and not found["directions"]
    assert found["relations"] == {"r0": UNCHANGED._asdict(), **other["relations"]}
    scores = np.array([-30.0, -1.0, 0.0, 4.0])
    np.testing.assert_allclose(shown(found, graph, scores, 0), expit(scores), rtol=1e-14)
    scale = Scale(**found["relations"]["r1"])
    np.testing.assert_allclose(shown(found, graph, scores, 1), expit(scale.logits(scores)), rtol=1e-14)
    pairs, tails = 2 * len(graph.test) // 2, other["test"]["count"]
    assert found["test"]["count"] == pairs + tails, "each is asked its own question"


def test_where_all_scores_are_log_odds_nothing_is_scaled() -> None:
    graph, (scored, _) = ordered(), scorer()
    found = calibrate(graph, [asked(scored, "reversed", log_odds=True)], kind="global", seed=0)
    assert found is not None and found["directions"]
    assert found["valid"]["after"] == found["valid"]["before"]


@pytest.mark.parametrize("kind", ["global", "relation"])
def test_a_relation_with_too_few_validation_facts_has_no_probability(kind: str) -> None:
    whole, (scored, _) = ordered(2), scorer()
    of_0, of_1 = (whole.valid[whole.valid[:, 1] == relation] for relation in (0, 1))
    few = np.concatenate([of_0[:LEAST_LABELS], of_1[: LEAST_LABELS - 1]])
    graph = graph_of(whole.train, few, whole.test, entities=SIZE)
    found = calibrate(graph, [asked(scored, "reversed", 0, 1)], kind=kind, seed=0)
    assert found is not None and list(found["relations"]) == ["r0"]
    assert (
        np.isnan(shown(found, graph, np.zeros(3), 1)).all()
        and not np.isnan(shown(found, graph, np.zeros(3))).any()
    )
    assert found["test"]["count"] == len(whole.test), "those of the other, both ways"


def test_of_heads_that_have_their_only_tail_nothing_is_known() -> None:
    """Everybody has one of four homes at random: each is as likely for who has none; a second is not."""
    rng = np.random.default_rng(0)
    facts = np.stack([np.arange(4, 404), np.zeros(400), rng.integers(0, 4, 400)], axis=1).astype(int)
    graph = graph_of(facts[:300], facts[300:350], facts[350:], entities=404, relations=1)

    def scored(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, np.where(np.arange(404) < 4, 6.0, -6.0) + np.zeros((len(heads), 1))

    found = calibrate(graph, [asked(scored, "seen")], kind="relation", seed=0)
    assert found is not None
    assert (found["relations"]["r0"]["first"], found["relations"]["r0"]["further"]) == (50, 0)
    read = Calibration.from_report(found, ("r0",), 404, "report.json")
    no, yes = np.zeros(1, bool), np.ones(1, bool)
    assert read.probability(np.array([6.0]), 0, further=no, trained=no) == pytest.approx(0.25, abs=0.02)
    assert np.isnan(read.probability(np.array([6.0]), 0, further=yes, trained=no))
    assert np.isnan(read.probability(np.array([6.0]), 0, further=no, trained=yes))
    assert found["test"]["after"]["ece"] < 0.01


@pytest.mark.parametrize("valid", [[], [[0, 0, 1]]])
def test_without_labels_enough_nothing_is_fitted(valid: list) -> None:
    graph, (scored, _) = graph_of([[0, 1, 1]], valid, [], entities=SIZE), scorer()
    assert calibrate(graph, [asked(scored, "reversed")], kind="global", seed=0) is None


@pytest.mark.parametrize(
    "stored",
    [3, {}, {"temperature": 1, "shift": 0, "relations": {}},
     {"directions": True, "relations": {"r": {"temperature": "x", "shift": 0, "first": 1, "further": 1}}},
     {"directions": True, "relations": {"r": {"temperature": 0, "shift": 0, "first": 1, "further": 1}}},
     {"directions": True, "relations": {"r": {"temperature": 1, "shift": 0}}},
     {"directions": True, "relations": {"other": {"temperature": 1, "shift": 0, "first": 1, "further": 1}}}],
)  # fmt: skip
def test_a_foreign_calibration_is_refused(stored: Any) -> None:
    with pytest.raises(UserError, match=r"report\.json: its calibration is not from this run .*numcoke eval"):
        Calibration.from_report(stored, ("r",), 9, "report.json")


def test_without_a_calibration_probabilities_are_unknown() -> None:
    assert np.isnan(shown(None, ordered(), np.zeros(2))).all()
