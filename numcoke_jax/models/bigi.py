"""BiGI: heads and tails as two sides of a graph, whose facts must be told from those of a shuffled one.

Source: Cao et al., "Bipartite Graph Embedding via Mutual Information Maximization", WSDM 2021, with its
public code.  That paper links users and items; here an entity is a user as head and an item as tail of the
training facts, and relations enter by the translation score, since recommendation has none.

    u' = relu(W_u [f(A f(A^T u W_1) W_2); u])        f leaky ReLU; A, A^T: means over the tails of a head, and
    v' = relu(W_v [f(A^T f(A v W_3) W_4); v])        the heads of a tail; at first u = v = e; L layers
    score = margin - ||u_h + r - v_t||_p

    s    = sigmoid(W_s [mean of u; mean of v])                    the whole graph
    a_h  = u_h + sum over its tails of softmax(<P u_h, Q v_t> / sqrt(d)) Q v_t,    a_t likewise from its heads
    g    = sigmoid(W_g [a_h; a_t])                                a fact and what is around it
    loss = BCE + lambda (mean over the facts of -log sigmoid(<g, B s> + b) - log sigmoid(-<g*, B s> - b)) / 2

g* is g with the rows of e shuffled, a permutation for each side and step, and without a gradient to them.
Left out: links that are switched in the shuffled graph as well, which the paper sets a rate for.
"""

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Float, Int

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import PropagatingModel, table_model
from numcoke_jax.models.interface import ModelSpec, SumAndCount
from numcoke_jax.models.ops import pairwise

SLOPE = 0.1  # of the leaky ReLU


@struct.dataclass
class BothSides:
    """What scoring under S relations needs; in training, the discriminator's logits of all facts."""

    heads: Any  # float32 [N, d], u
    tails: Any  # float32 [N, d], v
    relations: Any  # float32 [S, d]
    true: Any = None  # float32 [n]
    shuffled: Any = None  # float32 [n]


class SideToSide(nn.Module):
    """A layer: each entity of one side hears those of its own side that share a neighbour with it."""

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N d"], own: Int[Array, " n"], other: Int[Array, " n"]
    ) -> Float[Array, "N d"]:
        dim = rows.shape[-1]
        across = nn.leaky_relu(means(nn.Dense(dim, name="there")(rows), own, other), SLOPE)
        heard = nn.leaky_relu(means(nn.Dense(dim, name="back")(across), other, own), SLOPE)
        return nn.relu(nn.Dense(dim, name="union")(jnp.concatenate([heard, rows], axis=-1)))


