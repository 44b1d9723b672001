"""Signs that a file does not mean what it was read as: columns in another order, names of another kind.

Nothing here is an error, since no rule can tell a rare graph from a mistaken file; each is a question, asked
before the counts.

* Fact files hold head, relation, tail.  Where entities stand in the middle, the middle column has more names
  than one of the outer columns (which then holds the relations), and either most of them are names of that
  other outer column, or there are many times more of them.  Numbers as names do not count by themselves: in
  files of ids, relation 3 and entity 3 are called alike.
* Literals belong to entities by name.  A namespace on one side only (`Town_1`, `<http://example.org/Town_1>`,
  `ex:Town_1`; `/m/0abc` and `m.0abc`), or the field before the entity, leaves none that do.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.data.graph import HEAD, RELATION, SPLITS, TAIL
from numcoke_jax.system.errors import plural, plural_of, shown_name

COLUMNS = ("first", "middle", "last")
ORDERS = {HEAD: "relation, head, tail", TAIL: "head, tail, relation"}  # by where the relations seem to be
MOSTLY = 0.5  # share of names from which they are taken for entities
MANY_TIMES = 10  # more names in the middle than outside, if they are no names of the other column
FEWEST = 3  # names in the middle: with fewer, anything goes


def column_order(
    facts: Mapping[str, np.ndarray], entities: Sequence[str], relations: Sequence[str]
) -> list[str]:
    """At most one question about the order of the columns of the fact files.

    Args:
      facts: split -> int32 [n, 3] facts.
      entities, relations: names in id order.
    """
    every = np.concatenate([facts[split] for split in SPLITS])
    used = [np.unique(every[:, column]) for column in (HEAD, TAIL)]
    counts = {HEAD: len(used[0]), TAIL: len(used[1])}
    few = min(counts, key=lambda column: counts[column])
    names = len(relations)
    if names < FEWEST or names <= counts[few]:
        return _other_order(facts, entities, relations)
    outside = {entities[entity] for entity in (used[1] if few == HEAD else used[0]).tolist()}
    shared = sum(name in outside for name in relations)
    if shared < MOSTLY * names and names < MANY_TIMES * counts[few]:
        return _other_order(facts, entities, relations)
    where = COLUMNS[HEAD + TAIL - few]
    what = f"{shared:,} of its {names:,} names also stand in the {where} one, and " if shared else ""
    return [
        f"the middle column looks like entities: {what}it has {names:,} different names, the {COLUMNS[few]} "
        f"column {counts[few]:,}; each line needs head, relation, tail: are the columns in another order "
        f"({ORDERS[few]})? numcoke data convert --order={ORDERS[few].replace(' ', '')} puts them right"
    ]


def _other_order(
    facts: Mapping[str, np.ndarray], entities: Sequence[str], relations: Sequence[str]
) -> list[str]:
    """A question about each split whose middle column holds entities of the training facts instead."""
    train, asked = facts["train"], []
    known = {entities[entity] for entity in np.unique(train[:, [HEAD, TAIL]]).tolist()}
    trained = np.unique(train[:, RELATION])
    for split in SPLITS[1:]:
        unseen = facts[split][~np.isin(facts[split][:, RELATION], trained)]
        wrong = sum(relations[relation] in known for relation in unseen[:, RELATION].tolist())
        if wrong and wrong >= MOSTLY * len(facts[split]):
            asked.append(
                f"the middle column of {split}.txt looks like entities: {wrong:,} of its "
                f"{plural(len(facts[split]), 'fact')} have a relation that train.txt knows as an entity; are "
                "its columns in another order?"
            )
    return asked


def literal_names(
    rows: int,
    unknown_rows: int,
    unknown: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    swapped: Sequence[str],
) -> list[str]:
    """At most one question about literals whose entities the facts do not have.

    Args:
      rows, unknown_rows: of the literal file, and of entities that no fact mentions.
      unknown: these entities.
      pairs: (one of them, the entity that it seems to be).
      swapped: names of the second column that are entities of the facts.
    """
    if not unknown_rows:
        return []
    example = ""
    if pairs:
        first = f"{shown_name(pairs[0][0])} there, {shown_name(pairs[0][1])} in the facts"
        example = f"; {plural(len(pairs), 'name')} would fit otherwise, such as {first}: write them alike"
    names = plural_of(len(unknown), "entity", "entities")
    if unknown_rows == rows:
        if swapped and not pairs:
            example = (
                f"; {plural(len(swapped), 'name')} of the second column are entities, such as "
                f"{shown_name(swapped[0])}: each line needs entity, field, value"
            )
        return [
            f"literals: NO row belongs to an entity of the facts: {plural(rows, 'row')} of {names} ignored, "
            f"and the graph has no numeric fields{example}"
        ]
    if len(pairs) >= MOSTLY * len(unknown) and unknown_rows > MOSTLY * rows:
        belong = f"only {rows - unknown_rows:,} of {plural(rows, 'row')} belong to an entity of the facts"
        return [f"literals: {belong}{example}"]
    return []


def find_namespace_misses(
    unknown: pa.Array, entities: pa.Array, *, bare: bool = False
) -> tuple[tuple[str, str], ...]:
    """Pairs (unknown name, entity) that differ in their namespace only.

    Args:
      unknown, entities: arrays of strings, without a name in common.
      bare: only pairs of which one name has no namespace; others may be two things (actor:Ada, town:Ada).
    """
    if not len(unknown) or not len(entities):
        return ()
    local, known = _local_names(unknown), _local_names(entities)
    near = entities.take(pc.index_in(local, value_set=known))
    near_local = known.take(pc.index_in(local, value_set=known))
    pairs = zip(unknown.to_pylist(), near.to_pylist(), near_local.to_pylist(), strict=True)
    return tuple(
        (name, entity)
        for name, entity, rest in pairs
        if entity is not None and rest and (not bare or rest in (name, entity))
    )


def _local_names(names: pa.Array) -> pa.Array:
    """What follows a name's last `/`, `#` or `:`, without brackets; also after the m. of Freebase."""
    trimmed = pc.utf8_trim(names, "<>/#")
    return pc.replace_substring_regex(pc.replace_substring_regex(trimmed, r"^.*[/#:]", ""), r"^[mg]\.", "")
