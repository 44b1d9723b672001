"""Ranking metrics from sums and counts, never from means of means."""

import dataclasses
import math

import numpy as np

HITS_AT = (1, 3, 10)
METRICS = ("count", "mrr", "mr", "hits@1", "hits@3", "hits@10")


@dataclasses.dataclass(frozen=True)
class RankSums:
    """Sums over ranked queries.

    Attributes:
      count: number of ranked queries.
      reciprocal: sum of 1 / rank.
      rank: sum of ranks.
      hits: number of queries with rank <= k for each k of `HITS_AT`; a rank of exactly k is a hit.
    """

    count: int = 0
    reciprocal: float = 0.0
    rank: float = 0.0
    hits: tuple[int, ...] = (0,) * len(HITS_AT)

    @classmethod
    def from_ranks(cls, ranks: np.ndarray) -> "RankSums":
        """Sum float64 ranks [n]; the result is the same bits for any order of the ranks.

        Raises:
          ValueError: a rank is below 1 or not finite.
        """
        ranks = np.asarray(ranks, np.float64)
        impossible = ranks[~(np.isfinite(ranks) & (ranks >= 1.0))]
        if len(impossible):
            raise ValueError(f"ranks must be finite and at least 1, got {impossible[:5].tolist()}")
        return cls(
            count=len(ranks),
            reciprocal=math.fsum(1.0 / ranks),  # correctly rounded, hence independent of the order
            rank=math.fsum(ranks),
            hits=tuple(int(np.count_nonzero(ranks <= k)) for k in HITS_AT),
        )

    def summary(self) -> dict[str, float | int | None]:
        """Keys count, mrr, mr, hits@1, hits@3, hits@10.

        Without queries count is 0 and every metric is None (null in JSON): nothing was measured, and
        a NaN would spread through comparisons and files.
        """
        sums = {"mrr": self.reciprocal, "mr": self.rank}
        sums |= {f"hits@{k}": hits for k, hits in zip(HITS_AT, self.hits, strict=True)}
        if not self.count:
            return {"count": 0, **dict.fromkeys(sums)}
        return {"count": self.count, **{name: value / self.count for name, value in sums.items()}}
