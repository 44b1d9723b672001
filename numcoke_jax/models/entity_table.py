"""The vectors of all entities for models that know no literals, with the values concatenated or without.

The paper gives models without attributes the numbers too: "we follow the original approach and concat the
embeddings of entity and attributes" ("Baseline").  Read as

    e'_i = W [e_i; x_i] + b        x_i [M]: the values of entity i, 0 where missing

before whatever the model does with an entity.
"""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from numcoke_jax.models.numeric_embedding import Literals

ATTRIBUTES = ("none", "concat")


class ConcatenatedAttributes(nn.Module):
    """W [e; x] + b."""

    @nn.compact
    def __call__(self, entities: Float[Array, "N d"], literals: Literals) -> Float[Array, "N d"]:
        values = jnp.where(literals.observed, literals.values, 0.0)
        joint = jnp.concatenate([entities, values.astype(entities.dtype)], axis=-1)
        return nn.Dense(entities.shape[-1], name="projection")(joint)


class EntityTable(nn.Module):
    """Vectors [N, d] of all entities.

    Attributes:
      count: N.
      dim: d.
      attributes: one of `ATTRIBUTES`.
      dropout: share of the entries dropped in training; one mask a step, as in `transe.py`.
      spread: standard deviation of the initial embeddings; None: Xavier's.
    """

    count: int
    dim: int
    attributes: str = "none"
    dropout: float = 0.0
    spread: float | None = None

    @nn.compact
    def __call__(self, literals: Literals, *, train: bool) -> Float[Array, "N d"]:
        vectors = (
            nn.initializers.xavier_normal() if self.spread is None else nn.initializers.normal(self.spread)
        )
        entities = self.param("embedding", vectors, (self.count, self.dim))
        if self.attributes == "concat" and literals.values.shape[1]:
            entities = ConcatenatedAttributes(name="attributes_joined")(entities, literals)
        return nn.Dropout(self.dropout, rng_collection="dropout")(entities, deterministic=not train)
