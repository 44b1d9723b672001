"""Scores of held-out facts and of their reverses, relation by relation, from whole rows of scores.

Only one chunk of rows is in memory at a time, so it grows with the facts and with chunk x N, not with N x N.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from numcoke_jax.graph import HEAD, RELATION, TAIL
from numcoke_jax.placement import fetch

STRENGTH_DIGITS = 9  # of a strength: sums in another order must not break a tie


class RelationPairs(NamedTuple):
    """The facts of one relation, n of them, among E entities.

    Attributes:
      relation: its id.
      rows: int64 [n] positions in the facts that were given.
      forward: float32 [n] scores of (h, r, t).
      backward: float32 [n] scores of (t, r, h).
      entities: int [E] ids of their heads and tails, ascending.
      strength: float64 [E], by which the model puts these entities into one order: the mean over the others
        o of score(e, r, o) - score(o, r, e), divided by the largest score.
    """

    relation: int
    rows: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    entities: np.ndarray
    strength: np.ndarray


def scored_pairs(
    facts: np.ndarray,
    encode_fn: Callable[[int], Any],
    score_fn: Callable[[Any, Array], Array],
    chunk: int,
) -> Iterator[RelationPairs]:
    """Score every fact and its reverse.

    Args:
      facts: int32 [n, 3].
      encode_fn: relation id -> what `score_fn` needs for it.
      score_fn: (encoded, heads int32 [chunk]) -> scores [chunk, N] or more columns.
      chunk: heads scored at once.

    Raises:
      FloatingPointError: a score among the entities of a relation's facts is not finite; the message names
        the relation.
    """
    for relation in np.unique(facts[:, RELATION]).tolist():
        rows = np.flatnonzero(facts[:, RELATION] == relation)
        heads, tails = facts[rows, HEAD], facts[rows, TAIL]
        yield _pairs_of_relation(relation, rows, heads, tails, encode_fn(relation), score_fn, chunk)


def _pairs_of_relation(
    relation: int,
    rows: np.ndarray,
    heads: np.ndarray,
    tails: np.ndarray,
    encoded: Any,
    score_fn: Callable[[Any, Array], Array],
    chunk: int,
) -> RelationPairs:
    entities, places = np.unique(np.concatenate([heads, tails]), return_inverse=True)
    head_places, tail_places = np.split(places, 2)
    forward, backward = np.empty(len(rows), np.float32), np.empty(len(rows), np.float32)
    as_head, as_tail, largest = np.zeros(len(entities)), np.zeros(len(entities)), 0.0
    directions = [
        (np.argsort(scored, kind="stable"), scored, column, into)
        for scored, column, into in ((head_places, tails, forward), (tail_places, heads, backward))
    ]
    for begin in range(0, len(entities), chunk):
        block = entities[begin : begin + chunk]
        end = begin + len(block)
        scores = fetch(score_fn(encoded, jnp.asarray(np.resize(block, chunk).astype(np.int32))))[: len(block)]
        among = scores[:, entities].astype(np.float64)
        if not np.isfinite(among).all():
            raise FloatingPointError(f"non-finite scores for relation {relation}")
        as_head[begin:end] = among.sum(axis=1)
        as_tail += among.sum(axis=0)
        largest = max(largest, float(np.abs(among).max()))
        for order, scored, column, into in directions:
            first, last = np.searchsorted(scored, [begin, end], sorter=order)
            mine = order[first:last]
            into[mine] = scores[scored[mine] - begin, column[mine]]
    strength = (as_head - as_tail) / (max(len(entities) - 1, 1) * (largest or 1.0))  # e itself cancels
    strength = np.round(strength, STRENGTH_DIGITS)
    return RelationPairs(relation, rows, forward, backward, entities, strength)
