"""The score of (h, r, t): a decoder's term and an order term (paper, "Score Function").

    translation = epsilon - ||e_h + r - e_t||_p                       p = 1 or 2; the paper's
    reward      = + Delta ||max(0, W_r e_h - W_r e_t)||^2             as printed: the head above the tail
    penalty     = + Delta (epsilon - ||max(0, W_r e_t - W_r e_h)||^2) RAKGE's: the tail above the head

All vectors are e_att; the missing "att" in the paper's second term is taken for a misprint.  Instead of the
translation `score.decoder` (an extension) takes a bilinear score of a baseline, distmult, complex or tucker,
each as its file has it: <q(e_h, r), e_t>.
"""

import functools
import operator

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from ml_collections import ConfigDict

from numcoke_jax.models.complex import ComplEx
from numcoke_jax.models.distmult import DistMult
from numcoke_jax.models.encoded import TERMS, EncodedEntities
from numcoke_jax.models.interface import EncodeThenScore, GraphSizes, SharedVectors
from numcoke_jax.models.ops import pairwise, products
from numcoke_jax.models.tucker import CoreTensor


def total(terms: dict[str, Array]) -> Array:
    """The score whose terms these are, added in their order."""
    return functools.reduce(operator.add, terms.values())


def rows_of_heads(table: Float[Array, "S N d"], heads: Int[Array, "S H"]) -> Float[Array, "S H d"]:
    """The rows of `table` at `heads`, slot by slot."""
    return jnp.take_along_axis(table, heads[..., None], axis=1)


class DecodedOrderScore(nn.Module):
    """Logits [S, H, N] of every entity as the tail of each (head, relation).

    Attributes:
      num_relations: R.
      dim: d.
      norm: 1 or 2.
      margin: epsilon.
      order: a choice of `score.order`.
      order_weight: Delta.
      dropout: share of the entries of the decoder's head and tail vectors dropped in training, each
        with its own mask, as RAKGE drops them; the tails' mask is shared by the queries of a slot.
      products: operands of the products with W_r and with the tails (`models/ops/products.py`).
      decoder: a choice of `score.decoder`.
      core_tensor: of the decoder "tucker".
    """

    num_relations: int
    dim: int
    norm: int = 1
    margin: float = 9.0
    order: str = "reward"
    order_weight: float = 0.1
    dropout: float = 0.7
    products: str = "float32"
    decoder: str = "translation"
    core_tensor: CoreTensor | None = None

    def setup(self) -> None:
        if self.order != "none":
            matrices = nn.initializers.xavier_normal(batch_axis=(0,))
            shape = (self.num_relations, self.dim, self.dim)
            self.order_projection = self.param("order_projection", matrices, shape)  # W_r
        self.head_dropout = nn.Dropout(self.dropout, rng_collection="dropout")
        self.tail_dropout = nn.Dropout(self.dropout, rng_collection="dropout")

    def project(
        self, entities: Float[Array, "S N d"], relation_ids: Int[Array, " S"]
    ) -> Float[Array, "S N d"] | None:
        """W_r e_att, or None without an order term."""
        if self.order == "none":
            return None
        matrices = self.order_projection[relation_ids]
        return products.einsum(self.products, "snd,sed->sne", entities, matrices)

    def __call__(
        self, encoded: EncodedEntities, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        return total(self.terms(encoded, heads, train=train))

    def terms(
        self,
        encoded: EncodedEntities,
        heads: Int[Array, "S H"],
        *,
        train: bool,
        real: Float[Array, "S H"] | None = None,
    ) -> dict[str, Float[Array, "S H N"]]:
        """What the score is the sum of, by name; `real` is that of `batch_norm.real_queries`, None: all 1."""
        head = self.head_dropout(rows_of_heads(encoded.entities, heads), deterministic=not train)
        tail = self.tail_dropout(encoded.entities, deterministic=not train)
        if self.decoder == "translation":
            moved = head + encoded.relations[:, None, :]
            decoded = self.margin - pairwise.distance(moved, tail, self.norm)
        else:
            real = jnp.ones(heads.shape) if real is None else real
            queries = self.queries(head, encoded.relations, real, train=train)
            decoded = products.einsum(self.products, "shd,snd->shn", queries, tail)
        if encoded.projected is None:
            return {self.decoder: decoded}
        projected_heads = rows_of_heads(encoded.projected, heads)
        if self.order == "reward":
            order = pairwise.squared_relu(projected_heads, encoded.projected)
        else:  # max(0, tail - head)
            order = self.margin - pairwise.squared_relu(-projected_heads, -encoded.projected)
        return {self.decoder: decoded, TERMS[-1]: self.order_weight * order}

    def queries(
        self,
        heads: Float[Array, "S H d"],
        relations: Float[Array, "S d"],
        real: Float[Array, "S H"],
        *,
        train: bool,
    ) -> Float[Array, "S H d"]:
        """q(e_h, r) of a bilinear decoder."""
        if self.core_tensor is not None:
            matrices = self.core_tensor.matrices(relations, train=train)
            return self.core_tensor.queries(heads, matrices, real, train=train)
        model = DistMult if self.decoder == "distmult" else ComplEx
        return model.query(heads, relations[:, None])


class TranslationScored(EncodeThenScore):
    """A model whose entities are the same under every relation, scored by a decoder alone.

    A subclass has `score_term` (see `translation_term`).
    """

    def score(
        self, encoded: SharedVectors, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        return total(self.terms(encoded, heads, train=train))

    def terms(
        self, encoded: SharedVectors, heads: Int[Array, "S H"], *, train: bool
    ) -> dict[str, Float[Array, "S H N"]]:
        """What the score is the sum of, by name."""
        tables = jnp.broadcast_to(encoded.entities, (len(heads), *encoded.entities.shape))
        in_slots = EncodedEntities(tables, encoded.relations, projected=None)
        return self.score_term.terms(in_slots, heads, train=train)


def translation_term(config: ConfigDict, sizes: GraphSizes, *, dropout: float = 0.0) -> DecodedOrderScore:
    """The translation of `score.{norm,margin}`, without an order term."""
    return DecodedOrderScore(
        num_relations=sizes.relations,
        dim=config.model.dim,
        norm=config.score.norm,
        margin=config.score.margin,
        order="none",
        dropout=dropout,
    )
