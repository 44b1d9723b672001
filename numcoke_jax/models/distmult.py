"""DistMult: a bilinear score whose matrices are diagonal.

Source: Yang et al., "Embedding Entities and Relations for Learning and Inference in Knowledge Bases", ICLR
2015.

    score = <e_h * r, e_t>

The score is the same with head and tail exchanged.  Trained with this package's BCE over all entities instead
of sampled negatives, as in Ruffinelli et al., "You CAN Teach an Old Dog New Tricks!", ICLR 2020.
"""

from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SharedVectors


class DistMult(TableModel):
    """Inner products of entities, weighted by the relation."""

    def setup(self) -> None:
        self.relation_embedding = self.relation_vectors()

    @staticmethod
    def query(
        heads: Float[Array, "*#rows d"], relations: Float[Array, "*#rows d"]
    ) -> Float[Array, "*rows d"]:
        """What the score is the inner product of with the tail."""
        return heads * relations

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> SharedVectors:
        """The entity table and the relations' vectors."""
        return SharedVectors(self.entities(literals, train=train), self.relation_embedding[relations])

    def score(
        self, encoded: SharedVectors, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        del train  # dropout is applied in the entity table
        return self.query(encoded.entities[heads], encoded.relations[:, None]) @ encoded.entities.T


MODEL = ModelSpec(table_model(DistMult), per_entity=("embedding",))
