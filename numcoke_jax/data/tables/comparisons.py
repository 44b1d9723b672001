"""A table of values -> comparative triples, known-false tails, a split and masked literals.

The structure is that of the public Comp7 set: inside a group of entities, (h, "field_comp", t) is a fact
when h's value of the field is above t's.  Everything is a pure function of sorted arrays and a seed.
Entities come sorted by name, so the order of a table's rows never matters.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from numcoke_jax.config.schema import choices
from numcoke_jax.data.tables.draws import (
    GROUP_STREAM,
    MASK_STREAM,
    SAMPLE_STREAM,
    SPLIT_STREAM,
    check_integer,
    check_shares,
    draw,
    is_number,
    mask_cells,
    split_triples,
    stream,
)
from numcoke_jax.data.tables.known import RELATION_SUFFIX, EntityTable
from numcoke_jax.data.tail_index import differs_from_previous, places_in_groups
from numcoke_jax.system.errors import UserError, plural, suggestion

PROTOCOLS, DIRECTIONS = choices("data.protocol"), choices("data.direction")
GROUPS = choices("data.groups")
MAX_TRIPLES = 20_000_000  # about 1 GB of names on the way to a graph: more is a mistake or another tool's job


@dataclasses.dataclass(frozen=True)
class ComparisonSettings:
    """How a table becomes a graph; the keys of config.data with the same names.

    Attributes:
      protocol: "complete" compares every ordered pair of a group; "nearest" compares each head with the
        `neighbours` nearest values strictly below it (above it for direction "<") only.
      neighbours: number of tails per head in protocol "nearest".
      direction: ">": (h, r, t) holds when h's value is above t's; "<": when it is below.
      groups: "relation": one group per relation, drawn from the entities that have its value; "common": one
        group for all relations; an entity without a value is in no triple of that field.
      group_size: entities in a group; 0, or more than there are, takes all.
      entities: entities of the table kept, a seeded sample; 0, or more than there are, keeps all.
      split: shares of train, valid and test.
      missing_rate: share of the literals masked.
      negatives_per_pair: known-false tails per (head, relation).
      seed: base of every draw.

    The defaults are those of the benchmark, for tables that the package knows; `OWN_TABLE` has those for
    a user's own.
    """

    protocol: str = "complete"
    neighbours: int = 10
    direction: str = ">"
    groups: str = "relation"
    group_size: int = 60
    entities: int = 0
    split: tuple[float, ...] = (0.1, 0.1, 0.8)
    missing_rate: float = 0.2
    negatives_per_pair: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises UserError naming the setting, what it was and what it may be."""
        for name, allowed in (("protocol", PROTOCOLS), ("direction", DIRECTIONS), ("groups", GROUPS)):
            if getattr(self, name) not in allowed:
                raise UserError(f"{name}: must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        for name, least in (
            ("neighbours", 1),
            ("group_size", 0),
            ("entities", 0),
            ("negatives_per_pair", 0),
            ("seed", 0),
        ):
            check_integer(name, getattr(self, name), least)
        if self.group_size == 1:
            raise UserError(
                "group_size: one entity has no other to be compared with; give 2 or more, or 0 for all"
            )
        if not (is_number(self.missing_rate) and 0 <= self.missing_rate <= 1):
            raise UserError(f"missing_rate: must be in [0, 1], got {self.missing_rate!r}")
        check_shares(self.split)

    def describe(self) -> str:
        """The settings in one line, for notices."""
        nearest = f" ({self.neighbours} neighbours)" if self.protocol == "nearest" else ""
        split = "/".join(f"{share:g}" for share in self.split)
        sample = f", at most {self.entities:,} entities" if self.entities else ""
        return (
            f"protocol {self.protocol}{nearest}{sample}, direction {self.direction}, groups {self.groups} of "
            f"{self.group_size or 'all'}, split {split}, missing rate {self.missing_rate:g}, "
            f"{self.negatives_per_pair} negatives per pair, seed {self.seed}"
        )


