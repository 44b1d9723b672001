"""Ranking metrics from sums and counts, never from means of means."""

import math

import numpy as np

HITS_AT = (1, 3, 10)
METRICS = ("count", "mrr", "mr", "hits@1", "hits@3", "hits@10")


def rank_metrics(ranks: np.ndarray) -> dict[str, float | int | None]:
    """`METRICS` of float64 ranks [n]: the same bits for any order of them; None without ranks.

    A rank of exactly k is a hit at k.

    Raises:
      ValueError: a rank is not finite or below 1.
    """
    ranks = np.asarray(ranks, np.float64)
    impossible = ranks[~(np.isfinite(ranks) & (ranks >= 1.0))]
    if len(impossible):
        raise ValueError(f"ranks must be finite and at least 1, got {impossible[:5].tolist()}")
    count = len(ranks)
    # `fsum` is correctly rounded, hence independent of the order.
    sums: dict[str, float] = {"mrr": math.fsum((1.0 / ranks).tolist()), "mr": math.fsum(ranks.tolist())}
    sums |= {f"hits@{k}": int(np.count_nonzero(ranks <= k)) for k in HITS_AT}
    return {"count": count, **{name: value / count if count else None for name, value in sums.items()}}
