"""NEKG's vector of one value and the score of one triple."""

from typing import Any

import numpy as np

from tests.oracles import fusion, transe
from tests.oracles.arithmetic import Parameters, Vector


def encoded(value: float, prototypes: np.ndarray) -> Vector:
    """Each prototype weighs as much as a tent of two intervals' width around it is high at the value."""
    places = np.linspace(0.0, 1.0, len(prototypes))
    width = places[1] - places[0]
    inside = min(max(value, 0.0), 1.0)
    heights = [max(0.0, 1.0 - abs(inside - place) / width) for place in places]
    return np.sum([height * row for height, row in zip(heights, prototypes, strict=True)], axis=0)


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    table = []
    for entity, embedding in enumerate(parameters["entity_embedding"]):
        cells = zip(literals.values[entity], literals.observed[entity], strict=True)
        rows = [encoded(float(value), parameters["fixed_numbers"]) for value, observed in cells if observed]
        numbers = np.mean(rows, axis=0) if rows else np.zeros(len(embedding))
        table.append(fusion.fuse(parameters["gate"], embedding, numbers, kind="gate"))
    return transe.logit_of_table(np.array(table), parameters, config, head, relation, tail)
