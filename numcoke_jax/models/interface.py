"""What the step, the ranking and the checkpoints expect of a model."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import flax.linen as nn
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int
from ml_collections import ConfigDict

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals

SumAndCount = tuple[Float[Array, ""], Float[Array, ""]]
# (encoded, logits, batch, *, key) -> sum and count over what the loss is a mean of
SecondLoss = Callable[..., SumAndCount]


def found_in_forward_pass(encoded: Any, logits: Array, batch: Batch, **_: Any) -> SumAndCount:
    """The second loss of models that compute it while they encode: `encoded.second_loss`."""
    del logits, batch
    return encoded.second_loss


@dataclasses.dataclass(frozen=True)
class GraphSizes:
    """N, R and M of a graph, and the relations (ids) that parts of a model decide, which sets their shapes.

    `ordered` relations compare, `classes` are read off the head's value (`models/order_core`).  If the
    relations have inverses, these are the ids from `first_inverse` on, in the same order.
    """

    entities: int
    relations: int
    fields: int
    ordered: tuple[int, ...] = ()
    classes: tuple[int, ...] = ()
    first_inverse: int | None = None

    @property
    def own_relations(self) -> int:
        """How many relations are not inverses; they come first."""
        return self.relations if self.first_inverse is None else self.first_inverse

    @property
    def decided(self) -> tuple[int, ...]:
        """Both kinds."""
        return (*self.ordered, *self.classes)

    @classmethod
    def of(cls, graph: NumericGraph) -> "GraphSizes":
        """The sizes of `graph`."""
        return cls(
            graph.num_entities, graph.num_relations, graph.num_fields, first_inverse=graph.first_inverse
        )


@struct.dataclass
class SharedVectors:
    """`encoded` of models whose entities are the same under every relation: ranking encodes them once."""

    entities: Any  # float32 [N, d]
    relations: Any  # float32 [S, d]


@runtime_checkable  # the tests check every signature while they run
class KnowledgeModel(Protocol):
    """A linen module with these methods; `config/models.py` lists the known ones.

    `encoded` is the model's own pytree: everything that scoring under S relations needs, computed once per
    step in training and in evaluation once per relation, or once if it is `SharedVectors`.
    """

    def init(self, *args: Any, **kwargs: Any) -> Any:
        """Linen's `init`: the variables of the model."""
        ...

    def apply(self, *args: Any, **kwargs: Any) -> Any:
        """Linen's `apply`: call a method with the given variables."""
        ...

    def __call__(
        self, relations: Int[Array, " S"], heads: Int[Array, "S H"], literals: Literals, *, train: bool
    ) -> tuple[Float[Array, "S H N"], Any]:
        """Logits of every entity as tail of each (head, relation), and `encoded`."""
        ...

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> Any:
        """`encoded` for S relations."""
        ...

    def score(self, encoded: Any, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        """Logits of every entity as tail."""
        ...


class EncodeThenScore(nn.Module):
    """What most models are: called, they encode all entities and score the heads against them."""

    def __call__(
        self, relations: Int[Array, " S"], heads: Int[Array, "S H"], literals: Literals, *, train: bool
    ) -> tuple[Float[Array, "S H N"], Any]:
        """Logits of every entity as tail of each (head, relation), and what they come from."""
        encoded = self.encode(relations, literals, train=train)
        return self.score(encoded, heads, train=train), encoded

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> Any:
        raise NotImplementedError

    def score(self, encoded: Any, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        raise NotImplementedError


@runtime_checkable
class FittedModel(Protocol):
    """A model some or all of whose parameters are computed from the training facts at once.

    They are part of the state before the first step.  If nothing is left to train, a run has one step, which
    changes nothing; all that comes after is as for every other model.
    """

    def fit(self, graph: NumericGraph, positions: np.ndarray, *, seed: int) -> Any:
        """These parameters: a tree of NumPy arrays in the shapes of `init`'s, which are cast to its dtypes.

        Args:
          graph: its training facts, and its validation facts for choices; never the test facts.
          positions: float64 [N, M], quantiles of the values in [0, 1]; NaN where missing.
          seed: of what is drawn.
        """
        ...


@runtime_checkable
class ExplainsScores(Protocol):
    """A model whose score is a sum of terms that have names."""

    def terms(
        self, encoded: Any, heads: Int[Array, "S H"], *, train: bool
    ) -> dict[str, Float[Array, "S H N"]]:
        """What `score` is the sum of, by name."""
        ...


@runtime_checkable
class KnowsUnseen(Protocol):
    """A model with a vector of its own for entities that were not part of training."""

    unseen: int  # how many there are; they are the last entities

    def clone(self, *, unseen: int) -> KnowledgeModel:
        """Linen's: the same model with another value of the attribute."""
        ...


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """All that the rest of the program knows about a model; `MODEL` at the end of the model's file.

    Attributes:
      create: (config, sizes) -> the module, for a graph of the given sizes.
      per_entity: names of its arrays with one row per entity, under whatever module they are.
      second_loss: config -> the loss besides binary cross-entropy, whose weight is `okcl.weight`; None: none.
      needs_negatives: whether that loss is 0 without facts that are known to be false.
      reads_facts: whether it needs `Literals.facts`, all training facts in every step.
      fitted: whether it is a `FittedModel` that leaves nothing to train.
    """

    create: Callable[[ConfigDict, GraphSizes], KnowledgeModel]
    per_entity: tuple[str, ...]
    second_loss: Callable[[ConfigDict], SecondLoss] | None = None
    needs_negatives: bool = False
    reads_facts: bool = False
    fitted: bool = False
