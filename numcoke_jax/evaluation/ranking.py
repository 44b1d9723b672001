"""Filtered tail ranks of queries (head, relation, ?), ties at their mean rank.

Heads are ranked as the tails of inverse relations (`variants.with_inverses`).  Ranks are counts of
candidates above and level with the target in one matrix of raw scores, so metrics are the same bits for
every chunk size and order of the queries.  The caller decides the filter by the index it passes: facts that
training may know while selecting a model, facts of all splits for the test.

What validation facts are ranked against while a model is being selected, without looking at the test.

A validation tail is ranked among the candidates that are not filtered out.  Filtering by train and valid
("seen") leaves the true tails of the test split among them: on a graph whose test split is large, as in
the 10/10/80 split of comparative graphs, nearly every candidate above a tail is a true one, and the
metric is noise.  Filtering by the test too ("all") makes the choice depend on test facts.  For relations
that are strict orders there is a third way ("reversed"): rank only against entities that train and valid
facts show to be false, because the reversed fact (t, r, h) holds.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph, reversed_facts
from numcoke_jax.data.tail_index import TailIndex, differs_from_previous
from numcoke_jax.evaluation.finite import NonFiniteScoresError
from numcoke_jax.evaluation.metrics import rank_metrics
from numcoke_jax.evaluation.sorted_ranks import SORTED_FROM, SortedCandidates, level_counts, sorted_candidates
from numcoke_jax.system.processes import fetch

QUERIES_PER_HEAD = 4  # room for queries in one call of `rank_counts`, per head of a chunk
LOOKED_UP_PER_HEAD = 64  # the same for `sorted_rank_counts`
TILE = 16  # queries compared at once


@runtime_checkable  # so that its annotations can be checked
class KnownTails(Protocol):
    """A filter: which candidates of (head, relation) do not count; a `TailIndex` of true facts is one."""

    def mask(self, heads: np.ndarray, relations: np.ndarray, num_columns: int) -> np.ndarray:
        """Bool [..., num_columns] for integer heads and relations that broadcast to [...]."""
        ...


class RankCounts(NamedTuple):
    """How many candidates beat and equal each target.  Entries of padded queries mean nothing.

    Attributes:
      greater: int32 [Q] candidates with a higher score, known tails left out.
      equal: int32 [Q] candidates other than the target with the same score, known tails left out.
      self_greater: bool [Q] whether the head itself is one of `greater`.
      self_equal: bool [Q] whether the head itself is one of `equal`.
      finite: bool [Q] whether all scores of the query's head are finite, known tails included.
    """

    greater: Any
    equal: Any
    self_greater: Any
    self_equal: Any
    finite: Any


class FilteredRanks(NamedTuple):
    """Ranks of n queries in their own order, float64 [n], multiples of 1/2.

    Attributes:
      all: every entity but the known tails is a candidate.
      exclude_self: the head is not a candidate either, unless it is the target.
    """

    all: np.ndarray
    exclude_self: np.ndarray


@jax.jit
def rank_counts(
    scores: Float[Array, "heads columns"],
    known: Bool[Array, "heads entities"],
    rows: Int[Array, " queries"],
    tails: Int[Array, " queries"],
    heads: Int[Array, " heads"],
) -> RankCounts:
    """Count the candidates above and level with each query's target.

    `scores` must be a materialised array: target and candidates are read from the same numbers.  Work
    grows with the real queries, not with the padding, and needs no [Q, entities] array: a loop compares
    `TILE` queries at a time.

    Args:
      scores: raw scores of every candidate tail for each head (no sigmoid: it saturates to ties), and any
        columns after them that only make up the equal parts of a mesh.
      known: tails left out of the counts; the target may be among them and is never counted.
      rows: which row of `scores` each query uses; -1 pads, after the real queries only.
      tails: the target of each query.
      heads: entity id of each row.
    """
    scores = jax.lax.slice_in_dim(scores, 0, known.shape[1], axis=1)
    num_queries = rows.shape[0]
    num_tiles = -(-num_queries // TILE)
    real_tiles = -(-jnp.sum(rows >= 0) // TILE)
    padding = (0, num_tiles * TILE - num_queries)
    tiled_rows = jnp.pad(jnp.maximum(rows, 0), padding).reshape(num_tiles, TILE)
    tiled_tails = jnp.pad(tails, padding).reshape(num_tiles, TILE)

    def count_tile(tile: Array, counts: RankCounts) -> RankCounts:
        part = _count_tile(scores, known, tiled_rows[tile], tiled_tails[tile], heads)
        return jax.tree.map(lambda whole, piece: whole.at[tile].set(piece), counts, part)

    whole_number, flag = (jnp.zeros((num_tiles, TILE), dtype) for dtype in (jnp.int32, jnp.bool))
    counts = RankCounts(whole_number, whole_number, flag, flag, flag)
    counts = jax.lax.fori_loop(0, real_tiles, count_tile, counts)
    return jax.tree.map(lambda whole: whole.reshape(-1)[:num_queries], counts)


def _count_tile(scores: Array, known: Array, rows: Array, tails: Array, heads: Array) -> RankCounts:
    """`rank_counts` of a few queries, at once."""
    candidates = scores[rows]
    target = scores[rows, tails][:, None]
    counted = ~known[rows] & (jnp.arange(scores.shape[1]) != tails[:, None])
    return RankCounts(
        jnp.sum(counted & (candidates > target), axis=1, dtype=jnp.int32),
        jnp.sum(counted & (candidates == target), axis=1, dtype=jnp.int32),
        *_of_heads_themselves(scores, known, rows, tails, heads),
        finite=jnp.all(jnp.isfinite(candidates), axis=1),
    )


def _of_heads_themselves(
    scores: Array, known: Array, rows: Array, tails: Array, heads: Array
) -> tuple[Array, Array]:
    """`RankCounts.self_greater` and `self_equal`."""
    query_heads = heads[rows]
    own, target = scores[rows, query_heads], scores[rows, tails]
    counted = ~known[rows, query_heads] & (query_heads != tails)
    return counted & (own > target), counted & (own == target)


@jax.jit
def sorted_rank_counts(
    scores: Float[Array, "heads columns"],
    known: Bool[Array, "heads entities"],
    candidates: SortedCandidates,
    rows: Int[Array, " queries"],
    tails: Int[Array, " queries"],
    heads: Int[Array, " heads"],
) -> RankCounts:
    """`rank_counts` of the same arguments, from rows that are sorted already: the same counts."""
    rows = jnp.maximum(rows, 0)
    levels = level_counts(candidates, scores[rows, tails], known[rows, tails], rows)
    of_heads = _of_heads_themselves(scores, known, rows, tails, heads)
    return RankCounts(*levels, *of_heads, finite=candidates.finite[rows])


def summaries(ranks: FilteredRanks) -> dict[str, dict[str, float | int | None]]:
    """The metrics of ranks: {"all": {...}, "exclude_self": {...}}; None for a metric without ranks."""
    return {name: rank_metrics(values) for name, values in ranks._asdict().items()}


def filtered_ranks(
    encode_fn: Callable[[int], Any],
    score_fn: Callable[[Any, Array], Array],
    queries: np.ndarray,
    known: KnownTails,
    num_entities: int,
    chunk: int,
) -> FilteredRanks:
    """Rank the tail of each query: 1 + (candidates above) + (candidates level with it) / 2.

    The host plans the next chunk while the device works on the last one; at most two chunks are in flight,
    so memory is bounded by chunk x num_entities.  Shapes are static over chunks and splits.

    Args:
      encode_fn: relation id -> what `score_fn` needs for the relation; called once per relation.
      score_fn: (encoded, heads int32 [chunk]) -> float [chunk, num_entities] raw scores, or more columns, of
        which only the first count.
      queries: integer [n, 3] triples (head, relation, tail).
      known: true tails, not to be counted against a target.
      num_entities: N, number of candidates.
      chunk: heads scored at once.

    Raises:
      NonFiniteScoresError: a score is NaN or infinite; the message has the ids of relation and heads.
      ValueError: chunk below 1, or scores of another shape than [chunk, num_entities].
    """
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1 head, got {chunk}")
    ranks = FilteredRanks(np.empty(len(queries)), np.empty(len(queries)))
    under_way: deque[tuple[HeadChunk, list[RankCounts]]] = deque()
    encoded_relation, encoded = -1, None
    for plan in head_chunks(queries, chunk):
        if plan.relation != encoded_relation:
            encoded_relation, encoded = plan.relation, encode_fn(plan.relation)
        heads = jnp.asarray(plan.heads)
        scores = score_fn(encoded, heads)
        if scores.shape[0] != chunk or scores.shape[1] < num_entities:
            raise ValueError(f"scores must have shape {(chunk, num_entities)}, got {scores.shape}")
        mask = jnp.asarray(known.mask(plan.heads, np.asarray(plan.relation), num_entities))
        under_way.append((plan, _counts(plan, scores, mask, heads)))
        if len(under_way) > 1:
            _collect(ranks, *under_way.popleft())
    while under_way:
        _collect(ranks, *under_way.popleft())
    return ranks


def _counts(plan: "HeadChunk", scores: Array, known: Array, heads: Array) -> list[RankCounts]:
    """The counts of a chunk's queries, in blocks of static shapes; by sorting where that is quicker."""
    chunk = len(plan.heads)
    if len(plan.rows) < SORTED_FROM * chunk:
        blocks = query_blocks(plan, QUERIES_PER_HEAD * chunk)
        return [rank_counts(scores, known, rows, tails, heads) for rows, tails in blocks]
    candidates = sorted_candidates(scores, known)
    return [
        sorted_rank_counts(scores, known, candidates, rows, tails, heads)
        for rows, tails in query_blocks(plan, LOOKED_UP_PER_HEAD * chunk)
    ]


