"""ComplEx with Python's complex numbers (its docstring has the equation)."""

from typing import Any

import numpy as np

from tests.oracles import entity_table


def complex_vector(numbers: np.ndarray) -> list[complex]:
    """The d / 2 entries of d numbers, real parts first."""
    half = len(numbers) // 2
    return [complex(numbers[k], numbers[half + k]) for k in range(half)]


def logit(params: Any, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    """Re(sum_k h_k r_k conj(t_k))."""
    e_h, e_t = (entity_table.entity(params["entities"], config, literals, i) for i in (head, tail))
    return score(e_h, params["relation_embedding"][relation], e_t)


def cubed_norm(params: Any, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    """The same of moduli."""
    e_h, e_t = (entity_table.entity(params["entities"], config, literals, i) for i in (head, tail))
    vectors = map(complex_vector, (e_h, params["relation_embedding"][relation], e_t))
    return sum(abs(x) ** 3 for vector in vectors for x in vector)


def score(e_h: np.ndarray, e_r: np.ndarray, e_t: np.ndarray) -> float:
    """Of three vectors of d numbers."""
    h, r, t = map(complex_vector, (e_h, e_r, e_t))
    return sum((h[k] * r[k] * t[k].conjugate()).real for k in range(len(h)))
