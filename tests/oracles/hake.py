"""HAKE for one triple, dimension by dimension."""

import math
from typing import Any

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    dim, margin = config.model.dim, config.score.margin
    to_radians = math.pi / ((margin + 2.0) / dim)
    squares = phases = 0.0
    for d in range(dim):
        factor = abs(parameters["relation_modulus"][relation, d])
        bias = min(max(parameters["relation_bias"][relation, d], -factor), 1.0)
        squares += (e_h[dim + d] * (factor + bias) - e_t[dim + d] * (1.0 - bias)) ** 2
        angle = (e_h[d] + parameters["relation_phase"][relation, d] - e_t[d]) * to_radians
        phases += abs(math.sin(angle / 2.0))
    modulus_weight, phase_weight = float(parameters["modulus_weight"]), float(parameters["phase_weight"])
    return margin - modulus_weight * math.sqrt(squares) - phase_weight * phases
