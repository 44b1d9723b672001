"""A table with the attributes of a graph's entities: which columns name them and which are fields."""

import collections
import dataclasses
import itertools
from collections.abc import Sequence, Set

from numcoke_jax.data.tables.cells import TableFile
from numcoke_jax.data.tables.facts import FactChoice, FactTable, joined_names
from numcoke_jax.data.tables.known import EntityTable
from numcoke_jax.data.tables.own import own_table
from numcoke_jax.system.errors import UserError, plural, plural_of, printable, suggestion

FEW_REPEATS, FEW_SHARE = 3, 0.01  # rows that repeat a name, up to which one of each is taken
SEARCHED_COLUMNS = 30  # for columns, and pairs of columns, that are unique
SHOWN_KEYS = 5


def read_attributes(table: TableFile, choice: FactChoice, facts: FactTable) -> EntityTable:
    """The entities of a table with attributes, their numbers and categories.

    Args:
      table: one row per entity.
      choice: its columns: those that name an entity, fields and categories.
      facts: whose heads and tails the names are.

    Raises:
      UserError: a column is missing, names repeat in more than a few rows (with the columns that are unique),
        none of them is in a fact, or no column holds numbers.
    """
    entities, name = set(facts.entities), choice.name
    if not name:
        raise UserError(f"name: give the column of {table.where} with the names; {_best(table, entities)}")
    for column in name:
        if column not in table.columns:
            raise UserError(f"{table.where}: no column {column!r}; {suggestion(column, table.columns)}")
    names = [text for text in joined_names(table, name) if text]
    shown = ", ".join(map(repr, name))
    repeats = len(names) - len(set(names))
    if repeats > max(FEW_REPEATS, FEW_SHARE * len(names)):
        raise UserError(
            f"{table.where}: column {shown} names {plural(len(set(names)), 'thing')} in "
            f"{plural(len(names), 'row')}, such as {printable(repr(_most_frequent(names)))} in several; "
            f"{_unique_columns(table)}"
        )
    shared = entities & set(names)
    if names and not shared:
        raise UserError(
            f"{table.where}: none of the names in column {shown}, such as {printable(repr(names[0]))}, is a "
            f"head or tail in {facts.where}, such as {printable(repr(facts.entities[0]))}; "
            f"{_best(table, entities)}"
        )
    found = own_table(table, name, fields=choice.fields, categories=choice.categories, others=entities)
    for column in choice.categories:
        if column in facts.relations:
            raise UserError(f"categories: {column!r} is a relation of the facts, too; rename the column")
    told, *notices = found.notices
    rows = f"{plural_of(len(shared), 'entity', 'entities')} of the facts have a row"
    told = f"{told}; {rows}, {len(entities) - len(shared):,} do not"
    return dataclasses.replace(found, notices=(told, *notices))


def _best(table: TableFile, entities: Set[str]) -> str:
    """Which column has the names of most entities, in words."""
    shared = {column: len(entities & set(_texts(table, column))) for column in table.columns}
    best = max(shared, key=lambda column: shared[column])
    if not shared[best]:
        return f"no column of {', '.join(map(repr, list(shared)[:20]))} has one of them"
    return f"column {best!r} has {shared[best]:,} of the {plural(len(entities), 'head')} and tails"


def _texts(table: TableFile, column: str) -> list[str]:
    """The names in a column, [] if it holds something that is none."""
    try:
        return table.names(column)
    except UserError:
        return []


def _most_frequent(names: Sequence[str]) -> str:
    return collections.Counter(names).most_common(1)[0][0]


def _unique_columns(table: TableFile) -> str:
    """The columns, or else pairs of columns, whose names are there in every row and differ, in words."""
    columns = {}
    for column in itertools.islice(filter(None, table.columns), SEARCHED_COLUMNS):
        values, observed, wrong, _ = table.numbers(column)
        measured = observed.any() and not wrong and (values % 1 != 0).any()  # 71.3: no name
        texts = [] if measured else _texts(table, column)
        if texts and all(texts):
            columns[column] = texts
    single = [repr(column) for column, texts in columns.items() if len(set(texts)) == table.num_rows]
    pairs = [
        f"{one!r} with {other!r}"
        for one, other in itertools.combinations(columns, 2)
        if not single and len(set(zip(columns[one], columns[other], strict=True))) == table.num_rows
    ]
    found = single or pairs
    if not found:
        return "no column and no pair of columns is unique: merge the rows of an entity into one"
    more = f" and {len(found) - SHOWN_KEYS} more" if len(found) > SHOWN_KEYS else ""
    return f"unique are {', '.join(found[:SHOWN_KEYS])}{more}"
