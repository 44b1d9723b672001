"""The hypersphere with curvature c in stereographic coordinates: maps at its origin, addition.

Source: the ball of `hyperbolic.py` with -c in place of c (Bachmann et al., "Constant Curvature Graph
Convolutional Networks", ICML 2020).

    exp_0(v) = tan(sqrt(c) ||v||) v / (sqrt(c) ||v||),     log_0(x) = atan(sqrt(c) ||x||) x / (sqrt(c) ||x||)
    x + y    = ((1 - 2c <x, y> - c |y|^2) x + (1 + c |x|^2) y) / (1 - 2c <x, y> + c^2 |x|^2 |y|^2)

Points stay within 1 - `hyperbolic.BORDER` of the radius 1 / sqrt(c), in the hemisphere around the origin,
where no denominator is 0.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from numcoke_jax.models.ops import hyperbolic

FARTHEST = 1.0 - hyperbolic.BORDER


def exp_at_origin(
    tangents: Float[Array, "*batch d"], curvature: Float[Array, "*#batch 1"]
) -> Float[Array, "*batch d"]:
    """The point of the hemisphere that a tangent vector at the origin leads to."""
    scaled = jnp.sqrt(curvature) * hyperbolic.length(tangents)
    return jnp.tan(jnp.minimum(scaled, jnp.arctan(FARTHEST))) / scaled * tangents


def log_at_origin(
    points: Float[Array, "*batch d"], curvature: Float[Array, "*#batch 1"]
) -> Float[Array, "*batch d"]:
    """The inverse of `exp_at_origin`."""
    scaled = jnp.sqrt(curvature) * hyperbolic.length(points)
    return jnp.arctan(scaled) / scaled * points


def add(
    left: Float[Array, "*#batch d"], right: Float[Array, "*batch d"], curvature: Float[Array, "*#batch 1"]
) -> Float[Array, "*batch d"]:
    """left + right row by row, kept in the hemisphere."""
    product = (left * right).sum(-1, keepdims=True)
    of_left, of_right = (jnp.square(rows).sum(-1, keepdims=True) for rows in (left, right))
    mixed = 1.0 - 2.0 * curvature * product
    total = (mixed - curvature * of_right) * left + (1.0 + curvature * of_left) * right
    return hyperbolic.inside(total / (mixed + curvature**2 * of_left * of_right), curvature)
