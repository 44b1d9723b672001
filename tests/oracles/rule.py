"""RulE for one triple: ways counted one by one."""

import math
from typing import Any

import numpy as np

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters, Vector, dense, relu
from tests.oracles.kgdm import layer_norm


def signed_angles(parameters: Parameters, relation: int) -> Vector:
    count = len(parameters["relation_angle"])
    sign = 1.0 if relation < count else -1.0
    return sign * parameters["relation_angle"][relation % count]


def body_of(parameters: Parameters, relation: int, number: int) -> list[int]:
    """Up to two relations, and their inverses, whose ids come after all relations."""
    highest = 2 * len(parameters["relation_angle"]) - 1
    first, second = (
        min(max(round(float(x)), -1), highest) for x in parameters["fixed_rules"][relation][number]
    )
    return [] if first < 0 else [first] if second < 0 else [first, second]


def weight(parameters: Parameters, config: Any, relation: int, number: int, body: list[int]) -> float:
    total = parameters["rule_vector"][relation][number] - signed_angles(parameters, relation)
    for part in body:
        total = total + signed_angles(parameters, part)
    unit = (config.score.margin + 2.0) / math.pi
    return 5.0 - unit * sum(abs(x) for x in total.tolist()) / len(total)


def ways(facts: list, relations: int, body: list[int], head: int, tail: int) -> int:
    """How many chains of facts there are from head to tail."""
    if not body:
        return int(head == tail)
    found = 0
    for start, relation, end in facts:
        if body[0] >= relations:
            start, end = end, start
        if relation == body[0] % relations and start == head:
            found += ways(facts, relations, body[1:], end, tail)
    return found


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    half, angles = len(e_h) // 2, parameters["relation_angle"][relation]
    result = config.score.margin + parameters["tail_bias"][tail]
    for p in range(half):
        turned = complex(e_h[p], e_h[half + p]) * complex(math.cos(angles[p]), math.sin(angles[p]))
        result -= abs(turned - complex(e_t[p], e_t[half + p]))
    facts, relations = np.asarray(literals.facts).tolist(), len(parameters["relation_angle"])
    features, reached = np.zeros(parameters["rule_features"].shape[-1]), 0
    for number in range(len(parameters["fixed_rules"][relation])):
        body = body_of(parameters, relation, number)
        count = ways(facts, relations, body, head, tail) if body else 0
        reached += count
        share = count / (1.0 + count) * weight(parameters, config, relation, number, body)
        features = features + share * parameters["rule_features"][relation][number]
    if reached:
        result += dense(parameters["output"], relu(layer_norm(parameters["norm"], features)))[0]
    return result
