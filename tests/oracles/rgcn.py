"""R-GCN for one triple: neighbourhoods by search, a matrix a relation."""

from typing import Any

import numpy as np

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters, Vector, dense, relu, times


def neighbours(facts: np.ndarray, entity: int, relation: int, relations: int) -> list[int]:
    """Who sends to `entity` under `relation`: its tails, or under the inverse relation its heads."""
    found = []
    for head, of_fact, tail in facts.tolist():
        if relation == of_fact and head == entity:
            found.append(tail)
        if relation == of_fact + relations and tail == entity:
            found.append(head)
    return found


def layer(parameters: Parameters, facts: np.ndarray, vectors: list[Vector], relations: int) -> list[Vector]:
    """W_0 h_i + sum_r mean over N_i^r of W_r h_j."""
    result = []
    for entity, vector in enumerate(vectors):
        total = dense(parameters["self_loop"], vector)
        for relation in range(2 * relations):
            matrix = np.zeros(parameters["bases"][0].shape)
            for basis, weight in zip(parameters["bases"], parameters["mix"][relation], strict=True):
                matrix = matrix + weight * basis
            senders = neighbours(facts, entity, relation, relations)
            for sender in senders:
                total = total + times(matrix.T, vectors[sender]) / len(senders)
        result.append(total)
    return result


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    table, count = parameters["entities"], len(parameters["entities"]["embedding"])
    vectors = [entity_table.entity(table, config, literals, i) for i in range(count)]
    facts, relations = np.asarray(literals.facts), len(parameters["relation_embedding"])
    for number in range(config.graph.layers):
        vectors = layer(parameters[f"convolutions_{number}"], facts, vectors, relations)
        if number + 1 < config.graph.layers:
            vectors = [relu(vector) for vector in vectors]
    parts = zip(vectors[head], parameters["relation_embedding"][relation], vectors[tail], strict=True)
    if config.graph.decoder == "distmult":
        return sum(x * r * y for x, r, y in parts)
    gaps = [abs(x + r - y) for x, r, y in parts]
    return config.score.margin - (sum(gaps) if config.score.norm == 1 else sum(g * g for g in gaps) ** 0.5)
