"""Arrays with an axis of entities, and zeros after the last one, so that they can be cut into equal parts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

# Names of the parameters with one row per entity, of the models that were looked up: no other has arrays.
PER_ENTITY: set[str] = set()
# The axis of the entities, by an array's name in batches and literals; in a parameter it is the first.
ENTITY_AXES = {"labels": 2, "negatives": 2, "values": 0, "observed": 0, "positions": 0, "cells": 0}


def zeros_after(array: Any, axis: int, size: int) -> Any:
    """The array with zeros up to `size` along `axis`; an array on the host stays there."""
    missing = size - array.shape[axis]
    if not missing:
        return array
    widths = [(0, missing if place == axis else 0) for place in range(array.ndim)]
    return (np if isinstance(array, np.ndarray) else jnp).pad(array, widths)


def unpadded(tree: Any, entities: int) -> Any:
    """The tree with only the first `entities` in each array of entities: what was given to `padded`."""

    def first(path: Any, leaf: Any) -> Any:
        axis = entity_axis(path)
        return leaf if axis is None else _first(leaf, axis, entities)

    return jax.tree_util.tree_map_with_path(first, tree)


@struct.dataclass
class PaddedEncoding:
    """A model's encoding with zeros after the last entity, as compiled functions return equal parts.

    An axis that has N entries by chance is treated as one of entities; the zeros are taken off again.

    Attributes:
      arrays: like the model's.
      axes: the axis of the entities in each of them; None if it has none.
      entities, rows: without and with the zeros.
    """

    arrays: Any
    axes: tuple[int | None, ...] = struct.field(pytree_node=False)
    entities: int = struct.field(pytree_node=False)
    rows: int = struct.field(pytree_node=False)

    @classmethod
    def of(cls, encoded: Any, entities: int, rows: int) -> "PaddedEncoding":
        """`encoded` of N entities, with as many rows as the stored tables have."""
        arrays, structure = jax.tree.flatten(encoded)
        axes = tuple(array.shape.index(entities) if entities in array.shape else None for array in arrays)
        pairs = zip(arrays, axes, strict=True)
        padded = [array if axis is None else zeros_after(array, axis, rows) for array, axis in pairs]
        return cls(jax.tree.unflatten(structure, padded), axes, entities, rows)

    def unpadded(self) -> Any:
        """The model's own encoding."""
        arrays, structure = jax.tree.flatten(self.arrays)
        pairs = zip(arrays, self.axes, strict=True)
        first = [array if axis is None else _first(array, axis, self.entities) for array, axis in pairs]
        return jax.tree.unflatten(structure, first)


def _first(array: Any, axis: int, size: int) -> Any:
    return array if array.shape[axis] == size else lax.slice_in_dim(array, 0, size, axis=axis)


def is_per_entity(path: Any) -> bool:
    """Whether the array at `path` in a tree of parameters or an optimiser's state has one row per entity."""
    return getattr(path[-1], "key", None) in PER_ENTITY


def entity_axis(path: Any) -> int | None:
    """The axis of the entities of the array at `path` in a state, literals or a batch; None: it has none."""
    return 0 if is_per_entity(path) else ENTITY_AXES.get(getattr(path[-1], "name", ""))
