"""TuckER: a core tensor shared by all relations, contracted with head, relation and tail.

Source: Balažević et al., "TuckER: Tensor Factorization for Knowledge Graph Completion", EMNLP 2019.

    score = W x_1 r x_2 e_h x_3 e_t = sum_kij W_kij r_k e_hi e_tj         W [d_r, d, d], here d_r = d

As published: batch normalisation and dropout on e_h and on the query vector e_h (W x_1 r), dropout on the
matrix W x_1 r, whose mask a slot's queries share here.  The paper's BCE with every entity as tail is also
this package's loss.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int
from ml_collections import ConfigDict

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.batch_norm import BatchNorm, real_queries
from numcoke_jax.models.entity_table import EntityTable
from numcoke_jax.models.interface import EncodeThenScore, GraphSizes, ModelSpec


@struct.dataclass
class RelationMatrices:
    """What scoring under S relations needs."""

    entities: Any  # float32 [N, d]
    matrices: Any  # float32 [S, d, d], W x_1 r


class TuckER(EncodeThenScore):
    """Query vectors by one bilinear map per relation, scored by inner products.

    Attributes:
      sizes: N, R and M.
      dim: d.
      entities: the table of all entities.
      input_dropout: of the head's vector.
      feature_dropout: of the relation's matrix.
      hidden_dropout: of the query vector.
    """

    sizes: GraphSizes
    dim: int
    entities: EntityTable
    input_dropout: float = 0.2
    feature_dropout: float = 0.2
    hidden_dropout: float = 0.3

    def setup(self) -> None:
        shape = (self.sizes.relations, self.dim)
        self.relation_embedding = self.param("relation_embedding", nn.initializers.xavier_normal(), shape)
        uniform = functools.partial(jax.random.uniform, minval=-1.0, maxval=1.0)
        self.core = self.param("core", uniform, (self.dim, self.dim, self.dim))
        self.head_norm, self.query_norm = BatchNorm(), BatchNorm()
        self.drop_head, self.drop_matrix, self.drop_query = (
            nn.Dropout(rate, rng_collection="dropout")
            for rate in (self.input_dropout, self.feature_dropout, self.hidden_dropout)
        )

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> RelationMatrices:
        """The entity table and one matrix per relation."""
        matrices = jnp.einsum("sk,kij->sij", self.relation_embedding[relations], self.core)
        return RelationMatrices(
            entities=self.entities(literals, train=train),
            matrices=self.drop_matrix(matrices, deterministic=not train),
        )

    def score(
        self, encoded: RelationMatrices, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        """Logits [S, H, N]; rank these, never their sigmoid."""
        weights, fixed = real_queries(self, heads), not train
        head = self.head_norm(encoded.entities[heads], weights, train=train)
        head = self.drop_head(head, deterministic=fixed)
        query = self.query_norm(jnp.einsum("shi,sij->shj", head, encoded.matrices), weights, train=train)
        return self.drop_query(query, deterministic=fixed) @ encoded.entities.T


def from_config(config: ConfigDict, sizes: GraphSizes) -> TuckER:
    """The model of `model.{dim,attributes}` and `query.*_dropout`; other model keys have no effect."""
    return TuckER(
        sizes=sizes,
        dim=config.model.dim,
        entities=EntityTable(sizes.entities, config.model.dim, attributes=config.model.attributes),
        input_dropout=config.query.input_dropout,
        feature_dropout=config.query.feature_dropout,
        hidden_dropout=config.query.hidden_dropout,
    )


MODEL = ModelSpec(from_config, per_entity=("embedding",))
