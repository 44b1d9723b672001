"""R-GCN: entities see their neighbours along the training facts, relation by relation; a decoder scores them.

Source: Schlichtkrull et al., "Modeling Relational Data with Graph Convolutional Networks", ESWC 2018.

    h'_i  = relu(W_0 h_i + sum_r sum_{j in N_i^r} 1 / |N_i^r| W_r h_j)     no relu in the last layer
    W_r   = sum_b a_rb V_b                                                 B bases
    score = <h_h * r, h_t>                          graph.decoder=distmult, as published
    score = epsilon - ||h_h + r - h_t||_p           graph.decoder=translation, as RAKGE (KDD 2023) runs it

r runs over the R relations and their R inverses, once if the graph has these already; h^0 is the entity
table.  As published, facts are dropped in training before the neighbourhoods are counted, so that a fact
cannot always be read off itself; self-loops are kept here.  Trained with BCE over all entities instead of
sampled negatives.

Messages are summed before they are multiplied by a basis, so that there is no matrix per fact.  Where the
bases' [N, N] links hold fewer numbers than the [2 n, d] messages, as in a small graph with many facts, the
sums are matrix products; elsewhere one array of messages per basis is made and added up row by row.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.distmult import DistMult
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SharedVectors
from numcoke_jax.models.ops import pairwise


@struct.dataclass
class Messages:
    """Both directions of the training facts: a message goes from `source` to `target`."""

    source: Any  # int32 [2 n]
    target: Any  # int32 [2 n]
    relation: Any  # int32 [2 n], in 0 .. 2 R - 1
    weight: Any  # float32 [2 n], 1 / |N_i^r| over what is kept, 0 where dropped


def messages_of(
    facts: Int[Array, "n 3"], kept: Float[Array, " n"], relations: int, entities: int
) -> Messages:
    """The messages along `facts` and back; `kept` is 1 or 0 for each fact, for both of its directions."""
    head, relation, tail = facts[:, 0], facts[:, 1], facts[:, 2]
    source, target = jnp.concatenate([tail, head]), jnp.concatenate([head, tail])
    relation = jnp.concatenate([relation, relation + relations])
    kept = jnp.tile(kept, 2)
    neighbourhood = relation * entities + target
    counts = jax.ops.segment_sum(kept, neighbourhood, 2 * relations * entities)
    return Messages(source, target, relation, kept / jnp.maximum(counts[neighbourhood], 1.0))


class RelationalConvolution(nn.Module):
    """One layer, without its relu: vectors [N, d] from vectors [N, d].

    Attributes:
      relations: R.
      bases: B.
    """

    relations: int
    bases: int

    @nn.compact
    def __call__(self, vectors: Float[Array, "N d"], messages: Messages) -> Float[Array, "N d"]:
        size = vectors.shape[-1]
        matrices = nn.initializers.xavier_normal(batch_axis=(0,))
        bases = self.param("bases", matrices, (self.bases, size, size))  # V_b
        shape = (2 * self.relations, self.bases)
        mix = self.param("mix", nn.initializers.xavier_normal(), shape)  # a_rb
        output = nn.Dense(size, use_bias=False, name="self_loop")(vectors)
        weights = messages.weight[:, None] * mix[messages.relation]
        links_are_smaller = vectors.shape[0] ** 2 * self.bases <= len(messages.source) * size
        receive = received_by_links if links_are_smaller else received_by_messages
        return output + jnp.einsum("bnd,bde->ne", receive(vectors, messages, weights), bases)


def received_by_messages(
    vectors: Float[Array, "N d"], messages: Messages, weights: Float[Array, "messages B"]
) -> Float[Array, "B N d"]:
    """What each entity receives per basis, before multiplying by it: messages added to their targets."""
    sent, count = vectors[messages.source], vectors.shape[0]
    return jnp.stack(
        [jax.ops.segment_sum(weight[:, None] * sent, messages.target, count) for weight in weights.T]
    )


def received_by_links(
    vectors: Float[Array, "N d"], messages: Messages, weights: Float[Array, "messages B"]
) -> Float[Array, "B N d"]:
    """The same by [N, N] matrices: on the CPU, adding up rows takes about twenty times as long."""
    count = vectors.shape[0]
    pairs = messages.target * count + messages.source
    links = jax.ops.segment_sum(weights, pairs, count * count).reshape(count, count, -1)
    return jnp.einsum("ijb,jd->bid", links, vectors)


class RGCN(TableModel):
    """Encodes the entities along the facts in `literals.facts`.

    Attributes:
      entities: the table of all entities, h^0.
      layers: number of convolutions.
      bases: B.
      edge_dropout: share of the facts dropped in training.
      dropout: share of the encoded entities' entries dropped in training; heads and tails share the mask.
      decoder: a choice of `graph.decoder`.
      norm: 1 or 2, of the translation.
      margin: epsilon of the translation.
    """

    layers: int
    bases: int
    edge_dropout: float
    dropout: float
    decoder: str = "distmult"
    norm: int = 1
    margin: float = 0.0

    def setup(self) -> None:
        super().setup()
        self.convolutions = [
            RelationalConvolution(self.sizes.own_relations, self.bases) for _ in range(self.layers)
        ]
        self.table_dropout = nn.Dropout(self.dropout, rng_collection="dropout")

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> SharedVectors:
        """The entities after all convolutions."""
        entities = self.entities(literals, train=train)
        kept = jnp.ones(literals.facts.shape[:1], entities.dtype)
        if train and self.edge_dropout:
            draws = jax.random.bernoulli(self.make_rng("dropout"), 1.0 - self.edge_dropout, kept.shape)
            kept = draws.astype(entities.dtype)
        messages = messages_of(literals.facts, kept, self.sizes.own_relations, self.sizes.entities)
        for layer, convolution in enumerate(self.convolutions):
            entities = convolution(entities, messages)
            if layer + 1 < self.layers:
                entities = nn.relu(entities)
        entities = self.table_dropout(entities, deterministic=not train)
        return SharedVectors(entities, self.relation_embedding[relations])

    def score(
        self, encoded: SharedVectors, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        entities, relations = encoded.entities, encoded.relations
        if self.decoder == "distmult":
            return DistMult.query(entities[heads], relations[:, None]) @ entities.T
        return pairwise.translation(entities[heads], relations, entities, self.norm, self.margin)


MODEL = ModelSpec(
    table_model(
        RGCN,
        "graph.layers",
        "graph.bases",
        "graph.edge_dropout",
        "graph.decoder",
        "score.dropout",
        "score.norm",
        "score.margin",
        dropout=False,
    ),
    per_entity=("embedding",),
    reads_facts=True,
)
