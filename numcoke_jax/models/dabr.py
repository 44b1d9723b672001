"""DaBR: quaternions rotated from both ends, and a distance whose share of the score is learned.

Source: Wang et al., "Distance-Adaptive Quaternion Knowledge Graph Embedding with Bidirectional Rotation",
COLING 2025, with its public code where the paper leaves a choice open.

    h' = h x r / |r|,   t' = t x r^-1 / |r^-1|              Hamilton product; d / 4 quaternions a vector
    d  = sum over quaternions |sum over their 4 parts of (h + r_d - t)|
    score = <h', t'> + lambda d                             lambda learned, 0.1 at the start, shared by all

That code has minus this score as its energy, so lambda d is added where a distance leads to expect a
difference; lambda is learned and may take either sign.  Left out: the squares of all vectors in the loss,
whose weights that code sets a data set at a time.  Trained with this package's BCE over all entities instead
of sampled negatives; dropout, which that code does not have, is off in the preset.
"""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.ops import pairwise

PARTS = 4
TINY = 1e-12  # smallest squared norm of a quaternion that is divided by


@struct.dataclass
class RotatedTails:
    """What scoring under S relations needs."""

    entities: Any  # float32 [N, d]
    rotation: Any  # float32 [S, d], r / |r|
    shift: Any  # float32 [S, d], r_d
    tails: Any  # float32 [S, N, d], t'


class DaBR(TableModel):
    """Scores heads against the N tails as each relation rotates them back.

    Attributes:
      dim: d, a multiple of 4: the real parts of all quaternions, then each of the three others.
    """

    def setup(self) -> None:
        shape, start = (self.sizes.relations, self.dim), nn.initializers.xavier_uniform()
        self.relation_rotation = self.param("relation_rotation", start, shape)
        self.relation_shift = self.param("relation_shift", start, shape)
        self.distance_weight = self.param("distance_weight", nn.initializers.constant(0.1), ())

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> RotatedTails:
        entities = self.entities(literals, train=train)
        rotation = normalised(self.relation_rotation[relations])
        conjugate = rotation * jnp.repeat(jnp.array([1.0, -1.0, -1.0, -1.0]), self.dim // PARTS)
        return RotatedTails(
            entities=entities,
            rotation=rotation,
            shift=self.relation_shift[relations],
            tails=hamilton_product(entities[None], conjugate[:, None]),
        )

    def score(self, encoded: RotatedTails, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        of_heads = encoded.entities[heads]
        rotated = hamilton_product(of_heads, encoded.rotation[:, None])
        products = jnp.einsum("shd,snd->shn", rotated, encoded.tails)
        tails = sums_of_parts(encoded.entities)
        shape = (heads.shape[0], *tails.shape)
        moved = sums_of_parts(of_heads + encoded.shift[:, None])
        return products + self.distance_weight * pairwise.l1_distance(moved, jnp.broadcast_to(tails, shape))


def normalised(quaternions: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
    """Each quaternion divided by its length, which is that of its inverse's direction too."""
    parts = quaternions.reshape(*quaternions.shape[:-1], PARTS, -1)
    squares = jnp.maximum(jnp.square(parts).sum(-2, keepdims=True), TINY)
    return (parts / jnp.sqrt(squares)).reshape(quaternions.shape)


def hamilton_product(left: Float[Array, "*#batch d"], right: Float[Array, "*#batch d"]) -> Array:
    """Quaternion by quaternion; batch axes are broadcast."""
    a, b, c, d = jnp.split(left, PARTS, axis=-1)
    w, x, y, z = jnp.split(right, PARTS, axis=-1)
    return jnp.concatenate(
        [
            a * w - b * x - c * y - d * z,
            a * x + b * w + c * z - d * y,
            a * y - b * z + c * w + d * x,
            a * z + b * y - c * x + d * w,
        ],
        axis=-1,
    )


def sums_of_parts(quaternions: Float[Array, "*batch d"]) -> Float[Array, "*batch q"]:
    """The sum of each quaternion's four parts."""
    return quaternions.reshape(*quaternions.shape[:-1], PARTS, -1).sum(-2)


MODEL = ModelSpec(table_model(DaBR), per_entity=("embedding",))
