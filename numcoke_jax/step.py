"""The training state and one pure step on it: loss, gradients, update."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jaxtyping import Array, Float, Int, Key

from numcoke_jax import prng
from numcoke_jax.batches import Batch
from numcoke_jax.losses.objective import Objective
from numcoke_jax.models.interface import KnowledgeModel
from numcoke_jax.models.numeric_embedding import Literals


class LossSums(struct.PyTreeNode):
    """Losses of an epoch so far, as sums and counts; on the device until the epoch ends."""

    bce_sum: Float[Array, ""]
    bce_count: Float[Array, ""]
    contrastive_sum: Float[Array, ""]
    contrastive_count: Float[Array, ""]
    first_nonfinite_step: Int[Array, ""]  # -1: every loss and gradient so far was finite

    @classmethod
    def zero(cls) -> "LossSums":
        """Nothing summed yet."""
        sums = ("bce_sum", "bce_count", "contrastive_sum", "contrastive_count")
        zeros = {name: jnp.zeros((), jnp.float32) for name in sums}  # one buffer each: states are donated
        return cls(**zeros, first_nonfinite_step=jnp.full((), -1, jnp.int32))


class TrainState(struct.PyTreeNode):
    """All that training changes; a checkpoint holds it whole, so a resumed run is the straight run."""

    step: Int[Array, ""]  # int32, steps done
    params: Any
    opt_state: optax.OptState
    key: Key[Array, ""]  # base key; never changes
    losses: LossSums


def create_state(
    model: KnowledgeModel, optimizer: optax.GradientTransformation, literals: Literals, *, key: Key[Array, ""]
) -> TrainState:
    """A fresh state; parameters come from the stream "params" of the base key.  Works under jit."""
    one = jnp.zeros((1,), jnp.int32)
    variables = model.init(prng.stream(key, "params"), one, one[:, None], literals, train=False)
    params = variables["params"]
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
    objective: Objective,
) -> tuple[TrainState, Float[Array, ""]]:
    """One update: a pure function of its arguments; jit it with the keyword arguments bound.

    Returns the new state and the total loss of this batch, before the update.
    """
    key = prng.step_key(state.key, state.step)
    gradient = jax.value_and_grad(objective.losses, has_aux=True)
    (total, terms), gradients = gradient(state.params, batch, literals, model=model, key=key)
    updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
    finite = jnp.isfinite(total) & jnp.isfinite(optax.tree.norm(gradients))
    state = state.replace(
        step=state.step + 1,
        params=optax.apply_updates(state.params, updates),
        opt_state=opt_state,
        losses=_add_losses(state.losses, terms, finite, state.step),
    )
    return state, total


def _add_losses(losses: LossSums, terms: dict, finite: Array, step: Array) -> LossSums:
    zero = jnp.zeros((), jnp.float32)
    bce_sum, bce_count = terms["bce"]
    contrastive_sum, contrastive_count = terms.get("contrastive", (zero, zero))
    still_finite = finite | (losses.first_nonfinite_step >= 0)
    return LossSums(
        bce_sum=losses.bce_sum + bce_sum,
        bce_count=losses.bce_count + bce_count,
        contrastive_sum=losses.contrastive_sum + contrastive_sum,
        contrastive_count=losses.contrastive_count + contrastive_count,
        first_nonfinite_step=jnp.where(still_finite, losses.first_nonfinite_step, step),
    )
