"""TuckER for one triple: the sum over all entries of the core."""

from typing import Any

import numpy as np

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters, dot
from tests.oracles.conve import normalised_vector


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    return score(parameters, e_h, parameters["relation_embedding"][relation], e_t)


def score(parameters: Parameters, e_h: np.ndarray, r: np.ndarray, e_t: np.ndarray) -> float:
    """Of three vectors, with the core and the norms among `parameters`."""
    e_h = normalised_vector(parameters["head_norm"], e_h)
    query = np.zeros(len(e_t))
    for k, i, j in np.ndindex(*parameters["core"].shape):
        query[j] += parameters["core"][k, i, j] * r[k] * e_h[i]
    return dot(normalised_vector(parameters["query_norm"], query), e_t)
