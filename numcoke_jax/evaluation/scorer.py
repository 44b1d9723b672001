"""Scores of tails: a model's encoder and score, compiled for the entities of a graph."""

import functools
from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from numcoke_jax.data.graph import Vocabulary
from numcoke_jax.data.literals import Literals
from numcoke_jax.evaluation.finite import NonFiniteScoresError
from numcoke_jax.models.interface import KnowledgeModel, SharedVectors
from numcoke_jax.models.padding import PaddedEncoding, unpadded, zeros_after
from numcoke_jax.system.processes import fetch

# (int heads [h], relation) -> pieces (position of the first head, finite scores [piece, N]), in order
ScoredHeads = Callable[[np.ndarray, int], Iterator[tuple[int, np.ndarray]]]


class Scorer:
    """Scores all N entities as tails.

    Args:
      model: the model whose parameters are given with each question.
      literals: values of all N entities; on a mesh, as its placement stores them, like the parameters.
      vocabulary: names of the N entities and of the relations.
      chunk: heads scored at once; memory grows with chunk x N.
    """

    def __init__(
        self, model: KnowledgeModel, literals: Literals, vocabulary: Vocabulary, *, chunk: int
    ) -> None:
        self.vocabulary = vocabulary
        self.num_entities = len(vocabulary.entities)
        self.chunk = min(chunk, self.num_entities)
        self._literals = literals
        self._jitted_encode, self._jitted_relation, self._jitted_score = _jitted(
            cast(Hashable, model), self.num_entities
        )
        self._shared: tuple[Any, Any] = None, None  # parameters, and their entities under every relation

    def encode(self, params: Any, relation: int | Int[Array, ""]) -> Any:
        """What scoring under `relation` needs: the model's encoding of all N entities.

        Where they are the same under every relation they are encoded once for the same `params` (the object).
        """
        arguments = params, self._literals, jnp.asarray([relation], jnp.int32)
        known, entities = self._shared
        if known is params and isinstance(relation, int):
            return SharedVectors(entities, self._jitted_relation(*arguments))
        encoded = self._jitted_encode(*arguments)
        if isinstance(encoded, SharedVectors) and isinstance(relation, int):  # an array may be traced
            self._shared = params, encoded.entities
        return encoded

    def forget(self) -> None:
        """Let go of the entities that `encode` keeps."""
        self._shared = None, None

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
            scores = fetch(self.score(params, encoded, padded))[: len(block), : self.num_entities]
            finite = np.isfinite(scores).all(axis=1)
            if not finite.all():
                raise NonFiniteScoresError(relation, block[~finite].tolist(), self.vocabulary)
            yield begin, scores

    def memory(self, params: Any, *, kept: int) -> int:
        """Bytes that scoring needs besides the parameters; 0 if the platform does not say.

        Compiles what it measures, so the first scores need not.

        Args:
          params: abstract ones that know their shardings.
          kept: arrays of the size of a chunk's scores that are in memory at once.
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
        if encoding is None or scoring is None:
            return 0
        temporary = max(encoding.temp_size_in_bytes, scoring.temp_size_in_bytes)
        return temporary + encoding.output_size_in_bytes + kept * scoring.output_size_in_bytes


@functools.lru_cache(maxsize=8)
def _jitted(model: Any, entities: int) -> tuple[jax.stages.Wrapped, ...]:
    """Encoder, its relations alone, and score of a model of N entities, jitted once for equal models."""
    functions = _encode, _relation, _score
    return tuple(jax.jit(functools.partial(function, model, entities)) for function in functions)


def _encode(
    model: KnowledgeModel, entities: int, params: Any, literals: Literals, relation: Int[Array, "1"]
) -> Any:
    rows = literals.values.shape[0]
    params, literals = unpadded((params, literals), entities)
    encoded = model.apply({"params": params}, relation, literals, train=False, method="encode")
    return encoded if rows == entities else PaddedEncoding.of(encoded, entities, rows)


def _relation(
    model: KnowledgeModel, entities: int, params: Any, literals: Literals, relation: Int[Array, "1"]
) -> Any:
    """The relation's part of `SharedVectors`: what only the entities need is not computed."""
    return _encode(model, entities, params, literals, relation).relations


def _score(model: KnowledgeModel, entities: int, params: Any, encoded: Any, heads: Int[Array, " H"]) -> Array:
    columns = entities
    if isinstance(encoded, PaddedEncoding):
        columns, encoded = encoded.rows, encoded.unpadded()
    variables = {"params": unpadded(params, entities)}
    scores = model.apply(variables, encoded, heads[None], train=False, method="score")[0]
    return zeros_after(scores, 1, columns)
