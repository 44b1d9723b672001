"""Normal scores: their order, and missing ones against the conditional normal distribution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from numcoke_jax.models.order_core.value_scores import SHRINKAGE, value_scores
from tests.models.order_core.problems import scores_of
from tests.oracles import order_core as oracle


def normal_rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Correlated standard normal values [count, 4], and their correlations."""
    correlations = np.array(
        [[1.0, 0.8, -0.5, 0.0], [0.8, 1.0, -0.3, 0.1], [-0.5, -0.3, 1.0, 0.0], [0.0, 0.1, 0.0, 1.0]]
    )
    rows = np.random.default_rng(seed).multivariate_normal(np.zeros(4), correlations, size=count)
    return rows, correlations


def with_holes(values: np.ndarray, share: float, seed: int = 1) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(values.shape) < share, np.nan, values)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(0, 5))
def test_scores_keep_the_order_of_the_values_and_their_ties(seed: int, count: int, fields: int) -> None:
    rng = np.random.default_rng(seed)
    values = with_holes(np.round(rng.normal(scale=3.0, size=(count, fields))), 0.3, seed)
    found = scores_of(values)
    np.testing.assert_array_equal(found.observed, ~np.isnan(values))
    for field in range(fields):
        seen = found.observed[:, field]
        ranks = stats.rankdata(values[seen, field])
        np.testing.assert_array_equal(stats.rankdata(found.scores[seen, field]), ranks)
        np.testing.assert_allclose(
            found.scores[seen, field], stats.norm.ppf((ranks - 0.5) / max(seen.sum(), 1)), atol=1e-12
        )
    assert np.isfinite(found.filled).all()
    np.testing.assert_array_equal(found.filled[found.observed], found.scores[found.observed])
    np.testing.assert_array_equal(found.variances[found.observed], 0.0)
    assert ((found.variances[~found.observed] > 0) & (found.variances[~found.observed] < 1.0 + 1e-9)).all()


def test_missing_scores_are_expected_by_the_conditional_normal_distribution() -> None:
    """4,000 rows with a quarter missing: correlations are known to 0.02, then shrunk by a twentieth."""
    rows, correlations = normal_rows(4000)
    shrunk = (1.0 - SHRINKAGE) * correlations + SHRINKAGE * np.eye(4)
    values = with_holes(rows, 0.25)
    found = scores_of(values)
    for row in range(150):
        for field in np.flatnonzero(np.isnan(values[row])):
            mean, variance = oracle.expected_score(shrunk, found.scores[row], int(field))
            assert found.filled[row, field] == pytest.approx(mean, abs=0.15)
            assert found.variances[row, field] == pytest.approx(variance, abs=0.06)


def test_expected_scores_are_unbiased_and_no_further_off_than_they_say() -> None:
    """They are cautious: correlations are shrunk in every step of EM, missing cells included."""
    rows, _ = normal_rows(3000, seed=2)
    values = with_holes(rows, 0.3, seed=3)
    found, truth = scores_of(values), scores_of(rows).scores
    for field in range(4):
        missing = np.isnan(values[:, field])
        errors = (found.filled - truth)[missing, field]
        assert abs(errors.mean()) < 0.1
        assert 0.7 < np.square(errors).mean() / found.variances[missing, field].mean() < 1.1


def test_what_is_expected_of_other_fields_does_not_look_at_a_field() -> None:
    """Otherwise a regression of the field on them would find itself in their missing values.

    Only the correlations of the others may have learned a little from it.
    """
    quantiles = np.random.default_rng(0).uniform(0.05, 0.95, (60, 3))
    quantiles[::4, 1] = np.nan
    changed = quantiles.copy()
    changed[:, 0] = quantiles[::-1, 0]
    found = [value_scores(np.nan_to_num(q), ~np.isnan(q)).others(0) for q in (quantiles, changed)]
    np.testing.assert_allclose(found[0].filled, found[1].filled, atol=0.01)
    np.testing.assert_allclose(found[0].variances, found[1].variances, atol=0.01)
    assert found[0].filled.shape == (60, 2) and (found[0].variances[::4, 0] > 0).all()


