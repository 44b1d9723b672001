"""Small orders that the tests of the references share."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals
from tests import graphs


def graph_of(
    train: list[tuple[int, int, int]],
    values: np.ndarray,
    *,
    relations: int = 1,
    valid: list[tuple[int, int, int]] | None = None,
) -> NumericGraph:
    """A graph of these facts; `values` is [N, M] with NaN where missing."""
    names = graphs.numbered(len(values), relations, values.shape[1])
    return graphs.graph_of(names, train, valid or (), values=values)


def random_order(
    rng: np.random.Generator, *, nodes: int, missing: float, share: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values from 0 to 1, NaN where missing, and the heads and tails of facts that agree with them."""
    values = rng.permutation(nodes) / nodes + 0.5 / nodes
    heads, tails = np.nonzero((values[:, None] > values) & (rng.random((nodes, nodes)) < share))
    return np.where(rng.random(nodes) < missing, np.nan, values), heads, tails


def literals_of(graph: NumericGraph, positions: np.ndarray) -> Literals:
    """What a model sees of quantiles [N, M], NaN where missing."""
    return Literals(
        values=jnp.zeros(positions.shape, jnp.float32),
        observed=jnp.asarray(graph.observed),
        positions=jnp.asarray(np.nan_to_num(positions), jnp.float32),
    )


def parameters(fitted: Any) -> dict[str, Any]:
    """What `fit` returned, as a run has it."""
    return {"params": jax.tree.map(lambda array: jnp.asarray(array, jnp.float32), fitted)}
