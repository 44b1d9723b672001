"""AttH: heads rotated and reflected, mixed by attention, then moved in a ball of the relation's curvature.

Source: Chami et al., "Low-Dimensional Hyperbolic Knowledge Graph Embeddings", ACL 2020.

    x, y  = Rot(theta_r) e_h, Ref(phi_r) e_h          blocks of 2 dimensions, in the origin's tangent space
    a, b  = softmax(<a_r, x>, <a_r, y>)
    q     = exp_0(a x + b y) + exp_0(r)               Möbius, curvature c_r = softplus of a learned number
    score = -d_c(q, exp_0(e_t))^2 + b_h + b_t

As in the public code all points are kept as tangent vectors, so Adam trains them.
"""

import math
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.murp import SPREAD
from numcoke_jax.models.ops import hyperbolic
from numcoke_jax.models.rotate import any_angle


@struct.dataclass
class RelationBalls:
    """What scoring under S relations needs."""

    entities: Any  # float32 [N, d], tangent vectors
    rotation: Any  # float32 [S, d / 2], angles theta_r
    reflection: Any  # float32 [S, d / 2], angles phi_r
    context: Any  # float32 [S, d], a_r
    shift: Any  # float32 [S, d], exp_0(r)
    curvature: Any  # float32 [S, 1, 1], c_r
    tails: Any  # float32 [S, N, d], exp_0(e_t)


class AttH(TableModel):
    """Scores heads against the N tails, with one ball per relation.

    Attributes:
      dim: d, even.
    """

    def setup(self) -> None:
        relations, dim = self.sizes.relations, self.dim
        self.rotation = self.param("rotation", any_angle, (relations, dim // 2))
        self.reflection = self.param("reflection", any_angle, (relations, dim // 2))
        self.context = self.param("context", nn.initializers.xavier_normal(), (relations, dim))
        self.relation_shift = self.param("relation_shift", nn.initializers.normal(SPREAD), (relations, dim))
        one = nn.initializers.constant(math.log(math.e - 1.0))  # its softplus is 1
        self.raw_curvature = self.param("raw_curvature", one, (relations,))
        self.head_bias, self.tail_bias = self.entity_biases()

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> RelationBalls:
        entities = self.entities(literals, train=train)
        # Never quite flat: the distance divides by the curvature.
        curvature = nn.softplus(self.raw_curvature[relations])[:, None] + 1e-4
        repeated = jnp.broadcast_to(entities, (relations.shape[0], *entities.shape))
        return RelationBalls(
            entities=entities,
            rotation=self.rotation[relations],
            reflection=self.reflection[relations],
            context=self.context[relations],
            shift=hyperbolic.exp_at_origin(self.relation_shift[relations], curvature),
            curvature=curvature[..., None],
            tails=hyperbolic.exp_at_origin(repeated, curvature[..., None]),
        )

    def score(
        self, encoded: RelationBalls, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        of_heads, curvature = encoded.entities[heads], encoded.curvature
        turned = jnp.stack(  # [2, S, H, d]
            [rotated(of_heads, encoded.rotation), reflected(of_heads, encoded.reflection)]
        )
        weights = nn.softmax(jnp.einsum("ashd,sd->ash", turned, encoded.context), axis=0)
        mixed = jnp.einsum("ash,ashd->shd", weights, turned)
        point = hyperbolic.exp_at_origin(mixed, curvature)
        query = hyperbolic.mobius_add(point, encoded.shift[:, None], curvature)
        distances = hyperbolic.squared_distances(query, encoded.tails, curvature)
        return self.head_bias[heads][..., None] + self.tail_bias - distances


def rotated(rows: Float[Array, "S H d"], angles: Float[Array, "S b"]) -> Float[Array, "S H d"]:
    """Pairs of dimensions (2 i, 2 i + 1) turned by angle i of the slot."""
    x, y, cos, sin = _blocks(rows, angles)
    return jnp.stack([cos * x - sin * y, sin * x + cos * y], axis=-1).reshape(rows.shape)


def reflected(rows: Float[Array, "S H d"], angles: Float[Array, "S b"]) -> Float[Array, "S H d"]:
    """Pairs of dimensions reflected across the line at half the angle."""
    x, y, cos, sin = _blocks(rows, angles)
    return jnp.stack([cos * x + sin * y, sin * x - cos * y], axis=-1).reshape(rows.shape)


def _blocks(rows: Float[Array, "S H d"], angles: Float[Array, "S b"]) -> tuple[Array, Array, Array, Array]:
    pairs = rows.reshape(*rows.shape[:-1], -1, 2)
    return pairs[..., 0], pairs[..., 1], jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]


MODEL = ModelSpec(table_model(AttH, spread=SPREAD), per_entity=("embedding", "head_bias", "tail_bias"))
