"""Arithmetic of single numbers and single vectors."""

import math

import numpy as np

Vector = np.ndarray  # float64 [size]
Parameters = dict


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def softplus(x: float) -> float:
    return math.log(1.0 + math.exp(x))


def leaky_relu(x: float, slope: float = 0.2) -> float:
    return x if x > 0 else slope * x


def softmax(logits: list[float]) -> list[float]:
    exponentials = [math.exp(logit) for logit in logits]
    return [exponential / sum(exponentials) for exponential in exponentials]


def dot(left: Vector, right: Vector) -> float:
    total = 0.0
    for x, y in zip(left.tolist(), right.tolist(), strict=True):
        total += x * y
    return total


def times(matrix: np.ndarray, vector: Vector) -> Vector:
    """Matrix [out, in] times vector [in]."""
    return np.array([dot(row, vector) for row in matrix])


def dense(parameters: Parameters, vector: Vector) -> Vector:
    """A linear layer stored as linen stores it: kernel [in, out], bias [out] or none."""
    product = times(np.transpose(parameters["kernel"]), vector)
    return product + parameters["bias"] if "bias" in parameters else product


def tanh(vector: Vector) -> Vector:
    return np.array([math.tanh(x) for x in vector])


def relu(vector: Vector) -> Vector:
    return np.array([max(x, 0.0) for x in vector])


def sigmoids(vector: Vector) -> Vector:
    return np.array([sigmoid(x) for x in vector])


def norm(vector: Vector, order: int) -> float:
    if order == 1:
        return sum(abs(float(x)) for x in vector)
    return math.sqrt(sum(float(x) ** 2 for x in vector))
