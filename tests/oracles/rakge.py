"""RAKGE for one entity and one triple, as the docstring of its module has it."""

import math
from typing import Any

import numpy as np

from tests.oracles import fusion, score
from tests.oracles.arithmetic import Parameters, Vector, dense, dot, softmax, tanh


def attribute_vector(parameters: Parameters, field: int, value: float) -> Vector:
    """o_im = W v_m + b + (x w + w_0) * v_m."""
    v = parameters["field_embedding"][field]
    lines = zip(parameters["value_weight"], parameters["value_bias"], strict=True)
    return dense(parameters["transform"], v) + np.array([value * w + w_0 for w, w_0 in lines]) * v


def attend(
    parameters: Parameters,
    relation: Vector,
    attributes: list[Vector],
    heads: int,
    key_bias: Vector | float = 0.0,
) -> tuple[Vector, list[list[float]]]:
    """Multi-head attention of the relation's query to the fields' vectors; weights are [head][field].

    Each of query, keys and values is projected, cut into heads, softmax(q . k / sqrt(size of a head)) weighs
    the values, and the concatenated heads are projected once more.
    """
    query = dense(parameters["query"], tanh(dense(parameters["relation_projection"], relation)))
    keys = [dense(parameters["key"], o) + key_bias for o in attributes]
    values = [dense(parameters["value"], o) + parameters["value_bias"] for o in attributes]
    size = len(query) // heads
    parts, weights = [], []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        of_fields = softmax([dot(query[part], key[part]) / math.sqrt(size) for key in keys])
        mixed = np.zeros(size)
        for weight, value in zip(of_fields, values, strict=True):
            mixed = mixed + weight * value[part]
        parts.append(mixed)
        weights.append(of_fields)
    return dense(parameters["output"], np.concatenate(parts)), weights


def encode_entity(parameters: Parameters, config: Any, literals: Any, entity: int, relation: int) -> Vector:
    """e_ir."""
    attributes = []
    for field, (value, observed) in enumerate(
        zip(literals.values[entity], literals.observed[entity], strict=True)
    ):
        attributes.append(attribute_vector(parameters["numeric"], field, float(value) if observed else 0.0))
    r = parameters["relation_embedding"][relation]
    joint, _ = attend(parameters["attention"], r, attributes, config.attention.heads)
    return fusion.fuse(parameters["gate"], parameters["entity_embedding"][entity], joint, kind="gate")


def encode(parameters: Parameters, config: Any, literals: Any, relation: int) -> np.ndarray:
    """e [N, d] of every entity under one relation."""
    count = len(parameters["entity_embedding"])
    return np.array([encode_entity(parameters, config, literals, i, relation) for i in range(count)])


def logit_of_triple(
    parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int
) -> float:
    """The logit of one triple from the entities as they are encoded under its relation."""
    table = encode(parameters, config, literals, relation)
    return logit(parameters, config, table, head, relation, tail)


def logit(
    parameters: Parameters,
    config: Any,
    table: np.ndarray,
    head: int,
    relation: int,
    tail: int,
    dropped: tuple[Vector, Vector] | None = None,
) -> float:
    """Translation of e_h and e_t, or of `dropped` (head, tail), and the order penalty of e_h and e_t."""
    r = parameters["relation_embedding"][relation]
    e_h, e_t = dropped or (table[head], table[tail])
    settings = {"p": config.score.norm, "margin": config.score.margin}
    translation = score.score(e_h, r, e_t, None, order="none", order_weight=0.0, **settings)
    violation = 0.0
    for column in np.transpose(parameters["order_projection"][relation]):  # entry j of e W_r is e . W_r[:, j]
        violation += max(0.0, dot(table[tail], column) - dot(table[head], column)) ** 2
    return translation + config.score.order_weight * (config.score.margin - violation)
