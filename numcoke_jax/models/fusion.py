"""Entity embedding and attribute vector are joined into e_att (paper, "Knowledge-aware Aggregation").

The paper prints e_att = sigmoid(W_ge e + W_ga o) + b and says that it balances the two.  kind "gate" does
that, as RAKGE and LiteralE do; kind "paper" is the printed line to the letter.

    gate:   g = sigmoid(W_ge e + W_ga o + b),   e_att = (1 - g) e + g tanh(W [e; o] + c)
    paper:  e_att = sigmoid(W_ge e + W_ga o) + b
"""

import functools

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from numcoke_jax.models.ops import products


class KnowledgeFusion(nn.Module):
    """e_att [..., d] from entities [..., d] and attributes [..., a].

    Attributes:
      kind: a choice of `fusion.kind`.
      products: operands of the products (`models/ops/products.py`).
    """

    kind: str = "gate"
    products: str = "float32"

    @nn.compact
    def __call__(
        self, entities: Float[Array, "*batch d"], attributes: Float[Array, "*batch a"]
    ) -> Float[Array, "*batch d"]:
        size = entities.shape[-1]
        bias = self.param("bias", nn.initializers.zeros_init(), (size,))
        dense = functools.partial(nn.Dense, size, dot_general=products.dot_general(self.products))
        logits = dense(use_bias=False, name="entity_gate")(entities)
        logits = logits + dense(use_bias=False, name="attribute_gate")(attributes)
        if self.kind == "paper":
            return nn.sigmoid(logits) + bias
        gate = nn.sigmoid(logits + bias)
        joint = nn.tanh(dense(name="joint")(jnp.concatenate([entities, attributes], axis=-1)))
        return (1.0 - gate) * entities + gate * joint
