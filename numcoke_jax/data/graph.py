"""The numeric knowledge graph that every other part works on.

All arrays are canonical: names are sorted by code point before they get ids, triples are unique and
sorted by (relation, head, tail).  Two files with the same rows in a different order give the same
graph, bit for bit.
"""

import dataclasses
import hashlib
from typing import Any

import numpy as np

from numcoke_jax.data.tail_index import HEAD, RELATION, TAIL, TailIndex, contains, sorted_unique
from numcoke_jax.system.errors import UserError

SPLITS = ("train", "valid", "test")
HIDDEN_FIELDS = "hidden_fields.txt"  # of a folder: fields that no model is given; measures look at them


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Names in id order: `entities[i]` is the name of entity i; each tuple is sorted by code point.

    Inverse relations (`variants.with_inverses`) come after the sorted ones, in the same order.
    """

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
      first_inverse: id of the inverse of relation 0, those of the others follow (`variants.with_inverses`);
        None: no relation has one.  Facts of inverse relations are in `train` and `negatives` alone: those of
        the other splits are built where heads are ranked, and are never facts of their own.
    """

    vocabulary: Vocabulary
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    negatives: np.ndarray
    values: np.ndarray
    observed: np.ndarray
    first_inverse: int | None = None
    _indexes: dict[tuple[str, ...], TailIndex] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

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

    @property
    def own_relations(self) -> int:
        """How many relations are not inverses; they come first."""
        return self.num_relations if self.first_inverse is None else self.first_inverse

    def inverse_of(self, relation: int) -> int | None:
        """The inverse of a relation, whose own inverse is the relation; None if relations have none."""
        return None if self.first_inverse is None else (relation + self.first_inverse) % self.num_relations

    def inverse_facts(self, facts: np.ndarray) -> np.ndarray:
        """(t, inverse of r, h) for every fact (h, r, t), int32 [n, 3]; none without inverse relations."""
        if self.first_inverse is None:
            return facts[:0]
        turned = facts[:, [TAIL, RELATION, HEAD]]
        turned[:, RELATION] = (turned[:, RELATION] + self.first_inverse) % self.num_relations
        return turned

    def without_inverses(self) -> "NumericGraph":
        """The graph as its data have it, without inverse relations and their facts."""
        if self.first_inverse is None:
            return self
        own, names = self.first_inverse, self.vocabulary
        train, negatives = (facts[facts[:, RELATION] < own] for facts in (self.train, self.negatives))
        vocabulary = dataclasses.replace(names, relations=names.relations[:own])
        return dataclasses.replace(
            self, vocabulary=vocabulary, train=train, negatives=negatives, first_inverse=None
        )

    def known(self, *splits: str) -> np.ndarray:
        """The facts of these splits, int32 [n, 3], with those of inverse relations."""
        others = [self.inverse_facts(self.split(name)) for name in splits if name != "train"]
        return np.concatenate([self.train[:0], *map(self.split, splits), *others])

    def index(self, *splits: str) -> TailIndex:
        """The tails of every query in `known` of these splits, sorted once per graph."""
        if splits not in self._indexes:
            self._indexes[splits] = self.index_of(self.known(*splits))
        return self._indexes[splits]

    def index_of(self, *triples: np.ndarray) -> TailIndex:
        """The tails of every query in int32 [n, 3] triples of this graph."""
        sizes = {"num_entities": self.num_entities, "num_relations": self.num_relations}
        return TailIndex.from_triples(*triples, **sizes)


@dataclasses.dataclass(frozen=True)
class LoadedGraph:
    """A graph, what its user should know about it (one line each), and what to call it.

    The warnings are what a user must not overlook: signs that the files mean something else.  `truth` is
    the graph with the values and fields that a control, `data.hide` or its folder keeps from the model, None
    without these: only measures look at it.
    """

    graph: NumericGraph
    notices: list[str]
    name: str
    warnings: tuple[str, ...] = ()
    truth: NumericGraph | None = None

    def noting(self, *notices: str, **changes: Any) -> "LoadedGraph":
        """The same with more notices, and with other fields."""
        return dataclasses.replace(self, notices=[*self.notices, *notices], **changes)


