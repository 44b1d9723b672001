"""A table with the attributes of a graph's entities: which columns name them and which are fields."""

import dataclasses
from collections.abc import Set

from numcoke_jax.data.tables.cells import TableFile
from numcoke_jax.data.tables.facts import FactChoice, FactTable, joined_names
from numcoke_jax.data.tables.known import EntityTable
from numcoke_jax.data.tables.own import column_texts, own_table, with_index
from numcoke_jax.system.errors import UserError, plural, plural_of, printable


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
    table = with_index(table, name)
    if not name:
        raise UserError(f"name: give the column of {table.where} with the names; {_best(table, entities)}")
    for column in name:
        table.column(column)
    names = [text for text in joined_names(table, name) if text]
    shown = ", ".join(map(repr, name))
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
    has = plural_of(len(shared), "entity of the facts has", "entities of the facts have")
    told = f"{told}; {has} a row, {len(entities) - len(shared):,} not"
    return dataclasses.replace(found, notices=(told, *notices))


def _best(table: TableFile, entities: Set[str]) -> str:
    """Which column has the names of most entities, in words."""
    shared = {column: len(entities & set(column_texts(table, column))) for column in table.columns}
    best = max(shared, key=lambda column: shared[column])
    if not shared[best]:
        return f"no column of {', '.join(map(repr, list(shared)[:20]))} has one of them"
    return f"column {best!r} has {shared[best]:,} of the {plural(len(entities), 'head')} and tails"
