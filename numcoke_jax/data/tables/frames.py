"""Tables of pandas -> columns of cells, for Python; commands read files."""

import dataclasses
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from numcoke_jax.data.files.numbers import PLAIN, Reading
from numcoke_jax.data.tables.cells import TableFile, read_table, refuse_repeated
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path

Table: TypeAlias = pd.DataFrame | str | Path  # a table of pandas, or where a file with one is


def frame_table(where: str, frame: pd.DataFrame, reading: Reading = PLAIN, index: str = "") -> TableFile:
    """The columns of a pandas table, with their titles as text; `where` is for messages.

    `index` is a title for its labels of rows, if they are more than numbers in turn, and no column has it.

    Raises:
      UserError: it is not a DataFrame, there is no column or row, or two titles are the same text.
    """
    if not isinstance(frame, pd.DataFrame):
        raise UserError(f"{where}: needs a pandas DataFrame or a path, got a {type(frame).__name__}")
    titles = [str(title) for title in frame.columns]
    if not titles or not len(frame):
        raise UserError(f"{where}: has {'column names but no rows' if titles else 'no columns'}")
    refuse_repeated(where, titles)
    columns = {title: frame.iloc[:, place].tolist() for place, title in enumerate(titles)}
    if index and index not in columns and not isinstance(frame.index, pd.RangeIndex):
        columns[index] = frame.index.tolist()
    return TableFile(where, columns, reading)


def given_table(where: str, given: Table, reading: Reading = PLAIN, index: str = "") -> TableFile:
    """The columns of a pandas table (see `frame_table`), or of a file by its path (see `read_table`)."""
    if isinstance(given, str | Path):
        return dataclasses.replace(read_table(home_path(given)), reading=reading)
    return frame_table(where, given, reading, index)
