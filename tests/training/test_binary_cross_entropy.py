"""Binary cross-entropy on logits: closed form, extremes, masks, smoothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.training.losses.binary_cross_entropy import (
    binary_cross_entropy,
    label_weights,
    smoothed_targets,
)
from tests import examples
from tests.oracles import binary_cross_entropy as oracle

SHAPE = (2, 3, 5)
LOGITS = 3.0 * examples.normal(*SHAPE, seed=1)
TARGETS = jnp.asarray(np.random.default_rng(2).random(SHAPE), jnp.float32)
EVERYWHERE = jnp.ones(SHAPE, bool)


def summed(logits: jax.Array, targets: jax.Array, where: jax.Array) -> jax.Array:
    return binary_cross_entropy(logits, targets, where)[0]


def test_sum_and_count_equal_the_closed_form() -> None:
    total, count = binary_cross_entropy(LOGITS, TARGETS, EVERYWHERE)
    expected = sum(oracle.entry(float(LOGITS[i]), float(TARGETS[i])) for i in np.ndindex(*SHAPE))
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    assert count == 30.0
    assert total.dtype == count.dtype == jnp.float32


def test_the_gradient_is_sigmoid_minus_target_also_at_zero() -> None:
    logits = LOGITS.at[0, 0, 0].set(0.0)
    found = jax.grad(summed)(logits, TARGETS, EVERYWHERE)
    exact = 1.0 / (1.0 + np.exp(-np.asarray(logits, np.float64))) - np.asarray(TARGETS, np.float64)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)


def test_extreme_logits_are_exact_and_have_finite_gradients() -> None:
    """The loss of a wrong sure answer is |x|, of a right one 0; the gradient is 1, -1 or 0."""
    x = [1e4, 1e4, -1e4, -1e4, 1e30, 1e30, -1e30, -1e30]
    y = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]
    losses = [1e4, 0.0, 0.0, 1e4, 1e30, 0.0, 0.0, 1e30]
    slopes = [1.0, 0.0, 0.0, -1.0, 1.0, 0.0, 0.0, -1.0]
    for logit, target, loss, slope in zip(x, y, losses, slopes, strict=True):
        arguments = jnp.array([logit]), jnp.array([target]), jnp.array([True])
        value, gradient = jax.value_and_grad(summed)(*arguments)
        np.testing.assert_allclose(value, loss, rtol=1e-6)
        np.testing.assert_array_equal(gradient, [slope])


def test_masked_entries_are_as_if_deleted() -> None:
    where = np.random.default_rng(3).random(SHAPE) < 0.6
    # What is masked may be as extreme as it likes.
    logits = jnp.where(where, LOGITS, 1e30)
    total, count = binary_cross_entropy(logits, TARGETS, jnp.asarray(where))
    left = LOGITS[where], TARGETS[where], jnp.ones(int(where.sum()), bool)
    expected, _ = binary_cross_entropy(*left)
    np.testing.assert_allclose(total, expected, rtol=1e-6)
    assert count == where.sum()
    gradient = jax.grad(summed)(logits, TARGETS, jnp.asarray(where))
    np.testing.assert_allclose(gradient[where], jax.grad(summed)(*left), rtol=1e-6)
    np.testing.assert_array_equal(gradient[~where], 0.0)


def test_a_mask_of_pairs_covers_all_their_candidates() -> None:
    pairs = jnp.array([[True, False, True], [False, False, True]])
    found = binary_cross_entropy(LOGITS, TARGETS, pairs[..., None])
    full = jnp.broadcast_to(pairs[..., None], SHAPE)
    np.testing.assert_array_equal(found, binary_cross_entropy(LOGITS, TARGETS, full))
    assert found[1] == 15.0  # 3 pairs of 5 candidates


def test_with_everything_masked_sum_count_and_gradient_are_zero() -> None:
    nowhere = jnp.zeros(SHAPE, bool)
    np.testing.assert_array_equal(binary_cross_entropy(LOGITS, TARGETS, nowhere), [0.0, 0.0])
    np.testing.assert_array_equal(jax.grad(summed)(LOGITS, TARGETS, nowhere), 0.0)


@pytest.mark.parametrize(
    ("smoothing", "expected"), [(0.1, [0.05, 0.95]), (0.0, [0.0, 1.0]), (1.0, [0.5, 0.5])]
)
def test_smoothed_targets(smoothing: float, expected: list[float]) -> None:
    """y (1 - s) + s / 2 for a non-fact and a fact: 0.1 / 2 = 0.05, 0.9 + 0.05 = 0.95."""
    found = smoothed_targets(jnp.array([False, True]), smoothing)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(
        found, [oracle.smoothed(label, smoothing) for label in (False, True)], rtol=1e-6
    )


@pytest.mark.parametrize("smoothing", [-0.01, 1.01, float("nan")])
def test_smoothing_outside_of_zero_to_one_is_refused(smoothing: float) -> None:
    with pytest.raises(ValueError, match=rf"label smoothing must be in \[0, 1\], got {smoothing}"):
        smoothed_targets(jnp.array([True]), smoothing)


def test_smoothing_changes_the_loss() -> None:
    """A right answer at logit 4 costs log(1 + exp(-4)) = 0.018150, and with s = 0.1 another 0.05 * 4."""
    labels, logits = jnp.array([True]), jnp.array([4.0])
    losses = [summed(logits, smoothed_targets(labels, s), labels) for s in (0.0, 0.1)]
    np.testing.assert_allclose(losses, [0.018150, 0.218150], rtol=1e-4)


def test_weights_by_hand() -> None:
    """True 1, known to be false 1, unknown 0.3; both true and false is a known entry too."""
    true, false = jnp.array([True, False, False, True]), jnp.array([False, True, False, True])
    np.testing.assert_allclose(label_weights(true, false, 0.3), [1.0, 1.0, 0.3, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(label_weights(true, false, 1.0), 1.0)


def test_weighted_sum_and_count_equal_the_closed_form() -> None:
    weights = jnp.asarray(np.random.default_rng(5).random(SHAPE), jnp.float32)
    where = np.random.default_rng(6).random(SHAPE) < 0.5
    total, count = binary_cross_entropy(LOGITS, TARGETS, jnp.asarray(where), weights)
    kept = [i for i in np.ndindex(*SHAPE) if where[i]]
    expected = sum(float(weights[i]) * oracle.entry(float(LOGITS[i]), float(TARGETS[i])) for i in kept)
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    np.testing.assert_allclose(count, sum(float(weights[i]) for i in kept), rtol=1e-6)


def test_weight_zero_deletes_an_entry() -> None:
    weights = jnp.asarray(np.random.default_rng(7).random(SHAPE) < 0.5, jnp.float32)
    found = binary_cross_entropy(LOGITS, TARGETS, EVERYWHERE, weights)
    np.testing.assert_allclose(found, binary_cross_entropy(LOGITS, TARGETS, weights > 0), rtol=1e-6)
