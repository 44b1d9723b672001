"""Relation-grouped, padded training batches with static shapes.

An entity's encoding depends on the relation but not on the query, so a step takes S relations with up
to H heads each and encodes S entity tables, not one per query.  Every (head, relation) of the training
split comes exactly once per epoch.  A step works on all N entities or, if `train.candidates` = C is set, on a
sample, so that its cost does not grow with N.  Its entities are then

* the heads of its queries,
* its own tails, the training tails of its queries; if there are more than `own_tail_limit`, that many of
  them, all equally likely,
* C others, and one more for each place that heads and tails leave free, so that every step has
  `entities_per_step` of them: first its own known-false tails, those that are known to be false for one of
  its queries, up to C / 2 of them, all equally likely; then entities drawn uniformly without replacement from
  the rest of the graph.

They are shared by all queries of the step, and all of them are candidate tails of each query: known training
tails are labelled true wherever they come from, so no known positive is ever a negative.

Compared with the loss over all entities this one is biased, knowingly and without correcting weights.  Of the
negatives of a query it sees the drawn ones with probability about C / N each, the heads and tails of the same
step always, and known-false tails always where a step has at most C / 2 of them; so a positive weighs about
N / C times as much as it does there, and entities that are often heads, tails or known to be false are
negatives more often than others.  With C near N the bias goes to zero.
"""

from typing import Any

import flax.struct
import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, NumericGraph, reversed_facts
from numcoke_jax.data.tail_index import places_in_groups
from numcoke_jax.system.errors import UserError

CANDIDATE_STREAM = 1  # a third number: separate from the order of an epoch, which is seeded by two
LEAST_EPOCHS, LEAST_STEPS = 240, 1440  # of a run whose length the graph decides
STEP_SLACK = 1.25  # how many more steps an epoch may have for the sake of fewer relation slots


@flax.struct.dataclass
class Batch:
    """One step's queries: S relation slots with H heads each, over E candidate tails.

    Padded slots have mask False, all-False labels and negatives, and id 0.

    Attributes:
      relations: int32 [S]; a relation with many heads can fill several slots.
      heads: int32 [S, H], places in `entities`.
      mask: bool [S, H], True at real queries.
      labels: bool [S, H, E], True at the training tails of (head, relation).
      negatives: bool [S, H, E], True at the tails that are known to be false for (head, relation): those of
        neg.txt and, for strict orders, those that a training fact rules out.
      entities: int32 [E], ids of the entities that the step works on, ascending; None: all N, in order.
    """

    # NumPy arrays on the host, then JAX's, or what JAX puts in their place when it describes a function.
    relations: Any
    heads: Any
    mask: Any
    labels: Any
    negatives: Any
    entities: Any = None


