"""Ordinal knowledge contrastive learning (paper, "Ordinal Knowledge Contrastive Learning").

    E+ = {e_att_i : i in P[h, r]},  E- = {e_att_j : j in N[h, r]}
    e_mix+ = alpha sum_{Topk(E+)} e_att_p + (1 - alpha) e_att_h,   alpha ~ U[0, 1] per pair
    e_mix- = beta  sum_{Topk(E-)} e_att_n + (1 - beta)  e_att_h,   beta  ~ U[0, 1] per pair and mix
    L_CL   = -mean_(h, r) log( exp(sim(p, u)/tau) / (exp(sim(p, u)/tau) + sum_v exp(sim(p, v)/tau)) )

with p = e_att_h + e_r, u = e_mix+ and v the pair's own negative mixes.  Topk takes the k members of the
set that are closest to e_att_h by cosine; a smaller set is taken whole.  A pair without a positive or
without a negative adds nothing to the sum or the count.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from numcoke_jax.data.batches import Batch
from numcoke_jax.models.ops import pairwise
from numcoke_jax.system import random_streams

TINY = 1e-12  # squared length under which a vector has no direction


@dataclasses.dataclass(frozen=True)
class ContrastiveSettings:
    """The switches of `config.okcl`.

    Attributes:
      k: positives and negatives that are kept, the nearest by `sampling`; >= 1.
      temperature: tau, > 0.
      sampling: what the k are chosen by.
      negatives: where they come from.
      reduce: how the k become one vector.
      similarity: of anchor and sample.
      num_negative_mixes: negatives mixed with the head, each with its own coefficient; >= 1.
      in_batch: whether the negative mixes of the other pairs are negatives too.
      norm: 1 or 2, the score's, of the similarity "distance".
    """

    k: int = 5
    temperature: float = 1.0
    sampling: str = "cosine"
    negatives: str = "given"
    reduce: str = "mean"
    similarity: str = "distance"
    num_negative_mixes: int = 1
    in_batch: bool = False
    norm: int = 1


def ordinal_contrastive_loss(
    entities: Float[Array, "S N d"],
    relations: Float[Array, "S d"],
    batch: Batch,
    *,
    settings: ContrastiveSettings,
    key: Key[Array, ""],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Sum of L_CL over the pairs that have positives and negatives, and their number (float32 scalars).

    Args:
      entities: e_att under each relation slot.
      relations: e_r.
      batch: `labels` are P[h, r].  N[h, r] are its `negatives` except the head, if there are any and
        `settings.negatives` is not "unlinked"; else every entity except the head and its training tails.
      settings: see `ContrastiveSettings`.
      key: the step's key; the streams "alpha", "beta" and "sampling" are drawn from it.
    """
    heads, positives = batch.heads, batch.labels
    anchors = jnp.take_along_axis(entities, heads[..., None], axis=1)
    negatives = _negative_set(positives, batch.negatives, heads, settings.negatives)
    preferences = _preferences(anchors, entities, settings.sampling, random_streams.stream(key, "sampling"))

    positive, has_positive = reduced_top_k(entities, preferences, positives, settings)
    negative, has_negative = reduced_top_k(entities, preferences, negatives, settings)
    pairs = batch.mask & has_positive & has_negative

    alpha = jax.random.uniform(random_streams.stream(key, "alpha"), (*heads.shape, 1))
    beta = jax.random.uniform(
        random_streams.stream(key, "beta"), (*heads.shape, settings.num_negative_mixes, 1)
    )
    positive_mix = alpha * positive + (1.0 - alpha) * anchors
    negative_mixes = beta * negative[:, :, None] + (1.0 - beta) * anchors[:, :, None]

    queries = anchors + relations[:, None, :]
    to_positive = similarity(queries, positive_mix, settings)[..., None]
    to_negatives = similarity(queries[:, :, None], negative_mixes, settings)
    if settings.in_batch:
        others = _similarity_to_other_pairs(queries, negative_mixes, pairs, settings)
        to_negatives = jnp.concatenate([to_negatives, others], axis=-1)
    logits = jnp.concatenate([to_positive, to_negatives], axis=-1) / settings.temperature
    losses = jax.nn.logsumexp(logits, axis=-1) - logits[..., 0]
    return jnp.where(pairs, losses, 0.0).sum(), pairs.sum(dtype=jnp.float32)


