"""Knowledge perceptual attention of one entity under one relation (readings 6, 7 and 8)."""

import numpy as np

from tests.oracles.arithmetic import Parameters, Vector, dense, dot, leaky_relu, relu, softmax, tanh, times


def query(
    parameters: Parameters,
    entity: Vector,
    relation: Vector,
    *,
    relation_weight: float,
    use_query: bool = True,
) -> Vector:
    """p_joint = delta_e f_e(e_i) + delta_r f_r(r)."""
    delta_e, delta_r = (1.0 - relation_weight, relation_weight) if use_query else (0.0, 0.0)
    from_entity = tanh(dense(parameters["entity_projection"], entity))
    from_relation = tanh(dense(parameters["relation_projection"], relation))
    return delta_e * from_entity + delta_r * from_relation


def score(parameters: Parameters, head: int, p: Vector, o: Vector, operators: tuple[str, ...]) -> float:
    """s(l)(p, o) = LeakyReLU(sum_j W_j(l) phi_j(p, o))."""
    total = 0.0
    for operator in operators:
        if operator == "product":
            total += dot(parameters["product"][head], p * o)
        elif operator == "difference":
            total += dot(parameters["difference"][head], p - o)
        elif operator == "concatenation":
            total += dot(parameters["concatenation"][head], np.concatenate([p, o]))
        elif operator == "mlp":
            hidden = relu(dense(parameters["mlp_query"], p) + times(parameters["mlp_value"].T, o))
            total += dot(parameters["mlp_output"][:, head], hidden)
        else:
            raise ValueError(operator)
    return leaky_relu(total)


def attend(
    parameters: Parameters, p: Vector, attributes: list[Vector], operators: tuple[str, ...]
) -> tuple[Vector, list[list[float]]]:
    """o_joint of the entity, and its weights [head][field]."""
    parts, weights = [], []
    for head, matrix in enumerate(parameters["aggregation"]):
        of_fields = softmax([score(parameters, head, p, o, operators) for o in attributes])
        part = np.zeros(len(matrix))  # all there is of an entity without attributes
        for weight, o in zip(of_fields, attributes, strict=True):
            part = part + weight * times(matrix, o)
        parts.append(part)
        weights.append(of_fields)
    return np.concatenate(parts), weights
