"""HAKE: entities in polar coordinates, the modulus for a level of a hierarchy, the phase within it.

Source: Zhang et al., "Learning Hierarchy-Aware Knowledge Graph Embeddings for Link Prediction", AAAI
2020, with the mixture bias and the learned weights of its public code.

    modulus = ||h_m (|r_m| + b_m) - t_m (1 - b_m)||_2       b_m in [-|r_m|, 1]
    phase   = sum_d |sin((h_p + r_p - t_p) / 2)|
    score   = epsilon - w_m modulus - w_p phase

The phases are the stored numbers times pi / range, range = (epsilon + 2) / d, the bound of the initial
numbers. Trained with this package's BCE over all entities instead of sampled negatives weighted by their
own scores. Dropout, which that code does not have, acts on the entities' moduli alone: it scales up what it
keeps, and three times an angle is another direction.
"""

import math
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int
from ml_collections import ConfigDict

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import EntityTable, TableModel
from numcoke_jax.models.interface import GraphSizes, ModelSpec
from numcoke_jax.models.ops import pairwise

PADDING = 2.0  # what that code adds to the margin in the bound of the initial numbers


@struct.dataclass
class PolarVectors:
    """What scoring under S relations needs."""

    modulus: Any  # float32 [N, d], of entities
    phase: Any  # float32 [N, d], radians
    factor: Any  # float32 [S, d], |r_m| + b_m
    tail_factor: Any  # float32 [S, d], 1 - b_m
    rotation: Any  # float32 [S, d], r_p in radians


class HAKE(TableModel):
    """Scores heads against one polar table of N entities.

    Attributes:
      dim: d, of modulus and of phase.
      entities: the table [N, 2 d] of all entities: phases, then moduli.
      margin: epsilon.
      dropout: share of the entities' moduli dropped in training; heads and tails share the mask.
    """

    margin: float
    dropout: float

    def setup(self) -> None:
        shape = (self.sizes.relations, self.dim)
        bound = initial_bound(self.margin, self.dim)
        self.relation_phase = self.param(
            "relation_phase", nn.initializers.normal(bound / math.sqrt(3.0)), shape
        )
        self.relation_modulus = self.param("relation_modulus", nn.initializers.ones_init(), shape)
        self.relation_bias = self.param("relation_bias", nn.initializers.zeros_init(), shape)
        half = nn.initializers.constant(0.5 * bound)  # that code's weight of the phases
        self.phase_weight = self.param("phase_weight", half, ())
        self.modulus_weight = self.param("modulus_weight", nn.initializers.ones_init(), ())
        self.drop_modulus = nn.Dropout(self.dropout, rng_collection="dropout")

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> PolarVectors:
        to_radians = math.pi / initial_bound(self.margin, self.dim)
        phase, modulus = jnp.split(self.entities(literals, train=train), 2, axis=-1)
        modulus = self.drop_modulus(modulus, deterministic=not train)
        factor = jnp.abs(self.relation_modulus[relations])
        bias = jnp.clip(self.relation_bias[relations], -factor, 1.0)
        return PolarVectors(
            modulus=modulus,
            phase=phase * to_radians,
            factor=factor + bias,
            tail_factor=1.0 - bias,
            rotation=self.relation_phase[relations] * to_radians,
        )

    def score(self, encoded: PolarVectors, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        modulus = pairwise.l2_distance(
            encoded.modulus[heads] * encoded.factor[:, None],
            encoded.modulus[None] * encoded.tail_factor[:, None],
        )
        rotated = encoded.phase[heads] + encoded.rotation[:, None]
        tails = jnp.broadcast_to(encoded.phase, (heads.shape[0], *encoded.phase.shape))
        phase = pairwise.half_angle_distance(rotated, tails)
        return self.margin - self.modulus_weight * modulus - self.phase_weight * phase


def initial_bound(margin: float, dim: int) -> float:
    """The bound of the initial numbers in that code; it stands for pi radians."""
    return (margin + PADDING) / dim


def from_config(config: ConfigDict, sizes: GraphSizes) -> HAKE:
    """The model of `model.{dim,attributes}` and `score.{margin,dropout}`; other model keys have no effect."""
    dim, margin = config.model.dim, config.score.margin
    return HAKE(
        sizes=sizes,
        dim=dim,
        entities=EntityTable(
            sizes.entities,
            2 * dim,
            attributes=config.model.attributes,
            spread=initial_bound(margin, dim) / math.sqrt(3.0),  # that of that code's uniform numbers
        ),
        margin=margin,
        dropout=config.score.dropout,
    )


MODEL = ModelSpec(from_config, per_entity=("embedding",))
