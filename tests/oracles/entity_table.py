"""An entity's vector with its values joined to it, as the docstring of its module has it."""

from typing import Any

import numpy as np

from tests.oracles.arithmetic import Parameters, Vector, dense


def row_of_values(literals: Any, entity: int) -> Vector:
    """x_i, 0 where missing."""
    cells = zip(literals.values[entity], literals.observed[entity], strict=True)
    return np.array([float(value) if observed else 0.0 for value, observed in cells])


def entity(parameters: Parameters, config: Any, literals: Any, number: int) -> Vector:
    """e_i, or W [e_i; x_i] + b."""
    embedding = parameters["embedding"][number]
    if config.model.attributes == "none":
        return embedding
    joined = np.concatenate([embedding, row_of_values(literals, number)])
    return dense(parameters["attributes_joined"]["projection"], joined)
