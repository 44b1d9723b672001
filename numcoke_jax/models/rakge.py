"""RAKGE: relation-aware attention over attributes, gate, translation with an order penalty.

Source: Kim et al., "Exploiting Relation-aware Attribute Representation Learning in Knowledge Graph Embedding
for Numerical Reasoning", KDD 2023, in the form of its public code; the contrastive part of its loss is
`losses/rakge_contrastive.py`.

    o_im  = W v_m + b + (x_im w + w_0) * v_m         value embedding; W, b, w, w_0 serve all fields
    q_r   = tanh(W_p r + b_p)
    o_ir  = multi-head attention with query q_r and keys and values o_i1 .. o_iM
    e_ir  = (1 - g) e_i + g tanh(W' [e_i; o_ir] + c),     g = sigmoid(W_ge e_i + W_ga o_ir + b_g)
    score = epsilon - ||e~_hr + r - e~_tr||_p + Delta (epsilon - ||max(0, e_tr W_r - e_hr W_r)||^2)

e~ is e with entries dropped in training, heads and tails each with their own mask; the order term is not
dropped.  A missing value is x = 0.  Public settings: d = a = 200, 5 heads, L1, epsilon 9, Delta 0.25, dropout
0.7, contrastive weight 0.25, min-max values, Adam 1e-3, batch 256.

The query depends on the relation only and o is affine in x, o_im = T_m0 + x_im T_m1.  So attention scores are
affine in x too, and neither an [S, N, M, a] tensor nor a query per entity exists.  A bias on the keys adds
the same number to every field's score and cancels in the softmax: it is left out.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int, Key
from ml_collections import ConfigDict

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.fusion import KnowledgeFusion
from numcoke_jax.models.interface import GraphSizes, ModelSpec, SecondLoss, SumAndCount
from numcoke_jax.models.losses.rakge_contrastive import rakge_contrastive_loss
from numcoke_jax.models.ops import pairwise
from numcoke_jax.models.score import rows_of_heads


@struct.dataclass
class DroppedVectors:
    """What the translation term saw of the heads and of all tails; the contrastive loss uses the same."""

    heads: Any  # float32 [S, H, d], e~_h
    tails: Any  # float32 [S, N, d], e~_t


@struct.dataclass
class RelationAwareEntities:
    """What scoring under S relations needs; made once per step, or once per relation in evaluation."""

    entities: Any  # float32 [S, N, d], e
    relations: Any  # float32 [S, d], r
    projected: Any  # float32 [S, N, d], e W_r
    dropped: DroppedVectors | None = None  # added by `RAKGE.__call__`


def symmetric_uniform(fan_in: int) -> Callable[..., Array]:
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)): how the public code initialises linear layers and their biases."""
    bound = 1.0 / math.sqrt(fan_in)
    return functools.partial(jax.random.uniform, minval=-bound, maxval=bound)


class SharedValueEmbedding(nn.Module):
    """The basis T [M, 2, a] of o_im = T_m0 + x_im T_m1, with one transform for all fields."""

    num_fields: int
    attribute_dim: int

    @nn.compact
    def __call__(self) -> Float[Array, "M 2 a"]:
        size = self.attribute_dim
        of_value = symmetric_uniform(fan_in=1)  # of the layer from the value, one number, to a numbers
        field = self.param("field_embedding", nn.initializers.xavier_normal(), (self.num_fields, size))  # v_m
        slope = self.param("value_weight", of_value, (size,))  # w
        intercept = self.param("value_bias", of_value, (size,))  # w_0
        linear = symmetric_uniform(fan_in=size)
        offset = nn.Dense(size, kernel_init=linear, bias_init=linear, name="transform")(field)  # W v_m + b
        return jnp.stack([offset + intercept * field, slope * field], axis=1)


