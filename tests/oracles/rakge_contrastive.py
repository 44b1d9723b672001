"""The contrastive part of RAKGE's loss, one (head, relation) pair at a time."""

import math
from typing import Any

import numpy as np

from tests.oracles.arithmetic import Vector, norm, sigmoid

EPSILON = 1e-8  # in the denominators of the means


def weighted_mean(vectors: np.ndarray, weights: list[float]) -> Vector:
    """sum_t w_t e_t / (sum_t w_t + epsilon)."""
    total = np.zeros(vectors.shape[1])
    for weight, vector in zip(weights, vectors, strict=True):
        total = total + weight * vector
    return total / (sum(weights) + EPSILON)


def loss_of_pair(
    head: Vector,
    tails: np.ndarray,
    relation: Vector,
    logits: list[float],
    positives: list[bool],
    negatives: list[bool],
    random_weights: list[float],
    alpha: float,
    beta: float,
    p: int,
) -> float:
    """-log sigmoid(||h + r - m-|| - ||h + r - m+||)."""
    of_positives = [u if member else 0.0 for u, member in zip(random_weights, positives, strict=True)]
    of_negatives = [
        u * sigmoid(logit) if member else 0.0
        for u, logit, member in zip(random_weights, logits, negatives, strict=True)
    ]
    positive_mix = alpha * weighted_mean(tails, of_positives) + (1.0 - alpha) * head
    negative_mix = beta * weighted_mean(tails, of_negatives) + (1.0 - beta) * head
    query = head + relation
    return -math.log(sigmoid(norm(query - negative_mix, p) - norm(query - positive_mix, p)))


def loss_of_batch(
    heads: np.ndarray,
    tails: np.ndarray,
    relations: np.ndarray,
    logits: np.ndarray,
    batch: Any,
    random_weights: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    p: int,
) -> tuple[float, int]:
    """Sum over the real pairs that have given negatives, and how many these are.

    heads [S, H, d]; tails [S, N, d]; relations [S, d]; logits, random_weights [S, H, N]; alpha, beta [S, H].
    """
    total, count = 0.0, 0
    for s, h in np.ndindex(*alpha.shape):
        if not (batch.mask[s, h] and np.asarray(batch.negatives[s, h]).any()):
            continue
        total += loss_of_pair(
            heads[s, h],
            tails[s],
            relations[s],
            [float(x) for x in logits[s, h]],
            [bool(x) for x in batch.labels[s, h]],
            [bool(x) for x in batch.negatives[s, h]],
            [float(x) for x in random_weights[s, h]],
            float(alpha[s, h]),
            float(beta[s, h]),
            p,
        )
        count += 1
    return total, count
