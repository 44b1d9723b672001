"""LiteralE's gate under a decoder for one triple, as the docstring of its module has it."""

from typing import Any

import numpy as np

from tests.oracles import complex as complex_oracle
from tests.oracles import distmult, fusion, transe
from tests.oracles.arithmetic import Parameters, Vector


def gated(parameters: Parameters, literals: Any, entity: int) -> Vector:
    """e'_i: the embedding and the row of values, 0 where one is missing, through the gate."""
    row = []
    for value, observed in zip(literals.values[entity], literals.observed[entity], strict=True):
        row.append(float(value) if observed else 0.0)
    return fusion.fuse(parameters["gate"], parameters["entity_embedding"][entity], np.array(row), kind="gate")


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    """epsilon - ||e'_h + r - e'_t||_p, or the score of DistMult or ComplEx."""
    if config.score.decoder != "translation":
        bilinear = {"distmult": distmult, "complex": complex_oracle}[config.score.decoder]
        e_h, e_t = (gated(parameters, literals, entity) for entity in (head, tail))
        return bilinear.score(e_h, parameters["relation_embedding"][relation], e_t)
    count = len(parameters["entity_embedding"])
    table = np.array([gated(parameters, literals, entity) for entity in range(count)])
    return transe.logit_of_table(table, parameters, config, head, relation, tail)
