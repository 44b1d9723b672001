"""How wide an interval must be: factors from hidden cells, of the same kind and with about as many facts."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.inference.intervals import (
    Cells,
    Factors,
    Hidden,
    Scale,
    conformal_factor,
    hidden_cells,
    lacking,
    needed_factor,
)
from numcoke_jax.models.order_core.value_scores import ValueScores
from tests.inference.imputed import Holes


def test_the_conformal_factor_by_hand() -> None:
    nine = np.array([3.0, 1.0, 2.0, 9.0, 8.0, 4.0, 7.0, 5.0, 6.0])
    assert conformal_factor(nine, 0.9) == 9.0  # ceil(10 * 0.9) = 9th
    assert conformal_factor(nine, 0.5) == 5.0
    assert conformal_factor(nine[:8], 0.9) == np.inf  # ceil(9 * 0.9) = 9th of 8
    assert conformal_factor(nine[:0], 0.9) == np.inf


@given(st.lists(st.floats(0, 100), min_size=2, max_size=40), st.floats(0.05, 0.95))
def test_of_exchangeable_cells_the_target_share_is_covered(needed: list[float], level: float) -> None:
    """Leave each one out in turn: at least `level` of them are within the factor of the others."""
    every = np.array(needed)
    covered = [every[left] <= conformal_factor(np.delete(every, left), level) for left in range(len(every))]
    assert np.mean(covered) >= level - 1e-9


def cells_with(facts: np.ndarray, width: float = 0.5) -> Cells:
    """Cells of one field that differ in the number of their facts alone."""
    count = len(facts)
    return Cells(np.arange(count), np.zeros(count, int), np.zeros(count), np.full(count, width), facts)


NONE = Hidden.joined([])


def test_cells_have_the_factor_of_hidden_ones_with_about_as_many_facts() -> None:
    """Hidden: 30 cells with 32 to 63 facts need 1, 30 with 1 need 3, 29 with 2 or 3 need 9, others 2."""
    facts = np.array([*range(32, 62), *[1] * 30, *[2] * 15, *[3] * 14, *[0] * 70])
    needed = np.repeat([1.0, 3.0, 9.0, 2.0], [30, 30, 29, 70])
    hidden = Hidden(**vars(cells_with(facts)), needed=needed)
    found = Factors.from_hidden(hidden, NONE, 0.75)
    asked = np.array([40, 63, 1, 2, 3, 64, 8, 0])
    assert found.of(cells_with(asked)).tolist() == [1.0, 1.0, 3.0, 9.0, 9.0, 9.0, 9.0, 2.0]
    few = Factors.from_hidden(Hidden(**vars(cells_with(facts[:60])), needed=needed[:60] / 100), NONE, 0.75)
    normal = scipy.stats.norm.ppf(0.875)
    np.testing.assert_allclose(few.of(cells_with(np.array([40, 8]))), [0.01, normal])  # none like it
    assert few.of(cells_with(np.array([0]))).tolist() == [np.inf]
    # 30 cells are too few for 0.98, all 89 with facts are enough; a level is no reason for the whole range
    high = Factors.from_hidden(hidden, NONE, 0.98)
    assert high.of(cells_with(np.array([40, 1]))).tolist() == [9.0, 9.0]
    known = Factors.from_hidden(Hidden(**vars(cells_with(facts)), needed=needed / 100), NONE, 0.75)
    np.testing.assert_allclose(known.of(cells_with(np.array([0, 0]))), 0.02)
    np.testing.assert_allclose(
        known.of(cells_with(np.array([0]), 1.0)), normal
    )  # about which nothing is known


def test_cells_that_were_given_facts_stand_for_the_numbers_that_no_others_have() -> None:
    """They count beside the hidden ones with as many facts, and not as cells with facts in general."""
    hidden = Hidden(
        **vars(cells_with(np.array([40] * 30 + [8] * 10))), needed=np.repeat([1.0, 5.0], [30, 10])
    )
    given = Hidden(**vars(cells_with(np.array([8, 15] * 15))), needed=np.full(30, 2.0))
    found = Factors.from_hidden(hidden, given, 0.7)
    assert found.kinds == Factors.from_hidden(hidden, NONE, 0.7).kinds
    assert found.of(cells_with(np.array([40, 9]))).tolist() == [1.0, 2.0]  # the 29th of 41 is a given one
    assert Factors.from_hidden(hidden, given, 0.8).of(cells_with(np.array([9]))).tolist() == [5.0]  # the 33rd


def test_numbers_of_facts_are_lacking_if_too_few_hidden_cells_have_them() -> None:
    """A star: entity 0 is above 70 others; 71 has no fact."""
    holes = Holes(np.append(100.0, np.arange(71.0))[:, None], np.ones((72, 1), bool))
    graph = holes.graph({"above": np.stack([np.zeros(70, int), np.arange(1, 71)], 1)})
    scales = {0: Scale(("above",), np.zeros(70, int), np.arange(1, 71))}
    asked = cells_with(np.array([0, 1, 2, 3, 70]))
    assert lacking(graph, scales, asked, 0.9) == [1, 6]  # 70 with 1 fact, one with 64 to 127
    assert lacking(graph, scales, asked, 0.99) == [0, 1, 6]  # 99 in each half are enough for that
    assert lacking(graph, scales, asked.take(asked.facts == 0), 0.99) == []


@pytest.mark.parametrize("reversed_share", [0.0, 0.25])
def test_an_entity_that_is_given_facts_has_so_many_first_its_own(reversed_share: float) -> None:
    """Half of 400 entities are hidden; 0 has 60 facts, others a few."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(400)
    hidden = np.arange(400) < 200
    pairs = np.concatenate(
        [rng.integers(400, size=(4000, 2)), np.stack([np.zeros(60, int), 200 + np.arange(60)], 1)]
    )
    pairs = np.unique(np.sort(pairs[values[pairs[:, 0]] != values[pairs[:, 1]]], axis=1), axis=0)
    up = (values[pairs[:, 0]] > values[pairs[:, 1]]) != (rng.random(len(pairs)) < reversed_share)
    scale = Scale(("above",), np.where(up, *pairs.T), np.where(up, *pairs.T[::-1]))
    counts = np.where(hidden, rng.integers(8, 16, 400), -1)
    found = scale.given(counts, values, ~hidden, rng)
    ends = np.stack([found.upper, found.lower], 1)
    assert len(np.unique(ends, axis=0)) == len(ends), "no fact twice"
    assert not hidden[ends].all(axis=1).any(), "none between two of them"
    np.testing.assert_array_equal(found.facts_of(np.flatnonzero(hidden)), counts[:200])
    before = {*zip(scale.upper.tolist(), scale.lower.tolist(), strict=True)}
    old = np.array([(u, v) in before for u, v in ends.tolist()])
    about = hidden[ends].any(axis=1)
    assert old[~about].all() and (~about).sum() == (~hidden[pairs].any(axis=1)).sum(), "the others stay"
    assert old[(ends == 0).any(axis=1)].all(), "it has facts enough of its own"
    own = np.array([sum(e in fact and not hidden[[*fact]].all() for fact in before) for e in range(20)])
    kept = [int((old & (ends == e).any(axis=1)).sum()) for e in range(20)]
    assert (np.array(kept) >= np.minimum(own, counts[:20])).all()
    new = ~old
    wrong = (values[ends[new, 0]] < values[ends[new, 1]]).mean()
    assert new.sum() > 300 and abs(wrong - reversed_share) < 0.08, "they contradict the values as often"


