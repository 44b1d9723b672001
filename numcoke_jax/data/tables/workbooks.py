"""The bytes of a parquet or xlsx file -> titles and columns of cells.

A few bytes of such a file can stand for a billion cells.  What needs more memory than `packed.refuse_bomb`
allows, at 8 bytes for a cell, is refused before it is read.
"""

import contextlib
import importlib.util
import io
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from numcoke_jax.data.files.packed import refuse_bomb
from numcoke_jax.system.errors import LONGEST_REASON, UserError, printable

CELL_BYTES = 8  # of a list of cells, at least


def parquet_columns(path: Path) -> tuple[list[str], list[list[Any]]]:
    """Titles, which may repeat, and columns.

    Raises:
      UserError: it is no parquet file, or a column cannot be read.
      OSError: the file cannot be read, or is too large for its size.
    """
    data = path.read_bytes()
    try:
        with pq.ParquetFile(io.BytesIO(data)) as file:  # pq.read_table cannot read columns that share a name
            about = file.metadata
            groups = [about.row_group(place).total_byte_size for place in range(about.num_row_groups)]
            cells = about.num_rows * about.num_columns
            refuse_bomb(max(sum(groups), CELL_BYTES * cells), len(data))
            texts = [about.schema.column(place).path for place in range(about.num_columns)]
        with pq.ParquetFile(io.BytesIO(data), read_dictionary=texts) as file:
            table = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(
            f"{path}: is not a parquet file that can be read ({reason_of(error)}); save it anew"
        ) from None
    names = table.column_names
    return names, [_cells(path, name, column) for name, column in zip(names, table.columns, strict=True)]


def _cells(path: Path, name: str, column: pa.ChunkedArray) -> list[Any]:
    """The cells of a column; bytes as text if all of them are UTF-8, as many programs store text so."""
    cells: list[Any] = []
    try:
        for chunk in column.chunks:
            if pa.types.is_dictionary(chunk.type):  # one object for all cells of a value
                values = [*chunk.dictionary.to_pylist(), None]
                cells += [values[-1 if place is None else place] for place in chunk.indices.to_pylist()]
            else:
                cells += chunk.to_pylist()
    except (ValueError, OverflowError) as error:  # such as a time after the year 9999
        raise UserError(f"{path}: column {name!r} cannot be read ({error}); leave it out") from None
    if any(isinstance(cell, bytes) for cell in cells):
        with contextlib.suppress(UnicodeDecodeError):
            return [cell if cell is None else cell.decode() for cell in cells]
    return cells


def xlsx_rows(path: Path) -> list[list[Any]]:
    """The rows of the first sheet, all of one length, without what is empty at the right and at the end.

    Empty cells are None, and so are those of a formula that fails.

    Raises:
      UserError: openpyxl is not installed, or it is no xlsx file.
      OSError: the file cannot be read, or is too large for its size.
    """
    if importlib.util.find_spec("openpyxl") is None:
        raise UserError(f"{path}: xlsx needs openpyxl: pip install openpyxl, or save the table as csv")
    data = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            refuse_bomb(sum(member.file_size for member in archive.infolist()), len(data))
        rows = _rows_of_first_sheet(data)
    except OSError:
        raise
    except Exception as error:  # whatever the many readers of zip and XML let through
        raise UserError(f"{path}: is not a readable xlsx file ({reason_of(error)}); save it anew") from None
    width = max(map(len, rows), default=0)
    for row in rows:
        row += [None] * (width - len(row))
    return rows


def _rows_of_first_sheet(data: bytes) -> list[list[Any]]:
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    sheet = book.worksheets[0]
    sheet.reset_dimensions()  # what a file says of its size is often wrong
    rows: list[list[Any]] = []
    width, empty = 0, 0
    for found in sheet.rows:
        row = [None if cell.data_type == "e" else cell.value for cell in found]
        while row and row[-1] is None:
            row.pop()
        if not row:
            empty += 1
            continue
        width = max(width, len(row))
        refuse_bomb(CELL_BYTES * width * (len(rows) + empty + 1), len(data))
        rows += [[] for _ in range(empty)]
        rows.append(row)
        empty = 0
    book.close()
    return rows


def reason_of(error: BaseException) -> str:
    """What another library says of a file, on one line."""
    text = next(iter(str(error).splitlines()), "")
    return printable(text or type(error).__name__, LONGEST_REASON)
