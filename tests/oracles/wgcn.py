"""WGCN and Conv-TransE for one triple: fact by fact, place by place."""

from typing import Any

import numpy as np

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters, dense, dot, relu, tanh
from tests.oracles.conve import normalised, normalised_vector


def encoded(parameters: Parameters, config: Any, literals: Any) -> list[np.ndarray]:
    own, count = parameters["entities"], len(parameters["entities"]["embedding"])
    vectors = [entity_table.entity(own, config, literals, i) for i in range(count)]
    for layer in range(config.graph.layers):
        alpha = parameters["relation_weight"][layer]
        totals = [vector.copy() for vector in vectors]
        for head, relation, tail in np.asarray(literals.facts).tolist():
            totals[head] += alpha[relation] * vectors[tail]
            totals[tail] += alpha[relation] * vectors[head]
        maps, norms = parameters[f"layer_maps_{layer}"], parameters[f"layer_norms_{layer}"]
        vectors = [tanh(normalised_vector(norms, dense(maps, total))) for total in totals]
    return vectors


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    vectors = encoded(parameters, config, literals)
    rows = vectors[head], parameters["relation_embedding"][relation]
    kernel, bias = parameters["convolution"]["kernel"], parameters["convolution"]["bias"]  # [5, 2, filters]
    features = []
    for place in range(len(rows[0])):
        for f in range(len(bias)):
            total = bias[f]
            for k in range(5):
                source = place + k - 2
                if 0 <= source < len(rows[0]):
                    total += kernel[k, 0, f] * rows[0][source] + kernel[k, 1, f] * rows[1][source]
            features.append(max(0.0, normalised(parameters["feature_norm"], float(total), f)))
    hidden = normalised_vector(parameters["hidden_norm"], dense(parameters["hidden"], np.array(features)))
    return dot(relu(hidden), vectors[tail])
