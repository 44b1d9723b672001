"""GIE: an entity in Euclidean, hyperbolic and spherical space, moved in each and mixed by attention.

Source: Cao et al., "Geometry Interaction Knowledge Graph Embeddings", AAAI 2022, Eqs. 8-10.

    E, H, S = R_1 h + v,   v + R_2 h in a ball,   v + R_3 h on a sphere      h, v by exp_0; sums of that space
    I(h)    = exp_0(softmax(<a_r, .>) of E, log_0 H, log_0 S)        weighted sum; ball of curvature c_r
    score   = -d_c(I(h), t)^2 - d_c(I'(t), h)^2 + b_h + b_t

I' is I with the inverse of the relation, R^T (x - v), and an attention vector of its own.  R_i turns pairs of
dimensions by learned angles; each space has a learned curvature per relation.  As in the public code, the
three spaces share v, the distances are squared, and points are kept as tangent vectors, so that Adam trains
them.  That code departs from the paper where this file does not: it adds on the sphere as in the ball, moves
I(h) once more by v, and leaves out I', because it trains inverse relations too.  Trained with this package's
BCE over all entities instead of uniformly sampled negatives.
"""

import math
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.atth import rotated
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.murp import SPREAD
from numcoke_jax.models.ops import hyperbolic, spherical
from numcoke_jax.models.rotate import any_angle

SPACES = 3  # Euclidean, hyperbolic, spherical


@struct.dataclass
class InteractingPoints:
    """What scoring under S relations needs: points in the balls of curvature c_r."""

    as_heads: Any  # float32 [S, N, d], I(e)
    as_tails: Any  # float32 [S, N, d], I'(e)
    points: Any  # float32 [S, N, d], exp_0(e)
    curvature: Any  # float32 [S, 1, 1], c_r


class GIE(TableModel):
    """Scores heads against the N tails by two distances in the relation's ball.

    Attributes:
      dim: d, even.
      entities: the table of all entities, tangent vectors.
    """

    def setup(self) -> None:
        relations, dim = self.sizes.relations, self.dim
        self.rotation = self.param("rotation", any_angle, (SPACES, relations, dim // 2))
        self.relation_shift = self.param("relation_shift", nn.initializers.normal(SPREAD), (relations, dim))
        vectors = nn.initializers.xavier_normal()
        self.head_attention = self.param("head_attention", vectors, (relations, dim))
        self.tail_attention = self.param("tail_attention", vectors, (relations, dim))
        one = nn.initializers.constant(math.log(math.e - 1.0))  # its softplus is 1
        self.raw_curvature = self.param("raw_curvature", one, (SPACES, relations))
        self.head_bias, self.tail_bias = self.entity_biases()

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> InteractingPoints:
        entities = self.entities(literals, train=train)
        entities = jnp.broadcast_to(entities, (relations.shape[0], *entities.shape))
        # Never quite flat: the distance divides by the curvature.
        curvatures = nn.softplus(self.raw_curvature[:, relations])[..., None, None] + 1e-4
        angles, shift = self.rotation[:, relations], self.relation_shift[relations][:, None]
        ball = curvatures[0]
        heads = mixed(moved(entities, angles, shift, curvatures), self.head_attention[relations])
        tails = mixed(moved_back(entities, angles, shift, curvatures), self.tail_attention[relations])
        return InteractingPoints(
            as_heads=hyperbolic.exp_at_origin(heads, ball),
            as_tails=hyperbolic.exp_at_origin(tails, ball),
            points=hyperbolic.exp_at_origin(entities, ball),
            curvature=ball,
        )

    def score(
        self, encoded: InteractingPoints, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        moved_heads, own_heads = (
            jnp.take_along_axis(rows, heads[..., None], axis=1) for rows in (encoded.as_heads, encoded.points)
        )
        distances = hyperbolic.squared_distances(moved_heads, encoded.points, encoded.curvature)
        distances += hyperbolic.squared_distances(own_heads, encoded.as_tails, encoded.curvature)
        return self.head_bias[heads][..., None] + self.tail_bias - distances


def moved(
    rows: Float[Array, "S N d"],
    angles: Float[Array, "3 S b"],
    shift: Float[Array, "S 1 d"],
    curvatures: Float[Array, "3 S 1 1"],
) -> Float[Array, "3 S N d"]:
    """E, log_0 H and log_0 S of tangent vectors: turned, then moved by the shift."""
    flat, hyper, sphere = (rotated(rows, of_space) for of_space in angles)
    _, of_ball, of_sphere = curvatures
    hyper = hyperbolic.mobius_add(
        hyperbolic.exp_at_origin(shift, of_ball), hyperbolic.exp_at_origin(hyper, of_ball), of_ball
    )
    sphere = spherical.add(
        spherical.exp_at_origin(shift, of_sphere), spherical.exp_at_origin(sphere, of_sphere), of_sphere
    )
    logs = hyperbolic.log_at_origin(hyper, of_ball), spherical.log_at_origin(sphere, of_sphere)
    return jnp.stack([flat + shift, *logs])


def moved_back(
    rows: Float[Array, "S N d"],
    angles: Float[Array, "3 S b"],
    shift: Float[Array, "S 1 d"],
    curvatures: Float[Array, "3 S 1 1"],
) -> Float[Array, "3 S N d"]:
    """The inverse of `moved` in each space: rotations keep the origin and every sum."""
    still = moved(rows, jnp.zeros_like(angles), -shift, curvatures)
    return jnp.stack([rotated(of_space, -turn) for of_space, turn in zip(still, angles, strict=True)])


def mixed(spaces: Float[Array, "3 S N d"], attention: Float[Array, "S d"]) -> Float[Array, "S N d"]:
    """The weighted sum of the three tangent vectors of an entity."""
    weights = nn.softmax(jnp.einsum("asnd,sd->asn", spaces, attention), axis=0)
    return jnp.einsum("asn,asnd->snd", weights, spaces)


MODEL = ModelSpec(table_model(GIE, spread=SPREAD), per_entity=("embedding", "head_bias", "tail_bias"))
