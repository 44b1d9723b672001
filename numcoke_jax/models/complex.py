"""ComplEx: DistMult with complex vectors, so that head and tail are not interchangeable.

Source: Trouillon et al., "Complex Embeddings for Simple Link Prediction", ICML 2016.

    score = Re(sum_k h_k r_k conj(t_k))         h, r, t complex vectors of d / 2 entries

A vector is stored as d real numbers, the d / 2 real parts first.  Trained with this package's BCE over all
entities instead of sampled negatives; without the paper's L2 penalty, for which `train.weight_decay` stands,
or as second loss DistMult's, of complex moduli.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from numcoke_jax.models.distmult import DistMult, cubed_norms
from numcoke_jax.models.entity_table import table_model
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.ops import pairwise


def complex_product(
    left: Float[Array, "*#rows d"], right: Float[Array, "*#rows d"]
) -> Float[Array, "*rows d"]:
    """The entrywise product of complex vectors, all stored as real parts, then imaginary parts."""
    real, imaginary = jnp.split(left, 2, axis=-1)
    other_real, other_imaginary = jnp.split(right, 2, axis=-1)
    return jnp.concatenate(
        [
            real * other_real - imaginary * other_imaginary,
            real * other_imaginary + imaginary * other_real,
        ],
        axis=-1,
    )


def rotations(angles: Float[Array, "*rows half"]) -> Float[Array, "*rows d"]:
    """Complex vectors of modulus 1 with these angles."""
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1)


def sum_of_moduli(left: Float[Array, "S H d"], right: Float[Array, "N d"]) -> Float[Array, "S H N"]:
    """The sum over the entries of |left - right|, the distance of complex vectors in `score.norm` 1."""
    parts = (*jnp.split(left, 2, axis=-1), *jnp.split(right, 2, axis=-1))

    def modulus(entry: tuple[Array, Array, Array, Array]) -> Float[Array, "S H N"]:
        x, y, to_x, to_y = entry
        squares = jnp.square(x[..., None] - to_x) + jnp.square(y[..., None] - to_y)
        apart = squares > 0.0  # the gradient of equal entries is 0, not NaN
        return jnp.where(apart, jnp.sqrt(jnp.where(apart, squares, 1.0)), 0.0)

    entry_first = tuple(jnp.moveaxis(part, -1, 0) for part in parts)
    return pairwise.sum_of_terms(modulus, entry_first, (left.shape[0], left.shape[1], right.shape[0]))


class ComplEx(DistMult):
    """Real parts of Hermitian products of entities, weighted by the relation; its d is even."""

    @staticmethod
    def query(
        heads: Float[Array, "*#rows d"], relations: Float[Array, "*#rows d"]
    ) -> Float[Array, "*rows d"]:
        """h r: Re(h r conj(t)) is the inner product of the stored numbers."""
        return complex_product(heads, relations)


def moduli(vectors: Float[Array, "*rows d"]) -> Float[Array, "*rows half"]:
    """Those of the complex entries; the gradient of an entry of 0 is 0, not NaN."""
    squares = jnp.square(vectors).reshape(*vectors.shape[:-1], 2, -1).sum(-2)
    return jnp.where(squares > 0.0, jnp.sqrt(jnp.where(squares > 0.0, squares, 1.0)), 0.0)


MODEL = ModelSpec(table_model(ComplEx), per_entity=("embedding",), second_loss=lambda _: cubed_norms(moduli))