def entities_without_facts(graph: NumericGraph) -> np.ndarray:
    """The ascending int64 ids of the entities that no fact of any split mentions."""
    mentioned = np.zeros(graph.num_entities, bool)
    for split in SPLITS:
        mentioned[graph.split(split)[:, [HEAD, TAIL]].ravel()] = True
    return np.flatnonzero(~mentioned)


def fact_keys(arrays: list[np.ndarray], num_entities: int, num_relations: int) -> list[np.ndarray]:
    """int64 keys of int32 [n, 3] triples that order like (relation, head, tail), comparable across arrays.

    The three ids are packed into one number if it fits into 63 bits; in larger graphs a key is the
    rank of its triple among all triples given.
    """
    if num_relations * num_entities**2 < 2**63:
        return [
            (array[:, RELATION].astype(np.int64) * num_entities + array[:, HEAD]) * num_entities
            + array[:, TAIL]
            for array in arrays
        ]
    stacked = np.concatenate(arrays)
    order = np.lexsort((stacked[:, TAIL], stacked[:, HEAD], stacked[:, RELATION]))
    new = np.ones(len(stacked), dtype=np.int64)
    new[1:] = (stacked[order[1:]] != stacked[order[:-1]]).any(axis=1)
    keys = np.empty(len(stacked), dtype=np.int64)
    keys[order] = np.cumsum(new) - 1
    return np.split(keys, np.cumsum([len(array) for array in arrays])[:-1])


def reversed_facts(graph: NumericGraph, facts: np.ndarray, *, key: str, instead: str) -> np.ndarray:
    """(t, r, h) for every fact (h, r, t): false where relations are strict orders.

    Args:
      graph: names and sizes.
      facts: int32 [T, 3], triples of the graph that are known to hold.
      key: the config key whose value "reversed" assumes strict orders, for the message.
      instead: its value that does not.

    Returns:
      int32 [T, 3].

    Raises:
      UserError: a relation holds in both directions for some pair of entities.
    """
    reverse = facts[:, [TAIL, RELATION, HEAD]]
    keys, reverse_keys = fact_keys([facts, reverse], graph.num_entities, graph.num_relations)
    both_ways = contains(sorted_unique(reverse_keys), keys) & (facts[:, HEAD] != facts[:, TAIL])
    if both_ways.any():
        relation = graph.vocabulary.relations[facts[np.argmax(both_ways), RELATION]]
        raise UserError(
            f"{key}='reversed' needs relations that are strict orders, but {relation!r} holds in "
            f"both directions for some entities; set {key}={instead!r}"
        )
    return reverse


def graph_hash(graph: NumericGraph) -> str:
    """SHA-256 of names, triples, negatives and literals; the order of rows in the files does not matter.

    Inverse relations say nothing that the data do not: the hash is that of the graph without them.
    Every part goes in with its name and length, so moving a name from one list to the next changes the
    hash.  Numbers go in as little-endian; values that are not observed do not count.
    """
    digest, graph = hashlib.sha256(), graph.without_inverses()

    def add(name: str, content: bytes) -> None:
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)

    for name in ("entities", "relations", "fields"):
        members = [member.encode("utf-8", "surrogatepass") for member in getattr(graph.vocabulary, name)]
        add(name, b"".join(b"%d %s" % (len(member), member) for member in members))
    for name in ("train", "valid", "test", "negatives"):
        add(name, np.ascontiguousarray(getattr(graph, name), dtype="<i4").tobytes())
    values = np.where(graph.observed, graph.values, 0.0)
    add("values", np.ascontiguousarray(values, dtype="<f8").tobytes())
    add("observed", np.ascontiguousarray(graph.observed, dtype=np.uint8).tobytes())
    return digest.hexdigest()
