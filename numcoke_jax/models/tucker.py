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
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import GraphSizes, ModelSpec


@struct.dataclass
class RelationMatrices:
    """What scoring under S relations needs."""

    entities: Any  # float32 [N, d]
    matrices: Any  # float32 [S, d, d], W x_1 r


class CoreTensor(nn.Module):
    """What a tail is multiplied by: the core, contracted with relation and head.

    Attributes:
      dim: d.
      input_dropout: of the head's vector.
      feature_dropout: of the relation's matrix.
      hidden_dropout: of the query vector.
    """

    dim: int
    input_dropout: float = 0.2
    feature_dropout: float = 0.2
    hidden_dropout: float = 0.3

    def setup(self) -> None:
        uniform = functools.partial(jax.random.uniform, minval=-1.0, maxval=1.0)
        self.core = self.param("core", uniform, (self.dim, self.dim, self.dim))
        self.head_norm, self.query_norm = BatchNorm(), BatchNorm()
        self.drop_head, self.drop_matrix, self.drop_query = (
            nn.Dropout(rate, rng_collection="dropout")
            for rate in (self.input_dropout, self.feature_dropout, self.hidden_dropout)
        )

    def matrices(self, relations: Float[Array, "S d"], *, train: bool) -> Float[Array, "S d d"]:
        """W x_1 r."""
        matrices = jnp.einsum("sk,kij->sij", relations, self.core)
        return self.drop_matrix(matrices, deterministic=not train)

    def queries(
        self,
        heads: Float[Array, "S H d"],
        matrices: Float[Array, "S d d"],
        weights: Float[Array, "S H"],
        *,
        train: bool,
    ) -> Float[Array, "S H d"]:
        """e_h (W x_1 r); `weights` are those of `BatchNorm`."""
        heads = self.head_norm(heads, weights, train=train)
        heads = self.drop_head(heads, deterministic=not train)
        queries = self.query_norm(jnp.einsum("shi,sij->shj", heads, matrices), weights, train=train)
        return self.drop_query(queries, deterministic=not train)


class TuckER(TableModel):
    """Query vectors by one bilinear map per relation, scored by inner products.

    Attributes:
      contraction: core, norms and dropouts; its parameters are those of this module.
    """

    contraction: CoreTensor

    def setup(self) -> None:
        super().setup()
        nn.share_scope(self, self.contraction)

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> RelationMatrices:
        matrices = self.contraction.matrices(self.relation_embedding[relations], train=train)
        return RelationMatrices(entities=self.entities(literals, train=train), matrices=matrices)

    def score(
        self, encoded: RelationMatrices, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        inputs = encoded.entities[heads], encoded.matrices, real_queries(self, heads)
        return self.contraction.queries(*inputs, train=train) @ encoded.entities.T


def core_tensor(config: ConfigDict, sizes: GraphSizes) -> CoreTensor:
    """The core of `model.dim` and `query.*_dropout`, the same for graphs of all sizes."""
    del sizes
    return CoreTensor(
        dim=config.model.dim,
        input_dropout=config.query.input_dropout,
        feature_dropout=config.query.feature_dropout,
        hidden_dropout=config.query.hidden_dropout,
    )


MODEL = ModelSpec(table_model(TuckER, dropout=False, contraction=core_tensor), per_entity=("embedding",))
