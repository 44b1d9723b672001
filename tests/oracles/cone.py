"""ConE for one triple: planes as complex numbers, whose Möbius sum is (x + y) / (1 + conj(x) y)."""

import cmath
import math
from typing import Any

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters

REACH = 1.0 - 4e-3  # how far from the origin points may be


def kept(x: complex) -> complex:
    return x * REACH / abs(x) if abs(x) > REACH else x


def point(tangent: complex) -> complex:
    return tangent / abs(tangent) * min(math.tanh(abs(tangent)), REACH)


def half_opening(x: complex) -> float:
    return math.asin(min(0.1 * (1.0 - abs(x) ** 2) / abs(x), 1.0 - 1e-6))


def below(x: complex, angle: float, step: float) -> complex:
    direction = x / abs(x) * cmath.exp(1j * math.tanh(angle) * half_opening(x))
    y = direction * math.tanh(abs(step) / (1.0 - abs(x) ** 2))
    return kept((x + y) / (1.0 + x.conjugate() * y))


def squared_distance(x: complex, y: complex) -> float:
    return (2.0 * math.atanh(abs((y - x) / (1.0 - x.conjugate() * y)))) ** 2


def angle(above: complex, beneath: complex) -> float:
    """Moved so that `above` is the origin, the ray from the old origin goes on in its own direction."""
    seen = (beneath - above) / (1.0 - above.conjugate() * beneath)
    return abs(cmath.phase(seen / above))


def planes(parameters: Parameters, config: Any, literals: Any, entity: int) -> list[complex]:
    tangents = entity_table.entity(parameters["entities"], config, literals, entity)
    return [point(complex(*tangents[2 * p : 2 * p + 2])) for p in range(len(tangents) // 2)]


def orders(parameters: Parameters, relation: int, plane: int) -> float:
    """Positive where the relation puts tails below heads, negative the other way, 0 where it turns."""
    return parameters["fixed_direction"][relation] * (parameters["fixed_planes"][relation][plane] > 0.0)


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    ends = (planes(parameters, config, literals, entity) for entity in (head, tail))
    result = parameters["head_bias"][head] + parameters["tail_bias"][tail]
    for p, (x, y) in enumerate(zip(*ends, strict=True)):
        way = float(parameters["rotation"][relation][p]), float(parameters["step"][relation][p])
        order = orders(parameters, relation, p)
        if order > 0.0:
            result -= squared_distance(below(x, *way), y)
        elif order < 0.0:
            result -= squared_distance(below(y, *way), x)
        else:
            result -= squared_distance(x * cmath.exp(1j * way[0]), y)
    return result
