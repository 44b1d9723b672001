"""Categorical columns of a table -> facts: a song's artist, a town's state.

A cell says (entity of the row, column, value); an empty one says nothing.  The value is an entity, too:

* if every value of the column names a row, it is that row's entity: a column "manager" links people;
* else it is one of its own, named by the value, or as "column: value" where that alone could be mistaken: if
  the column holds numbers (a 1 of "key" is no 1 of "mode") or shares a name with a row or another column.
"""

import collections
from collections.abc import Collection, Mapping, Sequence

from numcoke_jax.data.tables.cells import MISSING, TableFile, column_numbers
from numcoke_jax.system.errors import UserError, plural, plural_of, shown_name

Facts = tuple[tuple[str, str, str], ...]  # by name


def category_facts(
    file: TableFile, rows: Mapping[str, int], columns: Sequence[str], others: Collection[str] = ()
) -> tuple[Facts, list[str]]:
    """The facts (entity, column, value) of categorical columns, and what they are in words.

    Args:
      file: the table.
      rows: entity -> its row.
      columns: the categorical columns.
      others: names of further entities of the graph.

    Raises:
      UserError: a column is missing or has no value, or "column: value" is the name of an entity.
    """
    entities = {*rows, *others}
    cells = {column: _values(file, column, rows.values()) for column in columns}
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
        found = [(entity, column, names[value]) for entity, value in zip(rows, values, strict=True) if value]
        facts += found
        kind = "of these entities" if links else f"such as {shown_name(names[different[0]])}"
        told = f"{plural(len(found), 'fact')} about {plural(len(different), 'value')}, {kind}"
        empty = len(values) - len(found)
        left = f"; {plural_of(empty, 'entity has', 'entities have')} none" if empty else ""
        notices.append(f"category {column!r}: {told}{left}")
    return tuple(facts), notices


def _values(file: TableFile, column: str, rows: Collection[int]) -> list[str]:
    """The values of a column in some rows, "" for none.

    Raises:
      UserError: there is no such column, or no value in it.
    """
    file.column(column, "categories: ")
    names = file.names(column)
    values = ["" if names[row].strip().lower() in MISSING else names[row].strip() for row in rows]
    if not any(values):
        raise UserError(f"{file.where}: categories: column {column!r} is empty; leave it out")
    return values
