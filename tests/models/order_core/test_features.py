"""Functions of an entity's values: moments by integrals and draws, shares, and the choice of products."""

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from numcoke_jax.models.order_core.features import Features, curved_features, rank_features, straight_features
from numcoke_jax.models.order_core.value_scores import ValueScores


def scores_with(expected: np.ndarray, variances: np.ndarray) -> ValueScores:
    """Scores known where the variance is 0."""
    known = np.where(variances == 0, expected, np.nan)
    untold = np.full(expected.shape, np.nan)
    return ValueScores(known, np.eye(expected.shape[1]), expected, variances, untold, untold)


def some_scores(count: int = 40, fields: int = 3, seed: int = 0) -> ValueScores:
    rng = np.random.default_rng(seed)
    variances = np.where(rng.random((count, fields)) < 0.4, rng.uniform(0.05, 1.0, (count, fields)), 0.0)
    return scores_with(rng.normal(size=(count, fields)), variances)


def curved(scores: ValueScores, pairs: np.ndarray) -> Features:
    return curved_features(scores, np.arange(scores.scores.shape[1]), pairs[:, 0], pairs[:, 1])


def rank(score: Any) -> Any:
    """The quantile of a normal score, with mean 0 and variance 1 over a uniform distribution."""
    return (stats.norm.cdf(score) - 0.5) * np.sqrt(12.0)


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (1.3, 0.4), (-2.5, 0.01), (0.2, 0.9)])
def test_moments_of_expected_scores_are_the_integrals(mean: float, variance: float) -> None:
    scores = scores_with(np.array([[mean]]), np.array([[variance]]))
    found = curved(scores, np.zeros((0, 2), int))
    density = stats.norm(mean, np.sqrt(variance)).pdf
    for column, feature in enumerate([rank, lambda y: (rank(y) ** 2 - 1.0) / np.sqrt(4.0 / 5.0)]):
        ends = mean - 12 * np.sqrt(variance), mean + 12 * np.sqrt(variance)
        grid = np.linspace(*ends, 20_001)
        first, second = (
            integrate.trapezoid(feature(grid) ** power * density(grid), grid) for power in (1, 2)
        )
        assert found.mean[0, column] == pytest.approx(first, abs=5e-4)
        assert found.variance[0, column] == pytest.approx(second - first**2, abs=3e-3)


def test_features_of_uniform_ranks_have_mean_0_and_variance_1() -> None:
    grid = stats.norm.ppf((np.arange(100) + 0.5) / 100)
    one, other = (part.ravel() for part in np.meshgrid(grid, grid))
    scores = scores_with(np.stack([one, other], axis=1), np.zeros((10_000, 2)))
    found = curved(scores, np.zeros((0, 2), int))
    np.testing.assert_allclose(found.mean.mean(axis=0), 0.0, atol=2e-3)
    np.testing.assert_allclose(found.mean.var(axis=0), 1.0, atol=2e-3)
    assert not found.variance.any()


def test_products_have_the_moments_of_draws() -> None:
    scores = some_scores()
    found = curved(scores, np.zeros((0, 2), int))
    rng = np.random.default_rng(1)
    drawn = scores.filled + np.sqrt(scores.variances) * rng.normal(size=(20_000, *scores.filled.shape))
    ranks = (stats.norm.cdf(drawn) - 0.5) * np.sqrt(12.0)
    for column, (one, other) in enumerate([(0, 1), (0, 2), (1, 2)], start=6):
        product = ranks[..., one] * ranks[..., other]
        np.testing.assert_allclose(found.mean[:, column], product.mean(axis=0), atol=0.03)
        np.testing.assert_allclose(found.variance[:, column], product.var(axis=0), atol=0.06)


def test_shares_say_whose_a_feature_is() -> None:
    scores = some_scores(fields=3)
    some = np.array([0, 2])
    for features in (straight_features(scores, some), rank_features(scores, some)):
        assert (features.shares == [[1, 0, 0], [0, 0, 1]]).all() and features.choices == 2
    found = curved_features(scores, some, np.array([0]), np.array([1]))
    assert found.size == 5 and (found.shares[-1] == [0.5, 0, 0.5]).all() and found.choices == 5
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    nothing = straight_features(scores, np.zeros(0, int))
    assert nothing.size == 0 and nothing.choices == 1


def test_straight_features_are_the_scores() -> None:
    scores = some_scores()
    found = straight_features(scores, np.array([1, 2]))
    assert (found.mean == scores.filled[:, 1:]).all() and (found.variance == scores.variances[:, 1:]).all()


def test_the_product_that_the_facts_follow_is_chosen_among_many() -> None:
    """Nine fields have 36 products, of which 18 are kept; the costs are those of a choice among all."""
    scores = scores_with(np.random.default_rng(2).normal(size=(120, 9)), np.zeros((120, 9)))
    truth = scores.filled[:, 3] * scores.filled[:, 7]
    pairs = np.random.default_rng(3).integers(120, size=(600, 2))
    pairs = np.where((truth[pairs[:, 0]] < truth[pairs[:, 1]])[:, None], pairs[:, ::-1], pairs)
    found = curved(scores, pairs)
    assert found.size == 9 + 9 + 18 and found.choices == 9 + 9 + 36
    assert ((found.shares[:, 3] == 0.5) & (found.shares[:, 7] == 0.5)).sum() == 1
