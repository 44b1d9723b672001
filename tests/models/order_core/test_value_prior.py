"""The regression on values: priors against a joint Gaussian without the row, and what is switched off."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numcoke_jax.models.order_core.value_prior import VARIANCES, ValuePrior
from tests.oracles import order_core as oracle


@settings(max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 9),
    st.integers(1, 12),
    st.sampled_from(["finite", "with inf", "with 0", "mixed"]),
)
def test_each_prior_is_the_prediction_from_all_other_entities(
    seed: int, count: int, size: int, kind: str
) -> None:
    """Also with more features than entities, known positions, and entities of which nothing is known."""
    rng = np.random.default_rng(seed)
    features, targets = rng.normal(size=(count, size)), rng.normal(size=count)
    precisions = rng.uniform(0.1, 5.0, count)
    if kind in ("with inf", "mixed"):
        precisions[rng.random(count) < 0.5] = np.inf
    if kind in ("with 0", "mixed"):
        precisions[rng.random(count) < 0.5] = 0.0
    prior = ValuePrior(features, residual=0.6)
    prior.relevance = rng.uniform(0.2, 3.0, size)
    mean, variance = prior.predict(targets, precisions)
    for row in range(count):
        expected = oracle.regression(features, targets, precisions, prior.relevance, 0.6, row)
        np.testing.assert_allclose((mean[row], variance[row]), expected, rtol=1e-6, atol=1e-8)


def test_an_expected_feature_widens_the_prior_by_its_variance() -> None:
    """Of an entity whose feature has variance v the prior has slope^2 v more; its own fact weighs less."""
    rng = np.random.default_rng(1)
    features, precisions = rng.normal(size=(50, 2)), np.full(50, np.inf)
    targets = features @ [0.8, -0.5] + 0.3 * rng.normal(size=50)
    variances = np.zeros((50, 2))
    variances[3] = 0.7, 0.4
    prior, sure = ValuePrior(features, variances, 0.1), ValuePrior(features, residual=0.1)
    for one in (prior, sure):
        one.predict(targets, precisions)
    (_, wide), (_, narrow) = (one.predict(targets, precisions) for one in (prior, sure))
    more = prior.coefficients**2 @ [0.7, 0.4]
    assert wide[3] - narrow[3] == pytest.approx(more, rel=0.02)
    np.testing.assert_allclose(np.delete(wide, 3), np.delete(narrow, 3), rtol=0.02)


def test_targets_without_precision_may_be_anything() -> None:
    features = np.random.default_rng(0).normal(size=(6, 2))
    precisions = np.array([1.0, 2.0, np.inf, 0.0, 0.0, 3.0])
    targets = np.arange(6.0)
    expected = ValuePrior(features).predict(targets, precisions)
    targets[3:5] = 1e300
    for one, other in zip(ValuePrior(features).predict(targets, precisions), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_nothing_known_leaves_the_variance_of_the_prior() -> None:
    features = np.random.default_rng(1).normal(size=(5, 3))
    prior = ValuePrior(features, residual=0.7)
    mean, variance = prior.predict(np.zeros(5), np.zeros(5))
    np.testing.assert_allclose(mean, 0.0)
    np.testing.assert_allclose(variance, 0.7 + (features**2 * prior.relevance).sum(axis=1), rtol=1e-9)
    assert prior.effective_size == pytest.approx(0.0, abs=1e-9)


def test_without_features_only_the_residual_is_left() -> None:
    prior = ValuePrior(np.zeros((4, 0)), residual=1.3)
    mean, variance = prior.predict(np.arange(4.0), np.array([np.inf, 1.0, 0.0, 2.0]))
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_array_equal(variance, 1.3)
    prior.learn(np.ones(4, bool))
    assert prior.residual == 1.3 and prior.effective_size == 0.0


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(3, 9), st.integers(1, 5))
def test_a_step_of_learning_takes_the_expected_squares(seed: int, count: int, size: int) -> None:
    """Of the coefficients, and of the errors of known positions."""
    rng = np.random.default_rng(seed)
    features, targets = rng.normal(size=(count, size)), rng.normal(size=count)
    precisions = rng.choice([np.inf, 2.0, 0.0], count, p=[0.5, 0.3, 0.2])
    precisions[:3] = np.inf  # fewer known ones leave the residual as it is
    prior = ValuePrior(features, residual=0.5)
    before = prior.relevance
    prior.predict(targets, precisions)
    prior.learn(np.isinf(precisions))
    squares, errors = oracle.coefficient_moments(features, targets, precisions, before, 0.5)
    np.testing.assert_allclose(prior.relevance, squares, rtol=1e-7)
    assert prior.residual == pytest.approx(errors[np.isinf(precisions)].mean(), rel=1e-7)


def test_a_step_of_learning_shares_an_error_between_the_residual_and_a_missing_feature() -> None:
    """The expected square of one of two normal terms given their sum, by integration over a grid."""
    features, targets = np.array([[1.0], [-1.0], [0.5], [2.0]]), np.array([0.4, -3.0, 1.0, 1.5])
    variances = np.array([[0.0], [3.0], [0.5], [0.0]])
    prior = ValuePrior(features, variances, residual=0.5)
    prior.predict(targets, np.full(4, np.inf))
    slope, uncertain = prior.coefficients[0], prior._covariance[0, 0]
    u, nodes = np.linspace(-12, 12, 4001), np.polynomial.hermite_e.hermegauss(40)
    expected = []
    for feature, target, variance in zip(features[:, 0], targets, variances[:, 0] * slope**2, strict=True):
        of_slopes = []
        for node in nodes[0]:  # the slope is uncertain itself
            error = target - feature * (slope + node * np.sqrt(uncertain))
            if variance:
                density = np.exp(-(u**2) / (2 * 0.5) - (error - u) ** 2 / (2 * variance))
                of_slopes.append((u**2 * density).sum() / density.sum())
            else:
                of_slopes.append(error**2)
        expected.append(nodes[1] @ of_slopes / nodes[1].sum())
    prior.learn(np.ones(4, bool))
    assert prior.residual == pytest.approx(np.mean(expected), rel=1e-4)


def test_missing_features_do_not_make_the_others_sure() -> None:
    """Two fields that nearly agree, one of them missing for half of the entities, and expected too badly."""
    rng = np.random.default_rng(6)
    common = rng.normal(size=200)
    features = np.stack([common, common], axis=1) + 0.1 * rng.normal(size=(200, 2))
    missing = rng.random(200) < 0.5
    features[missing, 1] = 0.0
    prior = ValuePrior(features, np.where(missing[:, None], [0.0, 1.0], 0.0))
    targets = features[:, 0] + np.where(missing, 0.0, features[:, 1]) + 0.3 * rng.normal(size=200)
    for _ in range(100):
        prior.predict(targets, np.full(200, np.inf))
        prior.learn(np.ones(200, bool))
    mean, variance = prior.predict(targets, np.full(200, np.inf))
    z = (targets - mean) / np.sqrt(variance)
    assert 0.5 < np.square(z[~missing]).mean() < 2.0


def learned(
    features: np.ndarray, targets: np.ndarray, precisions: np.ndarray, steps: int = 300
) -> ValuePrior:
    prior = ValuePrior(features)
    for _ in range(steps):
        prior.predict(targets, precisions)
        prior.learn(np.isinf(precisions))
    return prior


@pytest.mark.parametrize("precision", [np.inf, 20.0])
def test_learning_keeps_the_true_feature_and_switches_the_others_off(precision: float) -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(200, 5))
    targets = 1.5 * features[:, 1] + rng.normal(size=200)
    prior = learned(features, targets, np.full(200, precision))
    assert prior.coefficients[1] == pytest.approx(1.5, abs=0.25)
    assert prior.relevance[1] == pytest.approx(1.5**2, rel=0.3)
    others = np.delete(prior.relevance, 1)
    assert (others < 9 / 200).all()  # coefficients below three of their standard errors
    assert 0.9 < prior.effective_size < 2.5


def test_learning_finds_the_residual_of_known_positions() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(500, 2))
    prior = learned(features, features[:, 0] + 0.3 * rng.normal(size=500), np.full(500, np.inf))
    assert prior.residual == pytest.approx(0.09, rel=0.2)


def test_false_features_alone_predict_nothing() -> None:
    """150 entities, 20 features: the priors come close to those without any."""
    rng = np.random.default_rng(4)
    prior = learned(rng.normal(size=(150, 20)), rng.normal(size=150), np.full(150, 50.0), steps=500)
    mean, variance = prior.predict(rng.normal(size=150), np.full(150, 50.0))
    assert np.square(mean).mean() < 0.1
    assert (variance < 1.2).all()


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e8])
def test_hopeless_features_give_finite_priors(scale: float) -> None:
    """All equal, tiny or huge; perfectly collinear ones, and more of them than entities."""
    rng = np.random.default_rng(5)
    features = scale * np.repeat(rng.normal(size=(4, 1)), 7, axis=1)
    for precision in (0.0, 1e-12, 1e12, np.inf):
        prior = learned(features, rng.normal(size=4), np.full(4, precision), steps=20)
        mean, variance = prior.predict(rng.normal(size=4), np.full(4, precision))
        assert np.isfinite(mean).all() and (variance > 0).all() and np.isfinite(variance).all()
        assert (prior.relevance >= VARIANCES[0]).all() and (prior.relevance <= VARIANCES[1]).all()
