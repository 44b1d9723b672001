"""Which entities a step works on when `train.candidates` = C is set, so that its cost does not grow with N.

A step's entities are

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

import numpy as np

from numcoke_jax.errors import UserError


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


def own_negative_limit(candidates: int) -> int:
    """Most places for a step's own known-false tails: half of C; the rest come from the whole graph."""
    return candidates // 2


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
