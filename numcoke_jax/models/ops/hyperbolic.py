"""The Poincaré ball with curvature -c in float32: maps at its origin, addition, all pairwise distances.

Source: Ganea et al., "Hyperbolic Neural Networks", NeurIPS 2018.  The ball holds the x with sqrt(c) ||x||
< 1.

    exp_0(v) = tanh(sqrt(c) ||v||) v / (sqrt(c) ||v||)
    log_0(x) = artanh(sqrt(c) ||x||) x / (sqrt(c) ||x||)
    x + y    = ((1 + 2c <x, y> + c |y|^2) x + (1 - c |x|^2) y) / (1 + 2c <x, y> + c^2 |x|^2 |y|^2)     Möbius
    d(x, y)  = 2 / sqrt(c) artanh(sqrt(c) ||(-x) + y||)
             = 2 / sqrt(c) arsinh(sqrt(c |x - y|^2 / ((1 - c |x|^2) (1 - c |y|^2))))

The last form needs |x - y|^2 per pair and one number per row, so no [S, H, N, d] tensor of Möbius sums
exists, and it has no pole.  Points stay within 1 - `BORDER` of the radius, where 1 - c |x|^2 keeps five
digits.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from numcoke_jax.models.ops import pairwise

BORDER = 4e-3  # relative distance kept from the border
TINY = 1e-15  # smallest squared norm that is distinguished from 0


def length(rows: Float[Array, "*batch d"]) -> Float[Array, "*batch 1"]:
    """The norms, at least sqrt(TINY); the gradient at 0 is 0, not NaN."""
    return jnp.sqrt(jnp.maximum(jnp.square(rows).sum(-1, keepdims=True), TINY))


def exp_at_origin(
    tangents: Float[Array, "*batch d"], curvature: Float[Array, "*#batch 1"] | float = 1.0
) -> Float[Array, "*batch d"]:
    """The point of the ball that a tangent vector at the origin leads to, kept off the border."""
    scaled = jnp.sqrt(curvature) * length(tangents)
    return jnp.minimum(jnp.tanh(scaled), 1.0 - BORDER) / scaled * tangents


def log_at_origin(
    points: Float[Array, "*batch d"], curvature: Float[Array, "*#batch 1"] | float = 1.0
) -> Float[Array, "*batch d"]:
    """The inverse of `exp_at_origin`, for points off the border."""
    scaled = jnp.sqrt(curvature) * length(points)
    return jnp.arctanh(scaled) / scaled * points


def inside(
    points: Float[Array, "*batch d"], curvature: Float[Array, "*#batch 1"] | float = 1.0
) -> Float[Array, "*batch d"]:
    """The points, with those too close to the border or beyond it moved inwards."""
    radius = (1.0 - BORDER) / jnp.sqrt(curvature)
    norm = length(points)
    return jnp.where(norm > radius, radius / norm, 1.0) * points


def mobius_add(
    left: Float[Array, "*#batch d"],
    right: Float[Array, "*#batch d"],
    curvature: Float[Array, "*#batch 1"] | float = 1.0,
) -> Float[Array, "*batch d"]:
    """left + right row by row, kept off the border."""
    product = (left * right).sum(-1, keepdims=True)
    of_left, of_right = (jnp.square(rows).sum(-1, keepdims=True) for rows in (left, right))
    mixed = 1.0 + 2.0 * curvature * product
    total = (mixed + curvature * of_right) * left + (1.0 - curvature * of_left) * right
    return inside(total / (mixed + curvature**2 * of_left * of_right), curvature)


def squared_distances(
    left: Float[Array, "S H d"], right: Float[Array, "S N d"], curvature: Float[Array, "S 1 1"] | float = 1.0
) -> Float[Array, "S H N"]:
    """d(left, right)^2 of every pair of points inside the ball.

    Its derivative with respect to |x - y|^2 is finite at 0, unlike that of d: at small distances d^2 is
    4 |x - y|^2 over both factors.
    """
    of_left, of_right = (1.0 - curvature * jnp.square(rows).sum(-1, keepdims=True) for rows in (left, right))
    ratio = curvature * pairwise.squared_distance(left, right) / (of_left * jnp.swapaxes(of_right, 1, 2))
    return 4.0 / curvature * _squared_arsinh_of_root(ratio)


def _squared_arsinh_of_root(ratio: Array) -> Array:
    """arsinh(sqrt(z))^2, which is z - z^2 / 3 + ... near 0."""
    small = ratio < 1e-4
    root = jnp.arcsinh(jnp.sqrt(jnp.where(small, 1.0, ratio)))
    return jnp.where(small, ratio * (1.0 - ratio / 3.0), lax.square(root))
