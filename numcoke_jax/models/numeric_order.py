"""Numeric order term: compares the heads' and tails' values themselves (an extension, not the paper's).

    x^_im = x_im                            quantile position of an observed value, in [0, 1]
    x^_im = sigmoid(e~_i . v_m + c_m)       of a missing one, learned from the facts the entity is in
    (p^up_r, p^down_r) = softmax(w_r)       over 2 M choices: each field m, upwards or downwards
    a_rm  = p^up_rm - p^down_rm             signed weight of a field, in (-1, 1)
    z_ri  = sum_m a_rm x^_im                position of entity i on the scale that relation r compares
    logit += softplus(b_r) tanh(s_r k_rh k_rt (z_rh - z_rt))

k_ri in (0, 1] is the certainty of a position: 1 where the compared fields are observed, a learned share of
it where they are missing, so that a guessed value decides less than a known one.

s_r and softplus(b_r) are positive: the term rewards a head that stands above its tail on the relation's
scale.  A relation whose heads have the lower values ("is lighter than") reverses the scale with a negative
a_rm.  All a_rm are 0 at the start, so that no direction and no field is preferred; as the 2 M choices sum to
1, the fields compete, and R x M numbers name the field that each relation compares.
"""

import functools
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals

UP, DOWN = 0, 1  # index of a direction in w_r
INITIAL_SLOPE = 10.0  # of the tanh: positions 1/10 apart are told apart at the start
LARGEST_LOG_SLOPE = 30.0  # an infinite slope times equal positions would be NaN; this one is a step
# TPUs and tensor cores would round positions to 8 or 11 binary digits: close values would become ties.
PRECISION = lax.Precision.HIGHEST


@struct.dataclass
class RelationPositions:
    """Where every entity stands on the scale of each of S relations."""

    position: Any  # float32 [S, N], z, in (-1, 1)
    certainty: Any  # float32 [S, N], k, in (0, 1]
    slope: Any  # float32 [S], s > 0
    weight: Any  # float32 [S], softplus(b)


class NumericOrder(nn.Module):
    """The positions under each relation, and the logits of pairs of them.

    Attributes:
      num_relations: R.
      sharpness: factor on w before the softmax; larger values settle on one field sooner.
    """

    num_relations: int
    sharpness: float = 10.0

    @nn.compact
    def __call__(
        self, features: Float[Array, "N d"], literals: Literals, relations: Int[Array, " S"]
    ) -> RelationPositions:
        if literals.positions is None:
            raise ValueError("the numeric order term needs literals.positions: the values' quantiles")
        per_relation = (self.num_relations,)
        fields = literals.values.shape[1]
        missing_position = nn.sigmoid(
            nn.Dense(fields, precision=PRECISION, name="missing_position")(features)
        )
        positions = jnp.where(literals.observed, literals.positions, missing_position)
        log_slope = self.param("log_slope", nn.initializers.constant(jnp.log(INITIAL_SLOPE)), per_relation)
        weight = self.param("weight", nn.initializers.ones_init(), per_relation)
        # After the sigmoid, a missing value starts with half the certainty of an observed one.
        missing_certainty = self.param("missing_certainty", nn.initializers.zeros_init(), per_relation)
        choices = self.field_choices(fields)[relations]
        average = functools.partial(jnp.einsum, "sm,nm->sn", precision=PRECISION)
        known = average(choices.sum(axis=1), literals.observed.astype(choices.dtype))
        certainty_of_missing = nn.sigmoid(missing_certainty[relations])[:, None]
        return RelationPositions(
            position=average(choices[:, UP] - choices[:, DOWN], positions),
            certainty=known + (1.0 - known) * certainty_of_missing,
            slope=jnp.exp(jnp.minimum(log_slope[relations], LARGEST_LOG_SLOPE)),
            weight=nn.softplus(weight[relations]),
        )

    def field_choices(self, num_fields: int) -> Float[Array, "R 2 M"]:
        """p^up and p^down: the share of each field, in each direction, in what a relation compares; sum 1."""
        shape = (self.num_relations, 2, num_fields)
        weights = self.param("field_weight", nn.initializers.zeros_init(), shape)
        return field_choices(weights, self.sharpness)


def field_choices(weights: Float[Array, "R 2 M"], sharpness: float) -> Float[Array, "R 2 M"]:
    """Softmax of w_r over both directions of all fields."""
    return nn.softmax(sharpness * weights, axis=(1, 2))


def field_weights(weights: Float[Array, "R 2 M"], sharpness: float) -> Float[Array, "R M"]:
    """a_rm in (-1, 1): how much relation r compares field m, negative where the lower value is the head's."""
    choices = field_choices(weights, sharpness)
    return choices[:, UP] - choices[:, DOWN]


def order_logits(positions: RelationPositions, heads: Int[Array, "S H"]) -> Float[Array, "S H N"]:
    """The term that is added to the logit of every entity as tail of each head."""
    head = jnp.take_along_axis(positions.position, heads, axis=1)[..., None]
    certainty = jnp.take_along_axis(positions.certainty, heads, axis=1)[..., None]
    gap = (head - positions.position[:, None]) * certainty * positions.certainty[:, None]
    return positions.weight[:, None, None] * jnp.tanh(positions.slope[:, None, None] * gap)
