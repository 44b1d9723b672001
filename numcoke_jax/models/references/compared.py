"""What the references share: the field that each relation compares, by its training facts, and unknowns.

A relation compares the field whose observed values agree best with the order of its training facts,

    s_rm = mean of sign(q_hm - q_tm) over the facts (h, r, t) with both values observed

and in the direction of the sign of s_rm.  q are quantiles; turned in that direction they are the places of
entities on the relation's scale from 0 to 1, where heads are above their tails.
"""

from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import EncodeThenScore, GraphSizes

FEWEST_PAIRS = 6  # facts with both values observed below which a field says nothing about a relation
EXPLAINED = 0.8  # |s| from which values are taken for exact: 9 of 10 facts agree; below they are forgotten


@struct.dataclass
class Places:
    """Entities on the scale of S relations."""

    place: Any  # float32 [S, N] from 0 to 1, heads above tails; 1/2 where the value is missing
    observed: Any  # bool [S, N]
    known: Any  # bool [S, N], False for an entity of the graph in no training fact of the relation
    new: Any  # bool [S, N], entities that were not part of the graph and came without a fact of the relation


class Reference(EncodeThenScore):
    """Base of the references: a subclass has `own_arrays`, `encode` and `score`.

    Attributes:
      sizes: N, R and M.
      unseen: how many of the entities, the last ones, were not part of the graph; they count as known.
    """

    sizes: GraphSizes
    unseen: int = 0
    least: ClassVar[float] = 0.0  # |s| below which a relation's values are forgotten

    def setup(self) -> None:
        sizes = self.sizes
        # Of `compared_fields`: one entry +-1 a relation, or none.
        self.field_weight = self.zeros("field_weight", sizes.relations, sizes.fields)
        # 1 for an entity in a training fact of the relation, or in one that it came with.
        self.entity_seen = self.zeros("entity_seen", sizes.entities, sizes.relations)

    def fit(self, graph: NumericGraph, positions: np.ndarray, *, seed: int) -> dict[str, Any]:
        """See `FittedModel`; raises what `own_arrays` does."""
        weight = compared_fields(graph, positions, least=self.least)
        own = self.own_arrays(graph, positions, weight, seed)
        return {"field_weight": weight, "entity_seen": seen_entities(graph), **own}

    def own_arrays(
        self, graph: NumericGraph, positions: np.ndarray, weight: np.ndarray, seed: int
    ) -> dict[str, Any]:
        """The parameters of the subclass alone; `weight` is what `compared_fields` returns."""
        return {}

    def zeros(self, name: str, *shape: int) -> Float[Array, "..."]:
        """A parameter that is 0 until the model is fitted."""
        return self.param(name, nn.initializers.zeros_init(), shape)

    def places(self, relations: Int[Array, " S"], literals: Literals) -> Places:
        """All entities under S relations."""
        weight = self.field_weight[relations][:, None, :]
        turned = jnp.sum(weight * jnp.where(literals.observed, literals.positions - 0.5, 0.0), axis=2)
        observed = jnp.any((weight != 0) & literals.observed, axis=2)
        seen = self.entity_seen.T[relations] > 0.5
        return Places(0.5 + turned, observed, self.known(relations), self.new() & ~seen)

    def known(self, relations: Int[Array, " S"]) -> Bool[Array, "S N"]:
        """Entities in a training fact of the relation, and those that were not part of the graph."""
        return (self.entity_seen.T[relations] > 0.5) | self.new()

    def new(self) -> Bool[Array, " N"]:
        """Entities that were not part of the graph."""
        return jnp.arange(self.sizes.entities) >= self.sizes.entities - self.unseen


def unknown_last(scores: Float[Array, "S H N"], known: Bool[Array, "S N"]) -> Float[Array, "S H N"]:
    """The scores with entities that the relation does not compare just below all others of their head."""
    known = jnp.broadcast_to(known[:, None, :], scores.shape)
    lowest = jnp.min(scores, axis=2, keepdims=True, where=known, initial=0.0)
    return jnp.where(known, scores, lowest - 1.0)


def compared_fields(graph: NumericGraph, positions: np.ndarray, *, least: float = 0.0) -> np.ndarray:
    """The field that each relation compares.

    Args:
      graph: its training facts.
      positions: float64 [N, M] quantiles; NaN where missing.
      least: |s| below which no field is taken.

    Returns:
      float64 [R, M], the sign of s at one field of each relation, 0 elsewhere.
    """
    facts, relations, fields = graph.train, graph.num_relations, graph.num_fields
    agreement = np.zeros((relations, fields))
    for field in range(fields):  # one at a time: facts may be many
        difference = positions[facts[:, HEAD], field] - positions[facts[:, TAIL], field]
        both = ~np.isnan(difference)
        pairs = np.bincount(facts[both, RELATION], minlength=relations)
        signs = np.bincount(facts[both, RELATION], np.sign(difference[both]), minlength=relations)
        agreement[:, field] = np.where(pairs >= FEWEST_PAIRS, signs / np.maximum(pairs, 1), 0.0)
    weight = np.zeros((relations, fields))
    if fields:
        rows, best = np.arange(relations), np.abs(agreement).argmax(axis=1)
        found = agreement[rows, best]
        weight[rows, best] = np.where(np.abs(found) >= least, np.sign(found), 0.0)
    return weight


def places_of(positions: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Float64 [N, R], `Places.place` of all relations on the host, NaN where missing.

    Args:
      positions: float64 [N, M] quantiles; NaN where missing.
      weight: float64 [R, M] of `compared_fields`.
    """
    places = np.full((len(positions), len(weight)), np.nan)
    for relation, field in zip(*np.nonzero(weight), strict=True):
        places[:, relation] = 0.5 + weight[relation, field] * (positions[:, field] - 0.5)
    return places


def seen_entities(graph: NumericGraph) -> np.ndarray:
    """Bool [N, R]: whether an entity is in a training fact of a relation."""
    seen = np.zeros((graph.num_entities, graph.num_relations), bool)
    for side in (HEAD, TAIL):
        seen[graph.train[:, side], graph.train[:, RELATION]] = True
    return seen
