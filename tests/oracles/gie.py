"""GIE for one triple: a sphere is a ball of negative curvature, whose roots are complex."""

import cmath
import math
from typing import Any

import numpy as np

from tests.oracles import entity_table, hyperbolic
from tests.oracles.arithmetic import Parameters, Vector, dot, norm, softmax, softplus

REACH = 1.0 - hyperbolic.BORDER


def kept(point: Vector, c: float) -> Vector:
    """`point`, or the one in its direction that is as far as points may be."""
    length, radius = norm(point, 2), REACH / math.sqrt(abs(c))
    return point * (radius / length) if length > radius else point


def exp_at_origin(tangent: Vector, c: float) -> Vector:
    root, length = cmath.sqrt(c), norm(tangent, 2)
    if c < 0.0 and abs(root) * length > math.atan(REACH):
        return tangent * (REACH / (abs(root) * length))
    return kept(tangent * (cmath.tanh(root * length) / (root * length)).real, c)


def log_at_origin(point: Vector, c: float) -> Vector:
    root, length = cmath.sqrt(c), norm(point, 2)
    return point * (cmath.atanh(root * length) / (root * length)).real


def total(x: Vector, y: Vector, c: float) -> Vector:
    return kept(hyperbolic.mobius_sum(x, y, c), c)


def interaction(parameters: Parameters, relation: int, entity: Vector, side: str) -> tuple[Vector, float]:
    shift = parameters["relation_shift"][relation]
    c, of_ball, of_sphere = (softplus(float(raw)) + 1e-4 for raw in parameters["raw_curvature"][:, relation])
    views = []
    for space, curvature in enumerate((0.0, of_ball, -of_sphere)):
        angles = parameters["rotation"][space][relation]
        if side == "head":
            turned = hyperbolic.rotated(entity, angles, mirror=False)
            if not curvature:
                views.append(shift + turned)
                continue
            point = total(exp_at_origin(shift, curvature), exp_at_origin(turned, curvature), curvature)
            views.append(log_at_origin(point, curvature))
            continue
        if not curvature:
            views.append(hyperbolic.rotated(entity - shift, -angles, mirror=False))
            continue
        point = total(-exp_at_origin(shift, curvature), exp_at_origin(entity, curvature), curvature)
        views.append(log_at_origin(hyperbolic.rotated(point, -angles, mirror=False), curvature))
    weights = softmax([dot(parameters[f"{side}_attention"][relation], view) for view in views])
    mixed = np.sum([weight * view for weight, view in zip(weights, views, strict=True)], axis=0)
    return exp_at_origin(mixed, c), c


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    result = parameters["head_bias"][head] + parameters["tail_bias"][tail]
    for side, moving, still in (("head", e_h, e_t), ("tail", e_t, e_h)):
        point, c = interaction(parameters, relation, moving, side)
        result -= hyperbolic.distance(point, exp_at_origin(still, c), c) ** 2
    return result
