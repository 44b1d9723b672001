"""Columns of a user's own table: which of them are numeric fields."""

from collections.abc import Collection

from numcoke_jax.data.files.numbers import NEARLY_NUMBERS
from numcoke_jax.data.tables.cells import SAVED_INDEX, TableFile, column_numbers, describe_cells

SHOWN_COLUMNS = 8  # in the notice of columns without a number


def numeric_columns(file: TableFile, taken: Collection[str]) -> tuple[tuple[str, ...], list[str]]:
    """The columns that hold numbers and missing cells only, and notices about those left out.

    Columns in `taken` and those without a name are ignored.  A column with some numbers and some other
    cells, with nothing but numbers in another notation, or with an index that pandas saved has a notice of
    its own; columns of text, dates or truth values share one.
    """
    found, notices, text = [], [], []
    for column, cells in file.columns.items():
        if column in taken or not column:
            continue
        if SAVED_INDEX.fullmatch(column):
            notices.append(
                f"column {column!r} left out: an index that pandas saved; ask for it by name if it is a field"
            )
            continue
        _, observed, wrong = column_numbers(cells)
        if wrong and (observed.any() or NEARLY_NUMBERS.issuperset(wrong.values())):
            notices.append(
                f"column {column!r} left out: not only numbers, {describe_cells(cells, wrong, most=1)}"
            )
        elif observed.any():
            found.append(column)
        elif wrong:
            text.append(repr(column))
    if text:
        more = f" and {len(text) - SHOWN_COLUMNS} more" if len(text) > SHOWN_COLUMNS else ""
        notices.append(f"left out, without any number: {', '.join(text[:SHOWN_COLUMNS])}{more}")
    return tuple(found), notices
