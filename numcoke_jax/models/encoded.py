"""What NumCoKE makes of all entities under some relations, for the score and for who asks what decided it."""

from typing import Any

import numpy as np
from flax import struct

from numcoke_jax.config.schema import choices
from numcoke_jax.models.order_core.score import (
    ClassPositions,
    OrderPositions,
    class_probabilities,
    pair_probabilities,
)

TERMS = (*choices("score.decoder"), "order")  # of the encoder's score: one of the decoders, and the order
ORDER, CLASSES = "order core", "value classes"  # what may decide a relation instead of the encoder


@struct.dataclass
class EncodedEntities:
    """What scoring under S relations needs; made once per step, or once per relation in evaluation."""

    entities: Any  # float32 [S, N, d], e_att
    relations: Any  # float32 [S, d], r
    projected: Any  # float32 [S, N, d], W_r e_att; None without an order term
    order: OrderPositions | None = None  # None without an order core; with it alone, the others are None
    decided: Any = None  # bool [S], relations that the order core decides
    classes: ClassPositions | None = None  # None without relations that are read off a value
    classified: Any = None  # bool [S], these relations

    def probabilities(self, heads: np.ndarray, tails: np.ndarray) -> np.ndarray | None:
        """P(head above tail), or P(tail), of pairs under the first slot's relation, float64 [n].

        None if the encoder scores the relation: then a score must be calibrated.
        """
        part = decided_by(self)
        if part == ORDER and self.order is not None:
            return pair_probabilities(self.order, heads, tails)
        if part == CLASSES and self.classes is not None:
            return class_probabilities(self.classes, heads, tails)
        return None


def decided_by(encoded: Any) -> str:
    """What decides the first slot's relation, `ORDER` or `CLASSES`; "": an encoder, or another model."""
    if not isinstance(encoded, EncodedEntities):
        return ""
    if encoded.order is not None and bool(encoded.decided[0]):
        return ORDER
    return CLASSES if encoded.classes is not None and bool(encoded.classified[0]) else ""
