"""KBLN: the product of two experts, one on latent vectors, one on differences of values.

Source: García-Durán and Niepert, "KBLRN: End-to-End Learning of Knowledge Base Representations with Latent,
Relational, and Numerical Features", UAI 2018, without the relational features (KBLN in that paper).

    score = <e_h * r, e_t> + sum_m w_rm exp(-(x_hm - x_tm - c_rm)^2 / s_rm^2)      both values observed

A product of experts is a sum of logits.  c and s are not learned: mean and standard deviation of x_h -
x_t over the training facts of the relation in which both values are observed.  A relation without such
facts has c = 0 and s = 1; s is at least `SMALLEST_WIDTH`.  Trained with BCE over all entities instead of
sampled negatives.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SharedVectors
from numcoke_jax.models.ops import pairwise

SMALLEST_WIDTH = 1e-3  # of a range of 1, the scale of min-max values


@struct.dataclass
class DifferenceExperts:
    """What scoring under S relations needs to know about the values."""

    values: Any  # float32 [N, M], 0 where missing
    observed: Any  # float32 [N, M], 1 or 0
    centre: Any  # float32 [S, M], c
    width: Any  # float32 [S, M], s
    weight: Any  # float32 [S, M], w


@struct.dataclass
class Experts:
    """Both experts for S relations."""

    latent: SharedVectors
    numeric: DifferenceExperts | None  # None on a graph without fields


class KBLN(TableModel):
    """DistMult plus radial basis functions of the differences of values; reads `literals.facts`."""

    def setup(self) -> None:
        super().setup()
        if self.sizes.fields:
            shape = (self.sizes.relations, self.sizes.fields)
            self.field_weight = self.param("field_weight", nn.initializers.xavier_normal(), shape)

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> Experts:
        latent = super().encode(relations, literals, train=train)
        if not self.sizes.fields:
            return Experts(latent, None)
        values = jnp.where(literals.observed, literals.values, 0.0)
        own = self.sizes.own_relations
        centre, width = difference_statistics(values, literals.observed, literals.facts, own)
        if own < self.sizes.relations:  # of an inverse: tail minus head
            centre, width = jnp.concatenate([centre, -centre]), jnp.tile(width, (2, 1))
        return Experts(
            latent=latent,
            numeric=DifferenceExperts(
                values=values,
                observed=literals.observed.astype(values.dtype),
                centre=centre[relations],
                width=width[relations],
                weight=self.field_weight[relations],
            ),
        )

    def score(self, encoded: Experts, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        entities = encoded.latent.entities
        logits = (entities[heads] * encoded.latent.relations[:, None]) @ entities.T
        if encoded.numeric is None:
            return logits
        numeric = encoded.numeric
        by_field = (numeric.values.T, numeric.observed.T, numeric.centre.T, numeric.width.T, numeric.weight.T)

        def of_field(rows: tuple[Array, ...]) -> Float[Array, "S H N"]:
            values, observed, centre, width, weight = rows  # [N], [N], [S], [S], [S]
            difference = values[heads][..., None] - values - centre[:, None, None]
            known = observed[heads][..., None] * observed
            basis = jnp.exp(-jnp.square(difference / width[:, None, None]))
            return weight[:, None, None] * known * basis

        return logits + pairwise.sum_of_terms(of_field, by_field, logits.shape)


def difference_statistics(
    values: Float[Array, "N M"], observed: Bool[Array, "N M"], facts: Int[Array, "n 3"], relations: int
) -> tuple[Float[Array, "R M"], Float[Array, "R M"]]:
    """Mean and standard deviation of head minus tail by relation and field, over facts with both values."""
    head, relation, tail = facts[:, 0], facts[:, 1], facts[:, 2]
    known = (observed[head] & observed[tail]).astype(values.dtype)
    difference = (values[head] - values[tail]) * known
    count = jax.ops.segment_sum(known, relation, relations)
    mean = jax.ops.segment_sum(difference, relation, relations) / jnp.maximum(count, 1.0)
    deviation = known * jnp.square(difference - mean[relation])
    variance = jax.ops.segment_sum(deviation, relation, relations) / jnp.maximum(count, 1.0)
    return mean, jnp.where(count > 0, jnp.maximum(jnp.sqrt(variance), SMALLEST_WIDTH), 1.0)


MODEL = ModelSpec(table_model(KBLN, attributes=False), per_entity=("embedding",), reads_facts=True)
