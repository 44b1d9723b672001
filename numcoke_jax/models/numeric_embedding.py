"""The attribute vector o_im of entity i and field m (paper, "Numeric Value Embedding").

The paper prints o_i^m = (W_x^m + w_m X_im) * v_m, a matrix plus a vector.  It is read here, as in RAKGE, as

    o_im = W_x^m v_m + bias_m + X_im (w_m * v_m)     where the value is observed
    o_im = u_m                                       where it is missing (u_m learned)

which is affine in the value.  Two extensions (off in the paper's preset) replace the number X_im by a
vector phi(X_im) of P parts, each with a weight vector of its own, sum_p phi_p(X_im) (w_mp * v_m):

    linear     phi = (X_im)                                        the paper's, P = 1
    quantile   phi_p = min(max(B q_im - p, 0), 1), p = 0..B-1      q_im the value's quantile in [0, 1]: a
               curve over B bins of equally many values, linear inside a bin ("piecewise linear encoding",
               Gorishniy, Rubachev, Babenko, "On Embeddings for Numerical Features in Tabular Deep
               Learning", NeurIPS 2022; here the quantile takes the value's place inside a bin too)
    periodic   phi = (sin 2 pi f_mp X_im, cos 2 pi f_mp X_im)      f learned per field, P = 2 F (same paper)

Where few cells are observed, `ObservedCells` has the coefficients of these alone: all that is left of a
missing cell is that it is missing, and its u_m is the same for every entity.

o stays linear in phi, so it is never built as an [N, M, a] tensor: with the coefficients
c_im = [observed, observed * phi(X_im), 1 - observed] and the basis T_m = [W_x^m v_m + bias_m, w_mp * v_m,
u_m], o_im = sum_q c_imq T_mq with Q = P + 2, and whatever is linear in o is a matrix product over the
coefficients.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals


def quantile_parts(quantiles: Float[Array, "N M"], bins: int) -> Float[Array, "N M B"]:
    """The share of each of B bins that lies below the quantile."""
    return jnp.clip(bins * quantiles[..., None] - jnp.arange(bins), 0.0, 1.0)


def periodic_parts(
    values: Float[Array, "N M"], frequency: Float[Array, "*#N M F"]
) -> Float[Array, "N M 2*F"]:
    """Sines, then cosines, of the values in periods."""
    angle = 2.0 * jnp.pi * values[..., None] * frequency
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)


class ObservedCells(NamedTuple):
    """The observed cells of n entities, at most C each.

    Attributes:
      fields: int32 [n, C], ascending, then M.
      coefficients: float32 [n, C, Q - 1], as of `NumericValueEmbedding`, without the part of missing cells.
      missing: bool [n, M], fields that the entity has no value of.
    """

    fields: Any
    coefficients: Any
    missing: Any

    def vectors(self, basis: Float[Array, "M parts a"]) -> Float[Array, "n C a"]:
        """sum_q c_q T_q of each cell, for any basis of the parts q; finite where padded."""
        total: Array | float = 0.0
        for part in range(basis.shape[1]):  # one by one: [n, C, parts, a] would be the largest array
            rows = basis[:, part].at[self.fields].get(mode="clip")
            total = total + self.coefficients[..., part, None] * rows
        return jnp.asarray(total)


class NumericValueEmbedding(nn.Module):
    """The coefficients [N, M, Q] and the basis T [M, Q, a] of the attribute vectors.

    Attributes:
      num_fields: M.
      attribute_dim: a.
      share_transform: one W_x and bias for all fields, as in RAKGE, instead of one per field.
      missing: "embedding" gives missing cells one learned vector per field; "zero" embeds them as phi = 0,
        which in the linear encoding is the value 0; with "skip" nothing looks at their vectors.
      encoding: a choice of `numeric.encoding`.
      bins: B, of the quantile encoding.
      frequencies: F, of the periodic encoding.
      frequency_scale: standard deviation of the initial f, in periods per unit of the scaled value.
    """

    num_fields: int
    attribute_dim: int
    share_transform: bool = False
    missing: str = "embedding"
    encoding: str = "linear"
    bins: int = 8
    frequencies: int = 4
    frequency_scale: float = 1.0

    @nn.compact
    def __call__(
        self, literals: Literals, *, by_cells: bool = False
    ) -> tuple[Float[Array, "N M Q"] | ObservedCells, Float[Array, "M Q a"]]:
        """The two factors; `by_cells`: the first one for the observed cells alone, by `literals.cells`."""
        if by_cells:
            cells = self.cells(literals)
            return cells, self.basis(cells.coefficients.shape[-1] - 1)
        parts = self.encode(literals)
        observed = literals.observed.astype(parts.dtype)[..., None]
        shown = jnp.where(literals.observed[..., None], parts, 0.0)  # nothing of a missing cell's value stays
        coefficients = jnp.concatenate([observed, shown, 1.0 - observed], axis=-1)
        return coefficients, self.basis(parts.shape[-1])

    def cells(self, literals: Literals) -> ObservedCells:
        """The observed cells and their coefficients."""
        fields = literals.cells
        observed = fields < self.num_fields
        places = jnp.minimum(fields, self.num_fields - 1)

        def at_cells(table: Array | None) -> Array | None:
            return None if table is None else jnp.take_along_axis(table, places, axis=1)

        shown = Literals(at_cells(literals.values), observed, at_cells(literals.positions))
        parts = jnp.where(observed[..., None], self.encode(shown, places), 0.0)
        offset = observed.astype(parts.dtype)[..., None]
        return ObservedCells(fields, jnp.concatenate([offset, parts], axis=-1), ~literals.observed)

    def encode(self, literals: Literals, fields: Int[Array, "N M"] | None = None) -> Float[Array, "N M P"]:
        """phi of every cell; meaningless where not observed.

        Args:
          literals: of the cells.
          fields: that of each cell; None: a column has the cells of a field.

        Raises:
          ValueError: the quantile encoding without `literals.positions`.
        """
        known = jnp.where(literals.observed, literals.values, 0.0)  # a stored NaN must not reach a gradient
        if self.encoding == "linear":
            return known[..., None]
        if self.encoding == "quantile":
            if literals.positions is None:
                raise ValueError("the quantile encoding needs literals.positions: the values' quantiles")
            return quantile_parts(literals.positions, self.bins)
        start = nn.initializers.normal(self.frequency_scale)
        frequency = self.param("frequency", start, (self.num_fields, self.frequencies))
        return periodic_parts(known, frequency if fields is None else frequency[fields])

    def basis(self, num_parts: int) -> Float[Array, "M Q a"]:
        """T: what a cell gets for being observed, for each part of its value, and for being missing."""
        fields, size = self.num_fields, self.attribute_dim
        vectors = nn.initializers.xavier_normal()
        matrices = nn.initializers.xavier_normal(batch_axis=(0,))
        field = self.param("field_embedding", vectors, (fields, size))  # v_m
        # Xavier initialisation of a matrix [M, a], whatever the number of parts.
        parts_start = nn.initializers.xavier_normal(in_axis=0, out_axis=2, batch_axis=(1,))
        slope = self.param("value_weight", parts_start, (fields, num_parts, size))  # w_mp
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
        parts = slope * field[:, None]
        return jnp.concatenate([offset[:, None], parts, missing[:, None]], axis=1)
