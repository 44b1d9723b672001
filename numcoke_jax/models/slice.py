"""SLiCE: an entity in the context of its facts, by self-attention; entities that are hidden must be guessed.

Source: Wang et al., "Self-Supervised Learning of Contextual Embeddings for Link Prediction in Heterogeneous
Networks", WWW 2021, with its public code where the paper leaves a choice open.

    c(i)      = i itself, and the other end of each of its training facts
    h^(k+1)_i = h^k_i + sum over j in c(i) of softmax(<W_1 h^k_i, W_2 x_j> / sqrt(d)) W_3 x_j      h^0 = e
    x_j       = h^k_j, plus or minus the vector of the fact's relation as i is its tail or its head
    e'_i      = sum over k of h^k_i                       h^0 .. h^L
    score     = margin - ||e'_h + r - e'_t||_p            r: another vector of the relation
    loss      = BCE + lambda mean of -log softmax_j(<U e*_i, e_j>) over the step's heads i that are hidden

e* comes from a table in which the rows of hidden entities, `HIDDEN` of all in each step, are one learned
vector. That paper samples contexts by walks, for a pair of entities at a time, trains the two losses one
after the other and has one score for all relations.  Here a context is everything that the graph has around
an entity, so that all tails can be ranked at once; contexts further away come by the next layer; relations
enter by the translation score, as in `simgcl.py`.  Left out: a start from node2vec.
"""

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.bigi import mean_by_softmax
from numcoke_jax.models.entity_table import PropagatingModel, table_model
from numcoke_jax.models.interface import ModelSpec, SharedVectors, SumAndCount

HIDDEN = 0.15  # share of the entities


@struct.dataclass
class InContext:
    """What scoring needs, and in training what guesses the hidden entities."""

    scored: SharedVectors
    guesses: Any = None  # float32 [N, d], U e*
    table: Any = None  # float32 [N, d], e
    hidden: Any = None  # bool [N]


class ContextLayer(nn.Module):
    """One step of self-attention within each entity's context."""

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N d"], relations: Float[Array, "R d"], facts: Int[Array, "n 3"]
    ) -> Float[Array, "N d"]:
        count, dim = rows.shape
        everyone = jnp.arange(count)
        centre = jnp.concatenate([everyone, facts[:, 0], facts[:, 2]])
        member = jnp.concatenate([everyone, facts[:, 2], facts[:, 0]])
        of_facts = relations[facts[:, 1]]
        context = rows[member] + jnp.concatenate([jnp.zeros_like(rows), -of_facts, of_facts])
        queries, keys = (nn.Dense(dim, use_bias=False, name=name) for name in ("query", "key"))
        logits = (queries(rows)[centre] * keys(context)).sum(-1) / math.sqrt(dim)
        mixed = mean_by_softmax(context, logits, centre, count)
        return rows + nn.Dense(dim, use_bias=False, name="value")(mixed)


class SLiCE(PropagatingModel):
    """Attends to the other ends of each entity's facts."""

    def setup(self) -> None:
        vectors, shape = nn.initializers.xavier_normal(), (self.sizes.relations, self.dim)
        self.relation_embedding = self.param("relation_embedding", vectors, shape)
        self.context_relation = self.param("context_relation", vectors, shape)
        self.hidden_entity = self.param("hidden_entity", vectors, (1, self.dim))
        self.context_layers = [ContextLayer() for _ in range(self.layers)]
        self.guess = nn.Dense(self.dim)

    def __call__(
        self, relations: Int[Array, " S"], heads: Int[Array, "S H"], literals: Literals, *, train: bool
    ) -> tuple[Float[Array, "S H N"], InContext]:
        """Logits of every entity as tail of each (head, relation), and in training the guesses."""
        table = self.entities(literals, train=train)
        encoded = self._encoded(table, relations, literals)
        logits = self.score(encoded, heads, train=train)
        if self.is_initializing():
            self.guess(table)
        if not train:
            return logits, encoded
        hidden = jax.random.bernoulli(self.make_rng("view_noise"), HIDDEN, table.shape[:1])
        seen = jnp.where(hidden[:, None], self.hidden_entity, table)
        guesses = self.guess(self._in_context(seen, literals))
        return logits, encoded.replace(guesses=guesses, table=table, hidden=hidden)  # type: ignore[attr-defined]

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> InContext:
        return self._encoded(self.entities(literals, train=train), relations, literals)

    def _encoded(self, table: Array, relations: Int[Array, " S"], literals: Literals) -> InContext:
        vectors = self._in_context(table, literals)
        return InContext(SharedVectors(vectors, self.relation_embedding[relations]))

    def _in_context(self, rows: Float[Array, "N d"], literals: Literals) -> Float[Array, "N d"]:
        total = rows
        for layer in self.context_layers:
            rows = layer(rows, self.context_relation, literals.facts)
            total = total + rows
        return total


def guessing_loss(encoded: InContext, logits: Array, batch: Batch, **_: Any) -> SumAndCount:
    """Cross-entropy over all entities, of the step's real queries whose head is hidden in the model."""
    del logits
    scores = encoded.guesses[batch.heads] @ encoded.table.T
    own = jnp.take_along_axis(scores, batch.heads[..., None], axis=-1)[..., 0]
    counted = (encoded.hidden[batch.heads] & batch.mask).astype(scores.dtype)
    return (counted * (jax.nn.logsumexp(scores, axis=-1) - own)).sum(), counted.sum()


MODEL = ModelSpec(
    table_model(SLiCE, "graph.layers", "score.norm", "score.margin"),
    per_entity=("embedding",),
    reads_facts=True,
    second_loss=lambda _: guessing_loss,
)
