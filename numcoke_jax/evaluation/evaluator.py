"""Ranks a split with a model: connects the model's encoder and score to `ranking.filtered_ranks`."""

import functools
from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.evaluation.finite import NonFiniteScoresError
from numcoke_jax.evaluation.ranking import (
    FilteredRanks,
    KnownTails,
    filtered_ranks,
    selection_filter,
    summaries,
)
from numcoke_jax.evaluation.sorted_ranks import SORTED_FROM
from numcoke_jax.models.interface import KnowledgeModel
from numcoke_jax.models.padding import PaddedEncoding, unpadded, zeros_after
from numcoke_jax.system.processes import fetch

Metrics = dict[str, dict[str, float | int | None]]  # {"all": {...}, "exclude_self": {...}}


class Evaluator:
    """Filtered tail ranking of the validation and test facts.

    Args:
      model: the model whose parameters are evaluated.
      literals: values of all N entities; on a mesh, as its placement stores them, like the parameters.
      graph: the facts.
      chunk: heads scored at once; memory grows with chunk x N.
      selection: a choice of `eval.selection`.
    """

    def __init__(
        self, model: KnowledgeModel, literals: Literals, graph: NumericGraph, *, chunk: int, selection: str
    ) -> None:
        self._graph = graph
        self._literals = literals
        self.chunk = min(chunk, graph.num_entities)
        self._all_facts = selection_filter(graph, "all")
        self._selection = selection_filter(graph, selection)
        self._jitted_encode, self._jitted_score = _jitted(cast(Hashable, model), graph.num_entities)

    def __call__(self, params: Any, split: str) -> Metrics:
        """Metrics of `split` ("valid" or "test") for the report, filtered by the facts of all splits.

        Raises:
          FloatingPointError: a score is not finite.
        """
        return summaries(self.ranks(params, split))

    def ranks(self, params: Any, split: str) -> FilteredRanks:
        """The ranks behind these metrics, in the order of the split's facts; raises the same errors."""
        return self.sides(params, split)["tails"]

    def sides(self, params: Any, split: str) -> dict[str, FilteredRanks]:
        """The same ranks as "tails", and where relations have inverses those of the heads as "heads"."""
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
        return summaries(self._rank(params, "valid", self._selection, before_chunk))

    def filters(self) -> dict[str, KnownTails]:
        """The filters of the reported "ranks" and of the "selection" of a model, for who checks them."""
        return {"ranks": self._all_facts, "selection": self._selection}

    def encode(self, params: Any, relation: int | Int[Array, ""]) -> Any:
        """What scoring under `relation` needs: the model's encoding of all N entities."""
        return self._jitted_encode(params, self._literals, jnp.asarray([relation], jnp.int32))

    def score(self, params: Any, encoded: Any, heads: Int[Array, " H"]) -> Float[Array, "H columns"]:
        """Logits of all N entities as tails of each head, then a mesh's padding; compiled once per H."""
        return self._jitted_score(params, encoded, heads)

    def scored_heads(
        self, params: Any, heads: np.ndarray, relation: int, encoded: Any = None
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Logits float32 [h, N] on the host, for at most a chunk of the heads at a time.

        Args:
          params: the model's parameters.
          heads: int [n] entity ids.
          relation: its id.
          encoded: what `encode` returned for the relation, if already known.

        Yields:
          (position of the first of these heads, their logits).

        Raises:
          FloatingPointError: a logit is not finite.
        """
        encoded = self.encode(params, relation) if encoded is None else encoded
        for begin in range(0, len(heads), self.chunk):
            block = heads[begin : begin + self.chunk]
            padded = jnp.asarray(np.resize(block, self.chunk).astype(np.int32))  # one shape: compiled once
            scores = fetch(self.score(params, encoded, padded))[: len(block), : self._graph.num_entities]
            finite = np.isfinite(scores).all(axis=1)
            if not finite.all():
                raise NonFiniteScoresError(relation, block[~finite].tolist(), self._graph.vocabulary)
            yield begin, scores

    def memory(self, params: Any) -> int:
        """Bytes that ranking needs besides the parameters, for abstract `params` that know their shardings.

        Compiles what it measures, so the first evaluation need not.
        """
        relation, heads = (jax.ShapeDtypeStruct((size,), jnp.int32) for size in (1, self.chunk))
        encode = self._jitted_encode.lower(params, self._literals, relation).compile()
        encoded = jax.tree.map(
            lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
            jax.eval_shape(self._jitted_encode, params, self._literals, relation),
            encode.output_shardings,
        )
        score = self._jitted_score.lower(params, encoded, heads).compile()
        encoding, scoring = encode.memory_analysis(), score.memory_analysis()
        if encoding is None or scoring is None:  # the platform does not say
            return 0
        # Two chunks are in flight: their scores, their filters of one byte per entry, and where heads have
        # many queries the sorted scores.
        most = max(len(self._questions("valid")), len(self._questions("test")))
        kept = 2 if most >= SORTED_FROM * self.chunk else 1
        chunks = 2 * (kept * scoring.output_size_in_bytes + self.chunk * self._graph.num_entities)
        temporary = max(encoding.temp_size_in_bytes, scoring.temp_size_in_bytes)
        return temporary + encoding.output_size_in_bytes + chunks

    def _questions(self, split: str) -> np.ndarray:
        """Facts whose tails are ranked: the split's, then their inverses if relations have any."""
        facts = self._graph.split(split)
        return np.concatenate([facts, self._graph.inverse_facts(facts)])

    def _rank(
        self, params: Any, split: str, known: KnownTails, before_chunk: Callable[[], None] = lambda: None
    ) -> FilteredRanks:
        def score(encoded: Any, heads: Array) -> Array:
            before_chunk()
            return self.score(params, encoded, heads)

        try:
            return filtered_ranks(
                functools.partial(self.encode, params),
                score,
                self._questions(split),
                known,
                self._graph.num_entities,
                self.chunk,
            )
        except NonFiniteScoresError as error:
            raise error.named(self._graph.vocabulary) from None


@functools.lru_cache(maxsize=8)
def _jitted(model: Any, entities: int) -> tuple[jax.stages.Wrapped, jax.stages.Wrapped]:
    """Encoder and score of a model of N entities, jitted once for equal models."""
    encode, score = (functools.partial(function, model, entities) for function in (_encode, _score))
    return jax.jit(encode), jax.jit(score)


def _encode(
    model: KnowledgeModel, entities: int, params: Any, literals: Literals, relation: Int[Array, "1"]
) -> Any:
    rows = literals.values.shape[0]
    params, literals = unpadded((params, literals), entities)
    encoded = model.apply({"params": params}, relation, literals, train=False, method="encode")
    return encoded if rows == entities else PaddedEncoding.of(encoded, entities, rows)


def _score(model: KnowledgeModel, entities: int, params: Any, encoded: Any, heads: Int[Array, " H"]) -> Array:
    columns = entities
    if isinstance(encoded, PaddedEncoding):
        columns, encoded = encoded.rows, encoded.unpadded()
    variables = {"params": unpadded(params, entities)}
    scores = model.apply(variables, encoded, heads[None], train=False, method="score")[0]
    return zeros_after(scores, 1, columns)
