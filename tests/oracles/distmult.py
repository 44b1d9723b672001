"""DistMult, entry by entry."""

from typing import Any

import numpy as np

from tests.oracles import entity_table


def logit(params: Any, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    """sum_k h_k r_k t_k."""
    e_h, e_t = (entity_table.entity(params["entities"], config, literals, i) for i in (head, tail))
    return score(e_h, params["relation_embedding"][relation], e_t)


def cubed_norm(params: Any, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    """The nuclear 3-norm of a fact: sum_k |h_k|^3 + |r_k|^3 + |t_k|^3."""
    e_h, e_t = (entity_table.entity(params["entities"], config, literals, i) for i in (head, tail))
    return sum(abs(x) ** 3 for vector in (e_h, params["relation_embedding"][relation], e_t) for x in vector)


def score(e_h: np.ndarray, r: np.ndarray, e_t: np.ndarray) -> float:
    """Of three vectors."""
    return sum(e_h[k] * r[k] * e_t[k] for k in range(len(r)))
