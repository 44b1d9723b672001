"""ConE: a hyperbolic plane for each pair of numbers; what is below an entity lies in a cone starting there.

Source: Bai et al., "Modeling Heterogeneous Hierarchies with Relation-specific Hyperbolic Cones", NeurIPS
2021, with its public code where the paper leaves a choice open.

    x_i    = exp_0(e_i) in each of the d / 2 planes (curvature -1)
    psi(x) = arcsin(K (1 - |x|^2) / |x|), K = 0.1            half the opening of the cone at x
    turn   = x rotated by theta_r
    below  = exp_x(|s_r| rotated(x / |x|, tanh(theta_r) psi(x)))
    score  = b_h + b_t - sum over planes d(x'_h, x'_t)^2
    loss   = BCE + lambda mean max(0, angle(x_h, x_t) - psi(x_h))      over facts and their relation's planes

x' is: the head turned, the tail as it is; but in the planes of a relation that orders entities from above the
head moved below, and in those of one that orders from below the tail moved below, where the loss has both
ends exchanged.  angle(x, y) is that between the continuation of the ray from the origin to x and the way from
x to y.  Each relation has half of the planes, drawn at the start.

The paper is told which relations are hierarchies; here the training facts say so before the first step: no
fact has its reverse and some tail is a head too; from above if it has more tails a head than heads a tail.
Left out: a start from rotations alone that were trained before.  Points are kept as tangent vectors, so that
Adam trains them.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SumAndCount
from numcoke_jax.models.ops import hyperbolic, pairwise
from numcoke_jax.models.rotate import any_angle

OPENING = 0.1  # K
SPREAD = 0.3  # of the initial tangent vectors: cones open widely near the origin
TINY = 1e-6  # distance kept from where arcsin and arccos have no slope


@struct.dataclass
class ConePoints:
    """What scoring under S relations needs; P = d / 2 planes."""

    points: Any  # float32 [N, P, 2]
    heads: Any  # float32 [S, N, P, 2], x' of heads
    tails: Any  # float32 [S, N, P, 2], x' of tails
    down: Any  # bool [S, P], whether the tail is below the head there
    up: Any  # bool [S, P], whether the head is below the tail there


class ConE(TableModel):
    """Scores heads against tails plane by plane.

    Attributes:
      dim: d, even.
      entities: the table of all entities, tangent vectors.
    """

    def setup(self) -> None:
        shape = (self.sizes.relations, self.dim // 2)
        self.rotation = self.param("rotation", any_angle, shape)
        uniform = functools.partial(jax.random.uniform, minval=0.5, maxval=1.0)
        self.step = self.param("step", uniform, shape)
        half = functools.partial(jax.random.rademacher, dtype=jnp.float32)
        self.fixed_planes = self.param("fixed_planes", half, shape)
        self.fixed_direction = self.param("fixed_direction", nn.initializers.zeros_init(), shape[:1])
        self.head_bias, self.tail_bias = self.entity_biases()

    def fit(self, graph: NumericGraph, positions: np.ndarray, *, seed: int) -> dict[str, Any]:
        """Which relations are hierarchies, and which of their ends is above."""
        del positions, seed
        return {"fixed_direction": directions(graph.train, graph.num_relations)}

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> ConePoints:
        tangents = self.entities(literals, train=train)
        points = hyperbolic.exp_at_origin(tangents.reshape(len(tangents), -1, 2))
        angles, direction = self.rotation[relations], self.fixed_direction[relations][:, None]
        chosen = self.fixed_planes[relations] > 0.0
        down, up = chosen & (direction > 0.0), chosen & (direction < 0.0)
        beneath = below(points, angles, self.step[relations])
        plane = (slice(None), None, slice(None), None)
        turned = rotated(points, angles[plane])
        still = jnp.broadcast_to(points, beneath.shape)
        return ConePoints(
            points=points,
            heads=jnp.where(down[plane], beneath, jnp.where(up[plane], still, turned)),
            tails=jnp.where(up[plane], beneath, still),
            down=down,
            up=up,
        )

    def score(self, encoded: ConePoints, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        of_heads = jnp.take_along_axis(encoded.heads, heads[..., None, None], axis=1)
        by_plane = jnp.moveaxis(of_heads, 2, 0), jnp.moveaxis(encoded.tails, 2, 0)
        shape = (heads.shape[0], heads.shape[1], encoded.tails.shape[1])
        distances = pairwise.sum_of_terms(lambda rows: hyperbolic.squared_distances(*rows), by_plane, shape)
        return self.head_bias[heads][..., None] + self.tail_bias - distances


def rotated(rows: Float[Array, "*#batch 2"], angles: Float[Array, "*#batch 1"]) -> Float[Array, "*batch 2"]:
    """Points of planes turned around the origin."""
    x, y = rows[..., :1], rows[..., 1:]
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([cos * x - sin * y, sin * x + cos * y], axis=-1)


def half_opening(points: Float[Array, "*batch 2"]) -> Float[Array, "*batch 1"]:
    """psi; a right angle for points so near the origin that they have no cone."""
    square = jnp.square(points).sum(-1, keepdims=True)
    return jnp.arcsin(jnp.minimum(OPENING * (1.0 - square) / hyperbolic.length(points), 1.0 - TINY))


def below(
    points: Float[Array, "N P 2"], angles: Float[Array, "S P"], steps: Float[Array, "S P"]
) -> Float[Array, "S N P 2"]:
    """The point in the cone of each that the relation leads to."""
    plane = (slice(None), None, slice(None), None)
    outward = rotated(points / hyperbolic.length(points), jnp.tanh(angles)[plane] * half_opening(points))
    factor = 1.0 - jnp.square(points).sum(-1, keepdims=True)  # exp_x has tanh(|s| / factor)
    return hyperbolic.mobius_add(points, jnp.tanh(jnp.abs(steps)[plane] / factor) * outward)


def angle(above: Float[Array, "*#batch 2"], beneath: Float[Array, "*#batch 2"]) -> Float[Array, "*batch"]:
    """angle(x, y): 0 if y is straight behind x as seen from the origin."""
    product = (above * beneath).sum(-1)
    of_above, of_beneath = (jnp.square(rows).sum(-1) for rows in (above, beneath))
    numerator = product * (1.0 + of_above) - of_above * (1.0 + of_beneath)
    span = jnp.maximum(1.0 + of_above * of_beneath - 2.0 * product, TINY)
    lengths = hyperbolic.length(above)[..., 0] * hyperbolic.length(above - beneath)[..., 0] * jnp.sqrt(span)
    apart = lengths > TINY  # a point is in its own cone
    cosine = jnp.where(apart, numerator / jnp.where(apart, lengths, 1.0), 1.0)
    return jnp.arccos(jnp.clip(cosine, -1.0 + TINY, 1.0 - TINY))


def directions(facts: np.ndarray, relations: int) -> np.ndarray:
    """float32 [R]: 1 if a relation orders its heads above its tails, -1 if below, 0 if it is no hierarchy."""
    found = np.zeros(relations, np.float32)
    for relation in range(relations):
        heads, _, tails = facts[facts[:, 1] == relation].T
        pairs = set(zip(heads.tolist(), tails.tolist(), strict=True))
        if any((tail, head) in pairs for head, tail in pairs) or not np.isin(tails, heads).any():
            continue
        found[relation] = 1.0 if len(np.unique(heads)) <= len(np.unique(tails)) else -1.0
    return found


def cone_loss(encoded: ConePoints, logits: Array, batch: Batch, **_: Any) -> SumAndCount:
    """How far tails of the step's facts are outside of their heads' cones, or the other way around."""
    heads, tails = encoded.points[batch.heads], jnp.broadcast_to(encoded.points, (1, *encoded.points.shape))

    def outside(rows: Any) -> Array:
        head, tail, down, up = rows
        head, tail = head[:, :, None], tail[:, None]
        lower = jnp.maximum(angle(head, tail) - half_opening(head)[..., 0], 0.0)
        upper = jnp.maximum(angle(tail, head) - half_opening(tail)[..., 0], 0.0)
        return jnp.where(down[:, None, None], lower, 0.0) + jnp.where(up[:, None, None], upper, 0.0)

    by_plane = (jnp.moveaxis(heads, 2, 0), jnp.moveaxis(tails, 2, 0), encoded.down.T, encoded.up.T)
    slots, queries, count = logits.shape
    total = pairwise.sum_of_terms(outside, by_plane, (slots, queries, count))
    facts = (batch.labels & batch.mask[..., None]).astype(logits.dtype)
    planes = (encoded.down | encoded.up).sum(-1).astype(logits.dtype)[:, None, None]
    return (facts * total).sum(), (facts * planes).sum()


MODEL = ModelSpec(
    table_model(ConE, spread=SPREAD),
    per_entity=("embedding", "head_bias", "tail_bias"),
    second_loss=lambda _: cone_loss,
)
