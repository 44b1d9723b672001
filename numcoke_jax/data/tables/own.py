"""A user's own table: which columns name its entities, and which of them are numeric fields."""

import dataclasses
import os
from collections.abc import Collection, Sequence

from numcoke_jax.data.files.numbers import A_DATE, NEARLY_NUMBERS
from numcoke_jax.data.tables.categories import with_categories
from numcoke_jax.data.tables.cells import SAVED_INDEX, TableFile, describe_cells
from numcoke_jax.data.tables.known import EntityTable, TableSpec, entity_table, parse_hint
from numcoke_jax.system.errors import UserError, suggestion

SHOWN_COLUMNS = 8  # in the notice of columns without a number


def own_table(
    table: TableFile,
    name: Sequence[str],
    relations: Sequence[str] = (),
    fields: Sequence[str] = (),
    categories: Sequence[str] = (),
    others: Collection[str] = (),
) -> EntityTable:
    """The entities of a table, their numbers and categories.

    Args:
      table: one row per entity.
      name: the columns that name it, joined by ", ".
      relations: columns of numbers that are compared, and are fields, too.
      fields: further columns of numbers; (): every column that holds numbers only and is no category.
      categories: columns that become facts; see `categories.py`.
      others: names of further entities of the graph.

    Raises:
      UserError: a column is missing or holds something else, or there is no column of numbers.
    """
    for column in (*name, *relations, *fields):
        if column not in table.columns:
            raise UserError(f"{table.where}: no column {column!r}; {suggestion(column, table.columns)}")
    stored, notices = tuple(fields), list[str]()
    if not fields:
        stored, notices = numeric_columns(table, (*name, *relations, *categories))
    every = tuple(dict.fromkeys((*relations, *stored)))
    if not every:
        why = "".join(f"; {notice}" for notice in notices)
        raise UserError(f"{table.where}: no column holds numbers only; name some as fields or relations{why}")
    title = os.path.basename(table.where)
    spec = TableSpec(title, (), "", tuple(name), ", ".join(["{}"] * len(name)), every, every)
    found = entity_table(spec, table)
    notices.insert(0, f"{title}: fields {', '.join(every)}")
    found = dataclasses.replace(found, notices=(*notices, *found.notices))
    return with_categories(found, table, categories, others)


def numeric_columns(file: TableFile, taken: Collection[str]) -> tuple[tuple[str, ...], list[str]]:
    """The columns that hold numbers and missing cells only, and notices about those left out.

    Columns in `taken` and those without a name are ignored.  A column with some numbers and some other
    cells, with nothing but numbers in another notation, or with an index that pandas saved has a notice of
    its own; columns of dates share one, and so do those of text.
    """
    found, notices, text, dated = [], [], [], []
    for column, cells in file.columns.items():
        if column in taken or not column:
            continue
        if SAVED_INDEX.fullmatch(column):
            notices.append(
                f"column {column!r} left out: an index that pandas saved; ask for it by name if it is a field"
            )
            continue
        _, observed, wrong, _ = file.numbers(column)
        if wrong and (observed.any() or NEARLY_NUMBERS.issuperset(wrong.values())):
            notices.append(
                f"column {column!r} left out: not only numbers, {describe_cells(cells, wrong, most=1)}"
                f"{parse_hint(file, column)}"
            )
        elif observed.any():
            found.append(column)
        elif wrong and {A_DATE}.issuperset(wrong.values()):
            dated.append(repr(column))
        elif wrong:
            text.append(repr(column))
    if dated:
        notices.append(
            f"left out, with dates: {', '.join(dated)}; dates=year or dates=days makes them numbers"
        )
    if text:
        more = f" and {len(text) - SHOWN_COLUMNS} more" if len(text) > SHOWN_COLUMNS else ""
        notices.append(f"left out, without any number: {', '.join(text[:SHOWN_COLUMNS])}{more}")
    return tuple(found), notices
