"""Ordinal knowledge contrastive learning, one (head, relation) pair at a time (readings 10 to 13)."""

import dataclasses
import math
from typing import Any

import numpy as np

from tests.oracles.arithmetic import Vector, dot, norm


@dataclasses.dataclass
class Mixes:
    """What a pair contributes: its query p, its positive mix u and its negative mixes v."""

    query: Vector
    positive: Vector
    negatives: list[Vector]


def cosine(left: Vector, right: Vector) -> float:
    return dot(left, right) / (norm(left, 2) * norm(right, 2))


def top_k(preferences: list[float], members: list[bool], k: int) -> list[int]:
    """The k members with the highest preference, the lowest index first among equals."""
    indices = [i for i, member in enumerate(members) if member]
    return sorted(indices, key=lambda i: (-preferences[i], i))[:k]


def mix(table: np.ndarray, chosen: list[int], anchor: Vector, coefficient: float, reduce: str) -> Vector:
    """coefficient * (sum or mean of the chosen) + (1 - coefficient) * e_h."""
    total = np.zeros(len(anchor))
    for i in chosen:
        total = total + table[i]
    if reduce == "mean":
        total = total / len(chosen)
    return coefficient * total + (1.0 - coefficient) * anchor


def similarity(query: Vector, sample: Vector, kind: str, p: int) -> float:
    if kind == "dot":
        return dot(query, sample)
    if kind == "cosine":
        return cosine(query, sample)
    return -norm(query - sample, p)


def negative_set(head: int, positives: list[bool], given: list[bool], source: str) -> list[bool]:
    """N[h, r]: the given negatives but the head, else every entity but the head and its training tails."""
    others = [negative and i != head for i, negative in enumerate(given)]
    if source == "given" and any(others):
        return others
    return [i != head and not positive for i, positive in enumerate(positives)]


def mixes_of_pair(
    table: np.ndarray,
    relation: Vector,
    head: int,
    positives: list[bool],
    given: list[bool],
    alpha: float,
    betas: list[float],
    settings: Any,
    preferences: list[float] | None = None,
) -> Mixes | None:
    """None where there is nothing to contrast; `preferences` replace the cosine to the head."""
    anchor = table[head]
    if preferences is None:
        preferences = [cosine(anchor, entity) for entity in table]
    chosen_positives = top_k(preferences, positives, settings.k)
    negatives = negative_set(head, positives, given, settings.negatives)
    chosen_negatives = top_k(preferences, negatives, settings.k)
    if not chosen_positives or not chosen_negatives:
        return None
    return Mixes(
        query=anchor + relation,
        positive=mix(table, chosen_positives, anchor, alpha, settings.reduce),
        negatives=[mix(table, chosen_negatives, anchor, beta, settings.reduce) for beta in betas],
    )


def loss_of_pair(own: Mixes, others: list[Mixes], settings: Any) -> float:
    """-log(exp(p.u/tau) / (exp(p.u/tau) + sum_v exp(p.v/tau)))."""

    def exponential(sample: Vector) -> float:
        alike = similarity(own.query, sample, settings.similarity, settings.norm)
        return math.exp(alike / settings.temperature)

    samples = list(own.negatives)
    if settings.in_batch:
        for other in others:
            samples += other.negatives
    positive = exponential(own.positive)
    return -math.log(positive / (positive + sum(exponential(sample) for sample in samples)))


def loss_of_batch(
    tables: np.ndarray,
    relations: np.ndarray,
    batch: Any,
    alpha: np.ndarray,
    beta: np.ndarray,
    settings: Any,
    preferences: np.ndarray | None = None,
) -> tuple[float, int]:
    """Sum over the pairs that have positives and negatives, and how many these are.

    tables [S, N, d]; relations [S, d]; alpha [S, H]; beta [S, H, J]; preferences [S, H, N] or None.
    """
    found = []
    for s, heads in enumerate(np.asarray(batch.heads)):
        for h, head in enumerate(heads):
            if not batch.mask[s, h]:
                continue
            pair = mixes_of_pair(
                tables[s],
                relations[s],
                int(head),
                [bool(x) for x in batch.labels[s, h]],
                [bool(x) for x in batch.negatives[s, h]],
                float(alpha[s, h]),
                [float(x) for x in beta[s, h]],
                settings,
                None if preferences is None else [float(x) for x in preferences[s, h]],
            )
            if pair is not None:
                found.append(pair)
    total = 0.0
    for pair in found:
        total += loss_of_pair(pair, [other for other in found if other is not pair], settings)
    return total, len(found)