# Defaults for a user's own table: every entity, all values shown, most facts to train on.
OWN_TABLE = ComparisonSettings(groups="common", group_size=0, split=(0.8, 0.1, 0.1), missing_rate=0.0)


@dataclasses.dataclass(frozen=True)
class Comparisons:
    """The comparative graph of a table with N entities, M fields; ids are positions in the table's names.

    Attributes:
      relations: names of the relations, sorted.
      splits: int64 [n, 3] facts (entity, relation, entity) of train, valid and test, each sorted by
        (relation, head, tail).
      negatives: int64 [n, 3] triples known to be false, sorted likewise.
      kept: bool [N], the entities of the graph: those in triples and, unless groups were drawn, the others of
        the sample, whose compared values are missing or equal.
      shown: bool [N, M], the cells of kept entities that are observed and not masked.
      masked: number of cells of kept entities that are observed and masked.
      notices: what a user should know, one line each.
    """

    relations: tuple[str, ...]
    splits: dict[str, np.ndarray]
    negatives: np.ndarray
    kept: np.ndarray
    shown: np.ndarray
    masked: int
    notices: tuple[str, ...]


def compare(table: EntityTable, relation_fields: Sequence[str], settings: ComparisonSettings) -> Comparisons:
    """Builds the comparative graph of a table.

    Args:
      table: entities with values.
      relation_fields: fields that each get a relation, in any order.
      settings: see `ComparisonSettings`.

    Raises:
      UserError: an unknown field, too many triples, or none to train on.
    """
    for field in relation_fields:
        if field not in table.fields:
            raise UserError(
                f"relations: {table.name} has no field {field!r}; {suggestion(field, table.fields)}"
            )
    fields = sorted(set(relation_fields), key=lambda field: field + RELATION_SUFFIX)
    columns = [table.fields.index(field) for field in fields]
    sampled = draw(np.arange(len(table.entities)), settings.entities, stream(settings.seed, SAMPLE_STREAM))
    groups = [_group(table, sampled, field, settings) for field in fields]
    _check_size(groups, settings)
    values = table.values[:, columns]
    found, notices = [], []
    for relation, group in enumerate(groups):
        if settings.group_size > len(group):
            notices.append(
                f"{fields[relation]}: the group has {len(group)} of {settings.group_size} entities"
            )
        pairs = compared_pairs(values[group, relation], settings)
        if not len(pairs):
            notices.append(f"{fields[relation]}: no two values differ in its group, so it has no relation")
        heads, tails = group[pairs].T
        found.append(np.stack([heads, np.full(len(pairs), relation), tails], axis=1))
    triples = np.concatenate(found) if found else np.zeros((0, 3), np.int64)  # sorted: groups and pairs are
    splits = split_triples(triples, settings.split, stream(settings.seed, SPLIT_STREAM))
    if not len(splits["train"]):
        count = plural(len(triples), "comparison")
        told = f"{table.name}: {count} {'leaves' if len(triples) == 1 else 'leave'} none for training"
        raise UserError("; ".join([f"{told}; compare more values", *notices]))
    negatives = nearest_negatives(splits["train"], values, settings.negatives_per_pair)
    kept = np.zeros(len(table.entities), bool)
    kept[triples[:, [0, 2]]] = True
    if settings.group_size == 0 or settings.group_size >= len(sampled):
        kept[sampled] = True
    cells = table.observed & kept[:, None]
    shown = mask_cells(cells, settings.missing_rate, stream(settings.seed, MASK_STREAM))
    return Comparisons(
        relations=tuple(field + RELATION_SUFFIX for field in fields),
        splits=splits,
        negatives=negatives,
        kept=kept,
        shown=shown,
        masked=int(cells.sum() - shown.sum()),
        notices=tuple(notices),
    )


def _group(table: EntityTable, sampled: np.ndarray, field: str, settings: ComparisonSettings) -> np.ndarray:
    """int64 ids of the entities that are compared by `field`, sorted; all of them have its value."""
    observed = table.observed[:, table.fields.index(field)]
    if settings.groups == "common":
        members = draw(sampled, settings.group_size, stream(settings.seed, GROUP_STREAM))
        return members[observed[members]]
    return draw(sampled[observed[sampled]], settings.group_size, stream(settings.seed, GROUP_STREAM, field))