def test_few_rows_learn_little() -> None:
    """With 200 independent rows of 4 fields, expectations stay near 0."""
    values = with_holes(np.random.default_rng(4).normal(size=(200, 4)), 0.3)
    found = scores_of(values)
    assert np.square(found.filled[~found.observed]).mean() < 0.05


def test_rows_and_fields_without_any_value() -> None:
    rows, _ = normal_rows(300)
    values = with_holes(rows, 0.2)
    values[7] = np.nan
    values[:, 2] = np.nan
    found = scores_of(values)
    np.testing.assert_allclose(found.filled[7], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.variances[7], 1.0)
    np.testing.assert_allclose(found.filled[:, 2], 0.0, atol=1e-9)
    np.testing.assert_allclose(found.variances[:, 2], 1.0)
    without = scores_of(np.delete(values, 2, axis=1))
    np.testing.assert_allclose(np.delete(found.filled, 2, axis=1), without.filled, atol=1e-6)


def test_without_fields_or_with_one_entity_there_is_nothing_to_expect() -> None:
    none = value_scores(np.zeros((3, 0)), np.zeros((3, 0), bool))
    assert none.scores.shape == none.filled.shape == none.variances.shape == (3, 0)
    one = scores_of(np.array([[5.0, np.nan]]))
    np.testing.assert_allclose(one.filled, 0.0, atol=1e-12)
    np.testing.assert_allclose(one.variances, [[0.0, 1.0]])


@pytest.mark.parametrize("kind", ["constant", "tied", "collinear", "mirrored", "a field for every row"])
def test_degenerate_fields_give_finite_scores(kind: str) -> None:
    rng = np.random.default_rng(5)
    column = rng.normal(size=(40, 1))
    values = {
        "constant": np.ones((40, 3)),
        "tied": np.round(column) + np.zeros((1, 3)),
        "collinear": np.repeat(column, 5, axis=1),
        "mirrored": np.concatenate([column, -column, column], axis=1),
        "a field for every row": rng.normal(size=(40, 40)),
    }[kind]
    for share in (0.0, 0.4, 0.95):
        found = scores_of(with_holes(values, share))
        assert np.isfinite(found.filled).all() and np.isfinite(found.variances).all()
        assert (found.variances >= 0).all()
    if kind in ("collinear", "mirrored"):  # the other fields tell nearly all
        found = scores_of(with_holes(values, 0.2))
        told = ~found.observed & found.observed.any(axis=1, keepdims=True)
        assert np.corrcoef(found.filled[told], scores_of(values).scores[told])[0, 1] > 0.98


def test_only_observed_quantiles_are_read() -> None:
    quantiles = np.array([[0.1, 0.2], [0.5, 0.9], [0.7, 0.4]])
    observed = np.array([[True, False], [True, True], [False, True]])
    expected = value_scores(quantiles, observed)
    found = value_scores(np.where(observed, quantiles, np.nan), observed)
    np.testing.assert_array_equal(found.filled, expected.filled)
    np.testing.assert_array_equal(found.variances, expected.variances)


def test_what_facts_say_of_missing_scores_is_kept_apart_from_what_the_row_says() -> None:
    rng = np.random.default_rng(6)
    values = rng.normal(size=(50, 3)) + rng.normal(size=(50, 1))
    scores = scores_of(np.where(rng.random(values.shape) < 0.3, np.nan, values))
    told = rng.random(50) < 0.5
    found = scores.with_told(1, told, np.full(50, 7.0), np.full(50, 0.5))
    changed = told & ~scores.observed[:, 1]
    assert changed.any() and (found.told == np.outer(changed, [False, True, False])).all()
    assert (found.expected[changed, 1] == 7.0).all() and (found.expected_variances[changed, 1] == 0.25).all()
    assert (found.filled == scores.filled).all() and (found.variances == scores.variances).all()
    for one, other in ((found.expected, scores.filled), (found.expected_variances, scores.variances)):
        assert (one[~found.told] == other[~found.told]).all()
    without, before = found.others(0), scores.others(0)
    assert (without.told == found.told[:, 1:]).all() and (without.expected[changed, 0] == 7.0).all()
    assert (without.filled == before.filled).all()
    assert not found.others(1).told.any() and (found.others(1).expected == scores.others(1).filled).all()