class Infomax(nn.Module):
    """Which facts belong to the whole."""

    @nn.compact
    def __call__(
        self, sides: tuple[Array, Array], shuffled: tuple[Array, Array], facts: Int[Array, "n 3"]
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        dim, ends = sides[0].shape[-1], (facts[:, 0], facts[:, 2])
        maps = nn.Dense(dim, name="of_heads"), nn.Dense(dim, name="of_tails")
        of_fact, of_whole = nn.Dense(dim, name="fact"), nn.Dense(dim, name="whole")
        weigh = self.param("bilinear", nn.initializers.xavier_uniform(), (dim, dim))
        bias = self.param("bias", nn.initializers.zeros_init(), ())
        # Only entities of the graph: others, and rows of padding, have no facts.
        parts = [mean_of_ends(rows, places) for rows, places in zip(sides, ends, strict=True)]
        whole = weigh @ nn.sigmoid(of_whole(jnp.concatenate(parts)))

        def logits(heads: Array, tails: Array) -> Array:
            queries, keys = maps[0](heads), maps[1](tails)
            around_heads = heads + attention(queries, keys, *ends)
            around_tails = tails + attention(keys, queries, *ends[::-1])
            joined = jnp.concatenate([around_heads[ends[0]], around_tails[ends[1]]], axis=-1)
            return nn.sigmoid(of_fact(joined)) @ whole + bias

        return logits(*sides), logits(*shuffled)


class BiGI(PropagatingModel):
    """Encodes heads and tails as two sides."""

    def setup(self) -> None:
        super().setup()
        self.head_layers = [SideToSide() for _ in range(self.layers)]
        self.tail_layers = [SideToSide() for _ in range(self.layers)]
        self.infomax = Infomax()

    def __call__(
        self, relations: Int[Array, " S"], heads: Int[Array, "S H"], literals: Literals, *, train: bool
    ) -> tuple[Float[Array, "S H N"], BothSides]:
        """Logits of every entity as tail of each (head, relation), and in training those of the facts."""
        table, facts = self.entities(literals, train=train), literals.facts
        sides = self._sides(table, table, facts)
        encoded = BothSides(*sides, self.relation_embedding[relations])
        logits = self.score(encoded, heads, train=train)
        if not (train or self.is_initializing()):
            return logits, encoded
        fixed, (of_heads, of_tails) = lax.stop_gradient(table), self._keys()
        permuted = jax.random.permutation
        shuffled = self._sides(permuted(of_heads, fixed), permuted(of_tails, fixed), facts)
        true, false = self.infomax(sides, shuffled, facts)
        return logits, encoded.replace(true=true, shuffled=false)  # type: ignore[attr-defined]

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> BothSides:
        table = self.entities(literals, train=train)
        return BothSides(*self._sides(table, table, literals.facts), self.relation_embedding[relations])

    def score(self, encoded: BothSides, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        vectors = encoded.heads[heads], encoded.relations, encoded.tails
        return pairwise.translation(*vectors, self.norm, self.margin)

    def _keys(self) -> Any:
        key = jax.random.key(0) if self.is_initializing() else self.make_rng("view_noise")
        return jax.random.split(key)

    def _sides(self, heads: Array, tails: Array, facts: Int[Array, "n 3"]) -> tuple[Array, Array]:
        ends = facts[:, 0], facts[:, 2]
        for of_heads, of_tails in zip(self.head_layers, self.tail_layers, strict=True):
            heads, tails = of_heads(heads, *ends), of_tails(tails, *ends[::-1])
        return heads, tails


def means(rows: Float[Array, "N d"], source: Int[Array, " n"], target: Int[Array, " n"]) -> Array:
    """The mean of the sources' rows for each target, 0 without any."""
    count = rows.shape[0]
    degree = jax.ops.segment_sum(jnp.ones(source.shape, rows.dtype), target, count)
    return jax.ops.segment_sum(rows[source], target, count) / jnp.maximum(degree, 1.0)[:, None]


def mean_of_ends(rows: Float[Array, "N d"], places: Int[Array, " n"]) -> Float[Array, " d"]:
    """The mean over the entities that are at this end of any fact, each once."""
    present = jnp.zeros(rows.shape[:1], rows.dtype).at[places].set(1.0)
    return present @ rows / jnp.maximum(present.sum(), 1.0)


def attention(
    queries: Float[Array, "N d"], keys: Float[Array, "N d"], own: Int[Array, " n"], other: Int[Array, " n"]
) -> Float[Array, "N d"]:
    """For each entity the sum of its neighbours' keys, weighed by the softmax over its facts."""
    logits = (queries[own] * keys[other]).sum(-1) / math.sqrt(queries.shape[-1])
    return mean_by_softmax(keys[other], logits, own, queries.shape[0])


def mean_by_softmax(
    rows: Float[Array, "n d"], logits: Float[Array, " n"], group: Int[Array, " n"], count: int
) -> Float[Array, "count d"]:
    """The sum of each group's rows, weighed by the softmax over the group; 0 of no rows."""
    highest = jax.ops.segment_max(lax.stop_gradient(logits), group, count)
    weights = jnp.exp(logits - highest[group])
    total = jax.ops.segment_sum(weights, group, count)
    return jax.ops.segment_sum((weights / total[group])[:, None] * rows, group, count)


def infomax_loss(encoded: BothSides, logits: Array, batch: Batch, **_: Any) -> SumAndCount:
    """Binary cross-entropy of the discriminator, whose rows are shuffled in the model."""
    del logits, batch
    total = (nn.softplus(-encoded.true) + nn.softplus(encoded.shuffled)).sum()
    return total, jnp.asarray(2 * len(encoded.true), total.dtype)


MODEL = ModelSpec(
    table_model(BiGI, "graph.layers", "score.norm", "score.margin"),
    per_entity=("embedding",),
    reads_facts=True,
    second_loss=lambda _: infomax_loss,
)
