"""ComplEx: DistMult with complex vectors, so that head and tail are not interchangeable.

Source: Trouillon et al., "Complex Embeddings for Simple Link Prediction", ICML 2016.

    score = Re(sum_k h_k r_k conj(t_k))         h, r, t complex vectors of d / 2 entries

A vector is stored as d real numbers, the d / 2 real parts first.  Trained with this package's BCE over all
entities instead of sampled negatives; without the paper's L2 penalty, for which `train.weight_decay` stands.
"""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from ml_collections import ConfigDict

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import EntityTable, entity_table
from numcoke_jax.models.interface import EncodeThenScore, GraphSizes, ModelSpec, SharedVectors


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


class ComplEx(EncodeThenScore):
    """Real parts of Hermitian products of entities, weighted by the relation.

    Attributes:
      sizes: N, R and M.
      dim: d, real numbers of a vector; even.
      entities: the table of all entities; its dropout is one mask for heads and tails.
    """

    sizes: GraphSizes
    dim: int
    entities: EntityTable

    def setup(self) -> None:
        shape = (self.sizes.relations, self.dim)
        self.relation_embedding = self.param("relation_embedding", nn.initializers.xavier_normal(), shape)

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> SharedVectors:
        """The entity table and the relations' vectors."""
        return SharedVectors(self.entities(literals, train=train), self.relation_embedding[relations])

    def score(
        self, encoded: SharedVectors, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        """Logits [S, H, N]; rank these, never their sigmoid."""
        del train  # dropout is applied in the entity table
        # Re(q conj(t)) is the inner product of the stored numbers.
        return complex_product(encoded.entities[heads], encoded.relations[:, None]) @ encoded.entities.T


def from_config(config: ConfigDict, sizes: GraphSizes) -> ComplEx:
    """The model of `model.{dim,attributes}` and `score.dropout`; other model keys have no effect."""
    return ComplEx(sizes=sizes, dim=config.model.dim, entities=entity_table(config, sizes))


MODEL = ModelSpec(from_config, per_entity=("embedding",))
