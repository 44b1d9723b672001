"""The numeric knowledge graph that every other part works on.

All arrays are canonical: names are sorted by code point before they get ids, triples are unique and
sorted by (relation, head, tail).  Two files with the same rows in a different order give the same
graph, bit for bit.
"""

import dataclasses

import numpy as np

HEAD, RELATION, TAIL = 0, 1, 2
SPLITS = ("train", "valid", "test")


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Names in id order: `entities[i]` is the name of entity i; each tuple is sorted by code point."""

    entities: tuple[str, ...]
    relations: tuple[str, ...]
    fields: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class NumericGraph:
    """Triples and literals of a graph with N entities, R relations and M numeric fields.

    Attributes:
      vocabulary: names of entities, relations and fields.
      train: int32 [n, 3] facts as (head, relation, tail); valid and test likewise.
      negatives: int32 [n, 3] triples known to be false (neg.txt); never a training fact.
      values: float64 [N, M] numeric values in their own units; 0 where not observed.
      observed: bool [N, M], False where the value is missing.
    """

    vocabulary: Vocabulary
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    negatives: np.ndarray
    values: np.ndarray
    observed: np.ndarray

    @property
    def num_entities(self) -> int:
        return len(self.vocabulary.entities)

    @property
    def num_relations(self) -> int:
        return len(self.vocabulary.relations)

    @property
    def num_fields(self) -> int:
        return len(self.vocabulary.fields)

    def split(self, name: str) -> np.ndarray:
        """The int32 [n, 3] facts of `name`, one of "train", "valid", "test"."""
        if name not in SPLITS:
            raise ValueError(f"split must be one of {SPLITS}, got {name!r}")
        return getattr(self, name)
