"""Logits of pairs from positions (module docstring of `order_core`), in JAX.

    p = f + (1 - 2 f) Phi((m_h - m_t) / sqrt(w_h^2 + w_t^2 + s^2))       P(h above t)
    logit = log(p q / (1 - p q))           q = g_t k(h, t): membership of the tail, reach of the relation

Values that are known to be equal, and an entity and itself, are not above each other: p = 0.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Bool, Float, Int

from numcoke_jax.models.order_core.membership import SURE

LARGEST_Z = 1e9  # far beyond the gaps of values over their noise, far below overflow of the square
LINEAR = 30.0  # logits up to here are exact; larger ones are compressed, in order
NEVER = -100.0  # logit of what cannot be
LEAST_CLASS = 1e-7  # probability of a class: float32 cannot tell 1 less a smaller one from 1
BY_POSITION = 1e-4  # of arsinh(z): orders pairs that are equally likely after reversals


@struct.dataclass
class OrderPositions:
    """Where every entity stands under each of S relations."""

    mean: Any  # float32 [S, N]
    width: Any  # float32 [S, N], 0: known
    membership: Any  # float32 [S, N], in (0, 1]
    noise: Any  # float32 [S]
    reversed_share: Any  # float32 [S]
    reach: Any  # float32 [S, bins], in (0, 1] (`reach.py`)


@struct.dataclass
class ClassPositions:
    """Where entities stand as heads, and the intervals they stand for as tails, under each of S relations."""

    mean: Any  # float32 [S, N]
    width: Any  # float32 [S, N], 0: known
    lower: Any  # float32 [S, N]
    upper: Any  # float32 [S, N], the same as `lower` where there is no class
    noise: Any  # float32 [S]


def class_logits(positions: ClassPositions, heads: Int[Array, "S H"]) -> Float[Array, "S H N"]:
    """Log odds that the head's position is in the interval of each entity as tail (`classes.py`)."""
    mean = jnp.take_along_axis(positions.mean, heads, axis=1)[..., None]
    wide = jnp.take_along_axis(positions.width, heads, axis=1)[..., None]
    deviation = jnp.sqrt(wide**2 + positions.noise[:, None, None] ** 2)
    low = (positions.lower[:, None] - mean) / deviation
    high = (positions.upper[:, None] - mean) / deviation
    inside = jnp.clip(ndtr(high) - ndtr(low), LEAST_CLASS, 1.0 - LEAST_CLASS)
    odds = jnp.log(inside) - jnp.log1p(-inside)
    return jnp.where((positions.lower == positions.upper)[:, None], NEVER, odds)


def order_logits(positions: OrderPositions, heads: Int[Array, "S H"]) -> Float[Array, "S H N"]:
    """Log odds of the fact (head, relation, entity), for every entity as tail of each head."""
    z, never = _standardised_gap(positions, heads)
    share = positions.reversed_share[:, None, None]
    above, below = _log_mixture(z, share), _log_mixture(-z, share)
    fact = positions.membership[:, None] * _reached(positions, heads)
    odds = above + jnp.log(fact) - jnp.logaddexp(below, above + jnp.log1p(-fact))
    beyond = jnp.maximum(jnp.abs(odds) - LINEAR, 0.0)
    odds = jnp.sign(odds) * (jnp.minimum(jnp.abs(odds), LINEAR) + jnp.log1p(beyond))
    odds = odds + BY_POSITION * jnp.arcsinh(z)
    return jnp.where(never, NEVER, odds)


def pair_probabilities(positions: OrderPositions, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """P(h above t) itself, float64 [n] on the host, of pairs under the first slot's relation.

    It is the probability of a fact where tail and distance are such that there may be one.
    """
    mean, width = (np.asarray(rows[0], np.float64) for rows in (positions.mean, positions.width))
    noise, share = float(positions.noise[0]), float(positions.reversed_share[0])
    gap = mean[heads] - mean[tails]
    deviation = np.sqrt(width[heads] ** 2 + width[tails] ** 2 + noise**2)
    above = share + (1.0 - 2.0 * share) * _normal_cdf(gap / deviation)
    level = (width[heads] == 0) & (width[tails] == 0) & (gap == 0)
    return np.where(level | (heads == tails), 0.0, above)


def class_probabilities(positions: ClassPositions, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """P(tail | head), float64 [n] on the host, of pairs under the first slot's relation."""
    mean, width, lower, upper = (
        np.asarray(rows[0], np.float64)
        for rows in (positions.mean, positions.width, positions.lower, positions.upper)
    )
    deviation = np.sqrt(width[heads] ** 2 + float(positions.noise[0]) ** 2)
    low, high = (lower[tails] - mean[heads]) / deviation, (upper[tails] - mean[heads]) / deviation
    return _normal_cdf(high) - _normal_cdf(low)


def _normal_cdf(z: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr as cdf  # half a second, which runs without an order core need not wait for

    return cdf(z)


def _standardised_gap(
    positions: OrderPositions, heads: Int[Array, "S H"]
) -> tuple[Float[Array, "S H N"], Bool[Array, "S H N"]]:
    """The gap between head and tail in standard deviations, and whether it is certain that there is none."""

    def of_heads(rows: Float[Array, "S N"]) -> Float[Array, "S H 1"]:
        return jnp.take_along_axis(rows, heads, axis=1)[..., None]

    mean, width, wide = positions.mean[:, None], positions.width[:, None], of_heads(positions.width)
    gap = of_heads(positions.mean) - mean
    variance = wide**2 + width**2 + positions.noise[:, None, None] ** 2
    z = jnp.clip(gap / jnp.sqrt(variance), -LARGEST_Z, LARGEST_Z)
    itself = heads[..., None] == jnp.arange(mean.shape[-1])
    return z, ((wide == 0) & (width == 0) & (gap == 0)) | itself


def _reached(positions: OrderPositions, heads: Int[Array, "S H"]) -> Float[Array, "S H N"]:
    """The relation's reach, by the number of members with a fact between head and tail."""

    def of_slot(mean: Array, membership: Array, share: Array, heads: Array) -> Array:
        ordered = jnp.sort(jnp.where(membership >= SURE, mean, jnp.inf))
        place = (jnp.searchsorted(ordered, mean, "left") + jnp.searchsorted(ordered, mean, "right")) / 2.0
        distance = jnp.abs(place[heads][:, None] - place)
        return share[jnp.minimum(jnp.floor(2.0 * jnp.log2(1.0 + distance)), len(share) - 1).astype(int)]

    return jax.vmap(of_slot)(positions.mean, positions.membership, positions.reach, heads)


def _log_mixture(z: Float[Array, "S H N"], share: Float[Array, "S 1 1"]) -> Float[Array, "S H N"]:
    """log(f + (1 - 2 f) Phi(z))."""
    return jnp.logaddexp(jnp.log(share), jnp.log1p(-2.0 * share) + log_ndtr(z))
