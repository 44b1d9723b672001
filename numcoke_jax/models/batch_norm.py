"""Batch normalisation whose running statistics travel with the parameters.

Source: Ioffe and Szegedy, "Batch Normalization", ICML 2015.  In training, rows are normalised by the mean and
variance of the step's rows; in evaluation, by running averages of these.  The averages are parameter leaves
without a gradient; the step writes them after the optimiser's update (`with_statistics`).  So checkpoints,
ranking and everything else that handles parameters handles them too.
"""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from flax import traverse_util
from jax import lax
from jaxtyping import Array, Float, Int

STATISTICS = "statistics"  # the collection that a step has to write into the parameters
STEP, REAL_QUERIES = "step", "real_queries"  # the collection and variable that a step passes to the model


class BatchNorm(nn.Module):
    """Normalises the last axis (the channels) over all the others.

    Attributes:
      momentum: share of the old running average that a step keeps.
      epsilon: added to the variance.
    """

    momentum: float = 0.9
    epsilon: float = 1e-5

    @nn.compact
    def __call__(
        self, rows: Float[Array, "*shape c"], weights: Float[Array, "*queries"], *, train: bool
    ) -> Float[Array, "*shape c"]:
        """`weights` belong to the leading axes of `rows`: how much each query counts in mean and variance."""
        channels = (rows.shape[-1],)
        scale = self.param("scale", nn.initializers.ones_init(), channels)
        bias = self.param("bias", nn.initializers.zeros_init(), channels)
        running_mean = self.param("running_mean", nn.initializers.zeros_init(), channels)
        running_variance = self.param("running_variance", nn.initializers.ones_init(), channels)
        mean, variance = lax.stop_gradient((running_mean, running_variance))
        if train:
            weights = weights.reshape(weights.shape + (1,) * (rows.ndim - weights.ndim))
            weights = jnp.broadcast_to(weights, (*rows.shape[:-1], 1))
            axes = tuple(range(rows.ndim - 1))
            old = {"running_mean": mean, "running_variance": variance}
            total = jnp.maximum(weights.sum(), 1.0)  # a step of padding alone must not divide by 0
            mean = (weights * rows).sum(axes) / total
            variance = (weights * jnp.square(rows - mean)).sum(axes) / total
            for name, new in (("running_mean", mean), ("running_variance", variance)):
                average = self.momentum * old[name] + (1.0 - self.momentum) * lax.stop_gradient(new)
                self.sow(STATISTICS, name, average, init_fn=lambda: None, reduce_fn=lambda _, last: last)
        return (rows - mean) * lax.rsqrt(variance + self.epsilon) * scale + bias


def real_queries(model: nn.Module, heads: Int[Array, "S H"]) -> Float[Array, "S H"]:
    """1 for the real queries of a step and 0 for its padding; all 1 if the caller of `model` passes no mask.

    It is a variable of the model, because padding matters only to the few models that normalise over queries.
    """
    mask: Array | None = model.get_variable(STEP, REAL_QUERIES)
    return jnp.ones(heads.shape) if mask is None else mask.astype(jnp.zeros(()).dtype)


def with_statistics(params: Any, statistics: Any) -> Any:
    """`params` with the running averages that the model has left in `statistics`."""
    if not statistics:
        return params
    flat = traverse_util.flatten_dict(params)
    written = traverse_util.flatten_dict(statistics)
    return traverse_util.unflatten_dict({path: written.get(path, leaf) for path, leaf in flat.items()})
