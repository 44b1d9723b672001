"""From values in their own units to what models see, and what it takes to do the same to new values."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from numcoke_jax.data.normalize import Normalizer, fit_normalizer
from numcoke_jax.graph import NumericGraph
from numcoke_jax.literals import Literals


@dataclasses.dataclass(frozen=True)
class LiteralScale:
    """The scales of a graph's fields, fitted to the observed cells.

    Attributes:
      values: the scale of `data.normalize`, for the attribute embeddings.
      positions: quantiles, for the numeric order term and the quantile encoding.
    """

    values: Normalizer
    positions: Normalizer

    @classmethod
    def fit(cls, graph: NumericGraph, kind: str) -> "LiteralScale":
        """The scales of `graph`; `kind` is `config.data.normalize`."""
        return cls(
            values=fit_normalizer(graph.values, graph.observed, kind),
            positions=fit_normalizer(graph.values, graph.observed, "quantile"),
        )

    def literals(self, values: np.ndarray, observed: np.ndarray) -> Literals:
        """Float64 values [N, M] with their mask as float32 on the device; scaled before the cast."""
        return Literals(
            values=jnp.asarray(self.values.apply(values, observed), jnp.float32),
            observed=jnp.asarray(observed),
            positions=jnp.asarray(self.positions.apply(values, observed), jnp.float32),
        )

    def to_json(self) -> dict[str, Any]:
        """JSON values, exact to the last bit."""
        return {"values": self.values.to_json(), "positions": self.positions.to_json()}

    @classmethod
    def from_json(cls, stored: Any) -> "LiteralScale":
        """The scale that `to_json` wrote; ValueError for anything else."""
        if not isinstance(stored, dict) or set(stored) != {"values", "positions"}:
            raise ValueError(f"not a stored literal scale: {str(stored)[:80]}")
        return cls(**{name: Normalizer.from_json(scale) for name, scale in stored.items()})
