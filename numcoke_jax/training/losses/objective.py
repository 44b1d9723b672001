"""The training loss of a model: L = L_BCE + lambda L_CL (paper, "Loss Function")."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.batch_norm import REAL_QUERIES, STATISTICS, STEP
from numcoke_jax.models.interface import KnowledgeModel, SecondLoss, SumAndCount
from numcoke_jax.system import random_streams
from numcoke_jax.training.losses.binary_cross_entropy import (
    binary_cross_entropy,
    label_weights,
    smoothed_targets,
)

STREAMS_OF_MODELS = ("gating_noise", "dropout", "entity_dropout", "view_noise")


@dataclasses.dataclass(frozen=True)
class Objective:
    """What a step minimises.

    Attributes:
      label_smoothing: in [0, 1], of the binary cross-entropy's targets.
      unknown_weight: in [0, 1], of tails that are neither known to be true nor known to be false, in the
        binary cross-entropy.
      contrastive: the model's second loss, or None.
      contrastive_weight: lambda.
    """

    label_smoothing: float = 0.0
    unknown_weight: float = 1.0
    contrastive: SecondLoss | None = None
    contrastive_weight: float = 0.0

    def losses(
        self, params: Any, batch: Batch, literals: Literals, *, model: KnowledgeModel, key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], dict[str, SumAndCount]]:
        """The total loss of a batch (a scalar), and each term as (sum, count).

        Both terms are means: of BCE over the entries (h, r, every entity) of real pairs, of the
        contrastive loss over the pairs that have positives and negatives; a term with nothing to average
        is 0.  `key` is the step's key.
        """
        total, (terms, _) = self.losses_and_statistics(params, batch, literals, model=model, key=key)
        return total, terms

    def losses_and_statistics(
        self, params: Any, batch: Batch, literals: Literals, *, model: KnowledgeModel, key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], tuple[dict[str, SumAndCount], Any]]:
        """The same, and the running statistics that a step writes into `params` (`batch_norm.py`)."""
        streams = {name: random_streams.stream(key, name) for name in STREAMS_OF_MODELS}
        (logits, encoded), written = model.apply(
            {"params": params, STEP: {REAL_QUERIES: batch.mask}},
            batch.relations,
            batch.heads,
            literals,
            train=True,
            rngs=streams,
            mutable=[STATISTICS],
        )
        targets = smoothed_targets(batch.labels, self.label_smoothing)
        weights = label_weights(batch.labels, batch.negatives, self.unknown_weight)
        terms = {"bce": binary_cross_entropy(logits, targets, batch.mask[..., None], weights)}
        total = _mean(*terms["bce"])
        if self.contrastive is not None:
            terms["contrastive"] = self.contrastive(encoded, logits, batch, key=key)
            total = total + self.contrastive_weight * _mean(*terms["contrastive"])
        return total, (terms, written.get(STATISTICS, {}))


def _mean(total: Float[Array, ""], count: Float[Array, ""]) -> Float[Array, ""]:
    return total / jnp.maximum(count, 1.0)
