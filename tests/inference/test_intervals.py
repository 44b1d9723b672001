"""How wide an interval must be: factors from hidden cells, of the same kind and with about as many facts."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.inference.intervals import Cells, Factors, conformal_factor, needed_factor
from numcoke_jax.models.order_core.value_scores import ValueScores


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


def test_cells_have_the_factor_of_hidden_ones_with_about_as_many_facts() -> None:
    """Hidden: 30 cells with 32 to 63 facts need 1, 30 with 1 need 3, 29 with 2 or 3 need 9, others 2."""
    facts = np.array([*range(32, 62), *[1] * 30, *[2] * 15, *[3] * 14, *[0] * 70])
    needed = np.repeat([1.0, 3.0, 9.0, 2.0], [30, 30, 29, 70])

    def cells(facts: np.ndarray, width: float) -> Cells:
        count = len(facts)
        return Cells(np.arange(count), np.zeros(count, int), np.zeros(count), np.full(count, width), facts)

    found = Factors.from_hidden(cells(facts, 0.5), needed, 0.75)
    asked = np.array([40, 63, 1, 2, 3, 64, 8, 0])
    assert found.of(cells(asked, 0.5)).tolist() == [1.0, 1.0, 3.0, 9.0, 9.0, 9.0, 9.0, 2.0]
    few = Factors.from_hidden(cells(facts[:60], 0.5), needed[:60] / 100, 0.75)
    normal = scipy.stats.norm.ppf(0.875)
    np.testing.assert_allclose(few.of(cells(np.array([40, 8]), 0.5)), [0.01, normal])  # none like it
    assert few.of(cells(np.array([0]), 0.5)).tolist() == [np.inf]
    # 30 cells are too few for 0.98, all 89 with facts are enough; a level is no reason for the whole range
    high = Factors.from_hidden(cells(facts, 0.5), needed, 0.98)
    assert high.of(cells(np.array([40, 1]), 0.5)).tolist() == [9.0, 9.0]
    known = Factors.from_hidden(cells(facts, 0.5), needed / 100, 0.75)
    np.testing.assert_allclose(known.of(cells(np.array([0, 0]), 0.5)), 0.02)
    np.testing.assert_allclose(known.of(cells(np.array([0]), 1.0)), normal)  # about which nothing is known


def test_the_factor_that_a_truth_needs_by_hand() -> None:
    """Known values 10, 20 and 30 at scores -1, 0 and 1; the cell is believed at 0.5, with a width of 0.5."""
    seen = np.array([[10.0], [20.0], [30.0], [0.0]])
    scored = np.array([[-1.0], [0.0], [1.0], [np.nan]])
    scores = ValueScores.of(scored, np.eye(1))
    one = Cells(np.array([3]), np.array([0]), np.array([0.5]), np.array([0.5]), np.array([9]))
    for true, expected in ((25.0, 0.0), (15.0, 1.0), (5.0, 3.0), (35.0, 1.0), (20.0, 0.0), (10.0, 1.0)):
        truth = np.array([[0.0], [0.0], [0.0], [true]])
        assert needed_factor(one, truth, seen, scores)[0] == pytest.approx(expected), true
