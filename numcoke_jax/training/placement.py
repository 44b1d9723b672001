"""Where the arrays of a run are: a mesh of devices with the axes `data` and `entity`.

`mesh.data` x `mesh.entity` devices take part.  Arrays with one row per entity (tables, their optimiser's
moments, literals) are cut over `entity`, the queries of a step over `data`, labels over both; everything
else is on every device.  XLA's partitioner inserts the communication between the devices, so the model's
code is the same on one device, where the mesh is 1 x 1.

If `mesh.entity` does not divide the N entities, these arrays are stored with rows of zeros after the last
entity (`Placement.padded`).  Compiled functions take them off first (`unpadded`): a model, its loss and its
optimiser see N rows, which XLA cuts into parts of unequal size.  One cost remains: ranking then has its
filter, one byte per (head of a chunk, entity), whole on every device.

With several processes every process calls the same functions in the same order; each builds only its own
share of a batch.
"""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from ml_collections import ConfigDict

from numcoke_jax.data.batches import Batch, TrainBatches
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.padding import entity_axis, is_per_entity, zeros_after
from numcoke_jax.system.errors import UserError

AXES = ("data", "entity")


@dataclasses.dataclass(frozen=True)
class Placement:
    """The devices of a run, and which part of an array each of them has.

    Attributes:
      mesh: with the axes `AXES`.
    """

    mesh: Mesh

    @property
    def shape(self) -> tuple[int, int]:
        """Devices along `data` and along `entity`."""
        return self.mesh.shape["data"], self.mesh.shape["entity"]

    def sharding(self, *axes: str | None) -> NamedSharding:
        """Cut the leading dimensions over these axes of the mesh (None: not cut), copy the others."""
        return NamedSharding(self.mesh, PartitionSpec(*axes))

    def of_tree(self, abstract: Any) -> Any:
        """The sharding of every array of a training state, or of parameters."""

        def place(path: Any, _: Any) -> NamedSharding:
            return self.sharding("entity") if is_per_entity(path) else self.sharding()

        return jax.tree_util.tree_map_with_path(place, abstract)

    def padded(self, tree: Any) -> Any:
        """The tree, with zeros after the last entity of each array of entities, in parts of equal size."""

        def pad(path: Any, leaf: Any) -> Any:
            axis, parts = entity_axis(path), self.shape[1]
            return leaf if axis is None else zeros_after(leaf, axis, -(-leaf.shape[axis] // parts) * parts)

        return jax.tree_util.tree_map_with_path(pad, tree)

    def literals(self, literals: Literals) -> Literals:
        """The literals on the devices of their entities; facts are on all."""
        literals = self.padded(literals)
        rows = {
            field.name: getattr(literals, field.name)
            for field in dataclasses.fields(literals)
            if field.name != "facts"
        }
        placed = {
            name: _put(part, self.sharding("entity")) for name, part in rows.items() if part is not None
        }
        facts = None if literals.facts is None else _put(literals.facts, self.sharding())
        return dataclasses.replace(literals, **placed, facts=facts)

    def batch(self, batches: TrainBatches, step: int) -> Batch:
        """The batch of a step on the devices; this process builds only the queries of its own devices."""
        size = batches.relations_per_step, batches.heads_per_relation
        share = own_part(self.sharding(None, "data"), size, axis=1)
        return self.place(batches.batch(step, heads=share), share, size[1])

    def place(self, batch: Batch, share: slice, heads: int) -> Batch:
        """A batch on the devices; this process has built `share` of the H = `heads` queries per slot."""
        queries = functools.partial(
            _put, sharding=self.sharding(None, "data"), axis=1, share=share, size=heads
        )
        # Sampled entities are few and differ in each step: the pairs are cut over their queries only.
        entity = "entity" if batch.entities is None else None
        batch = self.padded(batch) if batch.entities is None else batch
        pairs = functools.partial(queries, sharding=self.sharding(None, "data", entity))
        return Batch(
            relations=_put(batch.relations, self.sharding()),
            heads=queries(batch.heads),
            mask=queries(batch.mask),
            labels=pairs(batch.labels),
            negatives=pairs(batch.negatives),
            entities=None if batch.entities is None else _put(batch.entities, self.sharding()),
        )


def placement_for(mesh: ConfigDict) -> Placement:
    """The placement on the devices that `config.mesh` asks for.

    Raises:
      UserError: there are fewer devices, or several processes of which some would have nothing to do.
    """
    return _placement(mesh.data, mesh.entity)


@functools.lru_cache(maxsize=4)
def _placement(data: int, entity: int) -> Placement:
    wanted, devices = data * entity, jax.devices()
    asked = f"mesh.data={data} times mesh.entity={entity}"
    if wanted > len(devices):
        raise UserError(f"{asked} needs {wanted} devices, found {len(devices)}: set both to fit")
    if jax.process_count() > 1 and wanted < len(devices):
        raise UserError(
            f"{asked} leaves devices of {jax.process_count()} processes idle: their product must be all "
            f"{len(devices)} devices"
        )
    return Placement(Mesh(np.array(devices[:wanted]).reshape(data, entity), AXES))


def check_sizes(placement: Placement, *, heads: int) -> None:
    """Raise UserError unless the H heads per relation slot can be cut into equal parts."""
    data, _ = placement.shape
    if heads % data:
        raise UserError(
            f"mesh.data={data} must divide the {heads} queries of a relation slot (train.batch_size over "
            "train.relations_per_step): choose other sizes"
        )


def own_part(sharding: NamedSharding, shape: tuple[int, ...], *, axis: int) -> slice:
    """The range along `axis` that the devices of this process hold."""
    places = sharding.addressable_devices_indices_map(shape).values()
    parts = [index[axis].indices(shape[axis]) for index in places if index is not None]
    return slice(min(start for start, _, _ in parts), max(stop for _, stop, _ in parts))


def _put(
    array: Any, sharding: NamedSharding, *, axis: int = 0, share: slice | None = None, size: int | None = None
) -> jax.Array:
    """A global array of which this process holds `share` along `axis`, of `size` in all (None: the whole)."""
    if jax.process_count() == 1:
        return jax.device_put(array, sharding)
    local, shape, first = np.asarray(array), list(np.shape(array)), 0
    if share is not None and size is not None:
        shape[axis], first = size, share.start

    def part(index: tuple[slice, ...] | None) -> np.ndarray:
        if not index:  # a scalar
            return local
        start, stop, _ = index[axis].indices(shape[axis])
        return local[(*index[:axis], slice(start - first, stop - first), *index[axis + 1 :])]

    return jax.make_array_from_callback(tuple(shape), sharding, part)
