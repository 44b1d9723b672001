"""The numeric order term of one pair of entities (an extension; the formula is its module's docstring)."""

import math
from typing import Any

from tests.oracles.arithmetic import Parameters, Vector, dense, sigmoid, softmax, softplus


def position_and_certainty(
    parameters: Parameters,
    feature: Vector,
    literals: Any,
    entity: int,
    relation: int,
    sharpness: float = 10.0,
) -> tuple[float, float]:
    """z_ri = sum_m (p^up_rm - p^down_rm) x^_im; the observed share plus a learned share of the rest."""
    up, down = parameters["field_weight"][relation]
    choices = softmax([sharpness * float(w) for w in (*up, *down)])
    num_fields = len(up)
    guesses = dense(parameters["missing_position"], feature)
    position, known = 0.0, 0.0
    for field in range(num_fields):
        upwards, downwards = choices[field], choices[num_fields + field]
        if literals.observed[entity, field]:
            position += (upwards - downwards) * float(literals.positions[entity, field])
            known += upwards + downwards
        else:
            position += (upwards - downwards) * sigmoid(guesses[field])
    return position, known + (1.0 - known) * sigmoid(parameters["missing_certainty"][relation])


def term(parameters: Parameters, features: Any, literals: Any, relation: int, head: int, tail: int) -> float:
    """softplus(b_r) tanh(s_r k_rh k_rt (z_rh - z_rt))."""
    z_head, k_head = position_and_certainty(parameters, features[head], literals, head, relation)
    z_tail, k_tail = position_and_certainty(parameters, features[tail], literals, tail, relation)
    slope = math.exp(parameters["log_slope"][relation])
    return softplus(parameters["weight"][relation]) * math.tanh(slope * k_head * k_tail * (z_head - z_tail))
