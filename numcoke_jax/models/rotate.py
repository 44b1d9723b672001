"""RotatE: a relation turns every complex entry of the head by an angle of its own.

Source: Sun et al., "RotatE: Knowledge Graph Embedding by Relational Rotation in Complex Space", ICLR 2019.

    score = epsilon - || h * exp(i a) - t ||            h, t complex vectors of d / 2 entries, a angles

The norm is the sum of the entries' moduli (`score.norm` 1, as in the paper's public code) or the Euclidean
norm (2, as the paper's text writes it for a pair of vectors, and as PyKEEN has it).  A vector is stored as d
real numbers, the d / 2 real parts first.  Trained with this package's BCE over all entities instead of
sampled negatives weighted by their own scores.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.complex import complex_product, rotations, sum_of_moduli
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SharedVectors
from numcoke_jax.models.ops import pairwise


def any_angle(key: Key[Array, ""], shape: Any, dtype: Any = jnp.float32) -> Float[Array, "*shape"]:
    """Angles from -pi to pi, all equally likely."""
    return jax.random.uniform(key, shape, dtype, -math.pi, math.pi)


class RotatE(TableModel):
    """Distances of rotated heads to all entities.

    Attributes:
      dim: d, real numbers of a vector; even.
      norm: 1 or 2.
      margin: epsilon.
    """

    norm: int
    margin: float

    def setup(self) -> None:
        self.relation_angle = self.param("relation_angle", any_angle, (self.sizes.relations, self.dim // 2))

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> SharedVectors:
        """The entity table, and the relations' rotations as complex vectors of modulus 1."""
        turns = rotations(self.relation_angle[relations])
        return SharedVectors(self.entities(literals, train=train), turns)

    def score(
        self, encoded: SharedVectors, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        rotated = complex_product(encoded.entities[heads], encoded.relations[:, None])
        if self.norm == 2:
            tails = jnp.broadcast_to(encoded.entities, (len(heads), *encoded.entities.shape))
            return self.margin - pairwise.l2_distance(rotated, tails)
        return self.margin - sum_of_moduli(rotated, encoded.entities)


MODEL = ModelSpec(table_model(RotatE, "score.norm", "score.margin"), per_entity=("embedding",))
