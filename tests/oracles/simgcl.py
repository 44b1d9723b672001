"""SimGCL for one triple, and its contrastive loss for one entity."""

import math
from typing import Any

import numpy as np

from tests.oracles import entity_table, transe
from tests.oracles.arithmetic import Parameters
from tests.oracles.contrastive import cosine


def propagated(table: np.ndarray, facts: np.ndarray) -> np.ndarray:
    """Each entity's new vector, from whoever shares a fact with it, a fact at a time."""
    degree = np.zeros(len(table))
    for head, _, tail in facts.tolist():
        degree[head] += 1
        degree[tail] += 1
    result = np.zeros(table.shape)
    for head, _, tail in facts.tolist():
        share = 1.0 / math.sqrt(degree[head] * degree[tail])
        result[head] += share * table[tail]
        result[tail] += share * table[head]
    return result


def encoded(parameters: Parameters, config: Any, literals: Any) -> np.ndarray:
    """The mean of the layers, [N, d]."""
    own, count = parameters["entities"], len(parameters["entities"]["embedding"])
    layer = np.array([entity_table.entity(own, config, literals, i) for i in range(count)])
    total = np.zeros(layer.shape)
    for _ in range(config.graph.layers):
        layer = propagated(layer, np.asarray(literals.facts))
        total = total + layer
    return total / config.graph.layers


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    table = encoded(parameters, config, literals)
    return transe.logit_of_table(table, parameters, config, head, relation, tail)


def view_loss(first: np.ndarray, second: np.ndarray, entity: int, temperature: float) -> float:
    """-log of the softmax of the entity's own similarity among all."""
    similarities = [math.exp(cosine(first[entity], other) / temperature) for other in second]
    return -math.log(similarities[entity] / sum(similarities))