class RelationAwareAttention(nn.Module):
    """Attribute vectors o_ir [S, N, a] of every entity under each of S relations, and the weights used.

    Attributes:
      heads: L; must divide a.
    """

    heads: int

    @nn.compact
    def __call__(
        self, relations: Float[Array, "S d"], values: Float[Array, "N M"], basis: Float[Array, "M 2 a"]
    ) -> tuple[Float[Array, "S N a"], Float[Array, "S N L M"]]:
        size = basis.shape[-1]
        per_head = (self.heads, size // self.heads)
        linear = symmetric_uniform(fan_in=relations.shape[-1])
        relation_projection = nn.Dense(size, kernel_init=linear, bias_init=linear, name="relation_projection")
        # Xavier's bound for the three projections as a single [3 a, a] matrix, as in that code.
        projection = nn.initializers.variance_scaling(0.5, "fan_in", "uniform")
        query = nn.Dense(size, kernel_init=projection, name="query")(nn.tanh(relation_projection(relations)))
        keys = nn.Dense(size, use_bias=False, kernel_init=projection, name="key")(basis)
        contents = nn.Dense(size, use_bias=False, kernel_init=projection, name="value")(basis)
        query, keys, contents = (
            rows.reshape(*rows.shape[:-1], *per_head) for rows in (query, keys, contents)
        )

        of_basis = jnp.einsum("slb,mqlb->qslm", query, keys) / math.sqrt(per_head[1])
        scores = of_basis[0][:, None] + jnp.einsum("nm,slm->snlm", values, of_basis[1])
        weights = nn.softmax(scores, axis=-1)
        mixed = jnp.einsum("snlm,mlb->snlb", weights, contents[:, 0])
        mixed += jnp.einsum("snlm,mlb->snlb", weights * values[:, None], contents[:, 1])
        attributes = mixed.reshape(*mixed.shape[:2], size)
        # The weights sum to 1, so the value biases of all fields amount to one bias of the mix.
        attributes += self.param("value_bias", nn.initializers.zeros_init(), (size,))
        output = nn.Dense(size, kernel_init=symmetric_uniform(fan_in=size), name="output")
        return output(attributes), weights


class RAKGE(nn.Module):
    """Encodes all N entities under S relations once, then scores heads against that table.

    In training the tails' dropout mask of a slot is shared by the slot's queries; the public code draws
    one per query.

    Attributes:
      sizes: N, R and M.
      dim: d.
      numeric, attention, gate: the parts.
      norm: 1 or 2, of the translation term.
      margin: epsilon.
      order_weight: Delta.
      dropout: share of the entries of the translation's head and tail vectors dropped in training.
    """

    sizes: GraphSizes
    dim: int
    numeric: SharedValueEmbedding
    attention: RelationAwareAttention
    gate: KnowledgeFusion
    norm: int = 1
    margin: float = 9.0
    order_weight: float = 0.25
    dropout: float = 0.7

    def setup(self) -> None:
        vectors = nn.initializers.xavier_normal()
        self.entity_embedding = self.param("entity_embedding", vectors, (self.sizes.entities, self.dim))
        self.relation_embedding = self.param("relation_embedding", vectors, (self.sizes.relations, self.dim))
        # Xavier over the whole [R, d, d] array, as in that code: an order term of about 0 at the start.
        matrices = nn.initializers.variance_scaling(1.0, "fan_avg", "normal", in_axis=1, out_axis=0)
        shape = (self.sizes.relations, self.dim, self.dim)
        self.order_projection = self.param("order_projection", matrices, shape)  # W_r
        self.head_dropout = nn.Dropout(self.dropout, rng_collection="dropout")
        self.tail_dropout = nn.Dropout(self.dropout, rng_collection="dropout")

    def __call__(
        self, relations: Int[Array, " S"], heads: Int[Array, "S H"], literals: Literals, *, train: bool
    ) -> tuple[Float[Array, "S H N"], RelationAwareEntities]:
        encoded = self.encode(relations, literals, train=train)
        dropped = self.drop(encoded, heads, train=train)
        return self.logits(encoded, dropped, heads), encoded.replace(dropped=dropped)  # type: ignore[attr-defined]

    def encode(
        self, relations: Int[Array, " S"], literals: Literals, *, train: bool
    ) -> RelationAwareEntities:
        """e of every entity under each relation, and e W_r."""
        del train  # dropout is applied in the score
        relation_vectors = self.relation_embedding[relations]
        shape = (relations.shape[0], self.sizes.entities, self.dim)
        entities = jnp.broadcast_to(self.entity_embedding, shape)
        if self.sizes.fields:  # a graph without literals has no attributes to attend to or to gate in
            values = jnp.where(literals.observed, literals.values, 0.0)
            attributes, _ = self.attention(relation_vectors, values, self.numeric())
            entities = self.gate(entities, attributes)
        projected = jnp.einsum("snd,sde->sne", entities, self.order_projection[relations])
        return RelationAwareEntities(entities=entities, relations=relation_vectors, projected=projected)

    def score(
        self, encoded: RelationAwareEntities, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        return self.logits(encoded, self.drop(encoded, heads, train=train), heads)

    def drop(
        self, encoded: RelationAwareEntities, heads: Int[Array, "S H"], *, train: bool
    ) -> DroppedVectors:
        """The vectors e~ of these heads and of all tails; outside training they are e."""
        of_heads = rows_of_heads(encoded.entities, heads)
        return DroppedVectors(
            heads=self.head_dropout(of_heads, deterministic=not train),
            tails=self.tail_dropout(encoded.entities, deterministic=not train),
        )

    def logits(
        self, encoded: RelationAwareEntities, dropped: DroppedVectors, heads: Int[Array, "S H"]
    ) -> Float[Array, "S H N"]:
        """Translation term of the dropped vectors plus order term of the whole ones."""
        moved = dropped.heads + encoded.relations[:, None, :]
        translation = self.margin - pairwise.distance(moved, dropped.tails, self.norm)
        # max(0, tail - head) is max(0, (-head) - (-tail)).
        violation = pairwise.squared_relu(-rows_of_heads(encoded.projected, heads), -encoded.projected)
        return translation + self.order_weight * (self.margin - violation)


def contrastive_loss(config: ConfigDict) -> SecondLoss:
    """`losses/rakge_contrastive.py` of the vectors and the logits."""
    norm = config.score.norm

    def loss(encoded: Any, logits: Array, batch: Batch, *, key: Key[Array, ""]) -> SumAndCount:
        vectors = (encoded.dropped.heads, encoded.dropped.tails, encoded.relations)
        return rakge_contrastive_loss(*vectors, logits, batch, norm=norm, key=key)

    return loss


def from_config(config: ConfigDict, sizes: GraphSizes) -> RAKGE:
    """The model that `config` describes for a graph of the given sizes.

    Its keys are `model.{dim,attribute_dim}`, `attention.heads`, `score.{norm,margin,order_weight,dropout}`
    and, in the loss, `okcl.weight`; other model keys have no effect.
    """
    return RAKGE(
        sizes=sizes,
        dim=config.model.dim,
        numeric=SharedValueEmbedding(num_fields=sizes.fields, attribute_dim=config.model.attribute_dim),
        attention=RelationAwareAttention(heads=config.attention.heads),
        gate=KnowledgeFusion(kind="gate"),
        norm=config.score.norm,
        margin=config.score.margin,
        order_weight=config.score.order_weight,
        dropout=config.score.dropout,
    )


MODEL = ModelSpec(
    from_config, per_entity=("entity_embedding",), second_loss=contrastive_loss, needs_negatives=True
)