def test_hidden_cells_can_be_believed_with_a_number_of_facts_that_none_has() -> None:
    """All have over 16: with 4 to 7 of them they are known worse; others asked beside them change nothing."""
    holes = Holes.drawn(0, count=40, fields=1)
    graph = holes.graph({"above": holes.pairs(0, 1000)})
    scales = {0: Scale(("above",), *graph.train[:, [0, 2]].T)}
    natural, given = hidden_cells(graph, scales, 3, [2, 3])
    assert len(given.needed) == 2 * graph.observed.sum()
    assert {*given.facts.tolist()} == {*range(4, 16)} and natural.facts.max() > 16
    few, many = (given.width[(given.facts >> m) == 1].mean() for m in (2, 3))
    assert few > 1.3 * many > 1.3 * natural.width[natural.facts > 0].mean()
    again = hidden_cells(graph, scales, 3, [3])[1]
    np.testing.assert_array_equal(again.needed, given.needed[given.facts >= 8])


def test_the_factor_that_a_truth_needs_by_hand() -> None:
    """Known values 10, 20 and 30 at scores -1, 0 and 1; the cell is believed at 0.5, with a width of 0.5."""
    seen = np.array([[10.0], [20.0], [30.0], [0.0]])
    scored = np.array([[-1.0], [0.0], [1.0], [np.nan]])
    scores = ValueScores.of(scored, np.eye(1))
    one = Cells(np.array([3]), np.array([0]), np.array([0.5]), np.array([0.5]), np.array([9]))
    for true, expected in ((25.0, 0.0), (15.0, 1.0), (5.0, 3.0), (35.0, 1.0), (20.0, 0.0), (10.0, 1.0)):
        truth = np.array([[0.0], [0.0], [0.0], [true]])
        assert needed_factor(one, truth, seen, scores)[0] == pytest.approx(expected), true
