"""MuRP: heads stretched and tails moved by the relation in the Poincaré ball.

Source: Balažević et al., "Multi-relational Poincaré Graph Embeddings", NeurIPS 2019; curvature -1.

    h_r   = exp_0(R_r log_0(h)),   t_r = t + r (Möbius)       R_r diagonal
    score = -d(h_r, t_r)^2 + b_h + b_t

Points are stored as tangent vectors at the origin, log_0 of the paper's points, so that Adam trains them; the
paper uses Riemannian SGD on the points.  Attributes are concatenated to the tangent vectors.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.ops import hyperbolic

SPREAD = 1e-2  # of the initial tangent vectors: points near the origin, where the ball is flat


@struct.dataclass
class MovedTails:
    """What scoring under S relations needs."""

    entities: Any  # float32 [N, d], tangent vectors
    stretch: Any  # float32 [S, d], the diagonal of R_r
    tails: Any  # float32 [S, N, d], t_r in the ball


class MuRP(TableModel):
    """Scores heads against the N tails as each relation moves them."""

    def setup(self) -> None:
        shape = (self.sizes.relations, self.dim)
        uniform = functools.partial(jax.random.uniform, minval=-1.0, maxval=1.0)
        self.relation_stretch = self.param("relation_stretch", uniform, shape)
        self.relation_shift = self.param("relation_shift", nn.initializers.normal(SPREAD), shape)
        self.head_bias, self.tail_bias = self.entity_biases()

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> MovedTails:
        entities = self.entities(literals, train=train)
        shift = hyperbolic.exp_at_origin(self.relation_shift[relations])
        points = hyperbolic.exp_at_origin(entities)
        shape = (relations.shape[0], *points.shape)
        return MovedTails(
            entities=entities,
            stretch=self.relation_stretch[relations],
            tails=hyperbolic.mobius_add(jnp.broadcast_to(points, shape), shift[:, None]),
        )

    def score(self, encoded: MovedTails, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        of_heads = hyperbolic.exp_at_origin(encoded.stretch[:, None] * encoded.entities[heads])
        distances = hyperbolic.squared_distances(of_heads, encoded.tails)
        return self.head_bias[heads][..., None] + self.tail_bias - distances


MODEL = ModelSpec(table_model(MuRP, spread=SPREAD), per_entity=("embedding", "head_bias", "tail_bias"))
