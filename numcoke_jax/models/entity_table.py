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
from jaxtyping import Array, Float, Int, Key
from ml_collections import ConfigDict

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import EncodeThenScore, GraphSizes, KnowledgeModel, SharedVectors
from numcoke_jax.models.ops import pairwise


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


class TableModel(EncodeThenScore):
    """A model of one table of entities; by default with one vector for each relation and no more to encode.

    Attributes:
      sizes: N, R and M.
      dim: d.
      entities: the table of all entities; its dropout is one mask for heads and tails, and mostly all that
        differs in training: few scores look at `train`.
    """

    sizes: GraphSizes
    dim: int
    entities: EntityTable

    def setup(self) -> None:
        shape = (self.sizes.relations, self.dim)
        self.relation_embedding = self.param("relation_embedding", nn.initializers.xavier_normal(), shape)

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> Any:
        """The entity table, the same under every relation, and the relations' vectors."""
        return SharedVectors(self.entities(literals, train=train), self.relation_embedding[relations])

    @nn.nowrap
    def entity_biases(self) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """The parameters `head_bias` and `tail_bias`, 0 at the start, for `setup`."""
        head, tail = (
            self.param(name, nn.initializers.zeros_init(), (self.sizes.entities,))
            for name in ("head_bias", "tail_bias")
        )
        return head, tail


class PropagatingModel(TableModel):
    """A model that encodes its entities along the facts in `literals.facts` and translates.

    Attributes:
      layers: L.
      norm: 1 or 2, of the translation.
      margin: of the translation.
    """

    layers: int
    norm: int
    margin: float

    def score(self, encoded: Any, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        entities, relations = encoded.scored.entities, encoded.scored.relations
        return pairwise.translation(entities[heads], relations, entities, self.norm, self.margin)


def table_model(
    model: Callable[..., KnowledgeModel],
    *keys: str,
    attributes: bool = True,
    spread: float | Callable[[ConfigDict], float] | None = None,
    dropout: bool = True,
    **parts: Callable[[ConfigDict, GraphSizes], nn.Module],
) -> Callable[[ConfigDict, GraphSizes], KnowledgeModel]:
    """The `create` of a `TableModel`'s `ModelSpec`.

    Args:
      model: its class.
      keys: other config keys that it looks at, each the value of the attribute with the name after the dot;
        "query.": all of a section.
      attributes: whether the table joins the values as `model.attributes` says; else it has none.
      spread: of the table.
      dropout: whether the table has the dropout of `score.dropout`.
      parts: further attributes, modules made of the config and the sizes.
    """

    def create(config: ConfigDict, sizes: GraphSizes) -> KnowledgeModel:
        settings: dict[str, Any] = {}
        for section, _, name in (key.partition(".") for key in keys):
            settings |= {name: config[section][name]} if name else config[section]
        return model(
            sizes=sizes,
            dim=config.model.dim,
            entities=EntityTable(
                sizes.entities,
                config.model.dim,
                attributes=config.model.attributes if attributes else "none",
                dropout=config.score.dropout if dropout else 0.0,
                spread=spread(config) if callable(spread) else spread,
            ),
            **settings,
            **{name: make(config, sizes) for name, make in parts.items()},
        )

    return create
