"""Pairwise reductions over the last axis and their gradients, entry by entry in float64."""

import math

import numpy as np


def entry(name: str, difference: float) -> tuple[float, float]:
    """Value and derivative of one summand; the derivative of |x| at 0 is taken as 0."""
    if name == "l1_distance":
        return abs(difference), float((difference > 0) - (difference < 0))
    if name == "squared_relu":
        return max(difference, 0.0) ** 2, 2.0 * max(difference, 0.0)
    if name == "half_angle_distance":
        sine = math.sin(difference / 2.0)
        return abs(sine), 0.5 * float((sine > 0) - (sine < 0)) * math.cos(difference / 2.0)
    return difference**2, 2.0 * difference


def value_and_gradients(
    name: str, left: np.ndarray, right: np.ndarray, cotangent: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Result [S, H, N], and the gradients of sum(cotangent * result) for left and right."""
    values = np.zeros(cotangent.shape)
    of_left, of_right = np.zeros(left.shape), np.zeros(right.shape)
    for s, h, n in np.ndindex(*cotangent.shape):
        slopes = []
        for x, y in zip(left[s, h].tolist(), right[s, n].tolist(), strict=True):
            value, slope = entry(name, x - y)
            values[s, h, n] += value
            slopes.append(slope)
        factor = float(cotangent[s, h, n])
        if name == "l2_distance":
            length = math.sqrt(values[s, h, n])
            values[s, h, n] = length
            factor = factor / (2.0 * length) if length > 0 else 0.0
        for d, slope in enumerate(slopes):
            of_left[s, h, d] += factor * slope
            of_right[s, n, d] -= factor * slope
    return values, of_left, of_right
