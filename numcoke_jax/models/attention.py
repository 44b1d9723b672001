"""Knowledge perceptual attention over the numeric fields (paper, "Knowledge Perceptual Attention").

    p_i     = delta_e tanh(W_e e_i + b_e) + delta_r tanh(W_r r + b_r),   delta_e + delta_r = 1
    s_im(l) = LeakyReLU(sum_j w_j(l) . phi_j(p_i, o_im)),   phi: product, difference, concatenation
    a_im(l) = softmax_m s_im(l)
    o_i(l)  = sum_m a_im(l) W_agg(l) o_im,   the L heads concatenated

The linear operators keep s affine in the coefficients of `numeric_embedding`, so scores and aggregate are
matrix products over [N, M, Q] coefficients and [M, Q, a] bases; no [S, N, M, a] tensor exists.  The "mlp"
operator, a hidden layer over [p; o], has no such form and runs over one field at a time.

Where few cells are observed (`ObservedCells`), the M fields are those of missing cells, whose vectors all
entities share, and an entity's observed cells are compared beside them: the same sums, with one product of
[S, N, a] and [a, L M] where the other form has Q, and no [N, M, Q] coefficients.
"""

import functools
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from numcoke_jax.models.numeric_embedding import ObservedCells
from numcoke_jax.models.ops import products

LINEAR_OPERATORS = ("product", "difference", "concatenation")
MOST_UNROLLED_PARTS = 4  # of a value's coefficients: time to compile grows with each, 1,024 bins took minutes
LEAST = -1e30  # added to scores that do not count: finite, so that no difference is NaN
NEGATIVE_SLOPE = 0.2  # of the LeakyReLU, as in graph attention networks


