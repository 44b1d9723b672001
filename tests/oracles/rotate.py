"""RotatE with Python's complex numbers."""

import cmath
import math
from typing import Any

from tests.oracles import entity_table
from tests.oracles.complex import complex_vector


def logit(params: Any, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    """epsilon minus the sum of the entries' moduli, or the root of the sum of their squares."""
    e_h, e_t = (entity_table.entity(params["entities"], config, literals, i) for i in (head, tail))
    h, t = complex_vector(e_h), complex_vector(e_t)
    angles = params["relation_angle"][relation]
    moduli = [abs(h[k] * cmath.exp(1j * angles[k]) - t[k]) for k in range(len(h))]
    distance = sum(moduli) if config.score.norm == 1 else math.sqrt(sum(m * m for m in moduli))
    return config.score.margin - distance
