"""Knowledge-aware aggregation of one entity (reading 9)."""

import numpy as np

from tests.oracles.arithmetic import Parameters, Vector, dense, sigmoids, tanh


def fuse(parameters: Parameters, entity: Vector, attributes: Vector, *, kind: str) -> Vector:
    """e_att: (1 - g) e + g tanh(W [e; o]) with g = sigmoid(W_ge e + W_ga o + b), or the printed line."""
    logits = dense(parameters["entity_gate"], entity) + dense(parameters["attribute_gate"], attributes)
    if kind == "paper":
        return sigmoids(logits) + parameters["bias"]
    g = sigmoids(logits + parameters["bias"])
    joint = tanh(dense(parameters["joint"], np.concatenate([entity, attributes])))
    return np.array([(1.0 - g[i]) * entity[i] + g[i] * joint[i] for i in range(len(entity))])
