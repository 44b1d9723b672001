"""What is drawn when a table becomes a graph: samples, the splits and masked cells, from a seed and a use."""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from types import UnionType
from typing import Any

import numpy as np

from numcoke_jax.data.graph import SPLITS
from numcoke_jax.system.errors import UserError

# One random stream per use: changing one setting leaves the draws of the others as they are.
SAMPLE_STREAM, GROUP_STREAM, SPLIT_STREAM, MASK_STREAM, CATEGORY_STREAM = range(5)


def is_number(value: object, kinds: type | UnionType = int | float | np.number) -> bool:
    """Whether `value` is of one of `kinds` and not a truth value, which Python counts as an integer."""
    return isinstance(value, kinds) and not isinstance(value, bool)


def check_shares(shares: object) -> None:
    """Raises UserError unless `shares` are those of three splits, the first above 0."""
    numbers = tuple(shares) if isinstance(shares, Iterable) else (shares,)
    good = len(numbers) == 3 and all(map(is_number, numbers)) and math.isclose(sum(numbers), 1, abs_tol=1e-6)
    if not good or min(numbers) < 0 or numbers[0] == 0:
        raise UserError(
            f"split: must be 3 shares for train, valid, test, train above 0, that sum to 1, got {shares!r}"
        )


def check_integer(name: str, value: Any, least: int) -> None:
    """Raises UserError unless the setting called `name` is an integer of at least `least`."""
    if not is_number(value, int | np.integer):
        raise UserError(f"{name}: must be an integer, got {value!r}")
    if value < least:
        raise UserError(f"{name}: must be at least {least}, got {value}")


def stream(seed: int, use: int, name: str = "") -> np.random.Generator:
    """The random stream of one use, or of one field of it if `name` is given."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(use, *name.encode())))


def draw(members: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    """`size` of the members without replacement, in their own order; all if size is 0 or too large."""
    if size == 0 or size >= len(members):
        return members
    return members[np.sort(generator.permutation(len(members))[:size])]


def as_fraction(share: float) -> Fraction:
    """The simple fraction that a float stands for: 0.1 is a tenth and 1 / 3 a third, exactly."""
    return Fraction(float(share)).limit_denominator(1_000_000)


def split_counts(count: int, shares: Sequence[float]) -> tuple[int, ...]:
    """How many of `count` triples each split gets: its share rounded down; the rest goes to the largest.

    Shares are read by `as_fraction`; if several are largest, the first gets the rest.
    """
    counts = [math.floor(count * as_fraction(share)) for share in shares]
    largest = max(range(len(shares)), key=lambda split: shares[split])
    counts[largest] += count - sum(counts)
    return tuple(counts)


def split_triples(
    triples: np.ndarray, shares: Sequence[float], generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Shuffles sorted triples over train, valid and test; each split stays sorted.

    Args:
      triples: int64 [n, 3], sorted.
      shares: one per split; see `split_counts` for the exact counts.
      generator: decides the shuffle.
    """
    counts = split_counts(len(triples), shares)
    parts = np.split(generator.permutation(len(triples)), np.cumsum(counts)[:-1])
    return {name: triples[np.sort(part)] for name, part in zip(SPLITS, parts, strict=True)}


def mask_cells(cells: np.ndarray, rate: float, generator: np.random.Generator) -> np.ndarray:
    """Hides a share of the True cells: exactly rate x count of them, rounded to nearest (halves up).

    Args:
      cells: bool [N, M].
      rate: in [0, 1], read by `as_fraction`.
      generator: decides which.

    Returns:
      bool [N, M], True where `cells` is and the cell is not hidden.
    """
    positions = np.flatnonzero(cells)
    count = math.floor(len(positions) * as_fraction(rate) + Fraction(1, 2))
    shown = cells.copy()
    shown.flat[generator.permutation(positions)[:count]] = False
    return shown
