"""LorentzKG for one triple: whole Lorentz matrices, and the inner product of signature (-, +, .., +)."""

import math
from typing import Any

import numpy as np

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters, Vector, dot


def gelu(x: float) -> float:
    return 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0)))


def rotation(normals: np.ndarray) -> np.ndarray:
    size = len(normals)
    result = np.eye(size)
    for row in normals:
        n = np.array([gelu(float(x)) for x in row])
        result = result @ (np.eye(size) - 2.0 * np.outer(n, n) / dot(n, n))
    return result


def boost(velocity: Vector) -> np.ndarray:
    """The (d + 1) x (d + 1) matrix, acting on columns (time, space)."""
    square = dot(velocity, velocity)
    gamma = 1.0 / math.sqrt(1.0 - square)
    matrix = np.eye(len(velocity) + 1)
    matrix[0, 0] = gamma
    matrix[0, 1:] = matrix[1:, 0] = -gamma * velocity
    matrix[1:, 1:] += (gamma - 1.0) / square * np.outer(velocity, velocity)
    return matrix


def transformed(parameters: Parameters, side: str, relation: int, space: Vector) -> Vector:
    turned = space @ rotation(parameters[f"{side}_normals"][relation])
    point = np.concatenate([[math.sqrt(1.0 + dot(turned, turned))], turned])
    velocity = np.array([math.tanh(x) for x in parameters[f"{side}_boost"][relation]]) / (len(space) + 1)
    return boost(velocity) @ point


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    x = transformed(parameters, "head", relation, e_h)
    y = transformed(parameters, "tail", relation, e_t)
    # of two points of the hyperboloid <x - y, x - y> = -2 - 2 <x, y>
    interval = -2.0 - 2.0 * (-x[0] * y[0] + dot(x[1:], y[1:]))
    biases = math.tanh(parameters["head_bias"][head]) + math.tanh(parameters["tail_bias"][tail])
    return config.score.margin - interval + biases
