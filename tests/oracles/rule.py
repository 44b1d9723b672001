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
    """Up to three relations, and their inverses, whose ids come after all relations."""
    highest = 2 * len(parameters["relation_angle"]) - 1
    ids = [min(max(round(float(x)), -1), highest) for x in parameters["fixed_rules"][relation][number]]
    return [i for i in ids if i >= 0] if ids[0] >= 0 else []


def weight(parameters: Parameters, relation: int, number: int, body: list[int]) -> float:
    total = parameters["rule_vector"][relation][number] - signed_angles(parameters, relation)
    for part in body:
        total = total + signed_angles(parameters, part)
    return 5.0 - sum(abs(x) for x in total.tolist())


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


def rotation(
    parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int
) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    half, angles = len(e_h) // 2, signed_angles(parameters, relation)
    angles = angles * math.pi * half / (config.score.margin + 2.0)
    result = config.score.margin
    for p in range(half):
        turned = complex(e_h[p], e_h[half + p]) * complex(math.cos(angles[p]), math.sin(angles[p]))
        result -= abs(turned - complex(e_t[p], e_t[half + p]))
    return result


def by_rules(
    parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int
) -> float:
    facts, relations = np.asarray(literals.facts).tolist(), len(parameters["relation_angle"])
    features, reached = np.zeros(parameters["rule_features"].shape[-1]), 0
    for number in range(len(parameters["fixed_rules"][relation])):
        body = body_of(parameters, relation, number)
        count = ways(facts, relations, body, head, tail) if body else 0
        reached += count
        share = math.log(1 + count) * weight(parameters, relation, number, body) / 5.0
        features = features + share * parameters["rule_features"][relation][number]
    if not reached:
        return parameters["tail_bias"][tail]
    normed = layer_norm(parameters["norm"], features, epsilon=1.0)
    return dense(parameters["output"], relu(normed))[0] + parameters["tail_bias"][tail]


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    triple = head, relation, tail
    return by_rules(parameters, config, literals, *triple) + 2.0 * rotation(
        parameters, config, literals, *triple
    )


def second_loss(rotations: Any, labels: Any, weights: list) -> tuple[float, int]:
    """Of queries' f and true tails, and of the weights of (a rule, that rule with one relation replaced)."""
    total, facts = 0.0, 0
    for scores, true in zip(rotations, labels, strict=True):
        others = [log_one_plus_exp(x) for x, yes in zip(scores, true, strict=True) if not yes]
        for x, yes in zip(scores, true, strict=True):
            if yes:
                total += (log_one_plus_exp(-x) + sum(others) / max(len(others), 1)) / 2.0
                facts += 1
    of_rules = [log_one_plus_exp(-good) + log_one_plus_exp(bad) for good, bad in weights]
    return total + facts * sum(of_rules) / max(len(of_rules), 1), facts


def log_one_plus_exp(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
