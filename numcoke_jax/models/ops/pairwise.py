"""Pairwise reductions between head rows and entity rows: the floor of a 1-vs-all step's cost.

Each function takes `left` [S, H, d] and `right` [S, N, d] and returns [S, H, N], reducing the last axis
of `left[:, :, None] - right[:, None]` without keeping that [S, H, N, d] tensor in the forward pass or for
the backward pass: both run over blocks of dimensions and recompute the differences.

On the CPU the reduction is a scan over blocks of dimensions whose body XLA fuses into one loop, with few
enough entities at a time for the [S, H, tile] sums to stay in the caches; on other platforms it is one fused
broadcast-and-reduce, which XLA tiles itself.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from numcoke_jax.models.ops.tiles import cut, join, tile_count

# Dimensions handled in one pass over [S, H, N].  Measured on 2 cores at S 4, H 64, N 300, d 200.
FORWARD_BLOCK = 20
BACKWARD_BLOCK = 8
# Sums per tile: 1 MiB, what a core's second-level cache holds.  Measured on 2 cores at S 4, H 64, d 200: half
# the time of a single tile at N 4,000, a third at N 64,000.
TILE_PAIRS = 2**18
Left = Float[Array, "S H d"]
Right = Float[Array, "S N d"]
Pairs = Float[Array, "S H N"]
Elementwise = Callable[[Array], Array]


def l1_distance(left: Left, right: Right) -> Pairs:
    """sum_d |left - right|; the subgradient at equal entries is 0."""
    return _pairwise_sum(left, right, "absolute")


def squared_relu(left: Left, right: Right) -> Pairs:
    """sum_d max(0, left - right)^2, the order term's violation or reward."""
    return _pairwise_sum(left, right, "squared_relu")


def l2_distance(left: Left, right: Right) -> Pairs:
    """sqrt(sum_d (left - right)^2); the gradient of a pair of equal rows is 0, not NaN.

    The differences are squared and summed directly: |l|^2 + |r|^2 - 2 l.r as one matrix product is
    faster but loses the small distances, the ones that decide ranks, to cancellation in float32.
    """
    squares = _pairwise_sum(left, right, "square")
    positive = squares > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squares, 1.0)), 0.0)


def distance(left: Left, right: Right, norm: int) -> Pairs:
    """`l1_distance` or `l2_distance`, by `score.norm`: 1 or 2."""
    return l1_distance(left, right) if norm == 1 else l2_distance(left, right)


def translation(
    heads: Left, relations: Float[Array, "S d"], tails: Float[Array, "N d"], norm: int, margin: float
) -> Pairs:
    """margin - |h + r - t|, for tails that are the same under every relation."""
    moved = heads + relations[:, None]
    return margin - distance(moved, jnp.broadcast_to(tails, (heads.shape[0], *tails.shape)), norm)


def squared_distance(left: Left, right: Right) -> Pairs:
    """sum_d (left - right)^2, from the differences: small distances keep their digits."""
    return _pairwise_sum(left, right, "square")


def half_angle_distance(left: Left, right: Right) -> Pairs:
    """sum_d |sin((left - right) / 2)| of angles in radians; the subgradient at equal angles is 0."""
    return _pairwise_sum(left, right, "half_angle")


def sum_of_terms(term: Callable[[Any], Pairs], rows: Any, shape: tuple[int, int, int]) -> Pairs:
    """The sum of `term(rows[i])` over the leading axis of a tree of arrays: one [S, H, N] at a time.

    For reductions that are not a function of a difference.  The backward pass recomputes each term.
    """
    again = jax.checkpoint(term)
    zeros = jnp.zeros(shape, jax.tree.leaves(rows)[0].dtype)
    return lax.scan(lambda total, row: (total + again(row), None), zeros, rows)[0]


_FUNCTIONS: dict[str, tuple[Elementwise, Elementwise]] = {  # name -> (function, derivative)
    "absolute": (jnp.abs, jnp.sign),
    "squared_relu": (lambda x: jnp.square(jnp.maximum(x, 0.0)), lambda x: 2.0 * jnp.maximum(x, 0.0)),
    "square": (jnp.square, lambda x: 2.0 * x),
    "half_angle": (
        lambda x: jnp.abs(jnp.sin(x / 2.0)),
        lambda x: 0.5 * jnp.sign(jnp.sin(x / 2.0)) * jnp.cos(x / 2.0),
    ),
}


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _pairwise_sum(left: Left, right: Right, name: str) -> Pairs:
    return lax.platform_dependent(
        left,
        right,
        cpu=functools.partial(_forward_by_tiles, function=_FUNCTIONS[name][0]),
        default=functools.partial(_forward_fused, function=_FUNCTIONS[name][0]),
    )


