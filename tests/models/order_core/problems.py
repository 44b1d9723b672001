"""Facts, fields and fits that the tests of the order core share."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from numcoke_jax.models.order_core.propagation import Beliefs, Comparisons, propagate
from numcoke_jax.models.order_core.value_prior import ValuePrior
from numcoke_jax.models.order_core.value_scores import ValueScores, value_scores

Pairs = Sequence[tuple[int, int]]


def believed(
    pairs: Pairs | np.ndarray,
    count: int,
    *,
    known: dict[int, float] | None = None,
    noise: float | None = None,
    least_noise: float = 1e-2,
    prior: ValuePrior | None = None,
    held_out: Pairs | np.ndarray = (),
) -> Beliefs:
    """Beliefs about `count` entities by facts (head, tail); `noise` fixes s, and f at 0."""
    heads, tails = np.asarray(pairs, int).reshape(-1, 2).T
    above, below = np.asarray(held_out, int).reshape(-1, 2).T
    is_known, positions = np.zeros(count, bool), np.zeros(count)
    for entity, position in (known or {}).items():
        is_known[entity], positions[entity] = True, position
    return propagate(
        Comparisons(heads, tails, is_known, positions, (above, below)),
        ValuePrior(np.zeros((count, 0))) if prior is None else prior,
        least_noise=least_noise if noise is None else noise,
        fixed_noise=noise is not None,
    )


def drawn(
    positions: np.ndarray, count: int, *, noise: float = 0.0, reversed_share: float = 0.0, seed: int = 0
) -> np.ndarray:
    """Facts (head, tail) about random pairs, int [F, 2]: noisy comparisons, some of them turned round."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(len(positions), 2, replace=False) for _ in range(count)])
    gap = positions[pairs[:, 0]] - positions[pairs[:, 1]] + noise * rng.normal(size=count)
    backwards = (gap < 0) != (rng.random(count) < reversed_share)
    return np.where(backwards[:, None], pairs[:, ::-1], pairs)


def scores_of(values: np.ndarray) -> ValueScores:
    """Of raw values [N, M] with NaN where missing, by their mid-ranks."""
    observed = ~np.isnan(values)
    quantiles = np.full(values.shape, 0.5)
    for field in range(values.shape[1]):
        seen = values[observed[:, field], field]
        quantiles[observed[:, field], field] = (stats.rankdata(seen) - 0.5) / max(len(seen), 1)
    return value_scores(quantiles, observed)
