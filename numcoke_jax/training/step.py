"""The training state and one pure step on it: loss, gradients, update.

The optax chain that `config.train` describes.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Key
from ml_collections import ConfigDict

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.batch_norm import with_statistics
from numcoke_jax.models.interface import KnowledgeModel, SumAndCount
from numcoke_jax.system import random_streams
from numcoke_jax.training.touched_rows import literals_of, put_rows, take_rows

# (params, batch, literals, *, model, key) -> the total, and (each term, running statistics): what
# `Objective.losses_and_statistics` is
LossFn = Callable[..., tuple[Float[Array, ""], tuple[dict[str, SumAndCount], Any]]]
# What a step watches: the terms of the loss, their weighted sum, the norm of the gradient.
PARTS = ("bce", "contrastive", "total", "gradient")


class LossSums(struct.PyTreeNode):
    """Losses of an epoch so far, as sums and counts; on the device until the epoch ends.

    `bce` is the loss of the triples, whatever `train.loss` says it is; checkpoints have it by this name.
    """

    # Scalars, or their abstract shapes when a checkpoint is restored.
    bce_sum: Any  # float32
    bce_count: Any  # float32
    contrastive_sum: Any  # float32
    contrastive_count: Any  # float32
    first_nonfinite_step: Any  # int32; -1: every loss and gradient so far was finite
    nonfinite_parts: Any  # int32, of that step: bit i for `PARTS[i]`

    @classmethod
    def zero(cls) -> "LossSums":
        """Nothing summed yet."""
        sums = ("bce_sum", "bce_count", "contrastive_sum", "contrastive_count")
        zeros = {name: jnp.zeros((), jnp.float32) for name in sums}  # one buffer each: states are donated
        none = jnp.full((), -1, jnp.int32)
        return cls(**zeros, first_nonfinite_step=none, nonfinite_parts=jnp.zeros((), jnp.int32))


class TrainState(struct.PyTreeNode):
    """Everything that training changes; a checkpoint holds it all, so resuming does not change a run."""

    # Arrays, or their abstract shapes when a checkpoint is restored.
    step: Any  # int32 scalar, steps done
    params: Any
    opt_state: optax.OptState
    key: Any  # typed base key; never changes
    losses: LossSums


def initial_params(model: KnowledgeModel, literals: Literals, *, key: Key[Array, ""]) -> Any:
    """Parameters from the stream "params" of the base key, as nested dicts of arrays.  Works under jit."""
    one = jnp.zeros((1,), jnp.int32)
    variables = model.init(random_streams.stream(key, "params"), one, one[:, None], literals, train=False)
    return variables["params"]


def create_state(params: Any, optimizer: optax.GradientTransformation, *, key: Key[Array, ""]) -> TrainState:
    """The state before the first step, with these parameters and the base key.  Works under jit."""
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        key=key,
        losses=LossSums.zero(),
    )


def train_step(
    state: TrainState,
    batch: Batch,
    literals: Literals,
    *,
    model: KnowledgeModel,
    optimizer: optax.GradientTransformation,
    loss_fn: LossFn,
) -> tuple[TrainState, Float[Array, ""]]:
    """One update: a pure function of its arguments; jit it with the keyword arguments bound.

    Args:
      state: before the update.
      batch: the batch of the step.  If it names its entities, rows of others are neither read nor changed
        (`training/touched_rows.py`).
      literals: those of all entities.
      model: for as many entities as the step works on.
      optimizer: of the state.
      loss_fn: what is minimised.

    Returns:
      The new state and the total loss of this batch, before the update.
    """
    if batch.entities is not None:
        tables = {"params": state.params, "opt_state": state.opt_state}
        part = state.replace(**take_rows(tables, batch.entities))
        inputs = dataclasses.replace(batch, entities=None), literals_of(literals, batch.entities)
        part, total = train_step(part, *inputs, model=model, optimizer=optimizer, loss_fn=loss_fn)
        rows = {"params": part.params, "opt_state": part.opt_state}
        return part.replace(**put_rows(tables, rows, batch.entities)), total
    key = random_streams.step_key(state.key, state.step)
    gradient = jax.value_and_grad(loss_fn, has_aux=True)
    (total, (terms, statistics)), gradients = gradient(state.params, batch, literals, model=model, key=key)
    updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
    watched = {"total": total, "gradient": jnp.where(_squares_are_finite(gradients), 0.0, jnp.nan)}
    parts = _nonfinite_parts(watched | {name: summed for name, (summed, _) in terms.items()})
    state = state.replace(
        step=state.step + 1,
        params=with_statistics(optax.apply_updates(state.params, updates), statistics),
        opt_state=opt_state,
        losses=_add_losses(state.losses, terms, parts, state.step),
    )
    return state, total


def loss_inputs(params: Any, batch: Batch, literals: Literals) -> tuple[Any, Literals]:
    """The parameters and literals that the loss of a batch is computed from."""
    if batch.entities is None:
        return params, literals
    return take_rows(params, batch.entities), literals_of(literals, batch.entities)


def _squares_are_finite(tree: Any) -> Bool[Array, ""]:
    """Whether every entry can be squared: where Adam's second moment is infinite, a parameter stands still.

    The norm would show it too, but at many times the cost on the CPU.
    """
    finite = (jnp.isfinite(jnp.square(leaf)).all() for leaf in jax.tree.leaves(tree))
    return functools.reduce(jnp.logical_and, finite)


def _nonfinite_parts(watched: dict[str, Array]) -> Int[Array, ""]:
    """Bit i is set if the number called `PARTS[i]` is NaN or infinite."""
    bits = jnp.zeros((), jnp.int32)
    for bit, name in enumerate(PARTS):
        if name in watched:
            bits = bits | jnp.where(jnp.isfinite(watched[name]), 0, 1 << bit)
    return bits


def _add_losses(losses: LossSums, terms: dict, parts: Array, step: Array) -> LossSums:
    zero = jnp.zeros((), jnp.float32)
    bce_sum, bce_count = terms["bce"]
    contrastive_sum, contrastive_count = terms.get("contrastive", (zero, zero))
    first = (parts != 0) & (losses.first_nonfinite_step < 0)
    return LossSums(
        bce_sum=losses.bce_sum + bce_sum,
        bce_count=losses.bce_count + bce_count,
        contrastive_sum=losses.contrastive_sum + contrastive_sum,
        contrastive_count=losses.contrastive_count + contrastive_count,
        first_nonfinite_step=jnp.where(first, step, losses.first_nonfinite_step),
        nonfinite_parts=jnp.where(first, parts, losses.nonfinite_parts),
    )


def learning_rate_schedule(train: ConfigDict, total_steps: int) -> optax.Schedule:
    """step -> learning rate: linear warm-up from 0, then constant or a cosine down to 0 at `total_steps`."""
    rest = max(total_steps - train.warmup_steps, 1)
    if train.schedule == "cosine":
        main = optax.cosine_decay_schedule(train.learning_rate, rest)
    else:
        main = optax.constant_schedule(train.learning_rate)
    if not train.warmup_steps:
        return main
    warmup = optax.linear_schedule(0.0, train.learning_rate, train.warmup_steps)
    return optax.join_schedules([warmup, main], [train.warmup_steps])


def create_optimizer(train: ConfigDict, total_steps: int) -> optax.GradientTransformation:
    """Adam or AdamW on the schedule, behind an optional clip of the global gradient norm."""
    schedule = learning_rate_schedule(train, total_steps)
    if train.optimizer == "adamw":
        update = optax.adamw(schedule, weight_decay=train.weight_decay)
    else:
        update = optax.adam(schedule)
    if not train.clip_norm:
        return update
    return optax.chain(optax.clip_by_global_norm(train.clip_norm), update)
