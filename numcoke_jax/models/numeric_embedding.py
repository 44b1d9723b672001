"""The attribute vector o_im of entity i and field m (paper, "Numeric Value Embedding").

The paper prints o_i^m = (W_x^m + w_m X_im) * v_m, a matrix plus a vector.  Read here, as in RAKGE, as

    o_im = W_x^m v_m + bias_m + X_im (w_m * v_m)     where the value is observed
    o_im = u_m                                       where it is missing (u_m learned)

which is affine in the value.  So o is never built as an [N, M, a] tensor: with the coefficients
c_im = [observed, observed * X_im, 1 - observed] and the basis T_m = [W_x^m v_m + bias_m, w_m * v_m, u_m],
o_im = sum_q c_imq T_mq, and whatever is linear in o is a matrix product over the coefficients.
"""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float


@struct.dataclass
class Literals:
    """Numeric values of N entities in M fields; for a model that reads the graph, its training facts too."""

    # Arrays, or what JAX puts in their place when it describes a compiled function.
    values: Any  # float32 [N, M] on the scale of `data.normalize`; 0 where missing
    observed: Any  # bool [N, M]
    positions: Any = None  # float32 [N, M] quantiles in [0, 1], or None; for the numeric order term
    facts: Any = None  # int32 [n, 3], training facts as (head, relation, tail), or None


def value_coefficients(literals: Literals) -> Float[Array, "N M 3"]:
    """c_im = [observed, observed * value, 1 - observed]: nothing of a missing cell's stored value is left."""
    observed = literals.observed.astype(literals.values.dtype)
    return jnp.stack([observed, jnp.where(literals.observed, literals.values, 0.0), 1.0 - observed], axis=-1)


def attribute_vectors(
    coefficients: Float[Array, "N M Q"], basis: Float[Array, "M Q a"]
) -> Float[Array, "N M a"]:
    """o_im itself; for inspection and tests, the model works on the two factors."""
    return jnp.einsum("nmq,mqa->nma", coefficients, basis)


class NumericValueEmbedding(nn.Module):
    """The basis T [M, 3, a] of the attribute vectors.

    Attributes:
      num_fields: M.
      attribute_dim: a.
      share_transform: one W_x and bias for all fields, as RAKGE has it, instead of one a field.
      missing: "embedding" gives missing cells a learned vector a field; "zero" embeds them as the value 0.
    """

    num_fields: int
    attribute_dim: int
    share_transform: bool = False
    missing: str = "embedding"

    @nn.compact
    def __call__(self) -> Float[Array, "M 3 a"]:
        fields, size = self.num_fields, self.attribute_dim
        vectors = nn.initializers.xavier_normal()
        matrices = nn.initializers.xavier_normal(batch_axis=(0,))
        field = self.param("field_embedding", vectors, (fields, size))  # v_m
        slope = self.param("value_weight", vectors, (fields, size))  # w_m
        if self.share_transform:
            transform = self.param("transform", vectors, (size, size))
            bias = self.param("bias", nn.initializers.zeros_init(), (size,))
            offset = field @ transform.T + bias
        else:
            transform = self.param("transform", matrices, (fields, size, size))  # W_x^m
            bias = self.param("bias", nn.initializers.zeros_init(), (fields, size))
            offset = jnp.einsum("mab,mb->ma", transform, field) + bias
        if self.missing == "embedding":
            missing = self.param("missing_embedding", vectors, (fields, size))  # u_m
        else:
            missing = offset
        return jnp.stack([offset, slope * field, missing], axis=1)
