"""Which relations compare: those whose training facts look like a sample of an order, strict or noisy.

A relation compares if all of these hold for its training facts:

1. No entity stands above itself.
2. Heads and tails are entities of one kind: at least `SHARED` of the smaller side are on the other side too.
3. Facts go in one direction more often than a symmetric relation's would: of the pairs that have facts both
   ways there are not more than of those that have one.
4. Neither does (almost) every head have one tail only, nor every tail one head: chains and trees ("follows",
   "parent of") are in the direction of an order but do not sample it.
5. Two steps down are one step down, now and then: of the paths a > b > c, as many have the fact a > c as a
   sample of an order has, and clearly more than have c > a.
6. If many more have it, as of neighbours of neighbours, nine of ten facts are not from the name that comes
   first in the alphabet to one far behind: so a symmetric relation ("shares a border with") looks of which
   every pair was written once.
"""

from collections.abc import Sequence

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.data.tail_index import contains, places_in_groups

SHARED = 0.25
ENOUGH_FACTS = 10
BOTH_WAYS = 0.5  # share of the pairs with facts both ways above which a relation is symmetric
CLOSED = 0.2  # share of the expected number of closed paths below which a relation is a tree's
SINGLE = 1.1  # mean number of tails of a head, or heads of a tail, below which they are single
ENOUGH_EXPECTED = 10.0  # expected closed paths below which nothing is concluded from their number
DEVIATIONS = 2.0  # by which paths closed forwards must outnumber those closed backwards, if there are any
MOST_PATHS = 200_000
CLUSTERED = 1.5  # times the expected number of closed paths above which facts are among neighbours
ALPHABETICAL = 0.9  # share of facts whose head's name comes first, above which it is not by chance
FAR = 0.2  # of all names, mean distance between head and tail: neighbours in an order of the names are nearer


def comparative_relations(graph: NumericGraph) -> tuple[int, ...]:
    """The ids of the graph's own relations that compare, by its training facts."""
    train, num_relations, names = graph.train, graph.own_relations, graph.vocabulary.entities
    order = np.argsort(train[:, RELATION], kind="stable")
    bounds = np.searchsorted(train[order, RELATION], np.arange(num_relations + 1))
    parts = [train[order[bounds[r] : bounds[r + 1]]] for r in range(num_relations)]
    return tuple(r for r, part in enumerate(parts) if compares(part[:, HEAD], part[:, TAIL], names))


def category_values(graph: NumericGraph) -> np.ndarray:
    """Which entities are only tails of facts that compare nothing, without a value of their own, bool [N].

    Such are the values of a categorical column ("Ann" of artist): no comparison is about them, and a position
    of theirs would be that of any entity.  An entity without facts is none of them: it may be a row.
    """
    train = graph.without_inverses().train
    comparing = np.isin(train[:, RELATION], comparative_relations(graph))
    found = np.zeros(graph.num_entities, bool)
    found[train[~comparing, TAIL]] = True
    found[train[:, HEAD]] = found[train[comparing, TAIL]] = False
    return found & ~graph.observed.any(axis=1)


def compares(heads: np.ndarray, tails: np.ndarray, names: Sequence[str] = ()) -> bool:
    """Whether facts (heads, tails: int [F], each pair at most once) look like a sample of an order.

    Without names of the entities their alphabetical order is not looked at.
    """
    if not len(heads) or (heads == tails).any():
        return False
    above, below = np.unique(heads), np.unique(tails)
    shared = np.intersect1d(above, below, assume_unique=True)
    single = len(heads) >= ENOUGH_FACTS and len(heads) < SINGLE * max(len(above), len(below))
    if single or len(shared) < SHARED * min(len(above), len(below)):
        return False
    entities, numbered = np.unique(np.concatenate([heads, tails]), return_inverse=True)
    heads, tails = numbered[: len(heads)].astype(np.int64), numbered[len(heads) :].astype(np.int64)
    keys = np.sort(heads * len(entities) + tails)
    if contains(keys, tails * len(entities) + heads).mean() > BOTH_WAYS:
        return False
    expected, closed, backwards = _closed_paths(heads, tails, keys, len(entities))
    if expected >= ENOUGH_EXPECTED and closed < CLOSED * expected:
        return False
    if backwards and closed - backwards <= DEVIATIONS * np.sqrt(closed + backwards):
        return False
    clustered = len(names) > 0 and len(heads) >= ENOUGH_FACTS and closed > CLUSTERED * expected
    return not (clustered and _written_once([names[entity] for entity in entities.tolist()], heads, tails))


def _written_once(names: Sequence[str], heads: np.ndarray, tails: np.ndarray) -> bool:
    """Whether facts go from names to such that come far behind them in the alphabet, or before them."""
    place = np.empty(len(names), int)
    place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    ahead = place[tails] - place[heads]
    first = float(np.mean(ahead > 0))
    return max(first, 1.0 - first) >= ALPHABETICAL and float(np.abs(ahead).mean()) > FAR * len(names)


def _closed_paths(
    heads: np.ndarray, tails: np.ndarray, keys: np.ndarray, count: int
) -> tuple[float, int, int]:
    """How many paths a > b > c a random order's sample would close; how many have a > c, and c > a.

    At most about `MOST_PATHS` paths are looked at: the first ones of facts in a fixed, scrambled order.
    """
    scrambled = np.random.default_rng(0).permutation(len(heads))
    by_head = np.argsort(heads, kind="stable")
    first = np.searchsorted(heads[by_head], np.arange(count + 1))
    onward = first[tails[scrambled] + 1] - first[tails[scrambled]]  # facts that go on from each fact's tail
    taken = scrambled[: int(np.searchsorted(np.cumsum(onward), MOST_PATHS)) + 1]
    starts, lengths = first[tails[taken]], (first[tails[taken] + 1] - first[tails[taken]])
    begin = np.repeat(heads[taken], lengths)
    end = tails[by_head[np.repeat(starts, lengths) + places_in_groups(lengths)]]
    density = len(heads) / max(count * (count - 1) / 2, 1)
    closed, backwards = (contains(keys, pairs).sum() for pairs in (begin * count + end, end * count + begin))
    return float(len(begin) * min(density, 1.0)), int(closed), int(backwards)
