"""LiteralE's gate on TransE for one triple, as the docstring of its module has it."""

from typing import Any

import numpy as np

from tests.oracles import fusion, transe
from tests.oracles.arithmetic import Parameters, Vector


def gated(parameters: Parameters, literals: Any, entity: int) -> Vector:
    """e'_i: the embedding and the row of values, 0 where one is missing, through the gate."""
    row = []
    for value, observed in zip(literals.values[entity], literals.observed[entity], strict=True):
        row.append(float(value) if observed else 0.0)
    return fusion.fuse(parameters["gate"], parameters["entity_embedding"][entity], np.array(row), kind="gate")


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    """epsilon - ||e'_h + r - e'_t||_p."""
    count = len(parameters["entity_embedding"])
    table = np.array([gated(parameters, literals, entity) for entity in range(count)])
    return transe.logit_of_table(table, parameters, config, head, relation, tail)
