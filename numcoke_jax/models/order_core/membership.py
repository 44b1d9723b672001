"""Which entities take part in a relation: one without a training fact may, or may be outside its group.

How many entities take part without a fact is estimated from those with one and with two facts (Chao 1984,
as for unseen species): f1 (f1 - 1) / (2 (f2 + 1)).  Entities that other orders know and entities that none
knows are counted apart.
"""

from collections.abc import Sequence

import numpy as np

from numcoke_jax.data.graph import HEAD, TAIL

SURE = 1.0  # with a fact
BENEFIT_OF_DOUBT = 0.1  # entities more than the estimate: none is excluded for certain


def memberships(facts: Sequence[np.ndarray], count: int) -> np.ndarray:
    """The probability that each entity takes part in each relation, float64 [N, C].

    Args:
      facts: int [n, 3] of each of the C relations.
      count: N.
    """
    counts = np.zeros((count, len(facts)), np.int64)
    for place, part in enumerate(facts):
        counts[:, place] = np.bincount(part[:, HEAD], minlength=count)
        counts[:, place] += np.bincount(part[:, TAIL], minlength=count)
    taking_part = counts > 0
    elsewhere = (taking_part.sum(axis=1, keepdims=True) - taking_part) > 0
    found = np.where(taking_part, SURE, 0.0)
    for place in range(len(facts)):
        for stratum in (elsewhere[:, place], ~elsewhere[:, place]):
            without = stratum & ~taking_part[:, place]
            if without.any():
                estimate = unseen_members(counts[stratum, place]) + BENEFIT_OF_DOUBT
                found[without, place] = min(estimate / without.sum(), SURE)
    return found


def unseen_members(counts: np.ndarray) -> float:
    """How many entities take part without a fact, by the numbers of facts of the others."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return once * (once - 1) / (2.0 * (twice + 1))
