"""What the step, the ranking and the checkpoints expect of a model."""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals

# The models' names for arrays with one row per entity: tables, and biases of hyperbolic models and ConvE;
# those of fitted models.
PER_ENTITY = (
    "entity_embedding",
    "embedding",
    "head_bias",
    "tail_bias",
    "entity_seen",
    "entity_bounds",
    "entity_draws",
    "entity_strength",
    "entity_position",
    "entity_width",
    "entity_membership",
)


@dataclasses.dataclass(frozen=True)
class GraphSizes:
    """N, R and M of a graph, and the ids of the C relations that an order core decides, if there is one."""

    entities: int
    relations: int
    fields: int
    ordered: tuple[int, ...] = ()

    @classmethod
    def of(cls, graph: NumericGraph) -> "GraphSizes":
        """The sizes of `graph`."""
        return cls(graph.num_entities, graph.num_relations, graph.num_fields)


@struct.dataclass
class SharedVectors:
    """`encoded` of models whose entities are the same under every relation."""

    entities: Any  # float32 [N, d]
    relations: Any  # float32 [S, d]


@runtime_checkable  # the tests check every signature while they run
class KnowledgeModel(Protocol):
    """A linen module with these methods; `MODELS` in `models/__init__.py` lists the known ones.

    `encoded` is the model's own pytree: everything that scoring under S relations needs, computed once per
    step in training and once per relation in evaluation.
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
class KnowsUnseen(Protocol):
    """A model with a vector of its own for entities that were not part of training."""

    unseen: int  # how many there are; they are the last entities

    def clone(self, *, unseen: int) -> KnowledgeModel:
        """Linen's: the same model with another value of the attribute."""
        ...


def is_per_entity(path: Any) -> bool:
    """Whether the array at `path` in a tree of parameters or an optimiser's state has one row per entity."""
    return getattr(path[-1], "key", None) in PER_ENTITY
