"""NRN's encodings of one value and the score of one triple."""

import math
from typing import Any

import numpy as np

from tests.oracles import fusion, transe
from tests.oracles.arithmetic import Parameters, Vector


def encoded(value: float, dim: int, kind: str) -> Vector:
    if kind == "dice":
        angle = math.pi * min(max(value, 0.0), 1.0)
        numbers = [math.sin(angle) ** i * math.cos(angle) for i in range(dim - 1)]
        return np.array([*numbers, math.sin(angle) ** (dim - 1)])
    numbers = []
    for i in range(dim):
        phase = 1000.0 * value * 10_000.0 ** (-2.0 * (i // 2) / dim)
        numbers.append(math.sin(phase) if i % 2 == 0 else math.cos(phase))
    return np.array(numbers)


def mean_encoding(literals: Any, entity: int, dim: int, kind: str) -> Vector:
    total, count = np.zeros(dim), 0
    for value, observed in zip(literals.values[entity], literals.observed[entity], strict=True):
        if observed:
            total, count = total + encoded(float(value), dim, kind), count + 1
    return total / max(count, 1)


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    table = []
    for entity, embedding in enumerate(parameters["entity_embedding"]):
        numbers = mean_encoding(literals, entity, config.model.dim, config.model.value_encoding)
        table.append(fusion.fuse(parameters["gate"], embedding, numbers, kind="gate"))
    return transe.logit_of_table(np.array(table), parameters, config, head, relation, tail)
