"""The mixture of knowledge experts for one entity and one relation (readings 4 and 5)."""

import numpy as np

from tests.oracles.arithmetic import Parameters, Vector, dense, relu, sigmoid, softmax, softplus, times


def perspective(parameters: Parameters, expert: int, feature: Vector, *, hidden: int) -> Vector:
    """H_k = e~ + W_k e~ + b_k, or with a hidden layer e~ + W_k' relu(W_k e~ + b_k) + b_k'."""
    output = times(parameters["kernel"][expert].T, feature) + parameters["bias"][expert]
    if hidden:
        output = (
            times(parameters["output_kernel"][expert].T, relu(output)) + parameters["output_bias"][expert]
        )
    return feature + output


def gate(
    parameters: Parameters, perspectives: list[Vector], relation: int, psi: list[float] | None = None
) -> list[float]:
    """F_k; `psi` are standard normal draws, scaled here by softplus(U'(H_k)); None adds no noise."""
    logits = []
    for k, view in enumerate(perspectives):
        logit = dense(parameters["gate_logit"], view)[0]
        if psi is not None:
            logit += softplus(dense(parameters["noise_scale"], view)[0]) * psi[k]
        logits.append(logit / sigmoid(parameters["relation_temperature"][relation]))
    return softmax(logits)


def entity_embedding(
    parameters: Parameters, feature: Vector, relation: int, *, hidden: int = 0, psi: list[float] | None = None
) -> Vector:
    """e_i = sum_k F_k H_k."""
    count = len(parameters["kernel"])
    perspectives = [perspective(parameters, k, feature, hidden=hidden) for k in range(count)]
    weights = gate(parameters, perspectives, relation, psi)
    embedding = np.zeros(len(feature))
    for weight, view in zip(weights, perspectives, strict=True):
        embedding = embedding + weight * view
    return embedding
