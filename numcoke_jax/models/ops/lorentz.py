"""The Lorentz model of hyperbolic space with curvature -1: points, transformations, squared intervals.

Source: Nickel and Kiela, "Learning Continuous Hierarchies in the Lorentz Model of Hyperbolic Geometry", ICML
2018; boosts as in any textbook of special relativity.  A point is (x_0, x) with x_0 = sqrt(1 + |x|^2); it is
stored as its d space coordinates x alone.

    boost(x_0, x)  = (g (x_0 - <v, x>), x + ((g - 1) <v, x> / |v|^2 - g x_0) v)    |v| < 1
    g              = 1 / sqrt(1 - |v|^2)
    interval(x, y) = |x - y|^2 - (x_0 - y_0)^2  >= 0 between points
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from numcoke_jax.models.ops import pairwise

TINY = 1e-12  # smallest squared length that is divided by


def time_of(space: Float[Array, "*batch d"]) -> Float[Array, "*batch 1"]:
    """x_0 of the points with these space coordinates."""
    return jnp.sqrt(1.0 + jnp.square(space).sum(-1, keepdims=True))


def boosted(space: Float[Array, "*batch d"], velocity: Float[Array, "*#batch d"]) -> Float[Array, "*batch d"]:
    """The space coordinates after the boost; the time follows from them."""
    square = jnp.square(velocity).sum(-1, keepdims=True)
    gamma = lax.rsqrt(1.0 - square)
    along = (velocity * space).sum(-1, keepdims=True)
    # (g - 1) / |v|^2 without dividing by |v|^2, which may be 0: g^2 / (g + 1).
    return space + (gamma * gamma / (gamma + 1.0) * along - gamma * time_of(space)) * velocity


def product_of_reflections(normals: Float[Array, "S k d"]) -> Float[Array, "S d d"]:
    """Orthogonal matrices H_1 .. H_k, H_i = 1 - 2 n_i n_i^T / |n_i|^2, for k normals each."""
    dim = normals.shape[-1]

    def reflect(matrices: Array, normal: Array) -> tuple[Array, None]:
        squares = jnp.maximum(jnp.square(normal).sum(-1, keepdims=True), TINY)
        along = jnp.einsum("sij,sj->si", matrices, normal)
        return matrices - 2.0 * along[..., None] * (normal / squares)[:, None], None

    start = jnp.broadcast_to(jnp.eye(dim, dtype=normals.dtype), (normals.shape[0], dim, dim))
    return lax.scan(reflect, start, jnp.swapaxes(normals, 0, 1))[0]


def squared_intervals(left: Float[Array, "S H d"], right: Float[Array, "S N d"]) -> Float[Array, "S H N"]:
    """interval(left, right) of every pair of points."""
    times = time_of(left) - jnp.swapaxes(time_of(right), 1, 2)
    return pairwise.squared_distance(left, right) - jnp.square(times)
