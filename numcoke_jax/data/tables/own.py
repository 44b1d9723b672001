"""A user's own table: which columns name its entities, and which of them are numeric fields."""

import collections
import dataclasses
import itertools
import os
from collections.abc import Collection, Sequence

import numpy as np

from numcoke_jax.data.files.dates import UNITS
from numcoke_jax.data.files.numbers import A_DATE, NEARLY_NUMBERS, NO_DATE_READ, Reading
from numcoke_jax.data.tables.categories import category_facts
from numcoke_jax.data.tables.cells import SAVED_INDEX, TableFile, cell_text, column_numbers, describe_cells
from numcoke_jax.data.tables.known import EntityTable, TableSpec, entity_table, joined_names, parse_hint
from numcoke_jax.system.errors import UserError, first_of, plural, printable

SHOWN_COLUMNS = 8  # in the notice of columns without a number
INDEX = "index"  # as a name column that the table does not have: the number of the row
# Of n rows, max(1, min(3, n / 10), n / 100) may repeat a name: one of each is taken.
FEW_REPEATS, FEW_SHARE, LARGE_SHARE = 3, 0.1, 0.01
SEARCHED_COLUMNS = 30  # for columns, and pairs of columns, that are unique; ...
FEW_COLUMNS = 8  # ... and for three of them
SHOWN_KEYS = 5


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
      name: the columns that name it, joined by ", "; "index" in a table without one: row 1, row 2 and so on.
      relations: columns of numbers that are compared, and are fields, too.
      fields: further columns of numbers; (): every column that holds numbers only and is no category.
      categories: columns that become facts; see `categories.py`.
      others: names of further entities of the graph.

    Raises:
      UserError: a column is missing or holds something else, there is no column of numbers, or names repeat
        in more than a few rows (with the columns that are unique).
    """
    table = with_index(table, name)
    for column in (*name, *relations, *fields):
        table.column(column)
    _check_repeats(table, name)
    stored, notices = tuple(fields), list[str]()
    if not fields:
        stored, notices = numeric_columns(table, (*name, *relations, *categories))
    every = tuple(dict.fromkeys((*relations, *stored)))
    if not (every or (categories and others)):
        why = "".join(f"; {notice}" for notice in notices)
        use = (
            "name columns of texts as categories, or leave the attributes out"
            if others
            else "a table becomes a graph by comparing numbers; if its rows are facts, give it as facts "
            "(numcoke data build --facts, NumericKG.from_facts)"
        )
        raise UserError(f"{table.where}: no column holds numbers only; {use}{why}")
    for column in (name for name in every if _holds_text(table, name)):
        raise UserError(
            f"{table.where}: column {column!r} must hold plain numbers or empty cells, "
            f"got {describe_cells(table.columns[column], table.numbers(column).wrong)}; a column of text is "
            f"no field: categories={printable(column)} makes facts of it"
        )
    title = os.path.basename(table.where)
    spec = TableSpec(title, (), "", tuple(name), ", ".join(["{}"] * len(name)), every, every)
    found = entity_table(spec, table)
    notices.insert(0, f"{title}: fields {', '.join(every) or 'none'}")
    found = dataclasses.replace(found, notices=(*notices, *found.notices))
    return with_categories(found, table, categories, others)


def _holds_text(table: TableFile, column: str) -> bool:
    """Whether a column has no number, and no cell that is one, or a date, in another notation."""
    found = table.numbers(column)
    near = {A_DATE, NO_DATE_READ, *NEARLY_NUMBERS}.intersection(found.wrong.values())
    return bool(found.wrong) and not found.observed.any() and not near


def refuse_hidden(table: TableFile, hidden: Sequence[str], fields: Collection[str], where: str) -> None:
    """Raises UserError for the first of `hidden` that is a column but no field, with the reason."""
    name = next((name for name in hidden if name not in fields and name in table.columns), None)
    if name is None:
        return
    cells, (_, observed, wrong, _) = table.columns[name], table.numbers(name)
    why = "is not among the fields, which fields=COLUMN,... may name" if observed.any() else "holds no value"
    if _holds_text(table, name):
        texts = [text for text in column_texts(table, name) if text]
        why = (
            f"holds text ({len(set(texts)):,} different, such as {printable(repr(texts[0]))}) and is no field"
        )
    elif wrong:
        why = f"does not hold numbers only, {describe_cells(cells, wrong, most=1)}{parse_hint(table, name)}"
    raise UserError(f"{where}: column {name!r} {why}; no model is given it anyway: leave it out of {where}")


def compared_fields(table: EntityTable, relations: Sequence[str]) -> tuple[EntityTable, tuple[str, ...]]:
    """The fields that get a relation: `relations`, or else every field with more than two values.

    Facts about a field with two values lead from all entities with one to all with the other: they are no
    order to infer.  A notice of the table names such fields, unless there is no other.
    """
    if relations:
        return table, tuple(relations)
    cells = zip(table.fields, table.values.T, table.observed.T, strict=True)
    of_two = [field for field, values, known in cells if len(np.unique(values[known])) == 2]
    compared = tuple(field for field in table.fields if field not in of_two)
    if not of_two or not compared:
        return table, table.fields
    notice = f"{table.name}: not compared, as there are two values only: {', '.join(of_two)}"
    notice += "; relations=COLUMN,... compares what it names"
    return dataclasses.replace(table, notices=(*table.notices, notice)), compared


def with_categories(
    table: EntityTable, file: TableFile, columns: Sequence[str], others: Collection[str] = ()
) -> EntityTable:
    """The entities of `file` with the facts of its categorical columns; see `category_facts`."""
    entities = dict(zip(table.entities, table.rows, strict=True))
    facts, notices = category_facts(file, entities, columns, others)
    told = (f"{table.name}: {notice}" for notice in notices)
    return dataclasses.replace(table, categories=facts, notices=(*table.notices, *told))


def with_index(table: TableFile, name: Sequence[str]) -> TableFile:
    """The table with the numbers of its rows as a column, if that is what names its entities."""
    if INDEX not in name or INDEX in table.columns:
        return table
    rows = [f"row {number}" for number in range(1, table.num_rows + 1)]
    return dataclasses.replace(table, columns={**table.columns, INDEX: rows})


def _check_repeats(table: TableFile, name: Sequence[str]) -> None:
    """Raises UserError if more than a few rows repeat a name, and would be left out."""
    names = [text for text in joined_names(table, name) if text]
    repeats = len(names) - len(set(names))
    allowed = max(1, min(FEW_REPEATS, FEW_SHARE * len(names)), LARGE_SHARE * len(names))
    if repeats > allowed:
        column, verb = ("columns", "name") if len(name) > 1 else ("column", "names")
        repeated = collections.Counter(names).most_common(1)[0][0]
        raise UserError(
            f"{table.where}: {column} {', '.join(map(repr, name))} {verb} {plural(len(set(names)), 'thing')} "
            f"in {plural(len(names), 'row')}, such as {printable(repr(repeated))} in several; "
            f"{_unique_columns(table, name, allowed)}"
        )


def column_texts(table: TableFile, column: str) -> list[str]:
    """The names in a column, [] if it holds something that is none."""
    try:
        return table.names(column)
    except UserError:
        return []


def _unique_columns(table: TableFile, name: Sequence[str], allowed: float) -> str:
    """The columns, or else two or three together, whose names are there in every row and differ, in words.

    A number or a date names nothing where texts, with those that were chosen, do.

    Args:
      table: any table.
      name: the columns that do not.
      allowed: rows that may repeat a name.
    """
    columns, texts_first = {}, list(name)
    for column in itertools.islice(filter(None, table.columns), SEARCHED_COLUMNS):
        values, observed, wrong, _ = table.numbers(column)
        measured = observed.any() and not wrong and (values % 1 != 0).any()  # 71.3: no name
        texts = [] if measured else column_texts(table, column)
        if texts and all(texts):
            columns[column] = texts
            if column not in name and not observed.any() and A_DATE not in wrong.values():
                texts_first.append(column)
    texts_first = [column for column in texts_first if column in columns]
    every = [*texts_first, *(column for column in columns if column not in texts_first)]
    number = f'or name="{INDEX}", the number of the row'
    tries = (*itertools.product((0, allowed), (1, 2)), (0, 3), (allowed, 3))
    for first, (limit, count) in itertools.product((texts_first, every), tries):
        searched = first[: SEARCHED_COLUMNS if count < 3 else FEW_COLUMNS]
        repeats = {
            chosen: table.num_rows - len(set(zip(*(columns[column] for column in chosen), strict=True)))
            for chosen in itertools.combinations(searched, count)
        }
        found = [chosen for chosen, rows in repeats.items() if rows <= limit]
        if found:
            listed = first_of([" with ".join(map(repr, chosen)) for chosen in found], SHOWN_KEYS)
            most = max(repeats[chosen] for chosen in found)
            but = f", but for {plural(most, 'row')}" if most else ""
            return f"unique are {listed}{but}; {number}"
    return f"no three columns together are unique: merge the rows of an entity into one; {number}"


def numeric_columns(file: TableFile, taken: Collection[str]) -> tuple[tuple[str, ...], list[str]]:
    """The columns that hold numbers and missing cells only, and notices about those left out.

    Columns in `taken` and those without a name are ignored.  A column with some numbers and some other
    cells, with nothing but numbers in another notation, or with an index that pandas saved has a notice of
    its own; columns of dates share one, and so do those of text.
    """
    found, notices, text = list[str](), list[str](), list[str]()
    dated, unread = list[str](), list[str]()
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
        elif wrong and {A_DATE, NO_DATE_READ}.issuperset(wrong.values()):
            (unread if _unread(file, column) else dated).append(repr(column))
        else:
            text.append(repr(column))
    if dated:
        notices.append(
            f"left out, with dates: {', '.join(dated)}; dates=year or dates=days makes them numbers"
        )
    if unread:
        notices.append(
            f"left out, with dates that can be read in two ways: {', '.join(unread)}; write 2001-03-14"
        )
    if text:
        notices.append(f"left out, without any number: {first_of(text, SHOWN_COLUMNS)}")
    return tuple(found), notices


def _unread(file: TableFile, column: str) -> bool:
    """Whether a column of dates has some that no reading of dates takes."""
    reading = Reading(file.reading.dates or UNITS[0])
    return bool(column_numbers(file.columns[column], reading).wrong)


def no_text(name: object) -> str:
    """The message about something given as a name that is not text, with the name that it would make."""
    given, text = printable(repr(name)), printable(repr(cell_text(name) or str(name)))
    return f"a name must be text, got {given}: give {text} if that is the name"
