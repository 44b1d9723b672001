"""The training loss of a model: L = L_BCE + lambda L_CL (paper, "Loss Function").

With `train.loss=cross_entropy`, an extension, a softmax over the candidates takes the place of L_BCE.
"""

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
from numcoke_jax.training.losses.cross_entropy import softmax_cross_entropy

STREAMS_OF_MODELS = ("gating_noise", "dropout", "entity_dropout", "view_noise")


@dataclasses.dataclass(frozen=True)
class Objective:
    """What a step minimises.

    Attributes:
      loss: a choice of `train.loss`.
      label_smoothing: in [0, 1], of its targets.
      unknown_weight: in [0, 1], in it, of tails that are neither known to be true nor known to be false.
      contrastive: the model's second loss, or None.
      contrastive_weight: lambda.
    """

    loss: str = "bce"
    label_smoothing: float = 0.0
    unknown_weight: float = 1.0
    contrastive: SecondLoss | None = None
    contrastive_weight: float = 0.0

    def losses(
        self, params: Any, batch: Batch, literals: Literals, *, model: KnowledgeModel, key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], dict[str, SumAndCount]]:
        """The total loss of a batch (a scalar), and each term as (sum, count).

        Both terms are means: "bce" of the binary cross-entropy over the entries (h, r, every entity) of real
        pairs, or of the softmax's over the facts; "contrastive" over the pairs that have positives and
        negatives.  A term with nothing to average is 0.  `key` is the step's key.
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
        terms = {"bce": self._loss_of_triples(logits, batch)}
        total = _mean(*terms["bce"])
        if self.contrastive is not None:
            terms["contrastive"] = self.contrastive(encoded, logits, batch, key=key)
            total = total + self.contrastive_weight * _mean(*terms["contrastive"])
        return total, (terms, written.get(STATISTICS, {}))

    def _loss_of_triples(self, logits: Float[Array, "S H E"], batch: Batch) -> SumAndCount:
        real = batch.mask[..., None]
        weights = label_weights(batch.labels, batch.negatives, self.unknown_weight)
        if self.loss == "cross_entropy":
            return softmax_cross_entropy(logits, batch.labels & real, weights, self.label_smoothing)
        return binary_cross_entropy(
            logits, smoothed_targets(batch.labels, self.label_smoothing), real, weights
        )


def _mean(total: Float[Array, ""], count: Float[Array, ""]) -> Float[Array, ""]:
    return total / jnp.maximum(count, 1.0)
