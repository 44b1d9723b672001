"""How far apart the entities of a fact are: places by counting, near and far facts, no claims from few."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.models.order_core.reach import BINS, bins, places, reach


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=15))
def test_places_count_what_is_below_and_half_of_what_is_level(numbers: list[int]) -> None:
    expected = [sum(o < n for o in numbers) + sum(o == n for o in numbers) / 2 for n in numbers]
    np.testing.assert_array_equal(places(np.array(numbers, float), np.arange(len(numbers))), expected)


def test_bins_are_half_octaves() -> None:
    by_hand = {0.0: 0, 0.5: 1, 1.0: 2, 2.0: 3, 3.0: 4, 7.0: 6, 1e9: BINS - 1}
    np.testing.assert_array_equal(bins(np.array(list(by_hand))), list(by_hand.values()))


def pairs(count: int, farthest: int, nearest: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, and heads and tails of all pairs with that many steps between them."""
    upper, lower = np.triu_indices(count, 1)
    kept = (lower - upper >= nearest) & (lower - upper <= farthest)
    return -np.arange(float(count)), upper[kept], lower[kept]


@pytest.mark.parametrize("share", [1.0, 0.1, 0.01])
def test_facts_spread_evenly_have_no_reach(share: float) -> None:
    mean, upper, lower = pairs(200, 199)
    kept = np.random.default_rng(0).random(len(upper)) < share
    np.testing.assert_array_equal(reach(mean, upper[kept], lower[kept]), 1.0)


def test_few_facts_say_nothing_about_it() -> None:
    """In at most one of 20 samples of 1, 2, 5, 10 or 20 facts."""
    mean, upper, lower = pairs(100, 99)
    for count in (1, 2, 5, 10, 20):
        uneven = 0
        for seed in range(20):
            kept = np.random.default_rng(seed).choice(len(upper), count, replace=False)
            uneven += bool((reach(mean, upper[kept], lower[kept]) < 1.0).any())
        assert uneven <= 1, count


def test_facts_of_near_neighbours_have_a_short_reach() -> None:
    mean, upper, lower = pairs(200, 3)
    found = reach(mean, upper, lower)
    near, far = bins(np.array([1.0, 2.0])), bins(np.array([8.0, 50.0, 199.0]))
    assert (found[near] > 0.5).all() and (found[far] < 1e-3).all() and (found > 0).all()


def test_facts_of_distant_entities_have_a_long_one() -> None:
    mean, upper, lower = pairs(200, 199, nearest=50)
    found = reach(mean, upper, lower)
    assert (found[bins(np.array([1.0, 5.0, 20.0]))] < 0.05).all()
    assert (found[bins(np.array([70.0, 120.0, 190.0]))] > 0.9).all()


def test_shares_are_probabilities_whatever_the_facts() -> None:
    rng = np.random.default_rng(1)
    for count, facts in ((1, 0), (2, 1), (3, 9), (50, 40), (50, 2000)):
        for mean in (np.zeros(count), rng.normal(size=count), 1e300 * rng.normal(size=count)):
            found = reach(mean, rng.integers(0, count, facts), rng.integers(0, count, facts))
            assert found.shape == (BINS,) and ((found > 0) & (found <= 1)).all()
