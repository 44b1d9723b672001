"""Which field each relation compares: by the numeric order term's weights, or a reference's choice."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from numcoke_jax.graph import Vocabulary
from numcoke_jax.models.numeric_order import NumericOrder, field_weights


@dataclasses.dataclass(frozen=True)
class ComparedField:
    """One field and how much a relation compares it.

    Attributes:
      field: its name.
      weight: a_rm from -1 to 1: positive where the head has the higher value, negative where the tail has.
    """

    field: str
    weight: float


def compared_fields(params: Any, vocabulary: Vocabulary) -> dict[str, Sequence[ComparedField]]:
    """For every relation its fields, the most compared one first; ties in id order.

    Args:
      params: parameters of a model.
      vocabulary: names of the graph it was trained on.

    Returns:
      relation -> its M fields; {} for a graph without fields, and for a model that has neither the numeric
      order term (`score.numeric_order`) nor is a reference (`models/references/`).
    """
    if "numeric_order" in params:
        learned = jnp.asarray(params["numeric_order"]["field_weight"], jnp.float32)
        weights = np.asarray(field_weights(learned, NumericOrder.sharpness), np.float64)
    else:
        weights = np.asarray(params.get("field_weight", ()), np.float64)
    if not weights.size:
        return {}
    order = np.argsort(-np.abs(weights), axis=1, kind="stable")
    return {
        relation: [ComparedField(vocabulary.fields[m], float(weights[r, m])) for m in order[r]]
        for r, relation in enumerate(vocabulary.relations)
    }
