"""The contrastive part of RAKGE's loss.

Source: Kim et al., "Exploiting Relation-aware Attribute Representation Learning in Knowledge Graph Embedding
for Numerical Reasoning", KDD 2023, in the form of its public code.  With P the training tails and N the given
negatives of (h, r), u_t ~ U[0, 1] per entity and pair, and p_t the model's own prediction for (h, r, t):

    c+ = sum_{t in P} u_t e~_t / sum_{t in P} u_t,       c- = sum_{t in N} u_t p_t e~_t / sum_{t in N} u_t p_t
    m+ = alpha c+ + (1 - alpha) e~_h,                    m- = beta c- + (1 - beta) e~_h
    L  = -mean_(h, r) log sigmoid(||e~_h + r - m-|| - ||e~_h + r - m+||),    alpha, beta ~ U[0, 1] per pair

over the pairs that have given negatives.  e~ are the vectors after dropout that the step's logits come from,
the norm is the score's, and gradients flow through the predictions p_t too.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from numcoke_jax.data.batches import Batch
from numcoke_jax.models.losses.contrastive import ContrastiveSettings, similarity
from numcoke_jax.system import random_streams

# Added to a sum of weights, as in the public code: where every negative is already predicted to be false
# (all p_t far below it), c- shrinks to 0 rather than staying at the negatives.
EPSILON = 1e-8


def rakge_contrastive_loss(
    heads: Float[Array, "S H d"],
    tails: Float[Array, "S N d"],
    relations: Float[Array, "S d"],
    logits: Float[Array, "S H N"],
    batch: Batch,
    *,
    norm: int,
    key: Key[Array, ""],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Sum of L over the real pairs that have given negatives, and their number (float32 scalars).

    Args:
      heads: e~ of the pairs' heads.
      tails: e~ of every entity under each relation slot.
      relations: r.
      logits: of every entity as tail.
      batch: `labels` are P, `negatives` are N.
      norm: 1 or 2.
      key: the step's key; the streams "alpha", "beta" and "member_weights" are drawn from it.
    """
    random_weights = jax.random.uniform(random_streams.stream(key, "member_weights"), logits.shape)
    alpha = jax.random.uniform(random_streams.stream(key, "alpha"), (*batch.heads.shape, 1))
    beta = jax.random.uniform(random_streams.stream(key, "beta"), (*batch.heads.shape, 1))
    positive = weighted_mean(tails, random_weights, batch.labels)
    negative = weighted_mean(tails, random_weights * jax.nn.sigmoid(logits), batch.negatives)

    queries = heads + relations[:, None, :]
    settings = ContrastiveSettings(similarity="distance", norm=norm)
    to_positive = similarity(queries, alpha * positive + (1.0 - alpha) * heads, settings)
    to_negative = similarity(queries, beta * negative + (1.0 - beta) * heads, settings)
    losses = jax.nn.softplus(to_negative - to_positive)  # -log sigmoid of the opposite
    pairs = batch.mask & batch.negatives.any(-1)
    return jnp.where(pairs, losses, 0.0).sum(), pairs.sum(dtype=jnp.float32)


def weighted_mean(
    vectors: Float[Array, "S N d"], weights: Float[Array, "S H N"], members: Bool[Array, "S H N"]
) -> Float[Array, "S H d"]:
    """Weighted mean of the members' vectors; 0 if there is no member or no weight."""
    weights = jnp.where(members, weights, 0.0)
    return weights @ vectors / (weights.sum(-1, keepdims=True) + EPSILON)