class HeadChunk(NamedTuple):
    """Some heads of one relation with all their queries.

    Attributes:
      relation: relation id.
      heads: int32 [chunk] distinct head ids, padded with the first one.
      positions: int64 [q] where the queries are in the caller's array.
      rows: int32 [q] which of `heads` each query has.
      tails: int32 [q] targets.
    """

    relation: int
    heads: np.ndarray
    positions: np.ndarray
    rows: np.ndarray
    tails: np.ndarray


def head_chunks(queries: np.ndarray, chunk: int) -> Iterator[HeadChunk]:
    """Group triples [n, 3] by relation and cut each relation's distinct heads into chunks."""
    order = np.lexsort((queries[:, HEAD], queries[:, RELATION]))
    ordered = queries[order]
    relations, heads, tails = ordered[:, RELATION], ordered[:, HEAD], ordered[:, TAIL].astype(np.int32)
    starts_pair = differs_from_previous(relations, heads)
    first_query = np.flatnonzero(starts_pair)  # of each distinct (relation, head)
    pair_of_query = np.cumsum(starts_pair) - 1
    pair_heads, pair_relations = heads[first_query].astype(np.int32), relations[first_query]
    distinct, first_pair = np.unique(pair_relations, return_index=True)
    end_query = np.append(first_query, len(ordered))
    end_pair = np.append(first_pair, len(pair_heads))[1:]
    for relation, first, last in zip(distinct.tolist(), first_pair.tolist(), end_pair.tolist(), strict=True):
        for begin in range(first, last, chunk):
            end = min(begin + chunk, last)
            own = slice(end_query[begin], end_query[end])
            padded = np.full(chunk, pair_heads[begin], np.int32)
            padded[: end - begin] = pair_heads[begin:end]
            rows = (pair_of_query[own] - begin).astype(np.int32)
            yield HeadChunk(relation, padded, order[own], rows, tails[own])


