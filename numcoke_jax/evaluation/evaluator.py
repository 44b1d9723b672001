"""Ranks a split with a model: connects its `Scorer` to `ranking.filtered_ranks`."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.evaluation.finite import NonFiniteScoresError
from numcoke_jax.evaluation.ranking import (
    FilteredRanks,
    KnownTails,
    filtered_ranks,
    selection_filter,
    summaries,
)
from numcoke_jax.evaluation.scorer import Scorer
from numcoke_jax.evaluation.sorted_ranks import SORTED_FROM

Metrics = dict[str, dict[str, float | int | None]]  # {"all": {...}, "exclude_self": {...}}


class Evaluator:
    """Filtered ranking of the validation and test facts.

    Args:
      scorer: scores the graph's entities.
      graph: the facts.
      selection: a choice of `eval.selection`.
    """

    def __init__(self, scorer: Scorer, graph: NumericGraph, *, selection: str) -> None:
        self._scorer = scorer
        self._graph = graph
        self._all_facts = selection_filter(graph, "all")
        self._selection = selection_filter(graph, selection)

    def sides(self, params: Any, split: str) -> dict[str, FilteredRanks]:
        """Ranks of `split` ("valid" or "test") in the order of its facts, filtered by all splits.

        Returns:
          Those of "tails", and where relations have inverses those of "heads".

        Raises:
          FloatingPointError: a score is not finite.
        """
        ranks, count = self._rank(params, split, self._all_facts), len(self._graph.split(split))
        parts = {"tails": slice(count), "heads": slice(count, None)}
        if self._graph.first_inverse is None:
            del parts["heads"]
        return {side: FilteredRanks(*(part[place] for part in ranks)) for side, place in parts.items()}

    def for_selection(self, params: Any, before_chunk: Callable[[], None] = lambda: None) -> Metrics:
        """Validation metrics that choose the model and stop the training; raises the same errors.

        They are of the tails, and where relations have inverses of heads and tails together.

        Args:
          params: the model's parameters.
          before_chunk: called before every chunk of heads; may raise to end the evaluation.
        """
        try:
            return summaries(self._rank(params, "valid", self._selection, before_chunk))
        finally:
            self._scorer.forget()  # training goes on with other parameters, and needs the memory

    def filters(self) -> dict[str, KnownTails]:
        """The filters of the reported "ranks" and of the "selection" of a model, for who checks them."""
        return {"ranks": self._all_facts, "selection": self._selection}

    def memory(self, params: Any) -> int:
        """Bytes that ranking needs besides the parameters, for abstract `params` that know their shardings.

        Compiles what it measures, so the first evaluation need not.
        """
        # Two chunks are in flight: their scores, their filters of one byte per entry, and where heads have
        # many queries the sorted scores.
        chunk, entities = self._scorer.chunk, self._scorer.num_entities
        most = max(len(self._questions("valid")), len(self._questions("test")))
        kept = 2 if most >= SORTED_FROM * chunk else 1
        return self._scorer.memory(params, kept=2 * kept) + 2 * chunk * entities

    def _questions(self, split: str) -> np.ndarray:
        """Facts whose tails are ranked: the split's, then their inverses if relations have any."""
        facts = self._graph.split(split)
        return np.concatenate([facts, self._graph.inverse_facts(facts)])

    def _rank(
        self, params: Any, split: str, known: KnownTails, before_chunk: Callable[[], None] = lambda: None
    ) -> FilteredRanks:
        def score(encoded: Any, heads: Array) -> Array:
            before_chunk()
            return self._scorer.score(params, encoded, heads)

        try:
            return filtered_ranks(
                functools.partial(self._scorer.encode, params),
                score,
                self._questions(split),
                known,
                self._scorer.num_entities,
                self._scorer.chunk,
            )
        except NonFiniteScoresError as error:
            raise error.named(self._graph.vocabulary) from None
