"""NEKG's number vectors, those of a graph of numbers, gated into the entities of a translation model.

Source: Duan et al., "Learning Numeracy: A Simple Yet Effective Number Embedding Approach Using Knowledge
Graph", Findings of EMNLP 2021, and its public notebook.

    graph  = (p_0 < p_1), (p_1 < p_2), ..    200 facts "is less than" of evenly spaced prototypes
    p_k, q = TransE of it                    L1, log loss, two corrupted heads and two tails a fact
    psi(x) = (1 - w) p_k + w p_(k+1)         x between prototypes k and k + 1, w its share of the way
    n_i    = mean of psi(x_im) over the observed fields m of i, 0 without any

That paper embeds the numbers of texts.  Here prototypes span the scale of the values, from 0 to 1, and n_i
enters as in `nrn.py`, with the gate and the score of `literale.py`; how the NumCoKE paper joined them is not
told.  The vectors are learned before the first step and then stay; they know nothing of entities or
relations, nor of the field that a number is from.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Float, Key
from ml_collections import ConfigDict

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.models import literale
from numcoke_jax.models.interface import GraphSizes, ModelSpec
from numcoke_jax.models.literale import LiteralE, mean_over_fields

INTERVALS = 200  # between neighbouring prototypes
STEPS, LEARNING_RATE = 1000, 0.02
CORRUPTED = 2  # heads of each fact, and as many tails


class NEKG(LiteralE):
    """LiteralE with the mean vector of an entity's numbers in place of their raw row."""

    def setup(self) -> None:
        super().setup()
        shape = (INTERVALS + 1, self.dim)
        self.fixed_numbers = self.param("fixed_numbers", nn.initializers.xavier_uniform(), shape)

    def numbers(self, literals: Literals) -> Float[Array, "N d"]:
        """n of every entity."""
        vectors = functools.partial(interpolated, lax.stop_gradient(self.fixed_numbers))
        return mean_over_fields(literals, vectors, self.dim)

    def fit(self, graph: NumericGraph, positions: np.ndarray, *, seed: int) -> dict[str, Any]:
        """The prototypes' vectors; the graph has no part in them."""
        del graph, positions
        return {"fixed_numbers": np.asarray(embedded_numbers(self.dim, key=jax.random.key(seed)))}


def interpolated(prototypes: Float[Array, "P d"], values: Float[Array, " N"]) -> Float[Array, "N d"]:
    """psi of values from 0 to 1; others are clipped."""
    place = jnp.clip(values, 0.0, 1.0) * INTERVALS
    below = jnp.clip(jnp.floor(place).astype(jnp.int32), 0, INTERVALS - 1)
    share = (place - below)[:, None]
    return (1.0 - share) * prototypes[below] + share * prototypes[below + 1]


@functools.partial(jax.jit, static_argnums=0)
def embedded_numbers(dim: int, *, key: Key[Array, ""]) -> Float[Array, "P d"]:
    """TransE's vectors of the prototypes, trained with Adam."""
    of_vectors, of_relation, of_steps = jax.random.split(key, 3)
    start = nn.initializers.xavier_uniform()
    parameters = start(of_vectors, (INTERVALS + 1, dim)), start(of_relation, (1, dim))[0]
    optimizer = optax.adam(LEARNING_RATE)
    lower = jnp.arange(INTERVALS)

    def loss(parameters: tuple[Array, Array], drawn: Array) -> Array:
        vectors, less = parameters
        distance = functools.partial(jnp.sum, axis=-1)
        true = distance(jnp.abs(vectors[:-1] + less - vectors[1:]))
        heads = distance(jnp.abs(vectors[drawn[0]] + less - vectors[lower + 1]))
        tails = distance(jnp.abs(vectors[lower] + less - vectors[drawn[1]]))
        return nn.softplus(true).mean() + (nn.softplus(-heads) + nn.softplus(-tails)).sum(0).mean()

    def step(number: Array, state: Any) -> Any:
        parameters, moments = state
        shape = (2, CORRUPTED, INTERVALS)
        drawn = jax.random.randint(jax.random.fold_in(of_steps, number), shape, 0, INTERVALS + 1)
        updates, moments = optimizer.update(jax.grad(loss)(parameters, drawn), moments)
        return optax.apply_updates(parameters, updates), moments

    return lax.fori_loop(0, STEPS, step, (parameters, optimizer.init(parameters)))[0][0]


def from_config(config: ConfigDict, sizes: GraphSizes) -> NEKG:
    """The model of LiteralE's keys."""
    model = literale.gated_translation(config, sizes)
    return NEKG(sizes=sizes, dim=model.dim, gate=model.gate, score_term=model.score_term)


MODEL = ModelSpec(from_config, per_entity=("entity_embedding",))
