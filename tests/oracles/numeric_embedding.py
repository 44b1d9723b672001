"""o_im, the attribute vector of one entity in one field (readings 1 and 2)."""

import math
from typing import Any

import numpy as np

from tests.oracles.arithmetic import Parameters, Vector, times


def parts_of_value(parameters: Parameters, config: Any, field: int, value: float, quantile: float) -> list:
    """phi: the value itself; how much of each bin lies below its quantile; or its sines, then cosines."""
    if config.encoding == "linear":
        return [value]
    if config.encoding == "quantile":
        edges = [bin_ / config.bins for bin_ in range(config.bins + 1)]
        return [
            0.0 if quantile <= low else 1.0 if quantile >= high else (quantile - low) / (high - low)
            for low, high in zip(edges[:-1], edges[1:], strict=True)
        ]
    angles = [2.0 * math.pi * float(frequency) * value for frequency in parameters["frequency"][field]]
    return [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]


def attribute_vector(
    parameters: Parameters, config: Any, field: int, value: float, quantile: float, observed: bool
) -> Vector:
    """W_x^m v_m + sum_p phi_p (w_mp * v_m) + bias where observed, u_m or phi = 0 where missing."""
    share_transform, missing = config.share_transform, config.missing
    if not observed and missing == "embedding":
        return np.array(parameters["missing_embedding"][field], dtype=np.float64)
    transform = parameters["transform"] if share_transform else parameters["transform"][field]
    bias = parameters["bias"] if share_transform else parameters["bias"][field]
    v, w = parameters["field_embedding"][field], parameters["value_weight"][field]
    vector = times(transform, v) + bias
    if observed:
        parts = parts_of_value(parameters, config, field, value, quantile)
        for part, weight in zip(parts, w, strict=True):
            vector = vector + np.array([part * weight[i] * v[i] for i in range(len(v))])
    return np.array(vector)
