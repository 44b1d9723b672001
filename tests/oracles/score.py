"""The score of one triple (readings 14 and 15)."""

import numpy as np

from tests.oracles.arithmetic import Vector, norm, times


def score(
    head: Vector,
    relation: Vector,
    tail: Vector,
    projection: np.ndarray | None,
    *,
    p: int,
    margin: float,
    order: str,
    order_weight: float,
) -> float:
    """epsilon - ||e_h + r - e_t||_p, plus the order term with the relation's W_r, `projection` [d, d]."""
    translation = margin - norm(head + relation - tail, p)
    if order == "none" or projection is None:
        return translation
    above = times(projection, head) - times(projection, tail)
    if order == "reward":
        return translation + order_weight * sum(max(0.0, x) ** 2 for x in above)
    return translation + order_weight * (margin - sum(max(0.0, -x) ** 2 for x in above))
