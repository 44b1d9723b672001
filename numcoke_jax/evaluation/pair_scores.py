"""Scores of held-out facts and of their reverses, relation by relation, from whole rows of scores.

Rows of all N entities are in memory for one chunk of heads at a time.  What is kept of a relation are the two
scores of each fact, and the scores of its E entities against at most `MOST_SCORES` / E opponents.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, TAIL
from numcoke_jax.evaluation.scorer import ScoredHeads

MOST_SCORES = 1 << 25  # kept of one relation, in each direction: all opponents of up to 5,792 entities
OPPONENTS_AT_ONCE = 256


class RelationPairs(NamedTuple):
    """The facts of one relation, n of them, among E entities.

    Attributes:
      relation: its id.
      rows: int64 [n] positions in the facts that were given.
      forward: float32 [n] scores of (h, r, t).
      backward: float32 [n] scores of (t, r, h).
      entities: int [E] ids of their heads and tails, ascending.
      strength: float64 [E], by which the model puts these entities into one order: the share of opponents o
        with score(e, r, o) > score(o, r, e), a tie half.  Opponents of an entity are the others, or if they
        are too many a part of them, evenly spaced by id.
    """

    relation: int
    rows: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    entities: np.ndarray
    strength: np.ndarray


def scored_pairs(facts: np.ndarray, scored_heads: ScoredHeads) -> Iterator[RelationPairs]:
    """The scores of every fact (int32 [n, 3]) and of its reverse."""
    for relation in np.unique(facts[:, RELATION]).tolist():
        rows = np.flatnonzero(facts[:, RELATION] == relation)
        heads, tails = facts[rows, HEAD], facts[rows, TAIL]
        entities, places = np.unique(np.concatenate([heads, tails]), return_inverse=True)
        head_places, tail_places = np.split(places, 2)
        forward, backward = np.empty(len(rows), np.float32), np.empty(len(rows), np.float32)
        rivals = _opponents(len(entities))
        as_head = np.empty((len(entities), len(rivals)), np.float32)  # of (e, r, o), and of (o, r, e)
        as_tail = np.empty((len(rivals), len(entities)), np.float32)
        directions = [
            (np.argsort(scored, kind="stable"), scored, column, into)
            for scored, column, into in ((head_places, tails, forward), (tail_places, heads, backward))
        ]
        for begin, scores in scored_heads(entities, relation):
            end, among = begin + len(scores), scores[:, entities]
            as_head[begin:end] = among[:, rivals]
            first, last = np.searchsorted(rivals, [begin, end])
            as_tail[first:last] = among[rivals[first:last] - begin]
            for order, scored, column, into in directions:
                first, last = np.searchsorted(scored, [begin, end], sorter=order)
                mine = order[first:last]
                into[mine] = scores[scored[mine] - begin, column[mine]]
        strength = _strength(as_head, as_tail, rivals)
        yield RelationPairs(relation, rows, forward, backward, entities, strength)


def _opponents(count: int) -> np.ndarray:
    """Int64 places, ascending, of the entities that all `count` are compared with."""
    return np.unique(
        np.linspace(0, count - 1, min(count, max(MOST_SCORES // max(count, 1), 2))).astype(np.int64)
    )


def _strength(as_head: np.ndarray, as_tail: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    """Float64 [E] shares of wins, from scores [E, O] of (e, r, o) and [O, E] of (o, r, e)."""
    twice_won = np.zeros(len(as_head), np.int64)
    for begin in range(0, len(rivals), OPPONENTS_AT_ONCE):
        part = slice(begin, begin + OPPONENTS_AT_ONCE)
        own, others = as_head[:, part], as_tail[part].T
        twice_won += 2 * np.count_nonzero(own > others, axis=1) + np.count_nonzero(own == others, axis=1)
    others_count = np.full(len(as_head), len(rivals))
    twice_won[rivals] -= 1  # e ties with itself
    others_count[rivals] -= 1
    return twice_won / (2 * np.maximum(others_count, 1))