def _check_size(groups: Sequence[np.ndarray], settings: ComparisonSettings) -> None:
    """Raises UserError if the groups could make over MAX_TRIPLES triples, with settings that make fewer."""
    largest, count = max(map(len, groups), default=0), len(groups)
    if settings.protocol == "complete":
        triples = sum(len(group) * (len(group) - 1) // 2 for group in groups)
        fits = max((1 + math.isqrt(1 + 8 * MAX_TRIPLES // max(count, 1))) // 2, 2)
        remedy = (
            f"protocol=nearest (each with its {settings.neighbours} nearest values only), entities={fits} or "
            f"group_size={fits}"
        )
        flags = f"--protocol=nearest, --entities={fits}, --group-size={fits}"
    else:
        triples = sum(len(group) * min(settings.neighbours, len(group)) for group in groups)
        fits = max(MAX_TRIPLES // max(count * settings.neighbours, 1), 2)
        remedy = f"fewer neighbours, or entities={fits}"
        flags = f"--neighbours, --entities={fits}"
    if triples > MAX_TRIPLES:
        relations = f"{count} relations" if count > 1 else "1 relation"
        raise UserError(
            f"protocol: {settings.protocol} makes up to {triples:,} comparisons of {largest:,} entities by "
            f"{relations}, more than {MAX_TRIPLES:,}; give {remedy}, or fewer relations (as flags of "
            f"data.build: {flags})"
        )


def compared_pairs(values: np.ndarray, settings: ComparisonSettings) -> np.ndarray:
    """The facts among n entities: int64 [p, 2] positions (head, tail), sorted; equal values make none.

    Args:
      values: float64 [n], each observed.
      settings: protocol, neighbours and direction are used.  If the nearest tails of protocol
        "nearest" have equal values, those at lower positions come first.
    """
    signed = values if settings.direction == ">" else -values
    if settings.protocol == "complete":
        return np.argwhere(signed[:, None] > signed[None, :])
    order = np.lexsort((np.arange(len(signed)), -signed))  # highest value first, then lowest position
    ordered = signed[order]
    # In this order a head's tails are what follows the last entity that has the head's own value.
    first_below = np.searchsorted(-ordered, -ordered, side="right")
    places = first_below[:, None] + np.arange(min(settings.neighbours, len(order)))
    heads, columns = np.nonzero(places < len(order))
    pairs = np.stack([order[heads], order[places[heads, columns]]], axis=1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def sort_triples(triples: np.ndarray) -> np.ndarray:
    """int64 [n, 3] triples sorted by (relation, head, tail)."""
    heads, relations, tails = triples.T
    return triples[np.lexsort((tails, heads, relations))]


def nearest_negatives(train: np.ndarray, values: np.ndarray, per_pair: int) -> np.ndarray:
    """Known-false tails: for each (h, r), the `per_pair` nearest t in value with (t, r, h) in train.

    (t, r, h) makes (h, r, t) false, because a comparison never holds both ways.  Only training facts are
    used: a negative taken from a validation or test fact would give its answer away.

    Args:
      train: int64 [n, 3] training facts.
      values: float64 [N, R], the compared value of each entity and relation.
      per_pair: the largest number of them; if several are equally near, the lower ids come first.

    Returns:
      int64 [m, 3], sorted by (relation, head, tail).
    """
    tails, relations, heads = train.T  # each fact reversed: its head is a false tail of its tail
    with np.errstate(over="ignore"):  # values of both signs near the float64 limit: infinitely far
        distances = np.abs(values[heads, relations] - values[tails, relations])
    order = np.lexsort((tails, distances, heads, relations))
    reversed_triples = np.stack([heads, relations, tails], axis=1)[order]
    first = np.flatnonzero(differs_from_previous(*reversed_triples[:, :2].T))
    places = places_in_groups(np.diff(first, append=len(order)))
    return sort_triples(reversed_triples[places < per_pair])
