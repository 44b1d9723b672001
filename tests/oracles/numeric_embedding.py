"""o_im, the attribute vector of one entity in one field (readings 1 and 2)."""

import numpy as np

from tests.oracles.arithmetic import Parameters, Vector, times


def attribute_vector(
    parameters: Parameters, field: int, value: float, observed: bool, *, share_transform: bool, missing: str
) -> Vector:
    """W_x^m v_m + X_im (w_m * v_m) + bias where observed, u_m or the value 0 where missing."""
    if not observed and missing == "embedding":
        return np.array(parameters["missing_embedding"][field], dtype=np.float64)
    transform = parameters["transform"] if share_transform else parameters["transform"][field]
    bias = parameters["bias"] if share_transform else parameters["bias"][field]
    v, w = parameters["field_embedding"][field], parameters["value_weight"][field]
    x = float(value) if observed else 0.0
    transformed = times(transform, v)
    return np.array([transformed[i] + x * w[i] * v[i] + bias[i] for i in range(len(v))])
