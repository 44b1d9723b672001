"""AttH for one triple."""

from typing import Any

from tests.oracles import entity_table, hyperbolic
from tests.oracles.arithmetic import Parameters, dot, softmax, softplus


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    c = softplus(float(parameters["raw_curvature"][relation])) + 1e-4
    x = hyperbolic.rotated(e_h, parameters["rotation"][relation], mirror=False)
    y = hyperbolic.rotated(e_h, parameters["reflection"][relation], mirror=True)
    a, b = softmax([dot(parameters["context"][relation], view) for view in (x, y)])
    shift = hyperbolic.exp_at_origin(parameters["relation_shift"][relation], c)
    query = hyperbolic.mobius_add(hyperbolic.exp_at_origin(a * x + b * y, c), shift, c)
    biases = parameters["head_bias"][head] + parameters["tail_bias"][tail]
    return biases - hyperbolic.distance(query, hyperbolic.exp_at_origin(e_t, c), c) ** 2
