"""KGDM for one triple: the way from no signal to the estimated tail, step by step."""

import math
from typing import Any

import numpy as np

from tests.oracles import entity_table, hyperbolic
from tests.oracles.arithmetic import Parameters, Vector, dense, dot

STEPS = 8


def layer_norm(parameters: Parameters, vector: Vector, epsilon: float = 1e-6) -> Vector:
    mean = sum(vector.tolist()) / len(vector)
    variance = sum((x - mean) ** 2 for x in vector.tolist()) / len(vector)
    return (vector - mean) / math.sqrt(variance + epsilon) * parameters["scale"] + parameters["bias"]


def gelu(x: float) -> float:
    return 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0)))


def estimate(parameters: Parameters, noisy: Vector, step: int, condition: Vector) -> Vector:
    rows = noisy
    for block in range(2):
        given = layer_norm(parameters[f"norm_{block}"], rows) + parameters["steps"][step - 1] + condition
        hidden = np.array([gelu(x) for x in dense(parameters[f"in_{block}"], given)])
        rows = rows + parameters[f"scale_{block}"] * dense(parameters[f"out_{block}"], hidden)
    return dense(parameters["estimate"], layer_norm(parameters["norm"], rows))


def signal(step: int) -> float:
    """Its root and that of the noise are cosine and sine of one angle."""
    return (1.0 + math.cos(math.pi * step / (STEPS + 1))) / 2.0


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    condition = hyperbolic.rotated(e_h, parameters["rotation"][relation], mirror=False)
    noisy = found = np.zeros(len(e_h))
    for step in range(STEPS, 0, -1):
        found = estimate(parameters["denoiser"], noisy, step, condition)
        ratio = math.sqrt((1.0 - signal(step - 1)) / (1.0 - signal(step)))
        noisy = math.sqrt(signal(step - 1)) * found + ratio * (noisy - math.sqrt(signal(step)) * found)
    return dot(found, e_t) + parameters["tail_bias"][tail]
