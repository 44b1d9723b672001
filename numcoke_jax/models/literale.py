"""LiteralE's gate: the entity's raw value row is gated into its embedding, which a decoder scores.

Source: Kristiadi et al., "Incorporating Literals into Knowledge Graph Embeddings", ISWC 2019.  The score is
by default a translation, in the form that the public code of RAKGE (KDD 2023) compares with: margin 9, L1,
dropout 0.7, min-max values with missing cells as 0.  The paper's own are DistMult's and ComplEx's.

    g     = sigmoid(W_ge e_i + W_gx x_i + b)            x_i [M]: the values of entity i
    e'_i  = (1 - g) e_i + g tanh(W [e_i; x_i] + c)
    score = epsilon - ||e'_h + r - e'_t||_p             dropout on e'_h and on e'_t, each with its own mask
    score = <q(e'_h, r), e'_t>                          score.decoder=distmult or complex, q as in their files

The gate is that of `fusion.py` with the value row in place of attribute vectors.
"""

from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int
from ml_collections import ConfigDict

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.fusion import KnowledgeFusion
from numcoke_jax.models.interface import GraphSizes, ModelSpec, SharedVectors
from numcoke_jax.models.score import DecodedOrderScore, TranslationScored, translation_term


def raw_values(literals: Literals) -> Float[Array, "N M"]:
    """x of every entity, 0 where missing."""
    return jnp.where(literals.observed, literals.values, 0.0)


def mean_over_fields(
    literals: Literals, vectors: Callable[[Float[Array, " N"]], Float[Array, "N d"]], dim: int
) -> Float[Array, "N d"]:
    """The mean of the vectors of an entity's values, 0 without any; one field's [N, d] at a time."""

    def add_field(total: Array, rows: tuple[Array, Array]) -> tuple[Array, None]:
        values, observed = rows
        return total + jnp.where(observed[:, None], vectors(values), 0.0), None

    known = raw_values(literals)
    zeros = jnp.zeros((known.shape[0], dim), known.dtype)
    total = lax.scan(add_field, zeros, (known.T, literals.observed.T))[0]
    return total / jnp.maximum(literals.observed.sum(1, keepdims=True), 1)


class LiteralE(TranslationScored):
    """Scores heads against one table of N gated vectors, the same under every relation.

    Attributes:
      sizes: N, R and M.
      dim: d.
      gate: joins embedding and values.
      encode_values: literals -> float32 [N, k], what the gate is given; the raw row of values [N, M] in
        LiteralE, another encoding of it in `nrn.py`.
      score_term: the decoder's term with its dropout; without an order term.
    """

    sizes: GraphSizes
    dim: int
    gate: KnowledgeFusion
    score_term: DecodedOrderScore
    encode_values: Callable[[Literals], Array] = raw_values

    def setup(self) -> None:
        vectors = nn.initializers.xavier_normal()
        self.entity_embedding = self.param("entity_embedding", vectors, (self.sizes.entities, self.dim))
        self.relation_embedding = self.param("relation_embedding", vectors, (self.sizes.relations, self.dim))

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> SharedVectors:
        """The gated entity table."""
        del train  # dropout is applied in the score
        entities = self.entity_embedding
        if self.sizes.fields:  # a graph without literals has nothing to gate in
            entities = self.gate(entities, self.numbers(literals))
        return SharedVectors(entities, self.relation_embedding[relations])

    def numbers(self, literals: Literals) -> Float[Array, "N k"]:
        """What the gate is given of an entity's values."""
        return self.encode_values(literals)


def gated_translation(config: ConfigDict, sizes: GraphSizes) -> LiteralE:
    """The model of `model.dim` and `score.{norm,margin,dropout}`, scored by a translation."""
    return LiteralE(
        sizes=sizes,
        dim=config.model.dim,
        gate=KnowledgeFusion(kind="gate"),
        score_term=translation_term(config, sizes, dropout=config.score.dropout),
    )


def from_config(config: ConfigDict, sizes: GraphSizes) -> LiteralE:
    """`gated_translation` with `score.decoder` in place of the translation; other keys have no effect."""
    model = gated_translation(config, sizes)
    return model.clone(score_term=model.score_term.clone(decoder=config.score.decoder))


MODEL = ModelSpec(from_config, per_entity=("entity_embedding",))
