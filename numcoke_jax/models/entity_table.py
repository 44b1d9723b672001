"""The vectors of all entities for models without literals, with or without the values concatenated.

The paper gives models without attributes the numbers too: "we follow the original approach and concat the
embeddings of entity and attributes" ("Baseline").  It is read as

    e'_i = W [e_i; x_i] + b        x_i [M]: the values of entity i, 0 where missing

applied before whatever the model does with an entity.
"""

import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key
from ml_collections import ConfigDict

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import EncodeThenScore, GraphSizes, KnowledgeModel


class ConcatenatedAttributes(nn.Module):
    """W [e; x] + b.

    Attributes:
      spread: None: W starts as dense layers do.  Otherwise e' starts as e plus a share of the values of
        that standard deviation (for values of unit size), so that models whose geometry depends on the size
        of their vectors, such as points near the origin of a ball, start where they would without values.
    """

    spread: float | None = None

    @nn.compact
    def __call__(self, entities: Float[Array, "N d"], literals: Literals) -> Float[Array, "N d"]:
        values = jnp.where(literals.observed, literals.values, 0.0)
        joint = jnp.concatenate([entities, values.astype(entities.dtype)], axis=-1)
        start = nn.initializers.lecun_normal() if self.spread is None else identity_and_noise(self.spread)
        return nn.Dense(entities.shape[-1], kernel_init=start, name="projection")(joint)


def identity_and_noise(spread: float) -> nn.initializers.Initializer:
    """W^T [d + M, d]: e unchanged, plus x times noise that gives a share of standard deviation `spread`."""

    def start(key: Key[Array, ""], shape: Any, dtype: Any) -> Float[Array, "joint d"]:
        joint, dim = shape
        noise = jax.random.normal(key, (joint - dim, dim), dtype) * (spread / math.sqrt(joint - dim))
        return jnp.concatenate([jnp.eye(dim, dtype=dtype), noise])

    return start


class EntityTable(nn.Module):
    """Vectors [N, d] of all entities.

    Attributes:
      count: N.
      dim: d.
      attributes: a choice of `model.attributes`.
      dropout: share of the entries dropped in training; one mask per step, as in `transe.py`.
      spread: standard deviation of the initial embeddings; None: Xavier initialisation.
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
            joined = ConcatenatedAttributes(self.spread, name="attributes_joined")
            entities = joined(entities, literals)
        return nn.Dropout(self.dropout, rng_collection="dropout")(entities, deterministic=not train)


def entity_table(
    config: ConfigDict, sizes: GraphSizes, *, spread: float | None = None, dropout: bool = True
) -> EntityTable:
    """The table of `model.{dim,attributes}` and, if it has any, `score.dropout`."""
    return EntityTable(
        sizes.entities,
        config.model.dim,
        attributes=config.model.attributes,
        dropout=config.score.dropout if dropout else 0.0,
        spread=spread,
    )


class TableModel(EncodeThenScore):
    """A model of one table of entities.

    Attributes:
      sizes: N, R and M.
      dim: d.
      entities: the table of all entities; its dropout is one mask for heads and tails.
    """

    sizes: GraphSizes
    dim: int
    entities: EntityTable


def table_model(
    model: Callable[..., KnowledgeModel], *keys: str, spread: float | None = None, dropout: bool = True
) -> Callable[[ConfigDict, GraphSizes], KnowledgeModel]:
    """The `create` of a `TableModel`'s `ModelSpec`.

    Args:
      model: its class.
      keys: other config keys that it looks at, each the value of the attribute with the name after the dot;
        "query.": all of a section.
      spread: of the table.
      dropout: whether the table has the dropout of `score.dropout`.
    """

    def create(config: ConfigDict, sizes: GraphSizes) -> KnowledgeModel:
        settings: dict[str, Any] = {}
        for section, _, name in (key.partition(".") for key in keys):
            settings |= {name: config[section][name]} if name else config[section]
        return model(
            sizes=sizes,
            dim=config.model.dim,
            entities=entity_table(config, sizes, spread=spread, dropout=dropout),
            **settings,
        )

    return create
