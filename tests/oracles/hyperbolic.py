"""The Poincaré ball as its definitions have it: distances through Möbius addition and artanh."""

import math

import numpy as np

from tests.oracles.arithmetic import Vector, dot, norm

BORDER = 4e-3


def exp_at_origin(tangent: Vector, c: float) -> Vector:
    length = norm(tangent, 2)
    if length == 0.0:
        return tangent
    radius = min(math.tanh(math.sqrt(c) * length), 1.0 - BORDER) / math.sqrt(c)
    return tangent * (radius / length)


def mobius_sum(x: Vector, y: Vector, c: float) -> Vector:
    """x + y, wherever it lies."""
    xy, xx, yy = dot(x, y), dot(x, x), dot(y, y)
    numerator = (1.0 + 2.0 * c * xy + c * yy) * x + (1.0 - c * xx) * y
    return numerator / (1.0 + 2.0 * c * xy + c * c * xx * yy)


def mobius_add(x: Vector, y: Vector, c: float) -> Vector:
    """x + y, pulled off the border."""
    total = mobius_sum(x, y, c)
    length, radius = norm(total, 2), (1.0 - BORDER) / math.sqrt(c)
    return total * (radius / length) if length > radius else total


def distance(x: Vector, y: Vector, c: float) -> float:
    return 2.0 / math.sqrt(c) * math.atanh(math.sqrt(c) * norm(mobius_sum(-x, y, c), 2))


def rotated(vector: Vector, angles: Vector, mirror: bool) -> Vector:
    """Blocks of two dimensions times [[cos, -sin], [sin, cos]], or [[cos, sin], [sin, -cos]]."""
    result = np.zeros(len(vector))
    for block, angle in enumerate(angles):
        x, y = vector[2 * block], vector[2 * block + 1]
        cos, sin = math.cos(angle), math.sin(angle)
        result[2 * block] = cos * x + (sin if mirror else -sin) * y
        result[2 * block + 1] = sin * x + (-cos if mirror else cos) * y
    return result
