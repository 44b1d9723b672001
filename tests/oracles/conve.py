"""ConvE and its batch normalisation for one triple, pixel by pixel."""

import math
from typing import Any

import numpy as np

from tests.oracles import entity_table
from tests.oracles.arithmetic import Parameters, Vector, dense, dot


def normalised(parameters: Parameters, number: float, channel: int) -> float:
    """Batch normalisation of one number by the running statistics of its channel."""
    centred = number - parameters["running_mean"][channel]
    scaled = centred / math.sqrt(parameters["running_variance"][channel] + 1e-5)
    return scaled * parameters["scale"][channel] + parameters["bias"][channel]


def normalised_vector(parameters: Parameters, vector: Vector) -> Vector:
    return np.array([normalised(parameters, number, i) for i, number in enumerate(vector)])


def image_of(head: Vector, relation: Vector, height: int) -> np.ndarray:
    """[2 a, b]: the head's rows above the relation's."""
    width = len(head) // height
    image = np.zeros((2 * height, width))
    for i in range(len(head)):
        image[i // width, i % width] = head[i]
        image[height + i // width, i % width] = relation[i]
    return image


def convolved(parameters: Parameters, image: np.ndarray) -> np.ndarray:
    """[2 a - 2, b - 2, filters]: where a 3 x 3 filter lies inside the image."""
    kernel = parameters["kernel"]  # [3, 3, 1, filters]
    maps = np.zeros((image.shape[0] - 2, image.shape[1] - 2, kernel.shape[-1]))
    for y, x, f in np.ndindex(*maps.shape):
        maps[y, x, f] = parameters["bias"][f]
        for dy, dx in np.ndindex(3, 3):
            maps[y, x, f] += kernel[dy, dx, 0, f] * image[y + dy, x + dx]
    return maps


def logit(parameters: Parameters, config: Any, literals: Any, head: int, relation: int, tail: int) -> float:
    e_h, e_t = (entity_table.entity(parameters["entities"], config, literals, i) for i in (head, tail))
    image = image_of(e_h, parameters["relation_embedding"][relation], height={12: 3, 4: 2}[len(e_h)])
    for y, x in np.ndindex(*image.shape):
        image[y, x] = normalised(parameters["image_norm"], float(image[y, x]), 0)
    maps = convolved(parameters["convolution"], image)
    features = []
    for y, x, f in np.ndindex(*maps.shape):
        features.append(max(0.0, normalised(parameters["feature_norm"], float(maps[y, x, f]), f)))
    hidden = normalised_vector(parameters["hidden_norm"], dense(parameters["hidden"], np.array(features)))
    query = np.array([max(0.0, x) for x in hidden])
    return dot(query, e_t) + parameters["tail_bias"][tail]
