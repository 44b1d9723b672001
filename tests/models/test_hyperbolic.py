"""The Poincaré ball: definitions, the border, and gradients where the textbook's formulas have poles."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.models.ops import hyperbolic
from tests import examples
from tests.oracles import hyperbolic as oracle

CURVATURES = (0.3, 1.0, 4.0)


@pytest.mark.parametrize("curvature", CURVATURES)
def test_maps_sums_and_distances_are_those_of_the_definitions(curvature: float) -> None:
    with jax.enable_x64(True):
        tangents = examples.normal(2, 3, 4, seed=1, scale=0.4), examples.normal(2, 5, 4, seed=2, scale=0.4)
        left, right = (hyperbolic.exp_at_origin(rows, curvature) for rows in tangents)
        found = hyperbolic.squared_distances(left, right, jnp.full((2, 1, 1), curvature))
        summed = hyperbolic.mobius_add(left, right[:, :1], curvature)
        x, y = (np.asarray(rows) for rows in (left, right))
        for s, h, n in np.ndindex(2, 3, 5):
            np.testing.assert_allclose(
                x[s, h], oracle.exp_at_origin(np.asarray(tangents[0][s, h]), curvature), rtol=1e-12
            )
            np.testing.assert_allclose(
                summed[s, h], oracle.mobius_add(x[s, h], y[s, 0], curvature), rtol=1e-10
            )
            expected = oracle.distance(x[s, h], y[s, n], curvature) ** 2
            np.testing.assert_allclose(found[s, h, n], expected, rtol=1e-9)


def test_a_distance_from_the_origin_is_twice_the_tangent_vectors_length() -> None:
    """d(0, exp_0(v)) = 2 ||v||, whatever the curvature."""
    tangent = jnp.array([[[0.3, -0.4]]])
    for curvature in CURVATURES:
        point = hyperbolic.exp_at_origin(tangent, curvature)
        found = hyperbolic.squared_distances(jnp.zeros((1, 1, 2)), point, curvature)
        np.testing.assert_allclose(found, 1.0, rtol=1e-5)


@functools.cache
def float32_gradient() -> Any:
    def total(left: jax.Array, right: jax.Array, curvature: jax.Array) -> jax.Array:
        x, y = (hyperbolic.exp_at_origin(rows, curvature) for rows in (left, right))
        return hyperbolic.squared_distances(hyperbolic.mobius_add(x, y[:, :1], curvature), y, curvature).sum()

    return jax.jit(jax.value_and_grad(total, (0, 1, 2)))


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-10, 1e-4, 1.0, 10.0, 1e4, 1e15])
@pytest.mark.parametrize("opposite", [1.0, -1.0])
def test_values_and_gradients_are_finite_from_the_origin_to_the_border(size: float, opposite: float) -> None:
    """Equal, opposite, huge and vanishing tangent vectors, in float32."""
    left = jnp.full((1, 2, 3), size, jnp.float32)
    right = jnp.full((1, 2, 3), opposite * size, jnp.float32)
    for curvature in (1e-4, 1.0, 1e3):
        value, gradients = float32_gradient()(left, right, jnp.full((1, 1, 1), curvature))
        assert np.isfinite(value) and value >= 0.0
        for gradient in gradients:
            assert np.isfinite(gradient).all(), curvature


def test_no_point_comes_closer_to_the_border_than_allowed() -> None:
    far = hyperbolic.exp_at_origin(jnp.array([[1e3, 0.0], [0.0, -5.0]]))
    np.testing.assert_allclose(jnp.linalg.norm(far, axis=-1), [1.0 - hyperbolic.BORDER] * 2, rtol=1e-6)
    moved = hyperbolic.mobius_add(far, far)
    assert (jnp.linalg.norm(moved, axis=-1) <= 1.0 - hyperbolic.BORDER + 1e-6).all()


def test_float32_keeps_small_distances_and_those_at_the_border() -> None:
    """Against float64 artanh of the Möbius sum: three digits at the border, four in the middle."""
    rng = np.random.default_rng(0)
    for radius, tolerance in ((0.01, 1e-4), (0.5, 1e-4), (0.996, 2e-3)):
        x = rng.normal(size=(1, 4, 6))
        x *= radius / np.linalg.norm(x, axis=-1, keepdims=True)
        y = x * (1.0 - 1e-3)
        found = hyperbolic.squared_distances(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
        for i in range(4):
            expected = oracle.distance(x[0, i], y[0, i], 1.0) ** 2
            np.testing.assert_allclose(found[0, i, i], expected, rtol=tolerance)


def test_the_slope_at_distance_zero_is_that_of_four_squares() -> None:
    """d^2 is 4 |x - y|^2 / (1 - |x|^2)^2 near x = y, so its second derivative there is 8 / (1 - |x|^2)^2."""
    with jax.enable_x64(True):
        point = jnp.array([[[0.6, 0.0]]])

        def along(step: jax.Array) -> jax.Array:
            return hyperbolic.squared_distances(point, point + step * jnp.array([0.0, 1.0])).sum()

        np.testing.assert_allclose(jax.grad(along)(1e-5) / 1e-5, 8.0 / (1.0 - 0.36) ** 2, rtol=1e-3)
        assert jax.grad(along)(0.0) == 0.0
