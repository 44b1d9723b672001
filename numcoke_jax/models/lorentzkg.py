"""LorentzKG: heads and tails each turned and boosted by the relation on the hyperboloid.

Source: Fan et al., "Enhancing Hyperbolic Knowledge Graph Embeddings via Lorentz Transformations", Findings of
ACL 2024, with its public code where the paper leaves a choice open.

    L(x)  = boost_v(x Q)          Q = H_1 .. H_d, reflections with normals gelu(w_i); v = tanh(u) / (d + 1)
    score = epsilon - interval(L_r,head(h), L_r,tail(t)) + tanh(b_h) + tanh(b_t)

`ops/lorentz.py` has boost and interval (the squared Lorentzian distance of the difference).  Entities are
stored as space coordinates, of which the time is a function, so that Adam trains them; that code uses
Riemannian optimisers.  Left out: the random number that it adds to all scores of a query in training.
Dropout, which it does not have, is off in the preset.
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
from numcoke_jax.models.ops import lorentz


@struct.dataclass
class TransformedPoints:
    """What scoring under S relations needs."""

    heads: Any  # float32 [S, N, d], space coordinates of L_r,head of all entities
    tails: Any  # float32 [S, N, d], of L_r,tail


class LorentzKG(TableModel):
    """Scores heads against tails by their interval after the relation's transformations.

    Attributes:
      dim: d, space dimensions.
      entities: the table of all entities, space coordinates.
      margin: epsilon.
    """

    margin: float

    def setup(self) -> None:
        sides, relations = ("head", "tail"), self.sizes.relations
        standard = nn.initializers.normal(1.0)
        shape = (relations, self.dim, self.dim)
        self.normals = [self.param(f"{side}_normals", standard, shape) for side in sides]
        self.boosts = [self.param(f"{side}_boost", standard, (relations, self.dim)) for side in sides]
        self.head_bias, self.tail_bias = self.entity_biases()

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> TransformedPoints:
        entities = self.entities(literals, train=train)
        sides = []
        for normals, boost in zip(self.normals, self.boosts, strict=True):
            turns = lorentz.product_of_reflections(nn.gelu(normals[relations], approximate=False))
            turned = jnp.einsum("nd,sde->sne", entities, turns)
            velocity = jnp.tanh(boost[relations]) / (self.dim + 1)
            sides.append(lorentz.boosted(turned, velocity[:, None]))
        return TransformedPoints(*sides)

    def score(
        self, encoded: TransformedPoints, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        of_heads = jnp.take_along_axis(encoded.heads, heads[..., None], axis=1)
        biases = jnp.tanh(self.head_bias)[heads][..., None] + jnp.tanh(self.tail_bias)
        return self.margin - lorentz.squared_intervals(of_heads, encoded.tails) + biases


MODEL = ModelSpec(
    table_model(LorentzKG, "score.margin", spread=lambda config: 1.0 / math.sqrt(config.model.dim + 1)),
    per_entity=("embedding", "head_bias", "tail_bias"),
)
