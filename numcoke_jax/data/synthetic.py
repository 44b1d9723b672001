"""A comparative graph of any size whose order is known: for scale tests and for checks against the truth.

N entities have M fields, whose kinds take turns:

* "continuous": standard normal values, in practice without ties;
* "discrete": integers from 0 to `levels` - 1, so that many entities are equal;
* "skewed": log-normal values with sigma 2: most are small, a few a hundred times larger.

Relation j compares field j.  Relations beyond the last field compare mixes: relation j >= M orders the
entities by their mid-ranks in the fields j mod M and (j + j div M) mod M, an order that no single field has:
by the sum of the two, or by their distance, an order that no sum of functions of single fields has.

A fact (h, r, t) says that h is above t (below for direction "<"); facts are drawn at random from the ordered
pairs, none twice.  Everything is a pure function of the settings.
"""

import dataclasses
from typing import Any

import numpy as np

from numcoke_jax.config.schema import choices
from numcoke_jax.data.graph import HEAD, RELATION, SPLITS, TAIL, NumericGraph, Vocabulary
from numcoke_jax.data.tables.comparisons import nearest_negatives
from numcoke_jax.data.tables.draws import MASK_STREAM, SPLIT_STREAM, mask_cells, split_triples, stream
from numcoke_jax.data.tables.known import RELATION_SUFFIX
from numcoke_jax.data.tail_index import sorted_unique
from numcoke_jax.system.errors import UserError

KINDS, MIXES = choices("data.synthetic_kinds"), choices("data.synthetic_mix")
SKEW = 2.0  # sigma of the normal distribution whose exponential is "skewed"
VALUE_STREAM, FACT_STREAM = 100, 101  # apart from those of `draws`
ENUMERATED = 4  # all pairs are listed if there are at most this many per fact asked for


@dataclasses.dataclass(frozen=True)
class SyntheticSettings:
    """The keys of config.data that a synthetic graph takes; the first seven are called `synthetic_...` there.

    Attributes:
      entities, fields, relations: N, M and R.
      triples: facts over all splits, shared evenly by the relations; a relation with fewer ordered pairs
        gets all of them.
      kinds: the kinds of the fields in turn, from `KINDS`.
      levels: different values of a discrete field.
      mix: one of `MIXES`, what the relations beyond the last field compare.
      direction: ">": (h, r, t) holds when h is above t; "<": when it is below.
      split: shares of train, valid and test.
      missing_rate: share of the literals masked.
      negatives_per_pair: known-false tails per (head, relation).
      seed: base of every draw.
    """

    entities: int = 1000
    fields: int = 6
    relations: int = 8
    triples: int = 20_000
    kinds: tuple[str, ...] = KINDS
    levels: int = 10
    mix: str = "sum"
    direction: str = ">"
    split: tuple[float, ...] = (0.1, 0.1, 0.8)
    missing_rate: float = 0.2
    negatives_per_pair: int = 5
    seed: int = 0


def synthetic_graph(settings: SyntheticSettings) -> tuple[NumericGraph, list[str]]:
    """The graph of the settings, and what its user should know about it.

    Entity i of `draw_values` and `relation_orders` is called "e" and i with leading zeros; one that no
    fact mentions is left out, as in any other graph.

    Raises:
      UserError: no fact is left to train on.
    """
    values = draw_values(settings)
    orders = relation_orders(values, settings.relations, settings.mix)
    signed = orders if settings.direction == ">" else -orders
    facts, notices = _draw_all_facts(signed, settings)
    used = np.zeros(settings.entities, bool)
    used[facts[:, HEAD]] = used[facts[:, TAIL]] = True
    kept = np.flatnonzero(used)
    if len(kept) < settings.entities:
        notices.append(f"synthetic: {settings.entities - len(kept):,} entities without a fact left out")
        new_ids = np.cumsum(used, dtype=np.int32) - 1
        facts[:, HEAD], facts[:, TAIL] = new_ids[facts[:, HEAD]], new_ids[facts[:, TAIL]]
        values, orders = values[kept], orders[kept]
    splits = split_triples(facts, settings.split, stream(settings.seed, SPLIT_STREAM))
    if not len(splits["train"]):
        raise UserError(
            f"data.synthetic_triples={settings.triples}: {len(facts)} facts leave none for training; "
            "give more of them, or data.split a larger first share"
        )
    negatives = nearest_negatives(splits["train"], orders, settings.negatives_per_pair)
    rate, generator = settings.missing_rate, stream(settings.seed, MASK_STREAM)
    observed = mask_cells(np.ones(values.shape, bool), rate, generator)
    values[~observed] = 0.0
    fields = field_names(settings)
    shown = np.flatnonzero(np.any(observed, axis=0))
    if len(shown) < len(fields):
        notices.append(f"synthetic: {len(fields) - len(shown)} fields without a value left out")
        values, observed = values[:, shown], observed[:, shown]
        fields = tuple(fields[field] for field in shown)
    width = len(str(settings.entities - 1))
    facts_of: dict[str, Any] = {split: splits[split].astype(np.int32) for split in SPLITS}
    graph = NumericGraph(
        vocabulary=Vocabulary(
            entities=tuple(f"e{entity:0{width}d}" for entity in kept.tolist()),
            relations=relation_names(settings),
            fields=fields,
        ),
        negatives=negatives.astype(np.int32),
        values=values,
        observed=observed,
        **facts_of,
    )
    return graph, [_describe(settings), *notices]


