"""How far apart the two entities of a fact are: some graphs have facts of near neighbours only.

The share of pairs that are facts, by how many entities stand between the two (in half octaves), relative to
the largest share.  It is learned only where facts are clearly not spread evenly over all pairs.
"""

import numpy as np

BINS = 48  # half octaves: up to 2^24 entities
PRIOR_FACTS = 1.0  # facts added to each bin, spread evenly
ENOUGH_FACTS = 50  # with fewer, the members themselves are known by too few
LEAST_GAIN = 0.1  # nats a fact, by which uneven shares must explain the facts better


def places(mean: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Float64 [N]: how many members stand below each entity, those level with it (and itself) counted half.

    Args:
      mean: float64 [N], the positions.
      members: int [n], the entities that are in facts of the relation: others may crowd somewhere.
    """
    ordered = np.sort(mean[members])
    return (np.searchsorted(ordered, mean, "left") + np.searchsorted(ordered, mean, "right")) / 2.0


def bins(distance: np.ndarray) -> np.ndarray:
    """The bin of each distance between places (>= 0), int."""
    return np.minimum(np.floor(2.0 * np.log2(1.0 + distance)), BINS - 1).astype(int)


def reach(mean: np.ndarray, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """The relative share of facts in each bin, float64 [BINS] in (0, 1]; all 1 if facts are spread evenly.

    Args:
      mean: float64 [N], the positions.
      heads, tails: int [F], of the facts.
    """
    if len(heads) < ENOUGH_FACTS:
        return np.ones(BINS)
    members = np.unique(np.concatenate([heads, tails]))
    place, count = places(mean, members), len(members)
    found = np.bincount(bins(np.abs(place[heads] - place[tails])), minlength=BINS).astype(float)
    distances = np.arange(1, count)
    pairs = np.bincount(bins(distances), count - distances, minlength=BINS)
    spread = pairs / max(pairs.sum(), 1.0)  # of the facts, if all pairs were equally likely
    share = (found + PRIOR_FACTS * spread) / (found.sum() + PRIOR_FACTS)
    seen = (found > 0) & (spread > 0)
    gain = np.sum(found[seen] * np.log(share[seen] / spread[seen]))
    gain -= 0.5 * max((spread > 0).sum() - 1, 0) * np.log1p(len(heads))  # what chance gains: BIC
    if gain <= LEAST_GAIN * len(heads):
        return np.ones(BINS)
    relative = np.divide(share, spread, out=np.zeros(BINS), where=spread > 0)
    floor = PRIOR_FACTS / (found.sum() + PRIOR_FACTS)
    return np.clip(relative / relative.max(), floor * 1e-3, 1.0)
