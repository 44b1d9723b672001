"""Relations whose tails are read off a value: which they are, where the values are cut, with what noise."""

import numpy as np
import pytest
from scipy import stats

from numcoke_jax.models.order_core.classes import (
    FAR,
    FEWEST_FACTS,
    MOST_CLASSES,
    NOISES,
    ClassFit,
    class_relations,
    fit_classes,
)
from tests.models.order_core.problems import scores_of

HEADS = 200
SMALL, MEDIUM, LARGE = 203, 201, 202  # ids that are not in the order of the sizes


def values(seed: int = 0, fields: int = 3) -> np.ndarray:
    """Of 200 heads and 60 more entities, which may be classes and have no value."""
    found = np.random.default_rng(seed).normal(size=(HEADS + 60, fields))
    found[HEADS:] = np.nan
    return found


def sizes(column: np.ndarray, low: float = -0.5, high: float = 0.7) -> np.ndarray:
    """The class of every head, by its value in a column."""
    return np.select([column[:HEADS] < low, column[:HEADS] < high], [SMALL, MEDIUM], LARGE)


def fitted(tails: np.ndarray, known: np.ndarray) -> ClassFit | None:
    return fit_classes(np.arange(len(tails)), tails, scores_of(known))


def test_the_field_and_the_intervals_of_its_classes_are_found() -> None:
    known = values()
    fit = fitted(sizes(known[:, 1]), known)
    assert fit is not None and fit.field == 1
    scores, tails = scores_of(known).scores[:HEADS, 1], sizes(known[:, 1])
    assert (fit.lower[SMALL], fit.upper[LARGE]) == (-FAR, FAR)
    for below, above in ((SMALL, MEDIUM), (MEDIUM, LARGE)):
        cut = (scores[tails == below].max() + scores[tails == above].min()) / 2.0
        assert fit.upper[below] == fit.lower[above] == pytest.approx(cut)
    others = np.setdiff1d(np.arange(len(known)), (SMALL, MEDIUM, LARGE))
    np.testing.assert_array_equal(fit.lower[others], fit.upper[others])
    assert fit.noise == NOISES[0], "no fact is on the wrong side"


@pytest.mark.parametrize("seed", range(8))
def test_a_cut_is_the_one_that_the_fewest_facts_are_on_the_wrong_side_of(seed: int) -> None:
    """Three of 200 heads are in the other class: every cut is tried, and none is better."""
    known = values(seed)
    tails = np.where(known[:HEADS, 2] < 0.3, SMALL, LARGE)
    near = np.argsort(np.abs(known[:HEADS, 2] - 0.3))[:12]
    swapped = np.random.default_rng(seed).choice(near, 3, replace=False)
    tails[swapped] = SMALL + LARGE - tails[swapped]
    fit = fitted(tails, known)
    assert fit is not None and fit.field == 2
    scores = scores_of(known).scores[:HEADS, 2]

    def wrong(cut: float) -> int:
        return int((tails[scores < cut] == LARGE).sum() + (tails[scores > cut] == SMALL).sum())

    ordered = np.sort(scores)
    assert wrong(fit.upper[SMALL]) == min(map(wrong, (ordered[:-1] + ordered[1:]) / 2.0)) <= 3
    edges = fit.lower[tails], fit.upper[tails]
    likelihoods = [
        np.log(stats.norm.cdf((edges[1] - scores) / s) - stats.norm.cdf((edges[0] - scores) / s)).sum()
        for s in NOISES
        if s > 0.01  # below, a fact on the wrong side has probability 0 in float64
    ]
    assert fit.noise == NOISES[NOISES > 0.01][int(np.argmax(likelihoods))]


@pytest.mark.parametrize(("others", "found"), [(4, True), (5, False)])
def test_two_of_a_hundred_facts_may_lie_outside_their_class(others: int, found: bool) -> None:
    """Facts far from the cut, which no other cut explains."""
    known = values()
    tails = np.where(known[:HEADS, 0] < 0.0, SMALL, LARGE)
    tails[np.argsort(known[:HEADS, 0])[10 : 10 + others]] = LARGE
    assert (fitted(tails, known) is not None) == found


def test_values_that_say_nothing_of_the_class_make_none() -> None:
    known = values()
    assert fitted(np.random.default_rng(1).permutation(sizes(known[:, 1])), known) is None


@pytest.mark.parametrize(("twice", "found"), [(4, True), (5, False)])
def test_nearly_every_head_has_one_class(twice: int, found: bool) -> None:
    """Of 196 heads some, without a value, are in both classes: such a relation is read off no value."""
    known, heads = values(), np.arange(196)
    tails = np.where(known[heads, 0] < 0.0, SMALL, LARGE)
    known[:twice] = np.nan
    heads = np.concatenate([heads, np.arange(twice)])
    every = np.concatenate([tails, SMALL + LARGE - tails[:twice]])
    assert (fit_classes(heads, every, scores_of(known)) is not None) == found


def test_a_class_that_is_a_head_is_none() -> None:
    known = values()
    tails = sizes(known[:, 1])
    assert fit_classes(np.append(np.arange(HEADS), SMALL), np.append(tails, MEDIUM), scores_of(known)) is None


@pytest.mark.parametrize(
    ("count", "found"), [(1, False), (2, True), (MOST_CLASSES, True), (MOST_CLASSES + 1, False)]
)
def test_there_are_two_classes_or_some_tens(count: int, found: bool) -> None:
    """Equally many facts of each, for 51 classes with five times as many heads."""
    heads = 6 * (MOST_CLASSES + 1)
    known = np.concatenate([np.arange(heads) / 7.0, np.full(60, np.nan)])[:, None]
    tails = heads + np.arange(heads) * count // heads
    assert (fitted(tails, known) is not None) == found


@pytest.mark.parametrize(("facts", "found"), [(FEWEST_FACTS, True), (FEWEST_FACTS - 1, False)])
def test_a_class_has_some_facts_whose_value_is_known(facts: int, found: bool) -> None:
    known = values()
    tails = sizes(known[:, 1], high=10.0)
    rare = np.argsort(-known[:HEADS, 1])[:6]
    tails[rare] = LARGE
    known[rare[facts:], 1] = np.nan
    assert (fitted(tails, known) is not None) == found


@pytest.mark.parametrize(("missing", "found"), [(100, True), (101, False)])
def test_at_least_half_of_the_values_are_known(missing: int, found: bool) -> None:
    known = values()
    tails = np.where(known[:HEADS, 0] < 0.0, SMALL, LARGE)
    known[:missing] = np.nan
    assert (fitted(tails, known) is not None) == found


def test_relations_are_told_apart() -> None:
    """An order, a class of the third field, and random tails."""
    known = values()
    rng = np.random.default_rng(2)
    order = [(h, 0, t) for h, t in rng.integers(HEADS, size=(300, 2)) if known[h, 0] > known[t, 0]]
    classes = [(h, 1, t) for h, t in enumerate(sizes(known[:, 2]))]
    random = [(h, 2, t) for h, t in enumerate(rng.choice([SMALL, LARGE], HEADS))]
    found = class_relations(np.array([*order, *classes, *random], np.int32), 3, scores_of(known))
    assert {relation: fit.field for relation, fit in found.items()} == {1: 2}