def top_k(
    preferences: Float[Array, " N"], members: Bool[Array, " N"], k: int
) -> tuple[Int[Array, " k"], Bool[Array, " k"]]:
    """Indices of the k members with the highest preference, and which of them exist.

    Ties go to the lowest index.  With fewer than k members (or k > N) the surplus entries are marked False,
    and their index means nothing.
    """
    size = min(k, preferences.shape[0])
    values, indices = lax.top_k(jnp.where(members, preferences, -jnp.inf), size)
    padding = (0, k - size)
    return jnp.pad(indices, padding), jnp.pad(values > -jnp.inf, padding)


def reduced_top_k(
    entities: Float[Array, "S N d"],
    preferences: Float[Array, "S H N"],
    members: Bool[Array, "S H N"],
    settings: ContrastiveSettings,
) -> tuple[Float[Array, "S H d"], Bool[Array, "S H"]]:
    """Sum or mean of the top-k members' vectors per pair (0 for an empty set), and whether there are any."""

    def of_pair(table: Array, preference: Array, member: Array) -> tuple[Array, Array]:
        indices, exists = top_k(preference, member, settings.k)
        total = jnp.where(exists[:, None], table[indices], 0.0).sum(0)
        count = exists.sum()
        if settings.reduce == "mean":
            total = total / jnp.maximum(count, 1)
        return total, count > 0

    return jax.vmap(jax.vmap(of_pair, in_axes=(None, 0, 0)))(entities, preferences, members)


def cosine(left: Float[Array, "*#batch d"], right: Float[Array, "*#batch d"]) -> Float[Array, "*#batch"]:
    """Cosine of the angle; 0, with finite gradients, where a vector has no length."""
    return (_unit(left) * _unit(right)).sum(-1)


def similarity(
    query: Float[Array, "*#batch d"], sample: Float[Array, "*#batch d"], settings: ContrastiveSettings
) -> Float[Array, "*#batch"]:
    """How alike a query and a mix are: minus the score's distance, the cosine or the dot product."""
    if settings.similarity == "cosine":
        return cosine(query, sample)
    if settings.similarity == "dot":
        return (query * sample).sum(-1)
    if settings.norm == 1:
        return -jnp.abs(query - sample).sum(-1)
    squares = jnp.square(query - sample).sum(-1)
    return -jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)


def _unit(vectors: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
    squares = jnp.square(vectors).sum(-1, keepdims=True)
    return jnp.where(squares > TINY, vectors * lax.rsqrt(jnp.maximum(squares, TINY)), 0.0)


def _preferences(
    anchors: Float[Array, "S H d"], entities: Float[Array, "S N d"], sampling: str, key: Key[Array, ""]
) -> Float[Array, "S H N"]:
    """What top-k sorts by: the cosine to the head, or random numbers (the ablation of ordinal sampling)."""
    if sampling == "random":
        return jax.random.uniform(key, (*anchors.shape[:2], entities.shape[1]))
    cosines = jnp.einsum("shd,snd->shn", _unit(anchors), _unit(entities))
    return lax.stop_gradient(cosines)  # they only select


def _negative_set(
    positives: Bool[Array, "S H N"], given: Bool[Array, "S H N"], heads: Int[Array, "S H"], source: str
) -> Bool[Array, "S H N"]:
    # A strict order rules out the head as its own tail, but nothing is nearer to the head: it would come
    # first in every top-k, and its mix would be the head itself.
    others = jnp.arange(positives.shape[-1]) != heads[..., None]
    unlinked = ~positives & others
    if source == "unlinked":
        return unlinked
    given = given & others
    return jnp.where(given.any(-1, keepdims=True), given, unlinked)


def _similarity_to_other_pairs(
    queries: Float[Array, "S H d"],
    negative_mixes: Float[Array, "S H J d"],
    pairs: Bool[Array, "S H"],
    settings: ContrastiveSettings,
) -> Float[Array, "S H X"]:
    """Similarity to the negative mixes of all other valid pairs of the step, -inf elsewhere; X = S H J."""
    size, mixes = pairs.size, negative_mixes.shape[2]
    left = queries.reshape(1, size, -1)
    right = negative_mixes.reshape(1, size * mixes, -1)
    if settings.similarity == "distance":
        similarities = -pairwise.distance(left, right, settings.norm)[0]
    elif settings.similarity == "cosine":
        similarities = _unit(left[0]) @ _unit(right[0]).T
    else:
        similarities = left[0] @ right[0].T
    owner = jnp.repeat(jnp.arange(size), mixes)
    foreign = (owner[None, :] != jnp.arange(size)[:, None]) & pairs.reshape(-1)[owner][None, :]
    return jnp.where(foreign, similarities, -jnp.inf).reshape(*pairs.shape, size * mixes)
