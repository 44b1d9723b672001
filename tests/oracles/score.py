"""The score of one triple (readings 14 and 15)."""

import numpy as np

from tests.oracles.arithmetic import Vector, norm, times


def order_term(
    head: Vector,
    tail: Vector,
    projection: np.ndarray | None,
    *,
    margin: float,
    order: str,
    order_weight: float,
) -> float:
    """The second term, with the relation's W_r, `projection` [d, d]."""
    if order == "none" or projection is None:
        return 0.0
    above = times(projection, head) - times(projection, tail)
    if order == "reward":
        return order_weight * sum(max(0.0, x) ** 2 for x in above)
    return order_weight * (margin - sum(max(0.0, -x) ** 2 for x in above))


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
    """epsilon - ||e_h + r - e_t||_p, plus the order term."""
    ordered = order_term(head, tail, projection, margin=margin, order=order, order_weight=order_weight)
    return margin - norm(head + relation - tail, p) + ordered
