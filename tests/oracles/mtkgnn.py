"""MT-KGNN for one triple, and the squared error of its networks for one value."""

from typing import Any

from tests.oracles.arithmetic import Parameters, dense, dot, sigmoid, tanh


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    del config, literals  # the values enter the loss, not the score
    table = parameters["entities"]["embedding"]
    hidden = dense(parameters["from_head"], table[head]) + dense(parameters["from_tail"], table[tail])
    hidden = hidden + dense(parameters["from_relation"], parameters["relation_embedding"][relation])
    return dot(parameters["output"], tanh(hidden))


def predicted(parameters: Parameters, network: str, entity: int, field: int) -> float:
    """sigmoid(<u, tanh(V [a_m; e_i])>) of the network "head_values" or "tail_values"."""
    own = parameters[network]
    hidden = dense(own["from_field"], parameters["field_embedding"][field])
    hidden = hidden + dense(own["from_entity"], parameters["entities"]["embedding"][entity])
    return sigmoid(dot(own["output"], tanh(hidden)))


def squared_error(parameters: Parameters, literals: Any) -> tuple[float, int]:
    """Sum over both networks and all observed values, and the number of predictions."""
    total, count = 0.0, 0
    for network in ("head_values", "tail_values"):
        for entity, row in enumerate(literals.observed):
            for field, observed in enumerate(row):
                if observed:
                    value = float(literals.values[entity, field])
                    total += (predicted(parameters, network, entity, field) - value) ** 2
                    count += 1
    return total, count