def _describe(settings: SyntheticSettings) -> str:
    split = "/".join(f"{share:g}" for share in settings.split)
    return (
        f"synthetic: fields {', '.join(settings.kinds)} in turn ({settings.levels} levels), direction "
        f"{settings.direction}, split {split}, missing rate {settings.missing_rate:g}, "
        f"{settings.negatives_per_pair} negatives per pair, seed {settings.seed}"
    )


def field_names(settings: SyntheticSettings) -> tuple[str, ...]:
    """Names in the order of their numbers, which is that of their code points: "field_07_discrete"."""
    width = len(str(settings.fields - 1))
    kinds = settings.kinds
    return tuple(f"field_{i:0{width}d}_{kinds[i % len(kinds)]}" for i in range(settings.fields))


def relation_names(settings: SyntheticSettings) -> tuple[str, ...]:
    """Names in the order of their numbers: a field's and "_comp", then "mix_08_comp" and so on."""
    width = len(str(settings.relations - 1))
    compared = field_names(settings)[: settings.relations]
    mixes = (f"mix_{j:0{width}d}" for j in range(settings.fields, settings.relations))
    return tuple(name + RELATION_SUFFIX for name in (*compared, *mixes))


def draw_values(settings: SyntheticSettings) -> np.ndarray:
    """float64 [N, M], the value of every entity and field, before any is masked."""
    values = np.empty((settings.entities, settings.fields))
    for field in range(settings.fields):
        generator = stream(settings.seed, VALUE_STREAM, str(field))
        kind = settings.kinds[field % len(settings.kinds)]
        if kind == "discrete":
            values[:, field] = generator.integers(settings.levels, size=settings.entities)
        else:
            normal = generator.standard_normal(settings.entities)
            values[:, field] = normal if kind == "continuous" else np.exp(SKEW * normal)
    return values


def relation_orders(values: np.ndarray, relations: int, mix: str = "sum") -> np.ndarray:
    """The known order: float64 [N, R]; in relation r an entity is above those with a smaller number.

    Args:
      values: float64 [N, M].
      relations: R.
      mix: one of `MIXES`.
    """
    num_fields = values.shape[1]
    orders = np.empty((len(values), relations))
    orders[:, :num_fields] = values[:, :relations]
    if relations > num_fields:
        ranks = np.stack([mid_ranks(column) for column in values.T], axis=1)
        for relation in range(num_fields, relations):
            layer, first = divmod(relation, num_fields)
            second = (relation + layer) % num_fields
            if mix == "sum":
                orders[:, relation] = ranks[:, first] + ranks[:, second]
            else:
                orders[:, relation] = np.abs(ranks[:, first] - ranks[:, second])
    return orders


def mid_ranks(values: np.ndarray) -> np.ndarray:
    """float64 [n]: the rank of each value, from 0; equal values share the mean of their ranks."""
    _, ids, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[ids]


def _draw_all_facts(orders: np.ndarray, settings: SyntheticSettings) -> tuple[np.ndarray, list[str]]:
    """(int32 [n, 3] facts sorted by (relation, head, tail), notices); heads are above in `orders` [N, R]."""
    share, rest = divmod(settings.triples, settings.relations)
    found, notices = [], []
    for relation, name in enumerate(relation_names(settings)):
        wanted = share + (relation < rest)
        generator = stream(settings.seed, FACT_STREAM, str(relation))
        pairs = draw_pairs(orders[:, relation], wanted, generator)
        if len(pairs) < wanted:
            notices.append(f"synthetic: {name} has {len(pairs):,} facts, all there are, of {wanted:,}")
        facts = np.empty((len(pairs), 3), np.int32)
        facts[:, HEAD], facts[:, RELATION], facts[:, TAIL] = pairs[:, 0], relation, pairs[:, 1]
        found.append(facts)
    return np.concatenate(found), notices


def draw_pairs(order: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """`count` different pairs (a, b) with order[a] > order[b], each as likely; fewer if there are fewer.

    Args:
      order: float64 [N].
      count: how many.
      generator: decides which.

    Returns:
      int64 [k, 2], sorted.
    """
    size = len(order)
    sizes = np.unique(order, return_counts=True)[1].astype(np.int64)
    num_pairs = size * (size - 1) // 2
    ordered = num_pairs - int((sizes * (sizes - 1) // 2).sum())
    count = min(count, ordered)
    if num_pairs <= ENUMERATED * count:
        keys = _above(order, *np.triu_indices(size, k=1))
        keys.sort()
    else:
        keys = np.zeros(0, np.int64)
        while len(keys) < count:
            # Enough for one round nearly always: some draws repeat a pair, some have equal values.
            draws = int(1.3 * (count - len(keys)) * num_pairs / ordered) + 100
            one, other = generator.integers(size, size=(2, draws), dtype=np.int32)
            keys = sorted_unique(np.concatenate([keys, _above(order, one, other)]))
    if len(keys) > count:
        kept = np.ones(len(keys), bool)
        kept[generator.permutation(len(keys))[count:]] = False
        keys = keys[kept]
    return np.stack(np.divmod(keys, size), axis=1)


def _above(order: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """int64 keys a * N + b of the pairs, turned so that a is above b; pairs of equals are left out."""
    first, second = order[one], order[other]
    heads = np.where(first > second, one, other).astype(np.int64)
    tails = np.where(first > second, other, one)
    return (heads * len(order) + tails)[first != second]
