"""BiGI for one triple, and its discriminator for one fact: neighbour by neighbour."""

import math
from typing import Any

import numpy as np

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters, Vector, dense, dot, leaky_relu, norm, relu, sigmoids, softmax


def bent(vector: Vector) -> Vector:
    return np.array([leaky_relu(float(x), 0.1) for x in vector])


def mean(rows: list[Vector], size: int) -> Vector:
    return np.mean(rows, axis=0) if rows else np.zeros(size)


def layer(parameters: Parameters, rows: list[Vector], links: list[tuple[int, int]]) -> list[Vector]:
    """`links` are (entity of this side, entity of the other side), one a fact."""
    size = len(rows[0])
    across = []
    for there in range(len(rows)):
        heard = [dense(parameters["there"], rows[own]) for own, other in links if other == there]
        across.append(bent(mean(heard, size)))
    result = []
    for here, row in enumerate(rows):
        heard = [dense(parameters["back"], across[other]) for own, other in links if own == here]
        joined = np.concatenate([bent(mean(heard, size)), row])
        result.append(relu(dense(parameters["union"], joined)))
    return result


def links_of(literals: Any) -> list[tuple[int, int]]:
    return [(head, tail) for head, _, tail in np.asarray(literals.facts).tolist()]


def sides(
    parameters: Parameters, heads: list[Vector], tails: list[Vector], links: list, layers: int
) -> tuple[list[Vector], list[Vector]]:
    turned = [(tail, head) for head, tail in links]
    for number in range(layers):
        heads = layer(parameters[f"head_layers_{number}"], heads, links)
        tails = layer(parameters[f"tail_layers_{number}"], tails, turned)
    return heads, tails


def table_of(parameters: Parameters, config: Any, literals: Any) -> list[Vector]:
    count = len(parameters["entities"]["embedding"])
    return [entity_table.entity(parameters["entities"], config, literals, i) for i in range(count)]


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    table = table_of(parameters, config, literals)
    heads, tails = sides(parameters, table, table, links_of(literals), config.graph.layers)
    moved = heads[head] + parameters["relation_embedding"][relation] - tails[tail]
    return config.score.margin - norm(moved, config.score.norm)


def around(query: Vector, keys: list[Vector], size: int) -> Vector:
    weights = softmax([dot(query, key) / math.sqrt(size) for key in keys])
    return np.sum([weight * key for weight, key in zip(weights, keys, strict=True)], axis=0)


def fact_logit(
    parameters: Parameters, true: tuple, shown: tuple, links: list[tuple[int, int]], fact: tuple[int, int]
) -> float:
    """The discriminator's: of a fact between `shown` sides, with the whole of the `true` ones."""
    parts = []
    for end, rows in enumerate(true):
        parts.append(np.mean([rows[i] for i in sorted({link[end] for link in links})], axis=0))
    whole = parameters["bilinear"] @ sigmoids(dense(parameters["whole"], np.concatenate(parts)))
    (heads, tails), (head, tail) = shown, fact
    queries = [dense(parameters["of_heads"], row) for row in heads]
    keys = [dense(parameters["of_tails"], row) for row in tails]
    of_head = heads[head] + around(queries[head], [keys[t] for h, t in links if h == head], len(whole))
    of_tail = tails[tail] + around(keys[tail], [queries[h] for h, t in links if t == tail], len(whole))
    local = sigmoids(dense(parameters["fact"], np.concatenate([of_head, of_tail])))
    return dot(local, whole) + float(parameters["bias"])
