"""Which triples probabilities are fitted to: by the rule that chose the model, and what stands for what."""

from collections.abc import Iterator

import numpy as np
import pytest

from numcoke_jax.evaluation import labelled_scores as module
from numcoke_jax.evaluation.labelled_scores import Labelled, Question, labelled_scores
from tests import graphs

NAMES = graphs.numbered(4, 2, digits=1)
OF_3 = {(310, False), (311, False), (312, True), (313, False)}  # of (3, r1)
GRAPH = graphs.graph_of(NAMES, [[0, 0, 1]], [[0, 0, 2], [3, 1, 2]], [[0, 0, 3]])


def by_formula(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
    """Score 100 h + 10 r + t, in pieces of two heads."""
    for begin in range(0, len(heads), 2):
        block = heads[begin : begin + 2]
        yield begin, (100 * block[:, None] + 10 * relation + np.arange(4)).astype(np.float32)


def labelled(graph: module.NumericGraph, split: str, selection: str) -> Labelled:
    return labelled_scores(graph, split, Question((0, 1), by_formula, selection), seed=0)


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
    found = labelled(GRAPH, split, selection)
    assert set(zip(found.scores.tolist(), found.labels.tolist(), strict=True)) == expected
    assert len(found.scores) == len(expected)
    assert [int(score) // 10 % 10 for score in found.scores] == found.relations.tolist()
    assert (found.weights == 1.0).all()
    further = found.scores < 4 if selection != "reversed" else np.zeros(len(expected), bool)
    assert found.further.tolist() == further.tolist(), "only entity 0 has a training fact, of r0"


def test_facts_of_the_test_split_count_as_unlabelled_unless_reverses_are_the_false_ones() -> None:
    """Of r0 a validation fact and a test fact are among the tails: half are labelled; all of r1."""
    for rule in ("seen", "all"):
        found = labelled(GRAPH, "valid", rule)
        assert found.share.tolist() == [0.5 if score < 100 else 1.0 for score in found.scores]
    for split, rule in (("test", "seen"), ("test", "all"), ("valid", "reversed"), ("test", "reversed")):
        assert (labelled(GRAPH, split, rule).share == 1.0).all()


def test_of_a_pair_that_is_a_fact_both_ways_each_way_is_won_half_of_the_time() -> None:
    """Won and lost once each: a coin is calibrated there, and not one that calls both ways true."""
    both_ways = graphs.graph_of(NAMES, [[0, 0, 1]], [[1, 0, 2], [2, 0, 1], [3, 0, 0]], [])
    found = labelled(both_ways, "valid", "reversed")
    assert sorted(zip(found.scores.tolist(), found.labels.tolist(), strict=True)) == [
        (3, False), (102, False), (102, True), (201, False), (201, True), (300, True)
    ]  # fmt: skip


def test_a_sample_of_the_false_ones_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every true one is kept; the weights of those that are not add up to how many there are."""
    size = 300
    facts = [[head, 0, (head + 1) % size] for head in range(size)]
    graph = graphs.graph_of(graphs.numbered(size), facts[:200], facts[200:], [])

    def scored(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, np.zeros((len(heads), size))

    question = Question((0,), scored, "seen")
    monkeypatch.setattr(module, "MOST_FALSE", 10_000)
    found = labelled_scores(graph, "valid", question, seed=0)
    assert found.labels.sum() == 100 and (found.weights[found.labels] == 1.0).all()
    assert len(found.labels) == pytest.approx(10_000, rel=0.05)
    assert found.weights.sum() == pytest.approx(100 * size, rel=0.05)
    again = labelled_scores(graph, "valid", question, seed=0)
    np.testing.assert_array_equal(found.labels, again.labels)
    reverses = labelled_scores(graph, "valid", Question((0,), scored, "reversed"), seed=0)
    assert len(reverses.labels) == 200 and (reverses.weights == 1.0).all(), "there are few: all are kept"
    for scored_triples, heads in ((60 * size, 60), (0, module.LEAST_QUERIES)):
        monkeypatch.setattr(module, "MOST_SCORED", scored_triples)
        assert labelled_scores(graph, "valid", question, seed=0).labels.sum() == heads
    monkeypatch.setattr(module, "MOST_MEASURED", 60 * size)
    measured = Question((0,), scored, "seen", log_odds=True)
    assert labelled_scores(graph, "valid", measured, seed=0).labels.sum() == 60
