"""What every model sees of a graph's numbers: arrays on the device, made by `literal_scale.py`."""

from typing import Any

from flax import struct


@struct.dataclass
class Literals:
    """Numeric values of N entities in M fields; for a model that reads the graph, its training facts too."""

    # Arrays, or what JAX puts in their place when it describes a compiled function.
    values: Any  # float32 [N, M] on the scale of `data.normalize`; 0 where missing
    observed: Any  # bool [N, M]
    positions: Any = None  # float32 [N, M] quantiles in [0, 1], or None; for parts that compare or bin values
    facts: Any = None  # int32 [n, 3], training facts as (head, relation, tail), or None
