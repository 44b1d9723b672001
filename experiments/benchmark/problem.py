"""A training step of given sizes on random numbers: what the benchmarks time."""

import argparse
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config
from numcoke_jax.data.batches import Batch, entities_per_step, own_tail_limit, step_entities
from numcoke_jax.data.literals import Literals
from numcoke_jax.models import GraphSizes
from numcoke_jax.system import random_streams
from numcoke_jax.system.errors import UserError
from numcoke_jax.training.placement import check_sizes
from numcoke_jax.training.programs import programs_for
from numcoke_jax.training.step import TrainState

RELATIONS = 8
DEFAULTS = {"entities": 300, "fields": 20, "dim": 200, "queries": 256, "relations": 4}
MESH = ("mesh_data", "mesh_entity")
TAIL_SHARE = 0.2  # share of the entities that are tails of a query, if all are scored


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What a step has to do, and on how many devices.

    N, M, d (= a), queries per step, relation slots they share, sampled candidates (0: all entities); devices
    that share the queries, devices that share the entities.
    """

    entities: int
    fields: int
    dim: int
    queries: int
    relations: int
    candidates: int = 0
    mesh_data: int = 1
    mesh_entity: int = 1

    @property
    def columns(self) -> int:
        """E, the entities that a step works on: with one tail per query if candidates are sampled."""
        if not self.candidates:
            return self.entities
        limit = own_tail_limit(self.candidates, self.queries, 1, 1)
        return entities_per_step(self.candidates, self.queries, limit, self.entities)


def add_sizes(parser: argparse.ArgumentParser, **defaults: int) -> None:
    """The arguments that `sizes_of` reads."""
    for name, value in (DEFAULTS | defaults).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--candidates", type=int, default=0, help="train.candidates; 0 scores all entities")


def add_mesh(parser: argparse.ArgumentParser) -> None:
    """The arguments --mesh-data and --mesh-entity, which `sizes_of` reads too."""
    parser.add_argument("--mesh-data", type=int, default=1, help="mesh.data: devices that share the queries")
    parser.add_argument(
        "--mesh-entity", type=int, default=1, help="mesh.entity: devices that share the entities"
    )


def sizes_of(options: argparse.Namespace) -> Sizes:
    """The sizes that were asked for; raises UserError for impossible ones."""
    mesh = {name: value for name, value in vars(options).items() if name in MESH}
    for name, value in ({name: getattr(options, name) for name in DEFAULTS} | mesh).items():
        if value < 1:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag}={value} is out of range: needs an integer >= 1")
    if options.candidates < 0:
        raise UserError(f"--candidates={options.candidates} is out of range: needs an integer >= 0")
    if options.queries % options.relations:
        raise UserError(f"--queries={options.queries} must be a multiple of --relations={options.relations}")
    sizes = Sizes(**{name: getattr(options, name) for name in (*DEFAULTS, "candidates")}, **mesh)
    if sizes.candidates:
        sizes.columns  # noqa: B018  (raises if there are too few entities)
    return sizes


def config_of(sizes: Sizes, preset: str) -> ConfigDict:
    """The config of a preset at these sizes."""
    config = default_config()
    apply_preset(config, preset)
    config.model.dim = config.model.attribute_dim = sizes.dim
    config.mesh.data, config.mesh.entity = sizes.mesh_data, sizes.mesh_entity
    return config


def random_literals(sizes: Sizes) -> Literals:
    """Uniform values, four in five of them observed."""
    generator = np.random.default_rng(0)
    shape = sizes.entities, sizes.fields
    values = generator.random(shape, np.float32)
    return Literals(
        values=jnp.asarray(values),
        observed=jnp.asarray(generator.random(shape, np.float32) < 0.8),
        positions=jnp.asarray(values),
    )


def random_batch(sizes: Sizes, *, seed: int) -> Batch:
    """Random queries with few negatives; a fifth of all entities are tails, with candidates just one."""
    generator = np.random.default_rng(seed)
    shape = sizes.relations, sizes.queries // sizes.relations
    heads = generator.integers(0, sizes.entities, shape)
    relations = jnp.asarray(generator.integers(0, RELATIONS, sizes.relations), jnp.int32)
    if sizes.candidates:
        tails = generator.integers(0, sizes.entities, shape)
        entities = step_entities(
            heads.ravel(),
            tails.ravel(),
            np.empty(0, np.int32),  # known-false tails do not change the work
            negative_limit=0,
            tail_limit=own_tail_limit(sizes.candidates, sizes.queries, 1, 1),
            size=sizes.columns,
            num_entities=sizes.entities,
            seed=(seed, 1),
        )
        heads, labels = np.searchsorted(entities, heads), entities == tails[..., None]
    else:
        entities, labels = None, generator.random((*shape, sizes.entities)) < TAIL_SHARE
    negatives = (generator.random(labels.shape) < 5 / sizes.columns) & ~labels
    return Batch(
        relations=relations,
        heads=jnp.asarray(heads, jnp.int32),
        mask=jnp.ones(shape, bool),
        labels=jnp.asarray(labels),
        negatives=jnp.asarray(negatives),
        entities=None if entities is None else jnp.asarray(entities),
    )


class Step:
    """A compiled training step, called repeatedly on its own state.

    Args:
      sizes: of the problem.
      preset: "paper" or "numeric".
      products: `model.products`.
    """

    def __init__(self, sizes: Sizes, preset: str, products: str = "float32") -> None:
        config, heads = config_of(sizes, preset), sizes.queries // sizes.relations
        config.model.products = products
        programs = programs_for(
            config,
            GraphSizes(sizes.entities, RELATIONS, sizes.fields),
            1,
            entities_per_step=sizes.columns,
        )
        check_sizes(programs.placement, heads=heads)
        self.literals = programs.placement.literals(random_literals(sizes))
        self.batch = programs.placement.place(random_batch(sizes, seed=1), slice(0, heads), heads)
        self.state: TrainState = programs.create_state(self.literals, key=random_streams.base_key(0))
        self.compiled: Any = programs.step.lower(self.state, self.batch, self.literals).compile()

    def __call__(self) -> jax.Array:
        """Run one step to its end and return its loss."""
        self.state, loss = self.compiled(self.state, self.batch, self.literals)
        jax.block_until_ready(self.state.params)
        return loss

    def temporary_bytes(self) -> int | None:
        """Memory of the compiled step on top of its arguments and results; None if not known."""
        return getattr(self.compiled.memory_analysis(), "temp_size_in_bytes", None)

    def state_bytes(self) -> int:
        """Memory of the parameters and the optimiser's moments on one device."""
        arrays = jax.tree.leaves((self.state.params, self.state.opt_state))
        return sum(array.addressable_shards[0].data.nbytes for array in arrays)