def query_blocks(plan: HeadChunk, size: int) -> Iterator[tuple[Array, Array]]:
    """Rows and tails of a chunk's queries in blocks of `size` (int32 [size] each), rows padded with -1."""
    for begin in range(0, len(plan.rows), size):
        part = slice(begin, begin + size)
        padding = (0, max(begin + size - len(plan.rows), 0))
        rows = np.pad(plan.rows[part], padding, constant_values=-1)
        yield jnp.asarray(rows), jnp.asarray(np.pad(plan.tails[part], padding))


def _collect(ranks: FilteredRanks, plan: HeadChunk, blocks: list[RankCounts]) -> None:
    """Wait for a chunk's counts and write its ranks into place; raise if a score was not finite."""
    fetched = fetch(blocks)
    counts = RankCounts(*(np.concatenate(parts)[: len(plan.rows)] for parts in zip(*fetched, strict=True)))
    if not counts.finite.all():
        raise NonFiniteScoresError(plan.relation, plan.heads[plan.rows[~counts.finite]].tolist())
    ranks.all[plan.positions] = 1.0 + counts.greater + counts.equal / 2.0
    greater = counts.greater - counts.self_greater.astype(np.int32)
    equal = counts.equal - counts.self_equal.astype(np.int32)
    ranks.exclude_self[plan.positions] = 1.0 + greater + equal / 2.0


class AllButReversed:
    """Filters every candidate but the head itself and those whose reversed fact is given.

    Args:
      reversed_facts: index of (t, r) -> h for every given fact (h, r, t).
    """

    def __init__(self, reversed_facts: TailIndex) -> None:
        self._reversed_facts = reversed_facts

    def mask(self, heads: np.ndarray, relations: np.ndarray, num_columns: int) -> np.ndarray:
        """Bool [..., num_columns], True at the candidates that do not count."""
        candidates = self._reversed_facts.mask(heads, relations, num_columns)
        candidates |= np.arange(num_columns) == np.asarray(heads)[..., None]
        return ~candidates


def selection_filter(graph: NumericGraph, rule: str) -> KnownTails:
    """The filter that `eval.selection` names.

    Raises:
      UserError: rule "reversed" on a graph where some relation holds in both directions.
    """
    if rule == "seen":
        return graph.index("train", "valid")
    if rule == "all":
        return graph.index("train", "valid", "test")
    facts = graph.known("train", "valid")
    reverse = reversed_facts(graph, facts, key="eval.selection", instead="seen")
    return AllButReversed(graph.index_of(reverse))
