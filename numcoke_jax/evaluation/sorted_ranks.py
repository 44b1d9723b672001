"""Rank counts where a head has many targets: its candidates are sorted once, each target is looked up.

Sorting N candidates costs about as much as comparing them with 50 targets; looking one up takes log N
steps.  The counts are those of `ranking.rank_counts`, exactly: both compare the same float32 numbers.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

SORTED_FROM = 64  # queries per head of a chunk, from which sorting is the quicker way


class SortedCandidates(NamedTuple):
    """The candidates of each head of a chunk.

    Attributes:
      ordered: float [heads, entities] scores in ascending order, -inf in place of each known tail.
      finite: bool [heads] whether all scores of the head are finite, known tails included.
    """

    ordered: Array
    finite: Array


@jax.jit
def sorted_candidates(
    scores: Float[Array, "heads columns"], known: Bool[Array, "heads entities"]
) -> SortedCandidates:
    """Sort every row; columns beyond the entities only make up the equal parts of a mesh."""
    scores = jax.lax.slice_in_dim(scores, 0, known.shape[1], axis=1)
    ordered = jnp.sort(jnp.where(known, -jnp.inf, scores), axis=1)
    return SortedCandidates(ordered, jnp.all(jnp.isfinite(scores), axis=1))


def level_counts(
    candidates: SortedCandidates,
    target: Float[Array, " queries"],
    known_target: Bool[Array, " queries"],
    rows: Int[Array, " queries"],
) -> tuple[Int[Array, " queries"], Int[Array, " queries"]]:
    """Candidates with a higher score than the target, and others with the same: it is looked up in its row.

    Args:
      candidates: the sorted rows.
      target: finite scores; -inf, as a known tail has it, is below all of them.
      known_target: whether the target itself is a known tail, hence not among the candidates.
      rows: which row each query uses.
    """
    size = candidates.ordered.shape[1]
    below = _places(candidates.ordered, target, rows, lambda candidate, target: candidate < target)
    up_to = _places(candidates.ordered, target, rows, lambda candidate, target: candidate <= target)
    itself = jnp.where(known_target, 0, 1)
    return size - up_to, up_to - below - itself


def _places(ordered: Array, target: Array, rows: Array, goes_on: Callable[[Array, Array], Array]) -> Array:
    """How many entries of each query's row, from its start, satisfy `goes_on(entry, target)`: bisection."""
    size = ordered.shape[1]

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) // 2
        open_ = low < high
        further = open_ & goes_on(ordered[rows, jnp.minimum(middle, size - 1)], target)
        return jnp.where(further, middle + 1, low), jnp.where(open_ & ~further, middle, high)

    start = jnp.zeros(rows.shape, jnp.int32)
    return jax.lax.fori_loop(0, size.bit_length(), halve, (start, start + size))[0]
