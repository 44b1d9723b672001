"""Categorical columns of a table -> facts: a song's artist, a town's state.

A cell says (entity of the row, column, value); an empty one says nothing.  The value is an entity, too:

* if every value of the column names a row, it is that row's entity: a column "manager" links people;
* else it is one of its own, named by the value, or as "column: value" where that alone could be mistaken: if
  the column holds numbers (a 1 of "key" is no 1 of "mode") or shares a name with a row or another column.
"""

import collections
import dataclasses
from collections.abc import Collection, Sequence

from numcoke_jax.data.tables.cells import MISSING, TableFile, column_numbers
from numcoke_jax.data.tables.known import EntityTable
from numcoke_jax.system.errors import UserError, plural, plural_of, shown_name, suggestion


def with_categories(
    table: EntityTable, file: TableFile, columns: Sequence[str], others: Collection[str] = ()
) -> EntityTable:
    """The entities of a table with the facts of its categorical columns, and what they are in words.

    Args:
      table: the entities of `file`.
      file: the table.
      columns: its categorical columns.
      others: names of further entities of the graph.

    Raises:
      UserError: a column is missing or has no value, or "column: value" is the name of an entity.
    """
    for column in columns:
        if column not in file.columns:
            raise UserError(
                f"{file.where}: categories: no column {column!r}; {suggestion(column, file.columns)}"
            )
    entities = {*table.entities, *others}
    cells = {column: _values(table, file, column) for column in columns}
    shared = collections.Counter(value for values in cells.values() for value in {*values} - {""})
    facts, notices = [], []
    for column, values in cells.items():
        different = sorted({*values} - {""})
        links = entities.issuperset(different)
        numbers = bool(column_numbers(different).observed.all())
        plain = links or not (numbers or any(value in entities or shared[value] > 1 for value in different))
        names = {value: value if plain else f"{column}: {value}" for value in different}
        taken = [] if links else sorted(entities & {*names.values()})
        if taken:
            raise UserError(
                f"{file.where}: categories: {shown_name(taken[0])} would be a value of {column!r} and is an "
                "entity already; rename the column"
            )
        rows = [(entity, names[value]) for entity, value in zip(table.entities, values, strict=True) if value]
        facts += [(entity, column, name) for entity, name in rows]
        kind = "of these entities" if links else f"such as {shown_name(names[different[0]])}"
        told = f"{plural(len(rows), 'fact')} about {plural(len(different), 'value')}, {kind}"
        empty = len(values) - len(rows)
        left = f"; {plural_of(empty, 'entity has', 'entities have')} none" if empty else ""
        notices.append(f"{table.name}: category {column!r}: {told}{left}")
    return dataclasses.replace(table, categories=tuple(facts), notices=(*table.notices, *notices))


def _values(table: EntityTable, file: TableFile, column: str) -> list[str]:
    """The value of each entity, "" without one; raises UserError if no entity has one."""
    names = file.names(column)
    values = [names[row].strip() for row in table.rows]
    values = ["" if value.lower() in MISSING else value for value in values]
    if not any(values):
        raise UserError(f"{file.where}: categories: column {column!r} is empty; leave it out")
    return values
