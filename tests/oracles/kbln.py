"""KBLN for one triple, field by field."""

import math
from typing import Any

import numpy as np

from tests.oracles.arithmetic import Parameters


def centre_and_width(literals: Any, relation: int, field: int) -> tuple[float, float]:
    """Mean and deviation of x_h - x_t over the relation's facts with both values."""
    differences = []
    for head, of_fact, tail in np.asarray(literals.facts).tolist():
        if of_fact == relation and literals.observed[head, field] and literals.observed[tail, field]:
            differences.append(float(literals.values[head, field]) - float(literals.values[tail, field]))
    if not differences:
        return 0.0, 1.0
    mean = sum(differences) / len(differences)
    variance = sum((x - mean) ** 2 for x in differences) / len(differences)
    return mean, max(math.sqrt(variance), 1e-3)


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    del config  # no setting enters the score
    table = parameters["entities"]["embedding"]
    total = 0.0
    for x, r, y in zip(table[head], parameters["relation_embedding"][relation], table[tail], strict=True):
        total += x * r * y
    for field, weight in enumerate(parameters["field_weight"][relation]):
        if literals.observed[head, field] and literals.observed[tail, field]:
            centre, width = centre_and_width(literals, relation, field)
            difference = float(literals.values[head, field]) - float(literals.values[tail, field])
            total += weight * math.exp(-((difference - centre) ** 2) / width**2)
    return total
