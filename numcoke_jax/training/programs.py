"""The compiled functions of a run, shared by all runs of a process whose settings need the same ones.

Seeds, data of the same sizes, validation and checkpoints do not change what is compiled: five seeds of one
config compile once.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from numcoke_jax.config.checks import flatten
from numcoke_jax.config.schema import KEYS
from numcoke_jax.data.batches import Batch
from numcoke_jax.data.literals import Literals
from numcoke_jax.models import MODELS, GraphSizes, create_model
from numcoke_jax.models.interface import KnowledgeModel
from numcoke_jax.models.padding import unpadded
from numcoke_jax.system import random_streams
from numcoke_jax.system.compiled import kept_trace
from numcoke_jax.training.losses.objective import Objective
from numcoke_jax.training.placement import Placement, placement_for
from numcoke_jax.training.step import TrainState, create_optimizer, create_state, initial_params, train_step


@dataclasses.dataclass(frozen=True)
class Programs:
    """What a config's model and optimiser compute.

    Attributes:
      settings: what they depend on besides the shapes of arrays, as text.
      shapes: that of the arrays, as text.
      model: the model.
      step_model: the same for as many entities as a step works on; shares the parameters' names.
      objective: its training loss.
      placement: where arrays are.
      abstract_state: shapes, dtypes and places of the state, without its values.
      create_state: (literals, *, key) -> fresh state, jitted.
      step: (state, batch, literals) -> (state, loss of the step), jitted; the state is donated.  The loss is
        NaN once a loss or gradient of this or an earlier step was not finite.
    """

    settings: str
    shapes: str
    model: KnowledgeModel
    step_model: KnowledgeModel
    objective: Objective
    placement: Placement
    abstract_state: TrainState
    create_state: jax.stages.Wrapped
    step: jax.stages.Wrapped


def programs_for(
    config: ConfigDict, sizes: GraphSizes, total_steps: int, *, entities_per_step: int
) -> Programs:
    """The functions for a checked config on a graph of these sizes; built once for equal settings."""
    relevant = {key: value for key, value in flatten(config).items() if KEYS[key].compiled}
    end = 0 if config.train.schedule == "constant" else total_steps
    return _programs(
        _Settings((*relevant.items(), ("total_steps", end)), config, total_steps), sizes, entities_per_step
    )


@dataclasses.dataclass(frozen=True)
class _Settings:
    """A config that equals another if both need the same functions."""

    relevant: tuple[tuple[str, object], ...]
    config: ConfigDict = dataclasses.field(compare=False)
    total_steps: int = dataclasses.field(compare=False)


@functools.lru_cache(maxsize=4)
def _programs(settings: _Settings, sizes: GraphSizes, entities_per_step: int) -> Programs:
    config = settings.config
    model, objective = create_model(config, sizes), create_objective(config)
    step_model = create_model(config, dataclasses.replace(sizes, entities=entities_per_step))
    fitted = MODELS[config.model.name].fitted  # no moments to keep, and the step is never compiled
    optimizer = optax.identity() if fitted else create_optimizer(config.train, settings.total_steps)
    placement = placement_for(config.mesh)

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        depends = function.__name__, settings.relevant, sizes, entities_per_step
        return kept_trace(function, repr(depends)) if placement.mesh.size == 1 else function

    @keep
    def new_params(literals: Literals, key: Key[Array, ""]) -> Any:
        return initial_params(model, unpadded(literals, sizes.entities), key=key)

    def new_state(literals: Literals, *, key: Key[Array, ""]) -> TrainState:
        return placement.padded(create_state(new_params(literals, key), optimizer, key=key))

    abstract_state = _abstract_state(new_state, _abstract_literals(config, sizes, placement), placement)
    places = jax.tree.map(lambda leaf: leaf.sharding, abstract_state)

    @keep
    def stepped(state: TrainState, batch: Batch, literals: Literals) -> tuple[list[Any], jax.Array]:
        update = functools.partial(
            train_step, model=step_model, optimizer=optimizer, loss_fn=objective.losses_and_statistics
        )
        if batch.entities is None:
            state, loss = update(*unpadded((state, batch, literals), sizes.entities))
            state = placement.padded(state)
        else:  # the sampled rows are taken from the tables as they are: no cost may grow with N
            state, loss = update(state, batch, literals)
        loss = jnp.where(state.losses.first_nonfinite_step < 0, loss, jnp.nan)
        return jax.tree.leaves(state), loss

    def step(state: TrainState, batch: Batch, literals: Literals) -> tuple[TrainState, jax.Array]:
        leaves, loss = stepped(state, batch, literals)
        return jax.tree.unflatten(jax.tree.structure(abstract_state), leaves), loss

    # It runs once: on the CPU, optimising the code of the many random draws takes longer than drawing.
    options = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    return Programs(
        settings=repr(settings.relevant),
        shapes=repr((sizes, entities_per_step)),
        model=model,
        step_model=step_model,
        objective=objective,
        placement=placement,
        abstract_state=abstract_state,
        create_state=jax.jit(new_state, compiler_options=options, out_shardings=places),
        step=jax.jit(step, donate_argnums=0, out_shardings=(places, placement.sharding())),
    )


def create_objective(config: ConfigDict) -> Objective:
    """The objective that `config` describes for `config.model.name`."""
    second_loss = MODELS[config.model.name].second_loss
    weight = config.okcl.weight if second_loss else 0.0
    return Objective(
        loss=config.train.loss,
        label_smoothing=config.train.label_smoothing,
        unknown_weight=config.train.unknown_weight,
        contrastive=second_loss(config) if second_loss and weight else None,
        contrastive_weight=weight,
    )


def _abstract_literals(config: ConfigDict, sizes: GraphSizes, placement: Placement) -> Literals:
    """Literals of a graph as they are placed, as far as the shapes of a model's parameters depend on them."""
    parts, place = placement.shape[1], placement.sharding("entity")
    shape = (-(-sizes.entities // parts) * parts, sizes.fields)
    values = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=place)
    observed = jax.ShapeDtypeStruct(shape, jnp.bool, sharding=place)
    facts = jax.ShapeDtypeStruct((1, 3), jnp.int32) if MODELS[config.model.name].reads_facts else None
    return Literals(values=values, observed=observed, positions=values, facts=facts)


def _abstract_state(
    new_state: Callable[..., TrainState], literals: Literals, placement: Placement
) -> TrainState:
    key = jax.eval_shape(lambda: random_streams.base_key(0))
    # Jitted, it is traced here for `create_state` as well.
    abstract = jax.eval_shape(jax.jit(new_state), literals, key=key)
    return jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        abstract,
        placement.of_tree(abstract),
    )
