"""The whole model for one triple, composed of the parts' oracles."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracles import attention, distmult, experts, fusion, score, tucker
from tests.oracles import complex as complex_oracle
from tests.oracles.arithmetic import Parameters, Vector
from tests.oracles.numeric_embedding import attribute_vector


def encode_entity(parameters: Parameters, config: Any, literals: Any, entity: int, relation: int) -> Vector:
    """e_att of one entity under one relation, without noise."""
    feature = parameters["entity_embedding"][entity]
    embedding = experts.entity_embedding(
        parameters["experts"], feature, relation, hidden=config.experts.hidden
    )
    fields = literals.values.shape[1]
    if not fields:
        return embedding
    attributes = [
        attribute_vector(
            parameters["numeric"],
            config.numeric,
            field,
            float(literals.values[entity, field]),
            float(literals.positions[entity, field]),
            bool(literals.observed[entity, field]),
        )
        for field in range(fields)
        if literals.observed[entity, field] or config.numeric.missing != "skip"
    ]
    p = attention.query(
        parameters["attention"],
        embedding,
        parameters["relation_embedding"][relation],
        relation_weight=config.attention.relation_weight,
        use_query=config.attention.use_query,
    )
    joint, _ = attention.attend(parameters["attention"], p, attributes, config.attention.operators)
    return fusion.fuse(parameters["fusion"], embedding, joint, kind=config.fusion.kind)


def encode(parameters: Parameters, config: Any, literals: Any, relation: int) -> np.ndarray:
    """e_att [N, d] of every entity under one relation."""
    count = len(parameters["entity_embedding"])
    return np.array([encode_entity(parameters, config, literals, i, relation) for i in range(count)])


def logits(
    parameters: Parameters, config: Any, literals: Any, table: np.ndarray, relation: int, head: int
) -> list[float]:
    """The scores of (head, relation, every entity), from the relation's table [N, d]."""
    projection = None
    if config.score.order != "none":
        projection = parameters["score_term"]["order_projection"][relation]
    order = {
        "margin": config.score.margin,
        "order": config.score.order,
        "order_weight": config.score.order_weight,
    }
    vector = parameters["relation_embedding"][relation]
    if config.score.decoder == "translation":
        return [
            score.score(table[head], vector, tail, projection, p=config.score.norm, **order) for tail in table
        ]
    bilinear: dict[str, Callable] = {
        "distmult": distmult.score,
        "complex": complex_oracle.score,
        "tucker": functools.partial(tucker.score, parameters["score_term"].get("core_tensor")),
    }
    return [
        bilinear[config.score.decoder](table[head], vector, tail)
        + score.order_term(table[head], tail, projection, **order)
        for tail in table
    ]
