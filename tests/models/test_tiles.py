"""Cutting an axis into tiles and joining them again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from numcoke_jax.models.ops.tiles import cut, join, tile_count


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_joined_tiles_are_the_rows(count: int, axis: int) -> None:
    """Seven entities; more tiles than entities have padding alone."""
    shape = [2, 3, 4]
    shape[axis] = 7
    rows = jnp.arange(np.prod(shape)).reshape(shape)
    tiles = cut(rows, axis, count)
    assert tiles.shape == (count, *shape[:axis], -(-7 // count), *shape[axis + 1 :])
    np.testing.assert_array_equal(join(tiles, axis, 7), rows)


def test_a_tile_has_every_nth_entity() -> None:
    np.testing.assert_array_equal(cut(jnp.arange(1, 6), 0, 2), [[1, 3, 5], [2, 4, 0]])


@pytest.mark.parametrize(
    ("entities", "devices", "tile"),
    [
        (12, 3, 6),  # whole tiles, and a mesh that divides them
        (14, 2, 7),  # whole tiles; what a mesh that divides the entities had before stays
        (13, 1, 7),
        (13, 2, 8),  # 7 would have unequal parts
        (13, 3, 9),
        (3, 8, 8),  # fewer entities than devices
    ],
)
def test_devices_that_do_not_divide_the_entities_divide_a_tile(
    entities: int, devices: int, tile: int
) -> None:
    mesh = AbstractMesh((1, devices), ("data", "entity"))
    rows = jax.ShapeDtypeStruct((entities, 4), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec()))
    assert jax.eval_shape(lambda rows: cut(rows, 0, 2), rows).shape == (2, tile, 4)


@pytest.mark.parametrize(
    ("entities", "least", "count"),
    [
        (300, 1, 1),
        (7, 9, 7),  # one an entity is the most
        (7, 2, 2),  # no divisor below 4: padded
        (1_000_000, 31, 50),  # 32, 40 and 50 divide it; 50 leaves 2^5 to the tiles
        (4096, 5, 8),  # a power of two alone
        (4104, 5, 9),
    ],
)
def test_the_count_divides_and_leaves_the_factors_of_two(entities: int, least: int, count: int) -> None:
    assert tile_count(entities, least) == count
