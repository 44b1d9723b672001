"""Ranks a split with a model: joins the model's encoder and score to `ranking.evaluate`."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from numcoke_jax.graph import NumericGraph
from numcoke_jax.models.interface import KnowledgeModel
from numcoke_jax.models.numeric_embedding import Literals
from numcoke_jax.ranking import KnownTails, evaluate
from numcoke_jax.selection import selection_filter

Metrics = dict[str, dict[str, float | int | None]]  # {"all": {...}, "exclude_self": {...}}


class Evaluator:
    """Filtered tail ranking of the validation and test facts.

    Args:
      model: the model whose parameters are evaluated.
      literals: values of all N entities.
      graph: the facts.
      chunk: heads scored at once; memory grows with chunk x N.
      selection: one of `selection.RULES`.
    """

    def __init__(
        self, model: KnowledgeModel, literals: Literals, graph: NumericGraph, *, chunk: int, selection: str
    ) -> None:
        self._graph = graph
        self._literals = literals
        self.chunk = min(chunk, graph.num_entities)
        self._all_facts = selection_filter(graph, "all")
        self._selection = selection_filter(graph, selection)
        self._jitted_encode = jax.jit(functools.partial(_encode, model))
        self._jitted_score = jax.jit(functools.partial(_score, model))

    def __call__(self, params: Any, split: str) -> Metrics:
        """Metrics of `split` ("valid" or "test") for the report, filtered by the facts of all splits.

        Raises:
          FloatingPointError: a score is not finite.
        """
        return self._rank(params, split, self._all_facts)

    def for_selection(self, params: Any) -> Metrics:
        """Validation metrics that choose the model and stop the training; same errors."""
        return self._rank(params, "valid", self._selection)

    def encode(self, params: Any, relation: int) -> Any:
        """What scoring under `relation` needs: the model's encoding of all N entities."""
        return self._jitted_encode(params, self._literals, jnp.asarray([relation], jnp.int32))

    def score(self, params: Any, encoded: Any, heads: Int[Array, " H"]) -> Float[Array, "H N"]:
        """Logits of every entity as tail of each head; compiled once a number of heads."""
        return self._jitted_score(params, encoded, heads)

    def _rank(self, params: Any, split: str, known: KnownTails) -> Metrics:
        return evaluate(
            functools.partial(self.encode, params),
            functools.partial(self.score, params),
            self._graph.split(split),
            known,
            self._graph.num_entities,
            self.chunk,
        )


def _encode(model: KnowledgeModel, params: Any, literals: Literals, relation: Int[Array, "1"]) -> Any:
    return model.apply({"params": params}, relation, literals, train=False, method="encode")


def _score(model: KnowledgeModel, params: Any, encoded: Any, heads: Int[Array, " H"]) -> Array:
    return model.apply({"params": params}, encoded, heads[None], train=False, method="score")[0]
