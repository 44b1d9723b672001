"""MT-KGNN: one network scores triples, two others predict values from the same entity vectors.

Source: Tay et al., "Multi-task Neural Network for Non-discrete Attribute Prediction in Knowledge Graphs",
CIKM 2017.

    score = <w, tanh(W_h e_h + W_r r + W_t e_t + b)>
    x_im  = sigmoid(<u, tanh(V [a_m; e_i])>)           a_m: one vector per field; heads, tails have own V, u
    loss  = BCE + lambda (mean squared error of both networks over the observed values)

The paper samples one value of the head and one of the tail per triple.  With all entities as candidates, both
networks see every observed value once per step instead.  Values have to be on a scale from 0 to 1
(`data.normalize` minmax or quantile) to be within the sigmoid's reach.

If all three parts of the hidden layer start near 0, tanh is linear and the score is a sum of one number each
for head, relation and tail: tails are then ranked alike under every query, for hundreds of epochs.  So
relations start at the size at which tanh bends.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, found_in_forward_pass
from numcoke_jax.models.ops import pairwise

ENTITY_SPREAD, RELATION_SPREAD = 0.1, 1.0  # standard deviations of the initial vectors, for any N and R


@struct.dataclass
class HiddenParts:
    """Each argument's part of the hidden layer, for scoring under S relations; the errors of the values."""

    heads: Any  # float32 [N, k], W_h e
    relations: Any  # float32 [S, k], W_r r + b
    tails: Any  # float32 [N, k], W_t e
    second_loss: Any = None  # float32 scalars: sum over both networks and all observed values, their number


class AttributeNetwork(nn.Module):
    """Sum over the observed cells of (sigmoid(<u, tanh(V [a_m; e_i])>) - x_im)^2.

    Attributes:
      hidden: width of the hidden layer.
    """

    hidden: int

    @nn.compact
    def __call__(
        self, fields: Float[Array, "M d"], entities: Float[Array, "N d"], literals: Literals
    ) -> Float[Array, ""]:
        of_fields = nn.Dense(self.hidden, use_bias=False, name="from_field")(fields)
        of_entities = nn.Dense(self.hidden, use_bias=False, name="from_entity")(entities)
        output = self.param("output", nn.initializers.normal(self.hidden**-0.5), (self.hidden,))

        @jax.checkpoint  # one [N, hidden] array at a time, recomputed in the backward pass
        def of_field(rows: tuple[Array, Array, Array]) -> Array:
            field, values, observed = rows
            predicted = nn.sigmoid(nn.tanh(of_entities + field) @ output)
            return jnp.where(observed, jnp.square(predicted - values), 0.0).sum()

        known = jnp.where(literals.observed, literals.values, 0.0)  # a stored NaN must not reach a gradient
        rows = (of_fields, known.T.astype(entities.dtype), literals.observed.T)
        zero = jnp.zeros((), entities.dtype)
        return lax.scan(lambda total, row: (total + of_field(row), None), zero, rows)[0]


class MTKGNN(TableModel):
    """Scores triples with a hidden layer and, in training, predicts the values.

    Attributes:
      dim: d, and the width of the hidden layers.
    """

    def setup(self) -> None:
        of_relations = nn.initializers.normal(RELATION_SPREAD)
        shape = (self.sizes.relations, self.dim)
        self.relation_embedding = self.param("relation_embedding", of_relations, shape)
        self.from_head, self.from_tail = (nn.Dense(self.dim, use_bias=False) for _ in range(2))
        self.from_relation = nn.Dense(self.dim)
        self.output = self.param("output", nn.initializers.normal(self.dim**-0.5), (self.dim,))
        if self.sizes.fields:
            shape = (self.sizes.fields, self.dim)
            self.field_embedding = self.param("field_embedding", nn.initializers.xavier_normal(), shape)
            self.head_values, self.tail_values = AttributeNetwork(self.dim), AttributeNetwork(self.dim)

    def __call__(
        self, relations: Int[Array, " S"], heads: Int[Array, "S H"], literals: Literals, *, train: bool
    ) -> tuple[Float[Array, "S H N"], HiddenParts]:
        entities = self.entities(literals, train=train)
        encoded = self._parts(entities, relations)
        logits = self.score(encoded, heads, train=train)
        error: Any = jnp.zeros((), logits.dtype)
        count = error
        if self.sizes.fields:
            networks = (self.head_values, self.tail_values)
            error = sum(network(self.field_embedding, entities, literals) for network in networks)
            count = 2 * literals.observed.sum().astype(logits.dtype)
        return logits, encoded.replace(second_loss=(error, count))  # type: ignore[attr-defined]

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> HiddenParts:
        return self._parts(self.entities(literals, train=train), relations)

    def score(self, encoded: HiddenParts, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        of_queries = encoded.heads[heads] + encoded.relations[:, None]
        by_unit = (jnp.moveaxis(of_queries, -1, 0), encoded.tails.T, self.output)

        def of_unit(rows: tuple[Array, Array, Array]) -> Float[Array, "S H N"]:
            query, tail, weight = rows
            return weight * nn.tanh(query[..., None] + tail)

        return pairwise.sum_of_terms(of_unit, by_unit, (*heads.shape, encoded.tails.shape[0]))

    def _parts(self, entities: Float[Array, "N d"], relations: Int[Array, " S"]) -> HiddenParts:
        return HiddenParts(
            heads=self.from_head(entities),
            relations=self.from_relation(self.relation_embedding[relations]),
            tails=self.from_tail(entities),
        )


MODEL = ModelSpec(
    table_model(MTKGNN, attributes=False, spread=ENTITY_SPREAD),
    per_entity=("embedding",),
    second_loss=lambda _: found_in_forward_pass,
)
