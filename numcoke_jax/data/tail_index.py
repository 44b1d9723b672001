"""CSR index from a query (head, relation) to its tails: labels of training, filters of ranking.

Everything is vectorised NumPy on packed int64 keys `relation * N + head`.  The index takes memory
linear in the triples; a dense row over all entities exists only while it is asked for.
"""

import dataclasses
import functools

import numpy as np

HEAD, RELATION, TAIL = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class TailIndex:
    """Tails of every (head, relation), each fact once.

    Attributes:
      queries: int32 [Q, 2] the distinct (head, relation) pairs, sorted by (relation, head).
      indptr: int64 [Q + 1]; the tails of query q are `tails[indptr[q]:indptr[q + 1]]`.
      tails: int32 [n] tail ids, ascending within a query.
      keys: int64 [Q] packed `relation * num_entities + head`, ascending.
      num_entities: N, heads and tails are below it.
      num_relations: R, relations are below it.
    """

    queries: np.ndarray
    indptr: np.ndarray
    tails: np.ndarray
    keys: np.ndarray
    num_entities: int
    num_relations: int

    @classmethod
    def from_triples(cls, *triples: np.ndarray, num_entities: int, num_relations: int) -> "TailIndex":
        """Index the union of integer arrays [n, 3] of (head, relation, tail); repeated facts count once.

        Without any array the index is empty: ranking with it gives raw (unfiltered) ranks.

        Raises:
          ValueError: an array is not [n, 3], or an id is outside its range.
        """
        for array in triples:
            if array.ndim != 2 or array.shape[1] != 3:
                raise ValueError(f"triples must have shape [n, 3], got {array.shape}")
        facts = np.concatenate([np.empty((0, 3), np.int32), *triples])
        for column, name, limit in (
            (HEAD, "head", num_entities),
            (RELATION, "relation", num_relations),
            (TAIL, "tail", num_entities),
        ):
            _check_ids(facts[:, column], name, limit)
        key_of_fact, tails = _sorted_facts(facts, num_entities, num_relations)
        first_of_query = np.flatnonzero(differs_from_previous(key_of_fact))
        keys = key_of_fact[first_of_query]
        relations, heads = np.divmod(keys, max(num_entities, 1))
        return cls(
            queries=np.stack([heads, relations], axis=1).astype(np.int32),
            indptr=np.append(first_of_query, len(tails)).astype(np.int64),
            tails=tails,
            keys=keys,
            num_entities=num_entities,
            num_relations=num_relations,
        )

    @property
    def counts(self) -> np.ndarray:
        """Number of tails of each query, int64 [Q]."""
        return np.diff(self.indptr)

    def rows(self, heads: np.ndarray | int, relations: np.ndarray | int) -> np.ndarray:
        """Row in `queries` of each (head, relation), int64 of the broadcast shape; -1 if it has none.

        Ids outside the graph have no row either: packing them would alias another relation's key.
        """
        heads, relations = np.broadcast_arrays(np.asarray(heads, np.int64), np.asarray(relations, np.int64))
        inside = (heads >= 0) & (heads < self.num_entities)
        inside &= (relations >= 0) & (relations < self.num_relations)
        if not len(self.keys):
            return np.full(heads.shape, -1, np.int64)
        wanted = relations * self.num_entities + heads
        position = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(inside & (self.keys[position] == wanted), position, -1)

    def has(self, heads: np.ndarray, relations: np.ndarray | int, tails: np.ndarray) -> np.ndarray:
        """Whether each (head, relation, tail) is a fact, bool of the broadcast shape."""
        rows = self.rows(heads, relations)
        return (rows >= 0) & contains(self._facts, rows * self.num_entities + tails)

    @functools.cached_property
    def _facts(self) -> np.ndarray:
        """Int64 [n] packed `row * num_entities + tail`, ascending."""
        return np.repeat(np.arange(len(self.queries)), self.counts) * self.num_entities + self.tails

    def pairs(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All tails of the given rows, flat: which given row (int64 [k]) and which tail (int32 [k]).

        `rows` is an integer array [m]; a row of -1 has no tails.
        """
        rows = np.asarray(rows, np.int64)
        starts = self.indptr[rows]
        lengths = np.where(rows >= 0, self.indptr[rows + 1] - starts, 0)
        asked = np.repeat(np.arange(len(rows)), lengths)
        return asked, self.tails[starts[asked] + places_in_groups(lengths)]

    def mask_rows(self, rows: np.ndarray, num_columns: int) -> np.ndarray:
        """Bool [..., num_columns], True at the tails of each given row; a row of -1 is all False.

        Raises:
          ValueError: fewer columns than entities.
        """
        if num_columns < self.num_entities:
            raise ValueError(f"num_columns must be at least {self.num_entities} entities, got {num_columns}")
        rows = np.asarray(rows, np.int64)
        mask = np.zeros((rows.size, num_columns), bool)
        mask[self.pairs(rows.reshape(-1))] = True
        return mask.reshape(*rows.shape, num_columns)

    def mask_rows_among(self, rows: np.ndarray, entities: np.ndarray) -> np.ndarray:
        """Bool [..., E] like `mask_rows`, with the columns of `entities` (int [E], ascending) only."""
        rows = np.asarray(rows, np.int64)
        mask = np.zeros((rows.size, len(entities)), bool)
        asked, tails = self.pairs(rows.reshape(-1))
        columns = np.minimum(np.searchsorted(entities, tails), len(entities) - 1)
        found = entities[columns] == tails
        mask[asked[found], columns[found]] = True
        return mask.reshape(*rows.shape, len(entities))

    def mask(self, heads: np.ndarray | int, relations: np.ndarray | int, num_columns: int) -> np.ndarray:
        """Bool [..., num_columns], True at the tails of each (head, relation); shapes broadcast."""
        return self.mask_rows(self.rows(heads, relations), num_columns)


def _sorted_facts(facts: np.ndarray, num_entities: int, num_relations: int) -> tuple[np.ndarray, np.ndarray]:
    """Packed query keys (int64) and tails (int32) of the distinct facts, sorted by both.

    Sorting numbers is about ten times as fast as sorting an order (or `np.unique`), so whole facts are
    packed into one int64 if the sizes of the graph allow it.
    """
    keys = facts[:, RELATION].astype(np.int64) * num_entities + facts[:, HEAD]
    if num_relations * num_entities**2 <= np.iinfo(np.int64).max:
        packed = keys * num_entities + facts[:, TAIL]
        packed.sort()
        keys, tails = np.divmod(packed[differs_from_previous(packed)], max(num_entities, 1))
        return keys, tails.astype(np.int32)
    order = np.lexsort((facts[:, TAIL], keys))
    keys, tails = keys[order], facts[order, TAIL].astype(np.int32)
    distinct = differs_from_previous(keys, tails)
    return keys[distinct], tails[distinct]


def distinct_facts(facts: np.ndarray) -> np.ndarray:
    """The different ones of integer [n, 3] facts, sorted by (relation, head, tail), in their dtype."""
    entities = int(facts[:, [HEAD, TAIL]].max(initial=0)) + 1
    keys, tails = _sorted_facts(facts, entities, int(facts[:, RELATION].max(initial=0)) + 1)
    relations, heads = np.divmod(keys, entities)
    return np.stack([heads, relations, tails], axis=1).astype(facts.dtype)


def sorted_unique(keys: np.ndarray) -> np.ndarray:
    """Like np.unique, whose hash table is slower than sorting for tens of millions of keys."""
    keys = np.sort(keys)
    return keys[differs_from_previous(keys)]


def contains(sorted_keys: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """bool [n]: whether each of `keys` int64 [n] is in `sorted_keys`; quick when both ascend."""
    if len(sorted_keys) == 0:
        return np.zeros(len(keys), dtype=bool)
    place = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return sorted_keys[place] == keys


def differs_from_previous(*columns: np.ndarray) -> np.ndarray:
    """Bool [n], True at the first row of some columns [n] and wherever the one before it differs in any."""
    differs = np.arange(len(columns[0])) == 0
    for values in columns:
        differs[1:] |= values[1:] != values[:-1]
    return differs


def places_in_groups(lengths: np.ndarray) -> np.ndarray:
    """Int64 [sum of lengths]: 0, 1, ... within each of groups that follow one another, of int [n] lengths."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _check_ids(ids: np.ndarray, name: str, limit: int) -> None:
    """Raise ValueError unless all `ids` are in [0, limit)."""
    if len(ids) and (ids.min() < 0 or ids.max() >= limit):
        raise ValueError(f"{name} ids must be in [0, {limit}), found {ids.min()} to {ids.max()}")
