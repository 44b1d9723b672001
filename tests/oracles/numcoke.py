"""The whole model for one triple, composed of the parts' oracles."""

from typing import Any

import numpy as np

from tests.oracles import attention, experts, fusion, score
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
    return [
        score.score(
            table[head],
            parameters["relation_embedding"][relation],
            tail,
            projection,
            p=config.score.norm,
            margin=config.score.margin,
            order=config.score.order,
            order_weight=config.score.order_weight,
        )
        for tail in table
    ]
