"""Softmax cross-entropy on logits: closed form, gradient, extremes, queries without a tail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.training.losses.cross_entropy import softmax_cross_entropy
from tests import examples
from tests.oracles import cross_entropy as oracle

SHAPE = (2, 3, 5)
LOGITS = 3.0 * examples.normal(*SHAPE, seed=1)
LABELS = jnp.asarray(np.random.default_rng(2).random(SHAPE) < 0.4).at[1, 2].set(False)
WEIGHTS = jnp.where(LABELS, 1.0, jnp.asarray(np.random.default_rng(3).random(SHAPE), jnp.float32))
ONES = jnp.ones(SHAPE)


def summed(logits: jax.Array, labels: jax.Array, weights: jax.Array, smoothing: float = 0.0) -> jax.Array:
    return softmax_cross_entropy(logits, labels, weights, smoothing)[0]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weights", [ONES, WEIGHTS], ids=["alike", "weighted"])
def test_sum_and_count_equal_the_closed_form(weights: jax.Array, smoothing: float) -> None:
    """The queries have 0 to 5 tails; each is a fact of its own."""
    total, count = softmax_cross_entropy(LOGITS, LABELS, weights, smoothing)
    facts = np.argwhere(np.asarray(LABELS))
    assert len(facts) == count > len({tuple(fact[:2]) for fact in facts})
    expected = sum(
        oracle.of_fact(LOGITS[s, h].tolist(), int(t), weights[s, h].tolist(), smoothing) for s, h, t in facts
    )
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    assert total.dtype == count.dtype == jnp.float32


def test_the_gradient_is_tails_times_softmax_minus_labels() -> None:
    found = jax.grad(summed)(LOGITS, LABELS, ONES)
    exponentials = np.exp(np.asarray(LOGITS, np.float64))
    softmax = exponentials / exponentials.sum(-1, keepdims=True)
    labels = np.asarray(LABELS, np.float64)
    np.testing.assert_allclose(found, labels.sum(-1, keepdims=True) * softmax - labels, rtol=1e-4, atol=1e-6)


def test_extreme_logits_are_exact_and_have_finite_gradients() -> None:
    """A fact whose tail is x below the best candidate costs x, the best one nothing."""
    labels = jnp.array([[True, False]])
    for logits, loss, slope in [
        ([1e30, -1e30], 0.0, 0.0),
        ([-1e4, 1e4], 2e4, -1.0),
        ([-5e29, 5e29], 1e30, -1.0),
    ]:
        value, gradient = jax.value_and_grad(summed)(jnp.array([logits]), labels, jnp.ones((1, 2)))
        np.testing.assert_allclose(value, loss, rtol=1e-6)
        np.testing.assert_array_equal(gradient, [[slope, -slope]])


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_queries_without_a_tail_count_nothing(weight: float) -> None:
    """Also where every candidate has weight 0, whose sum has no logarithm, and with extreme logits."""
    logits = LOGITS.at[1, 2].set(1e30)
    arguments = LABELS, jnp.where(LABELS, 1.0, weight)
    gradient = jax.grad(summed)(logits, *arguments)
    np.testing.assert_array_equal(gradient[1, 2], 0.0)
    rest, labels, weights = (array.reshape(6, 5)[:5] for array in (LOGITS, *arguments))
    np.testing.assert_allclose(summed(logits, *arguments), summed(rest, labels, weights), rtol=1e-6)
    np.testing.assert_array_equal(softmax_cross_entropy(LOGITS, LABELS & False, ONES * weight), [0.0, 0.0])


def test_candidates_of_weight_zero_are_as_if_deleted() -> None:
    weights = ONES.at[..., 1].set(0.0)
    labels = LABELS.at[..., 1].set(False)
    kept = np.array([0, 2, 3, 4])
    without = summed(LOGITS[..., kept], labels[..., kept], ONES[..., kept])
    np.testing.assert_allclose(summed(LOGITS, labels, weights), without, rtol=1e-6)
    np.testing.assert_array_equal(jax.grad(summed)(LOGITS, labels, weights)[..., 1], 0.0)


def test_a_nan_is_not_hidden() -> None:
    assert jnp.isnan(summed(LOGITS.at[1, 2, 0].set(jnp.nan), LABELS, ONES))


@pytest.mark.parametrize("smoothing", [-0.01, 1.01, float("nan")])
def test_smoothing_outside_of_zero_to_one_is_refused(smoothing: float) -> None:
    with pytest.raises(ValueError, match=rf"label smoothing must be in \[0, 1\], got {smoothing}"):
        softmax_cross_entropy(LOGITS, LABELS, ONES, smoothing)
