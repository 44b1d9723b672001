"""The rows of the entity tables that a step touches, taken out and put back.

If a batch names its entities, a step takes their rows out of the tables: out of the parameters with one row
per entity, the optimiser's moments of these, and the literals.  It is then an ordinary step on a graph of
that many entities, and the rows are put back.  Neither its time nor its memory depends on N.

For Adam this means the lazy form.  The moments of a row decay only in the steps that touch it, by the same
factors as if the other steps had not happened; the correction of their bias counts all steps, as it does for
the other parameters.  A row that a step does not touch stays where it was; dense Adam would keep moving it by
what its moments remember.  Weight decay of "adamw" and a gradient norm to be clipped are those of the touched
rows.

A row that is first touched late takes a large first step.  Its moments are those of one gradient g,
(1 - b1) g and (1 - b2) g^2, and the correction of a late step no longer scales them up: the row moves by
(1 - b1) / sqrt(1 - b2) = 3.2 times the learning rate, where the first step of a run moves it by the rate.
This is left so: a count of steps for each row would be one more table to store and to divide over devices.
"""

from typing import Any

import jax
from jaxtyping import Array, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.padding import is_per_entity


def take_rows(tree: Any, entities: Int[Array, " E"]) -> Any:
    """The tree with the rows [E, ...] of these entities in each entity table; other leaves unchanged.

    Args:
      tree: parameters, or an optimiser's state with trees of their shape in it.
      entities: distinct ids, ascending.
    """

    def take(path: Any, leaf: Array) -> Array:
        return _rows(leaf, entities) if is_per_entity(path) else leaf

    return jax.tree_util.tree_map_with_path(take, tree)


def put_rows(tree: Any, part: Any, entities: Int[Array, " E"]) -> Any:
    """`part`, with the rows of its entity tables written into the whole tables of `tree`."""

    def put(path: Any, leaf: Array, rows: Array) -> Array:
        if not is_per_entity(path):
            return rows
        places = leaf.at[entities]
        return places.set(rows, mode="promise_in_bounds", unique_indices=True, indices_are_sorted=True)

    return jax.tree_util.tree_map_with_path(put, tree, part)


def literals_of(literals: Literals, entities: Int[Array, " E"]) -> Literals:
    """The literals of some entities."""
    return jax.tree.map(lambda table: _rows(table, entities), literals)


def _rows(table: Array, entities: Int[Array, " E"]) -> Array:
    return table.at[entities].get(mode="promise_in_bounds", unique_indices=True, indices_are_sorted=True)