def _forward(left: Left, right: Right, name: str) -> tuple[Pairs, tuple[Left, Right]]:
    return _pairwise_sum(left, right, name), (left, right)


def _backward(name: str, rows: tuple[Left, Right], cotangent: Pairs) -> tuple[Left, Right]:
    left, right = rows
    return lax.platform_dependent(
        left,
        right,
        cotangent,
        cpu=functools.partial(_backward_by_tiles, derivative=_FUNCTIONS[name][1]),
        default=functools.partial(_backward_fused, derivative=_FUNCTIONS[name][1]),
    )


_pairwise_sum.defvjp(_forward, _backward)


def _tile_count(left: Left, right: Right) -> int:
    """Number of tiles, of about `TILE_PAIRS` sums each, that the entities are cut into."""
    slots, heads, _ = left.shape
    entities = right.shape[1]
    return tile_count(entities, -(-slots * heads * entities // TILE_PAIRS))


def _forward_by_tiles(left: Left, right: Right, *, function: Elementwise) -> Pairs:
    forward = functools.partial(_forward_by_blocks, left, function=function)
    count = _tile_count(left, right)
    if count == 1:
        return forward(right)
    return join(lax.map(forward, cut(right, 1, count)), 2, right.shape[1])


def _backward_by_tiles(
    left: Left, right: Right, cotangent: Pairs, *, derivative: Elementwise
) -> tuple[Left, Right]:
    count = _tile_count(left, right)
    if count == 1:
        return _backward_by_blocks(left, right, cotangent, derivative=derivative)

    def add_tile(of_left: Left, tile: tuple[Right, Pairs]) -> tuple[Left, Right]:
        of_tile, of_right = _backward_by_blocks(left, *tile, derivative=derivative)
        return of_left + of_tile, of_right

    tiles = cut(right, 1, count), cut(cotangent, 2, count)
    of_left, of_right = lax.scan(add_tile, jnp.zeros_like(left), tiles)
    return of_left, join(of_right, 1, right.shape[1])


def _dimension_blocks(rows: Float[Array, "S X d"], block: int) -> Float[Array, "blocks block S X"]:
    """Dimensions first, padded with zeros to a whole number of blocks."""
    rows = jnp.moveaxis(rows, -1, 0)
    padding = -rows.shape[0] % block
    rows = jnp.pad(rows, ((0, padding), (0, 0), (0, 0)))
    return rows.reshape(-1, block, *rows.shape[1:])


def _forward_by_blocks(left: Left, right: Right, *, function: Elementwise) -> Pairs:
    def add_block(total: Pairs, rows: tuple[Array, Array]) -> tuple[Pairs, None]:
        # Unrolled: one fused loop adds the whole block, so `total` is read and written once per block.
        for left_row, right_row in zip(*rows, strict=True):
            total = total + function(left_row[:, :, None] - right_row[:, None, :])
        return total, None

    # Pairs of padding zeros add function(0) = 0 to every sum.
    blocks = _dimension_blocks(left, FORWARD_BLOCK), _dimension_blocks(right, FORWARD_BLOCK)
    total = jnp.zeros((*left.shape[:2], right.shape[1]), left.dtype)
    return lax.scan(add_block, total, blocks)[0]


def _backward_by_blocks(
    left: Left, right: Right, cotangent: Pairs, *, derivative: Elementwise
) -> tuple[Left, Right]:
    def block_gradients(_: None, rows: tuple[Array, Array]) -> tuple[None, tuple[Array, Array]]:
        left_rows, right_rows = rows
        slopes = cotangent * derivative(left_rows[:, :, :, None] - right_rows[:, :, None, :])
        return None, (slopes.sum(-1), -slopes.sum(-2))

    blocks = _dimension_blocks(left, BACKWARD_BLOCK), _dimension_blocks(right, BACKWARD_BLOCK)
    gradients = lax.scan(block_gradients, None, blocks)[1]

    def dimensions_last(blocked: Array, like: Array) -> Array:
        return jnp.moveaxis(blocked.reshape(-1, *blocked.shape[2:])[: like.shape[-1]], 0, -1)

    return dimensions_last(gradients[0], left), dimensions_last(gradients[1], right)


def _forward_fused(left: Left, right: Right, *, function: Elementwise) -> Pairs:
    return function(left[:, :, None] - right[:, None]).sum(-1)


def _backward_fused(
    left: Left, right: Right, cotangent: Pairs, *, derivative: Elementwise
) -> tuple[Left, Right]:
    slopes = cotangent[..., None] * derivative(left[:, :, None] - right[:, None])
    return slopes.sum(2), -slopes.sum(1)