class TrainBatches:
    """Random access to the batches of every epoch: `batch(step)` depends on step and seed alone.

    The order of an epoch comes from `default_rng(SeedSequence([seed, epoch]))`: heads are shuffled
    within their relation and cut into chunks of H, the chunks are shuffled and taken S per step; the last
    chunk of a relation and the last step are padded and masked.  Resuming needs the step number only.

    Attributes:
      batch_size: query slots per step, S * H.
      relations_per_step: S.
      heads_per_relation: H.
      steps_per_epoch: the same in every epoch.
      num_queries: distinct (head, relation) pairs of the training split.
      positives: index of the training facts.
      negatives: index of what is known to be false.
      num_entities: N.
      entities_per_step: E; N unless candidates are sampled.
    """

    def __init__(
        self,
        graph: NumericGraph,
        *,
        batch_size: int,
        relations_per_step: int,
        seed: int,
        negatives: str = "given",
        candidates: int = 0,
    ) -> None:
        """Index the training split.

        Args:
          graph: source of the training facts and negatives.
          batch_size: query slots per step.
          relations_per_step: S; 0 uses `choose_relations_per_step`.
          seed: for the order and the sampled candidates.
          negatives: "given" (neg.txt alone) or "reversed": also (t, r, h) of every training fact (h, r, t),
            and every entity compared with itself, for relations that are strict orders.
          candidates: C; 0 takes all entities.

        Raises:
          UserError: there are no training facts, relations_per_step does not divide batch_size, `negatives`
            is "reversed" and a relation holds in both directions, or the graph has fewer entities than a
            step with candidates needs.
          ValueError: a batch_size below 1 or a negative seed.
        """
        if not len(graph.train):
            raise UserError("the training split holds no triples: give at least one fact in train.txt")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if seed < 0:
            raise ValueError(f"seed must be 0 or more, got {seed}")
        self.positives = graph.index("train")
        self.negatives = graph.index_of(*_known_false(graph, negatives))
        self._relation_of_query = self.positives.queries[:, 1]
        counts = np.bincount(self._relation_of_query, minlength=graph.num_relations)
        relations_per_step = relations_per_step or choose_relations_per_step(counts, batch_size)
        if relations_per_step < 0 or batch_size % relations_per_step:
            raise UserError(
                f"train.relations_per_step must divide train.batch_size: found {relations_per_step} and"
                f" {batch_size}; choose a divisor, or 0 to have one chosen"
            )
        self.num_entities, self.seed = graph.num_entities, seed
        self.batch_size, self.relations_per_step = batch_size, relations_per_step
        self.heads_per_relation = batch_size // relations_per_step
        self.num_queries = len(self.positives.queries)
        self.steps_per_epoch = count_steps(counts, batch_size, relations_per_step)
        self.entities_per_step = self.num_entities
        self._tail_limit, self._negative_limit = 0, candidates // 2  # the rest: others
        if candidates:
            num_facts = len(self.positives.tails)
            self._tail_limit = own_tail_limit(candidates, batch_size, num_facts, self.num_queries)
            self.entities_per_step = entities_per_step(
                candidates, batch_size, self._tail_limit, self.num_entities
            )
        self._samples = bool(candidates)
        self._chunk_start, self._chunk_length = _cut(counts, self.heads_per_relation)
        self._epoch_order: tuple[int, np.ndarray, np.ndarray] | None = None

    def batch(self, step: int, heads: slice = slice(None)) -> Batch:
        """The batch of a step counted from the start of training: epoch `step // steps_per_epoch`.

        Args:
          step: its number.
          heads: the part of each slot's H queries to return when several processes share a batch.

        Raises:
          ValueError: a negative step.
        """
        if step < 0:
            raise ValueError(f"step must be 0 or more, got {step}")
        epoch, step_in_epoch = divmod(step, self.steps_per_epoch)
        of_step = self._query_rows(epoch, step_in_epoch)
        relations = np.where(of_step[:, 0] >= 0, self.positives.queries[of_step[:, 0], 1], 0).astype(np.int32)
        rows = of_step[:, heads]
        mask = rows >= 0
        ids = np.where(mask, self.positives.queries[rows, 0], 0).astype(np.int32)
        negative_rows = np.where(mask, self.negatives.rows(ids, relations[:, None]), -1)
        if not self._samples:
            return Batch(
                relations=relations,
                heads=ids,
                mask=mask,
                labels=self.positives.mask_rows(rows, self.num_entities),
                negatives=self.negatives.mask_rows(negative_rows, self.num_entities),
            )
        entities = self._entities(of_step[of_step >= 0], step)
        return Batch(
            relations=relations,
            heads=np.where(mask, np.searchsorted(entities, ids), 0).astype(np.int32),
            mask=mask,
            labels=self.positives.mask_rows_among(rows, entities),
            negatives=self.negatives.mask_rows_among(negative_rows, entities),
            entities=entities,
        )

    def _entities(self, rows: np.ndarray, step: int) -> np.ndarray:
        """The entities of a step whose queries are in these rows of `positives`."""
        heads, relations = self.positives.queries[rows].T
        return step_entities(
            heads,
            self.positives.pairs(rows)[1],
            self.negatives.pairs(self.negatives.rows(heads, relations))[1],
            tail_limit=self._tail_limit,
            negative_limit=self._negative_limit,
            size=self.entities_per_step,
            num_entities=self.num_entities,
            seed=(self.seed, step, CANDIDATE_STREAM),
        )

    def _query_rows(self, epoch: int, step_in_epoch: int) -> np.ndarray:
        """Rows of `positives` in a step's slots, int64 [S, H]; -1 where padded."""
        query_order, chunk_order = self._order(epoch)
        first = step_in_epoch * self.relations_per_step
        chunks = chunk_order[first : first + self.relations_per_step]
        place = np.arange(self.heads_per_relation)
        rows = np.full((self.relations_per_step, self.heads_per_relation), -1, np.int64)
        position = self._chunk_start[chunks][:, None] + place
        filled = place < self._chunk_length[chunks][:, None]
        rows[: len(chunks)][filled] = query_order[position[filled]]
        return rows

    def _order(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Order of queries (grouped by relation) and of chunks in an epoch; the last epoch's is kept."""
        cached = self._epoch_order  # one read: another thread may replace it
        if cached is None or cached[0] != epoch:
            rng = np.random.default_rng(np.random.SeedSequence([self.seed, epoch]))
            shuffled = rng.permutation(self.num_queries)
            by_relation = np.argsort(self._relation_of_query[shuffled], kind="stable")
            cached = (epoch, shuffled[by_relation], rng.permutation(len(self._chunk_start)))
            self._epoch_order = cached
        return cached[1], cached[2]


def _known_false(graph: NumericGraph, negatives: str) -> list[np.ndarray]:
    if negatives == "given":
        return [graph.negatives]
    itself = graph.index("train").queries[:, [HEAD, RELATION, HEAD]]
    reverse = reversed_facts(graph, graph.train, key="train.negatives", instead="given")
    return [graph.negatives, reverse, itself]


def count_steps(heads_per_relation: np.ndarray, batch_size: int, relations_per_step: int) -> int:
    """Steps per epoch when each relation's heads (int [R]) are cut into chunks, S chunks per step."""
    chunk = batch_size // relations_per_step
    chunks = int(np.sum(-(-heads_per_relation // chunk)))
    return -(-chunks // relations_per_step)


def choose_relations_per_step(heads_per_relation: np.ndarray, batch_size: int) -> int:
    """The smallest divisor S of batch_size whose epoch has at most 1.25 times the fewest steps.

    The fewest steps over all divisors mean the least padding; within that slack a smaller S encodes
    fewer entity tables.  A graph of many relations with few heads gets many slots (5,000 relations
    with one head each: S = batch_size), one of few relations with many heads gets few.  Memory grows
    with S x N x d: set relations_per_step by hand if that is too much.
    """
    divisors = [s for s in range(1, batch_size + 1) if batch_size % s == 0]
    steps = {s: count_steps(heads_per_relation, batch_size, s) for s in divisors}
    allowed = STEP_SLACK * min(steps.values())
    return next(s for s in divisors if steps[s] <= allowed)


def choose_epochs(steps_per_epoch: int) -> int:
    """240, or as many more as 1,440 steps take: an epoch of a small graph has few steps.

    Measured with the preset "numeric" (RESULTS.md): dense graphs with 2 and 3 steps per epoch need more than
    240 epochs, a sparse one with 3 ranks much the same with either, and one with 6 ranks worse with 700.
    """
    return max(LEAST_EPOCHS, -(-LEAST_STEPS // steps_per_epoch))


def _cut(heads_per_relation: np.ndarray, chunk: int) -> tuple[np.ndarray, np.ndarray]:
    """Start and length (int64 [C]) of the chunks of queries that are grouped by relation."""
    chunks_of_relation = -(-heads_per_relation // chunk)
    offset = chunk * places_in_groups(chunks_of_relation)
    start = np.repeat(np.cumsum(heads_per_relation) - heads_per_relation, chunks_of_relation) + offset
    length = np.minimum(chunk, np.repeat(heads_per_relation, chunks_of_relation) - offset)
    return start, length


def own_tail_limit(candidates: int, batch_size: int, num_facts: int, num_queries: int) -> int:
    """Places for a step's own tails: per query the mean number of tails, rounded up; at most C in all."""
    return min(candidates, batch_size * -(-num_facts // num_queries))


def entities_per_step(candidates: int, batch_size: int, tail_limit: int, num_entities: int) -> int:
    """E, the number of entities of every step.

    Raises:
      UserError: the graph does not have that many.
    """
    wanted = batch_size + tail_limit + candidates
    if wanted > num_entities:
        raise UserError(
            f"train.candidates={candidates} with train.batch_size={batch_size} needs {wanted} entities per "
            f"step, but the graph has {num_entities}: set train.candidates=0 to score all of them"
        )
    return wanted


def step_entities(
    heads: np.ndarray,
    tails: np.ndarray,
    negatives: np.ndarray,
    *,
    tail_limit: int,
    negative_limit: int,
    size: int,
    num_entities: int,
    seed: tuple[int, ...],
) -> np.ndarray:
    """The entities of a step: int32 [size], distinct and ascending.

    Args:
      heads: integer [k] of the real queries; repetitions count once.
      tails: integer [n] of the real queries; repetitions count once.
      negatives: integer [m], tails known to be false for one of the queries; repetitions count once.
      tail_limit: places for tails that are not heads.
      negative_limit: most places for `negatives` that are neither.
      size: E.
      num_entities: N.
      seed: the draws depend on it alone.
    """
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    heads = np.unique(heads)
    tails = np.setdiff1d(tails, heads)
    if len(tails) > tail_limit:
        tails = generator.choice(tails, tail_limit, replace=False, shuffle=False)
    needed = np.union1d(heads, tails)
    negatives = np.setdiff1d(negatives, needed)
    if len(negatives) > negative_limit:
        negatives = generator.choice(negatives, negative_limit, replace=False, shuffle=False)
    needed = np.union1d(needed, negatives)
    drawn = generator.choice(num_entities - len(needed), size - len(needed), replace=False, shuffle=False)
    # The index of an entity among the rest of the graph -> its id: skip all needed ones below it.
    drawn = drawn + np.searchsorted(needed - np.arange(len(needed)), drawn, side="right")
    return np.sort(np.concatenate([needed, drawn])).astype(np.int32)
