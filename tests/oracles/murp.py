"""MuRP for one triple."""

from typing import Any

from tests.oracles import entity_table, hyperbolic
from tests.oracles.arithmetic import Parameters


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    point = hyperbolic.exp_at_origin(parameters["relation_stretch"][relation] * e_h, 1.0)
    shift = hyperbolic.exp_at_origin(parameters["relation_shift"][relation], 1.0)
    moved = hyperbolic.mobius_add(hyperbolic.exp_at_origin(e_t, 1.0), shift, 1.0)
    biases = parameters["head_bias"][head] + parameters["tail_bias"][tail]
    return biases - hyperbolic.distance(point, moved, 1.0) ** 2
