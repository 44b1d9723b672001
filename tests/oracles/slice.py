"""SLiCE for one triple, and the loss of one hidden entity: member by member."""

import math
from typing import Any

import numpy as np

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters, Vector, dense, dot, norm, softmax


def table_of(parameters: Parameters, config: Any, literals: Any) -> list[Vector]:
    count = len(parameters["entities"]["embedding"])
    return [entity_table.entity(parameters["entities"], config, literals, i) for i in range(count)]


def layer(parameters: Parameters, relations: np.ndarray, rows: list[Vector], facts: Any) -> list[Vector]:
    result = []
    for centre, row in enumerate(rows):
        context = [row]
        for head, relation, tail in facts:
            if head == centre:
                context.append(rows[tail] - relations[relation])
            if tail == centre:
                context.append(rows[head] + relations[relation])
        query = dense(parameters["query"], row)
        keys = [dense(parameters["key"], member) for member in context]
        weights = softmax([dot(query, key) / math.sqrt(len(row)) for key in keys])
        for weight, member in zip(weights, context, strict=True):
            row = row + weight * dense(parameters["value"], member)
        result.append(row)
    return result


def in_context(parameters: Parameters, config: Any, literals: Any, rows: list[Vector]) -> list[Vector]:
    facts, totals = np.asarray(literals.facts).tolist(), list(rows)
    for number in range(config.graph.layers):
        rows = layer(parameters[f"context_layers_{number}"], parameters["context_relation"], rows, facts)
        totals = [total + row for total, row in zip(totals, rows, strict=True)]
    return totals


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    table = in_context(parameters, config, literals, table_of(parameters, config, literals))
    moved = table[head] + parameters["relation_embedding"][relation] - table[tail]
    return config.score.margin - norm(moved, config.score.norm)


def guessing_loss(
    parameters: Parameters, config: Any, literals: Any, entity: int, hidden: np.ndarray
) -> float:
    table = table_of(parameters, config, literals)
    seen = [parameters["hidden_entity"][0] if gone else row for row, gone in zip(table, hidden, strict=True)]
    guess = dense(parameters["guess"], in_context(parameters, config, literals, seen)[entity])
    return -math.log(softmax([dot(guess, row) for row in table])[entity])
