"""TransE for one triple, as the docstring of its module has it."""

from typing import Any

import numpy as np

from tests.oracles import entity_table, score
from tests.oracles.arithmetic import Parameters


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    """epsilon - ||e_h + r - e_t||_p."""
    count = len(parameters["entities"]["embedding"])
    table = np.array([entity_table.entity(parameters["entities"], config, literals, i) for i in range(count)])
    return logit_of_table(table, parameters, config, head, relation, tail)


def logit_of_table(
    table: np.ndarray, parameters: Parameters, config: Any, head: int, relation: int, tail: int
) -> float:
    """The same with other vectors [N, d] in place of the embeddings."""
    translation = parameters["relation_embedding"][relation]
    settings = {"p": config.score.norm, "margin": config.score.margin, "order": "none", "order_weight": 0.0}
    return score.score(table[head], translation, table[tail], None, **settings)
