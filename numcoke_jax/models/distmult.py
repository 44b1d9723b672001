"""DistMult: a bilinear score whose matrices are diagonal.

Source: Yang et al., "Embedding Entities and Relations for Learning and Inference in Knowledge Bases", ICLR
2015.

    score = <e_h * r, e_t>

The score is the same with head and tail exchanged.  Trained with this package's BCE over all entities instead
of sampled negatives, as in Ruffinelli et al., "You CAN Teach an Old Dog New Tricks!", ICLR 2020.

The second loss, whose weight is 0 in the preset, is the nuclear 3-norm of Lacroix et al., "Canonical Tensor
Decomposition for Knowledge Base Completion", ICML 2018, the mean over a batch's facts of

    sum_k |h_k|^3 + |r_k|^3 + |t_k|^3

of the vectors as the step sees them, so that `score.dropout` is best left at 0 beside it.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from numcoke_jax.data.batches import Batch
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SecondLoss, SharedVectors, SumAndCount


class DistMult(TableModel):
    """Inner products of entities, weighted by the relation."""

    @staticmethod
    def query(
        heads: Float[Array, "*#rows d"], relations: Float[Array, "*#rows d"]
    ) -> Float[Array, "*rows d"]:
        """What the score is the inner product of with the tail."""
        return heads * relations

    def score(
        self, encoded: SharedVectors, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        return self.query(encoded.entities[heads], encoded.relations[:, None]) @ encoded.entities.T


def cubed_norms(
    moduli: Callable[[Float[Array, "*rows d"]], Float[Array, "*rows entries"]],
) -> SecondLoss:
    """The nuclear 3-norm of the vectors of a batch's facts, for a model whose entries have these moduli."""

    def loss(encoded: SharedVectors, logits: Array, batch: Batch, **_: Any) -> SumAndCount:
        del logits
        entities, relations = (
            (moduli(vectors) ** 3).sum(-1) for vectors in (encoded.entities, encoded.relations)
        )
        facts = (batch.labels & batch.mask[..., None]).astype(entities.dtype)
        of_pair = facts.sum(-1)
        heads = entities[batch.heads] + relations[:, None]
        return (of_pair * heads).sum() + (facts @ entities).sum(), of_pair.sum()

    return loss


MODEL = ModelSpec(
    table_model(DistMult), per_entity=("embedding",), second_loss=lambda _: cubed_norms(jnp.abs)
)