class PerceptualAttention(nn.Module):
    """Attributes o_joint [S, N, a] of every entity under each of S relations, and the weights used.

    Attributes:
      heads: L; must divide a.
      relation_weight: delta_r in [0, 1]; the entity's weight is 1 - delta_r.
      use_query: False sets both weights to 0, the paper's ablation of knowledge-aware attention.
      operators: choices of `attention.operators`.
      hidden: width of the "mlp" operator's hidden layer.
      products: operands of the products that sum over a vector's entries (`models/ops/products.py`).
        Products of single entries, and those over the Q parts of a value alone, stay in float32.
      skip_missing: missing cells get no attention; an entity without observed cells has the attributes 0.
    """

    heads: int
    relation_weight: float = 0.5
    use_query: bool = True
    operators: tuple[str, ...] = LINEAR_OPERATORS
    hidden: int = 64
    products: str = "float32"
    skip_missing: bool = False

    @nn.compact
    def __call__(
        self,
        entities: Float[Array, "S N d"],
        relations: Float[Array, "S d"],
        coefficients: Float[Array, "N M Q"] | ObservedCells,
        basis: Float[Array, "M Q a"],
    ) -> tuple[Float[Array, "S N a"], Float[Array, "S N L columns"]]:
        """Columns of the weights are the M fields; of `ObservedCells`, what `attend_to_cells` says."""
        query = self.query(entities, relations, basis.shape[-1])
        if isinstance(coefficients, ObservedCells):
            return self.attend_to_cells(query, coefficients, basis)
        scores = self.linear_scores(query, coefficients, basis)
        if "mlp" in self.operators:
            scores = scores + self.mlp_scores(query, coefficients, basis)
        counted = coefficients[:, None, :, -1] == 0.0 if self.skip_missing else None
        weights = shares_of(nn.leaky_relu(scores, NEGATIVE_SLOPE), counted)
        self.sow(
            "intermediates", "weights", weights
        )  # kept only if a caller asks for it: inference/explain.py
        return self.aggregate(weights, coefficients, basis), weights

    def query(
        self, entities: Float[Array, "S N d"], relations: Float[Array, "S d"], size: int
    ) -> Float[Array, "S N a"]:
        """p, the joint projection of entity and relation into the attributes' space."""
        dense = functools.partial(nn.Dense, size, dot_general=products.dot_general(self.products))
        from_entity = nn.tanh(dense(name="entity_projection")(entities))
        from_relation = nn.tanh(dense(name="relation_projection")(relations))[:, None, :]
        if not self.use_query:
            return jnp.zeros_like(from_entity)
        return (1.0 - self.relation_weight) * from_entity + self.relation_weight * from_relation

    def linear_scores(
        self, query: Float[Array, "S N a"], coefficients: Float[Array, "N M Q"], basis: Float[Array, "M Q a"]
    ) -> Float[Array, "S N L M"]:
        """sum_j w_j . phi_j(p, o) over the linear operators, before the LeakyReLU."""
        einsum = functools.partial(products.einsum, self.products)
        fields, parts, size = basis.shape
        of_parts: Array | float = 0.0  # w . phi(p, T_mq), the share of each part q of the basis
        product, query_weight, value_weight = self.linear_weights(size)
        if product is not None:
            keys = jnp.einsum("la,mqa->qlma", product, basis).reshape(-1, size)
            of_parts = einsum("sna,ak->snk", query, keys.T)
            of_parts = of_parts.reshape(*query.shape[:2], parts, self.heads, fields)
        of_parts = of_parts + einsum("la,mqa->qlm", value_weight, basis)
        scores = einsum("sna,la->snl", query, query_weight)[..., None]
        if parts > MOST_UNROLLED_PARTS:
            return scores + (of_parts * jnp.swapaxes(coefficients, 1, 2)[:, :, None]).sum(-3)
        # Added up one by one: XLA's reduction over an axis of 3 takes as long as the matrix product.
        for part in range(parts):
            scores = scores + of_parts[..., part, :, :] * coefficients[:, None, :, part]
        return scores

    def linear_weights(
        self, size: int
    ) -> tuple[Float[Array, "L a"] | None, Float[Array, "L a"], Float[Array, "L a"]]:
        """What p * o, p and o are multiplied by, all linear operators together; None without the product."""
        weight, product = nn.initializers.xavier_normal(), None
        if "product" in self.operators:  # w . (p * o)
            product = self.param("product", weight, (self.heads, size))
        query_weight = value_weight = jnp.zeros((self.heads, size), jnp.zeros(()).dtype)
        if "difference" in self.operators:  # w . (p - o)
            difference = self.param("difference", weight, (self.heads, size))
            query_weight, value_weight = query_weight + difference, value_weight - difference
        if "concatenation" in self.operators:  # w . [p; o]
            concatenation = self.param("concatenation", weight, (self.heads, 2 * size))
            query_weight = query_weight + concatenation[:, :size]
            value_weight = value_weight + concatenation[:, size:]
        return product, query_weight, value_weight

    def attend_to_cells(
        self, query: Float[Array, "S N a"], cells: ObservedCells, basis: Float[Array, "M Q a"]
    ) -> tuple[Float[Array, "S N a"], Float[Array, "S N L columns"]]:
        """The attributes, and the weights of the C cells, then (if any) of the M fields where missing."""
        einsum = functools.partial(products.einsum, self.products)
        fields, _, size = basis.shape
        compare = self.comparison(query)
        # Projected before they are gathered: a cell then costs no product with W_agg.
        values = einsum("lba,mqa->mqlb", self.aggregation(size), basis)
        both = jnp.concatenate([basis, values.reshape(basis.shape)], axis=-1)[:, :-1]
        vectors, of_cells = jnp.split(cells.vectors(both), 2, axis=-1)
        scores, counted = [compare(vectors)], [cells.fields < fields]
        if not self.skip_missing:
            scores.append(compare(basis[:, -1]))
            counted.append(cells.missing)
        joined = nn.leaky_relu(jnp.concatenate(scores, axis=-1), NEGATIVE_SLOPE)
        weights = shares_of(joined, jnp.concatenate(counted, axis=-1)[:, None])
        count = cells.fields.shape[1]
        of_cells = of_cells.reshape(*cells.fields.shape, self.heads, size // self.heads)
        outputs = einsum("snlc,nclb->snlb", weights[..., :count], of_cells)
        if not self.skip_missing:
            missing = [
                einsum("snm,mb->snb", weights[:, :, head, count:], values[:, -1, head])
                for head in range(self.heads)
            ]
            outputs = outputs + jnp.stack(missing, axis=2)
        return outputs.reshape(*outputs.shape[:2], size), weights

    def comparison(
        self, query: Float[Array, "S N a"]
    ) -> Callable[[Float[Array, "*rows a"]], Float[Array, "S N L _"]]:
        """The scores before the LeakyReLU of vectors [m, a] of all entities, or [N, m, a] of each its own."""
        einsum = functools.partial(products.einsum, self.products)
        size = query.shape[-1]
        product, query_weight, value_weight = self.linear_weights(size)
        of_query = einsum("sna,la->snl", query, query_weight)[..., None]
        if "mlp" in self.operators:
            hidden_query, into_hidden, output = self.mlp_weights(query, size)

        def compare(vectors: Array) -> Array:
            own = "n" if vectors.ndim == 3 else ""
            scores = of_query + einsum(f"la,{own}ma->{own}lm", value_weight, vectors)
            if product is not None and own:  # the query is the smaller of the two that could be multiplied
                scores = scores + einsum("snla,nma->snlm", query[:, :, None] * product, vectors)
            elif product is not None:
                keys = (product[:, None] * vectors).reshape(-1, size)
                of_keys = einsum("sna,ka->snk", query, keys)
                scores = scores + of_keys.reshape(*query.shape[:2], self.heads, -1)
            if "mlp" in self.operators:
                hidden = jnp.moveaxis(einsum(f"{own}ma,ah->{own}mh", vectors, into_hidden), -2, 0)

                @jax.checkpoint
                def scores_of_column(of_value: Array) -> Array:
                    return einsum("snh,hl->snl", nn.relu(hidden_query + of_value), output)

                scores = scores + jnp.moveaxis(jax.lax.map(scores_of_column, hidden), 0, -1)
            return scores

        return compare

    def mlp_weights(
        self, query: Float[Array, "S N a"], size: int
    ) -> tuple[Float[Array, "S N hidden"], Float[Array, "a hidden"], Float[Array, "hidden L"]]:
        """W_p p + b, W_o and w."""
        dot_general = products.dot_general(self.products)
        of_query = nn.Dense(self.hidden, dot_general=dot_general, name="mlp_query")(query)
        into_hidden = self.param("mlp_value", nn.initializers.xavier_normal(), (size, self.hidden))
        output = self.param("mlp_output", nn.initializers.xavier_normal(), (self.hidden, self.heads))
        return of_query, into_hidden, output

    def mlp_scores(
        self, query: Float[Array, "S N a"], coefficients: Float[Array, "N M Q"], basis: Float[Array, "M Q a"]
    ) -> Float[Array, "S N L M"]:
        """w . relu(W_p p + W_o o + b), one field at a time: [S, N, hidden] is the largest tensor."""
        einsum = functools.partial(products.einsum, self.products)
        of_query, into_hidden, output = self.mlp_weights(query, basis.shape[-1])

        @jax.checkpoint
        def scores_of_field(field: tuple[Array, Array]) -> Float[Array, "S N L"]:
            field_coefficients, field_basis = field
            of_value = field_coefficients @ einsum("qa,ah->qh", field_basis, into_hidden)
            return einsum("snh,hl->snl", nn.relu(of_query + of_value), output)

        return jnp.moveaxis(jax.lax.map(scores_of_field, (jnp.moveaxis(coefficients, 1, 0), basis)), 0, -1)

    def aggregate(
        self,
        weights: Float[Array, "S N L M"],
        coefficients: Float[Array, "N M Q"],
        basis: Float[Array, "M Q a"],
    ) -> Float[Array, "S N a"]:
        """o(l) = sum_mq (a_m c_mq) (W_agg(l) T_mq), heads concatenated."""
        einsum = functools.partial(products.einsum, self.products)
        size = basis.shape[-1]
        kernel = self.aggregation(size)
        values = einsum("lba,mqa->lqmb", kernel, basis).reshape(self.heads, -1, size // self.heads)
        outputs = []
        for head in range(self.heads):  # one plain product per head: batched ones move their operands around
            shares = self.shares(weights[:, :, head], coefficients)
            outputs.append(einsum("snk,kb->snb", shares, values[head]))
        return jnp.concatenate(outputs, axis=-1)

    def aggregation(self, size: int) -> Float[Array, "L b a"]:
        """W_agg of each head."""
        matrices = nn.initializers.xavier_normal(batch_axis=(0,))
        return self.param("aggregation", matrices, (self.heads, size // self.heads, size))

    @staticmethod
    def shares(
        weights: Float[Array, "S N M"], coefficients: Float[Array, "N M Q"]
    ) -> Float[Array, "S N Q*M"]:
        """a_m c_mq, the parts one after the other."""
        parts = coefficients.shape[-1]
        if parts > MOST_UNROLLED_PARTS:
            together = weights[:, :, None] * jnp.swapaxes(coefficients, 1, 2)
            return together.reshape(*weights.shape[:2], -1)
        return jnp.concatenate([weights * coefficients[..., part] for part in range(parts)], axis=-1)


def shares_of(
    scores: Float[Array, "S N L columns"], counted: Bool[Array, "N 1 columns"] | None
) -> Float[Array, "S N L columns"]:
    """The softmax over the columns that are counted, all if None; 0 elsewhere, and where none is counted."""
    if counted is None:
        return nn.softmax(scores, axis=-1)
    shares = nn.softmax(scores + jnp.where(counted, 0.0, LEAST), axis=-1)
    return jnp.where(counted.any(axis=-1, keepdims=True), shares, 0.0)
