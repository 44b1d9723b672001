"""The hypersphere in stereographic coordinates: the ball with the sign of the curvature turned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.models.ops import spherical
from tests import examples
from tests.oracles import gie as oracle


@pytest.mark.parametrize("curvature", [0.3, 1.0, 4.0])
def test_maps_and_sums_are_those_of_a_ball_of_negative_curvature(curvature: float) -> None:
    with jax.enable_x64(True):
        c = jnp.full((1, 1), curvature)
        tangents = [examples.normal(6, 4, seed=seed, scale=0.1 / curvature**0.5) for seed in (1, 2)]
        left, right = (spherical.exp_at_origin(rows, c) for rows in tangents)
        summed = spherical.add(left, right, c)
        for i in range(6):
            x, y = (oracle.exp_at_origin(np.asarray(rows[i]), -curvature) for rows in tangents)
            np.testing.assert_allclose(left[i], x, rtol=1e-10)
            np.testing.assert_allclose(summed[i], oracle.total(x, y, -curvature), rtol=1e-10)
        np.testing.assert_allclose(spherical.log_at_origin(left, c), tangents[0], rtol=1e-10)
        np.testing.assert_allclose(spherical.add(-left, summed, c), right, atol=1e-10)


def test_a_sum_adds_the_angles_of_a_great_circle() -> None:
    """On a line through the origin of the unit sphere a point at angle a is tan(a / 2)."""
    points = jnp.tan(jnp.array([[0.3], [0.5]]) / 2.0)
    found = spherical.add(points[:1], points[1:], jnp.ones((1, 1)))
    np.testing.assert_allclose(found, np.tan([[0.4]]), rtol=1e-6)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-4, 1.0, 1e4, 1e15])
def test_values_and_gradients_are_finite_wherever_a_tangent_vector_leads(size: float) -> None:
    def total(left: jax.Array, right: jax.Array, curvature: jax.Array) -> jax.Array:
        x, y = (spherical.exp_at_origin(rows, curvature) for rows in (left, right))
        return spherical.log_at_origin(spherical.add(x, y, curvature), curvature).sum()

    rows = jnp.full((2, 3), size, jnp.float32)
    for sign in (1.0, -1.0):
        value, gradients = jax.value_and_grad(total, (0, 1, 2))(rows, sign * rows, jnp.ones((2, 1)))
        assert np.isfinite(value)
        assert all(np.isfinite(gradient).all() for gradient in gradients)
