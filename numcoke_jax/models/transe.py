"""TransE in 1-vs-all form; without numbers it is the baseline that shows what the facts alone give.

Source: Bordes et al., "Translating Embeddings for Modeling Multi-relational Data", NeurIPS 2013, in the form
that the public code of RAKGE (KDD 2023) compares with: margin 9, L1, embeddings d, dropout 0.7 on the entity
table, binary cross-entropy over all entities instead of sampled negatives.

    e~_i  = dropout(e_i)                     one mask per step: an entity is the same vector as head and tail
    score = epsilon - ||e~_h + r - e~_t||_p  p = 1 or 2

That code also subtracts one learned vector from every entity before the dropout.  These differences are just
as free a table as the one here, and without dropout the vector cancels in e_h + r - e_t: it is left out.

With `model.attributes` "concat" the values are joined to e_i first (`entity_table.py`).
"""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from ml_collections import ConfigDict

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.encoded import EncodedEntities
from numcoke_jax.models.entity_table import TableModel, entity_table
from numcoke_jax.models.interface import GraphSizes, ModelSpec
from numcoke_jax.models.score import DecodedOrderScore


class TransE(TableModel):
    """Scores heads against one table of N vectors, the same under every relation.

    Attributes:
      score_term: the translation term; without order term and without dropout of its own.
    """

    score_term: DecodedOrderScore

    def setup(self) -> None:
        vectors = nn.initializers.xavier_normal()
        self.relation_embedding = self.param("relation_embedding", vectors, (self.sizes.relations, self.dim))

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> EncodedEntities:
        """The entity table, with dropout in training, once per relation slot."""
        entities = self.entities(literals, train=train)
        return EncodedEntities(
            entities=jnp.broadcast_to(entities, (relations.shape[0], *entities.shape)),
            relations=self.relation_embedding[relations],
            projected=None,
        )

    def score(
        self, encoded: EncodedEntities, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        return self.score_term(encoded, heads, train=train)

    def terms(
        self, encoded: EncodedEntities, heads: Int[Array, "S H"], *, train: bool
    ) -> dict[str, Float[Array, "S H N"]]:
        """What the score is the sum of, by name."""
        return self.score_term.terms(encoded, heads, train=train)


def from_config(config: ConfigDict, sizes: GraphSizes) -> TransE:
    """The model of `model.{dim,attributes}` and `score.{norm,margin,dropout}`; no other key has an effect."""
    return TransE(
        sizes=sizes,
        dim=config.model.dim,
        entities=entity_table(config, sizes),
        score_term=DecodedOrderScore(
            num_relations=sizes.relations,
            dim=config.model.dim,
            norm=config.score.norm,
            margin=config.score.margin,
            order="none",
            dropout=0.0,
        ),
    )


MODEL = ModelSpec(from_config, per_entity=("embedding",))
