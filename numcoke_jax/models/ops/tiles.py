"""Entities in tiles that are worked on one after the other: what one tile needs stays in the caches.

A tile takes every `count`-th entity.  Where a mesh has cut the axis of the entities, each device then has its
part of every tile, and nothing has to move if the devices divide a tile.  Where they do not divide the
entities, a tile is padded until they divide it: then a few rows move from one device to the next.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array


def tile_count(entities: int, least: int) -> int:
    """The number of tiles: at least `least`, or one per entity if that is fewer, and less than twice that.

    If possible, it divides the number of entities, so that nothing is padded, and leaves the factors of 2 to
    the tiles, so that a mesh of 2, 4 or 8 devices divides those.
    """
    least = min(least, entities)
    divisors = [count for count in range(least, 2 * least) if entities % count == 0]
    return min(divisors, key=lambda count: (count & -count, count), default=least)


def cut(rows: Array, axis: int, count: int) -> Array:
    """The entities along `axis`, padded with zeros, as [count, ..., size, ...]."""
    size, devices = rows.shape[axis], jax.typeof(rows).sharding.mesh.shape.get("entity", 1)
    # To cut a tile into unequal parts, XLA would first gather all entities on every device.
    whole = count * devices if size % devices else count
    padding = [(0, 0)] * rows.ndim
    padding[axis] = (0, -size % whole)
    rows = jnp.pad(rows, padding)
    rows = rows.reshape(*rows.shape[:axis], -1, count, *rows.shape[axis + 1 :])
    return jnp.moveaxis(rows, axis + 1, 0)


def join(tiles: Array, axis: int, size: int) -> Array:
    """The inverse of `cut`, for its tiles or their images: `size` entities along `axis`."""
    rows = jnp.moveaxis(tiles, 0, axis + 1)
    rows = rows.reshape(*rows.shape[:axis], -1, *rows.shape[axis + 2 :])
    return lax.slice_in_dim(rows, 0, size, axis=axis)
