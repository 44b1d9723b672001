"""Reference: a missing value lies between the highest value known below it and the lowest known above it.

    score = (m_h - m_t) / sqrt(w_h^2 + w_t^2)

m_i and w_i are middle and width of the bounds (`comparisons.py`), on the scale of quantiles; w is at least
the distance between neighbouring quantiles, 1 / N, which is how well an observed value is known.  Where
facts contradict the values, the bounds change places.  Values that do not explain a relation's facts are
forgotten (`compared.EXPLAINED`): nothing is left to compare then.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.references.compared import EXPLAINED, Reference, places_of, unknown_last
from numcoke_jax.models.references.comparisons import bounds_by_facts, fact_nodes


@struct.dataclass
class Intervals:
    """Where entities are on the scale of S relations."""

    middle: Any  # float32 [S, N]
    width: Any  # float32 [S, N]
    known: Any  # bool [S, N]


class Bounds(Reference):
    """Ranks by the distance of two intervals' middles over their widths."""

    least = EXPLAINED

    def setup(self) -> None:
        super().setup()
        # Lower and upper bound by the neighbours; in use where the value is missing.
        self.entity_bounds = self.zeros("entity_bounds", self.sizes.entities, self.sizes.relations, 2)

    def own_arrays(
        self, graph: NumericGraph, positions: np.ndarray, weight: np.ndarray, seed: int
    ) -> dict[str, Any]:
        places = places_of(positions, weight)
        bounds = np.sort(bounds_by_facts(places.T.ravel(), *fact_nodes(graph)), axis=0)
        return {"entity_bounds": bounds.reshape(2, *places.T.shape).T}

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> Intervals:
        """The intervals of all entities; that of an observed value is a point."""
        places = self.places(relations, literals)
        lower, upper = self.entity_bounds[:, relations].transpose(2, 1, 0)
        lower, upper = jnp.where(places.new, 0.0, lower), jnp.where(places.new, 1.0, upper)
        middle = jnp.where(places.observed, places.place, (lower + upper) / 2)
        width = jnp.where(places.observed, 0.0, upper - lower)
        return Intervals(middle, jnp.maximum(width, 1.0 / self.sizes.entities), places.known)

    def score(self, encoded: Intervals, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        """Distances in widths."""
        slots = np.arange(heads.shape[0])[:, None]
        middle, width = encoded.middle[slots, heads][..., None], encoded.width[slots, heads][..., None]
        distance = middle - encoded.middle[:, None, :]
        widths = jnp.sqrt(width**2 + encoded.width[:, None, :] ** 2)
        return unknown_last(distance / widths, encoded.known)


MODEL = ModelSpec(
    lambda config, sizes: Bounds(sizes), per_entity=("entity_seen", "entity_bounds"), fitted=True
)
