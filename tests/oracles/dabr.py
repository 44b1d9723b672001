"""DaBR for one triple: quaternions as 2 x 2 complex matrices, whose product is theirs."""

from typing import Any

import numpy as np

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters, Vector


def matrix(quaternion: Vector) -> np.ndarray:
    a, b, c, d = quaternion
    return np.array([[a + b * 1j, c + d * 1j], [-c + d * 1j, a - b * 1j]])


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    r, shift = parameters["relation_rotation"][relation], parameters["relation_shift"][relation]
    count = len(e_h) // 4
    semantic = distance = 0.0
    for q in range(count):
        places = [q + part * count for part in range(4)]
        h, t, turn = e_h[places], e_t[places], matrix(r[places])
        inverse = np.linalg.inv(turn)
        unit = turn / np.sqrt(np.linalg.det(turn).real)
        unit_inverse = inverse / np.sqrt(np.linalg.det(inverse).real)
        x, y = matrix(h) @ unit, matrix(t) @ unit_inverse
        semantic += float(np.trace(x @ y.conj().T).real) / 2.0
        distance += abs(sum(h[i] + shift[places[i]] - t[i] for i in range(4)))
    return semantic + float(parameters["distance_weight"]) * distance
