"""What to say when a loss or gradient is not finite: the step, the part, the learning rate, the module.

With `train.debug_nans` the loss of the step is computed once more, operation by operation, on the state
before it.  Every method of every module is watched, forward and backward, for the first number that is not
finite.
"""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array

from numcoke_jax.data.batches import Batch
from numcoke_jax.models.padding import unpadded
from numcoke_jax.runs.checkpoints import nonfinite_arrays
from numcoke_jax.runs.run import Run
from numcoke_jax.system import random_streams
from numcoke_jax.system.errors import first_of
from numcoke_jax.training.step import PARTS, LossSums, TrainState, learning_rate_schedule, loss_inputs

PART_NAMES = {
    "bce": "the BCE loss",
    "cross_entropy": "the cross-entropy",
    "contrastive": "the contrastive loss",
    "total": "the total loss",
    "gradient": "the norm of the gradient",
}
MAX_NAMED = 3  # arrays listed


def divergence(run: Run, losses: LossSums, kept: str) -> FloatingPointError:
    """The error for the first step of `losses` that was not finite; `kept` says which checkpoint is left."""
    step, bits = int(losses.first_nonfinite_step), int(losses.nonfinite_parts)
    found = [name for bit, name in enumerate(PARTS) if bits & (1 << bit)]
    parts = [PART_NAMES[run.config.train.loss if name == "bce" else name] for name in found]
    named = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return FloatingPointError(
        f"step {step + 1} {context(run, step)}: {named} {'is' if len(parts) == 1 else 'are'} not finite; "
        f"{remedy(run)}; {kept}"
    )


def context(run: Run, step: int) -> str:
    """The epoch and learning rate of the step after `step` steps, in brackets."""
    rate = float(learning_rate_schedule(run.config.train, run.total_steps)(step))
    return f"(epoch {step // run.batches.steps_per_epoch + 1}, learning rate {rate:g})"


def remedy(run: Run) -> str:
    """What may help."""
    remedies = [f"lower train.learning_rate={run.config.train.learning_rate:g}"]
    if not run.config.train.clip_norm:
        remedies.append("set train.clip_norm")
    if not run.config.train.debug_nans:
        remedies.append("find the module with train.debug_nans=true")
    return " or ".join(remedies)


def first_module(run: Run, state: TrainState, batch: Batch) -> str:
    """Which module made the first number that is not finite in the step from `state`, in a few words.

    Args:
      run: the run.
      state: the state before the step, still alive.
      batch: the batch of the step.
    """
    broken = nonfinite_arrays(state.params)
    if broken:
        return f"the parameters were not finite before the step: {first_of(broken, MAX_NAMED)}"
    findings: list[str] = []
    batch = jax.tree.map(jnp.asarray, batch)
    params, literals = state.params, run.literals
    if batch.entities is None:
        params, batch, literals = unpadded((params, batch, literals), run.graph.num_entities)
    inputs, literals = loss_inputs(params, batch, literals)

    def loss(params: Any) -> Array:
        key = random_streams.step_key(state.key, state.step)
        losses = run.programs.objective.losses
        total, terms = losses(params, batch, literals, model=run.programs.step_model, key=key)
        for name, (summed, _) in terms.items():
            _look(summed, f"{PART_NAMES.get(name, name)} itself, from finite encodings and scores", findings)
        return total

    with nn.intercept_methods(_forward_watch(findings)):
        loss(inputs)
    if findings:
        return f"first not finite, forward: {findings[0]}"
    with nn.intercept_methods(_backward_watch(findings)):
        gradients = jax.grad(loss)(inputs)
    if findings:
        return f"first not finite, backward: {findings[0]}"
    broken = nonfinite_arrays(gradients)
    if broken:
        return f"first not finite, backward: the gradient of {first_of(broken, MAX_NAMED)}"
    return "computed operation by operation, everything is finite: only the compiled step overflows"


Interceptor = Callable[[Callable[..., Any], tuple, dict, nn.module.InterceptorContext], Any]


def _forward_watch(findings: list[str]) -> Interceptor:
    def call(method: Callable[..., Any], args: tuple, kwargs: dict, context: Any) -> Any:
        _look((args, kwargs), f"the input of {_place(context)}, computed by the module around it", findings)
        outputs = method(*args, **kwargs)
        _look(outputs, f"the output of {_place(context)}", findings)
        return outputs

    return call


def _backward_watch(findings: list[str]) -> Interceptor:
    def call(method: Callable[..., Any], args: tuple, kwargs: dict, context: Any) -> Any:
        inner = f"the gradient that {_place(context)} passes on to its input"
        outer = f"the gradient that reaches the output of {_place(context)} from what uses it"
        args, kwargs = _watch_gradient((args, kwargs), inner, findings)
        return _watch_gradient(method(*args, **kwargs), outer, findings)

    return call


def _watch_gradient(tree: Any, what: str, findings: list[str]) -> Any:
    @jax.custom_vjp
    def watched(value: Array) -> Array:
        return value

    def backward(_: None, cotangent: Array) -> tuple[Array]:
        _look(cotangent, what, findings)
        return (cotangent,)

    watched.defvjp(lambda value: (value, None), backward)
    return jax.tree.map(lambda leaf: watched(leaf) if _is_float(leaf) else leaf, tree)


def _look(tree: Any, what: str, findings: list[str]) -> None:
    """Note `what` if a number in `tree` is not finite; inside a transformation there are no numbers yet."""
    for leaf in jax.tree.leaves(tree):
        if _is_float(leaf) and not isinstance(leaf, jax.core.Tracer) and not jnp.isfinite(leaf).all():
            findings.append(what)
            return


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)


def _place(context: nn.module.InterceptorContext) -> str:
    module = context.module
    path = "/".join(module.path) or "the model"
    method = "" if context.method_name == "__call__" else f".{context.method_name}"
    return f"{path} ({type(module).__name__}{method})"
