"""WGCN: neighbours weighed by one number per relation; Conv-TransE scores.

Source: Shang et al., "End-to-end Structure-Aware Convolutional Networks for Knowledge Base Completion"
(SACN), AAAI 2019: its encoder is the WGCN, its decoder Conv-TransE.

    h'_i  = tanh(norm((h_i + sum_r alpha_r sum_{j in N_i^r} h_j) W + b))    N_i^r: both ends of the facts of r
    image = [h_h; r]                                  two channels of length d
    q     = relu(norm(W_q vec(relu(norm(image * filters))) + c))            width 5, zeros at the edges
    score = <q, h_t>

Each layer has its own alpha_r, which starts at 1 here and at random in the public code.  The places of batch
normalisation, of dropout and the loss over all entities are that code's; it also normalises and drops the
image, and drops single features, not whole maps.  Left out: attributes as nodes of their own, since values
enter as for every other model (`entity_table.py`).
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.batch_norm import BatchNorm, real_queries
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SharedVectors

FILTER_WIDTH = 5


class WGCN(TableModel):
    """Encodes the entities along the facts in `literals.facts`; query vectors by convolution.

    Attributes:
      entities: the table of all entities, h^0.
      layers: number of graph convolutions.
      filters: feature maps of the decoder.
      input_dropout: of the entities after each layer.
      feature_dropout: of whole feature maps.
      hidden_dropout: of the query vector.
    """

    layers: int
    filters: int = 32
    input_dropout: float = 0.2
    feature_dropout: float = 0.2
    hidden_dropout: float = 0.3

    def setup(self) -> None:
        super().setup()
        ones = nn.initializers.ones_init()
        self.relation_weight = self.param("relation_weight", ones, (self.layers, self.sizes.own_relations))
        self.layer_maps = [nn.Dense(self.dim) for _ in range(self.layers)]
        self.layer_norms = [BatchNorm() for _ in range(self.layers)]
        self.convolution = nn.Conv(self.filters, (FILTER_WIDTH,), padding="SAME")
        self.hidden = nn.Dense(self.dim)
        self.feature_norm, self.hidden_norm = BatchNorm(), BatchNorm()
        self.drop_entities = nn.Dropout(self.input_dropout, rng_collection="dropout")
        self.drop_maps = nn.Dropout(self.feature_dropout, broadcast_dims=(2,), rng_collection="dropout")
        self.drop_hidden = nn.Dropout(self.hidden_dropout, rng_collection="dropout")

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> SharedVectors:
        """The entities after all graph convolutions."""
        entities = self.entities(literals, train=train)
        every = jnp.ones(entities.shape[:1], entities.dtype)
        for weights, dense, norm in zip(self.relation_weight, self.layer_maps, self.layer_norms, strict=True):
            received = weighted_neighbours(entities, literals.facts, weights)
            entities = jnp.tanh(norm(dense(entities + received), every, train=train))
            entities = self.drop_entities(entities, deterministic=not train)
        return SharedVectors(entities, self.relation_embedding[relations])

    def score(
        self, encoded: SharedVectors, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        weights, fixed = real_queries(self, heads), not train
        of_heads = encoded.entities[heads]
        of_relations = jnp.broadcast_to(encoded.relations[:, None], of_heads.shape)
        maps = self.convolution(jnp.stack([of_heads, of_relations], axis=-1))
        maps = self.drop_maps(nn.relu(self.feature_norm(maps, weights, train=train)), deterministic=fixed)
        hidden = self.hidden(maps.reshape(*heads.shape, -1))
        hidden = self.drop_hidden(hidden, deterministic=fixed)
        return nn.relu(self.hidden_norm(hidden, weights, train=train)) @ encoded.entities.T


def weighted_neighbours(vectors: Float[Array, "N d"], facts: Int[Array, "n 3"], weights: Any) -> Array:
    """sum over the facts of entity i, in either direction, of alpha_r h_j: [N, d].

    By an [N, N] matrix of summed weights where that is smaller than the messages (see `rgcn.py`).
    """
    count = vectors.shape[0]
    source = jnp.concatenate([facts[:, 2], facts[:, 0]])
    target = jnp.concatenate([facts[:, 0], facts[:, 2]])
    of_messages = jnp.tile(weights[facts[:, 1]], 2)
    if count**2 <= len(source) * vectors.shape[1]:
        links = jax.ops.segment_sum(of_messages, target * count + source, count * count)
        return links.reshape(count, count) @ vectors
    return jax.ops.segment_sum(of_messages[:, None] * vectors[source], target, count)


MODEL = ModelSpec(
    table_model(WGCN, "graph.layers", "query.", dropout=False), per_entity=("embedding",), reads_facts=True
)
