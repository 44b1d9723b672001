"""TransE for one triple, as the docstring of its module has it."""

from typing import Any

import numpy as np

from tests.oracles import score
from tests.oracles.arithmetic import Parameters


def logit(parameters: Parameters, config: Any, head: int, relation: int, tail: int) -> float:
    """epsilon - ||e_h + r - e_t||_p."""
    return logit_of_table(parameters["entity_embedding"], parameters, config, head, relation, tail)


def logit_of_table(
    table: np.ndarray, parameters: Parameters, config: Any, head: int, relation: int, tail: int
) -> float:
    """The same with other vectors [N, d] in place of the embeddings."""
    translation = parameters["relation_embedding"][relation]
    settings = {"p": config.score.norm, "margin": config.score.margin, "order": "none", "order_weight": 0.0}
    return score.score(table[head], translation, table[tail], None, **settings)
