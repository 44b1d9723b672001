"""The bytes of a table file (csv, tsv, parquet, xlsx) -> columns of cells -> names and numbers.

Text cells stay text to the letter: nothing is taken for a number, a date or a missing value before
a caller asks for one.  `column_names` and `column_numbers` are the only two readings of a cell; which texts
and dates are numbers is said by the table's `Reading`.
"""

import collections
import contextlib
import csv
import dataclasses
import datetime
import gzip
import io
import itertools
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.data.files.numbers import A_DATE, PLAIN, Reading, parse_number, parse_values
from numcoke_jax.data.files.packed import GZIP_MAGIC, gunzipped, is_content, opened_member
from numcoke_jax.data.tables.workbooks import parquet_columns, reason_of, xlsx_rows
from numcoke_jax.system.errors import UserError, first_of, printable, suggestion

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet", ".xlsx")
# Texts that say "no value", compared without case and outer white space, as an empty cell does.
MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?", "-"})
TRUTHS = {"true": True, "false": False, "yes": True, "no": False}
TRUTHS_READ = "truth values read as 1 and 0"
SEPARATORS = (",", ";", "\t", "|")
DECLARED_SEPARATOR = re.compile(r"""("?)sep=(?P<separator>[^\w"\r\n])\1[\r\n]""", re.IGNORECASE)  # as Excel's
ROWS_AT_ONCE = 4096
SHORT = 8  # characters of a cell; there are few different ones beside the memory that a longer one takes
SAMPLED_ROWS = 50  # of a text file whose header leaves the separator open
LARGEST_CELL = 2**31 - 1  # characters; the csv module's limit has 32 bits on some systems
# Titles of a saved index of pandas, read back as a column: by parquet, by csv, by csv several times over.
SAVED_INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0(\.\d+)*")
WHOLE = re.compile(r"(0|-?[1-9][0-9]*)\.0")
UNWRITABLE = re.compile(r"[\t\n\r\0]+")


class Numbers(NamedTuple):
    """A column of n cells as numbers.

    Attributes:
      values: float64 [n], 0 where there is none.
      observed: bool [n].
      wrong: the position of each cell that is neither a number nor missing, and why.
      converted: what was rewritten to be a number, in words -> number of cells.
    """

    values: np.ndarray
    observed: np.ndarray
    wrong: dict[int, str]
    converted: dict[str, int]


@dataclasses.dataclass(frozen=True)
class TableFile:
    """Columns of a table by name, in file order, each with one cell per row; `where` is for messages.

    A cell is a string in csv and tsv; parquet and xlsx also hold numbers, dates and None, parquet bytes
    that are not UTF-8.  `reading` says which of them are numbers.
    """

    where: str
    columns: dict[str, list[Any]]
    reading: Reading = PLAIN

    @property
    def num_rows(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def column(self, name: str, use: str = "") -> list[Any]:
        """The cells of column `name`.

        Raises:
          UserError: there is none; with the closest column name, behind `use`, such as "split: ".
        """
        if name not in self.columns:
            raise UserError(f"{self.where}: {use}no column {name!r}; {suggestion(name, self.columns)}")
        return self.columns[name]

    def names(self, name: str) -> list[str]:
        """`column_names` of column `name`; raises UserError with its title for a cell that is not a name."""
        cells = self.column(name)
        try:
            return column_names(cells)
        except UserError as error:
            raise UserError(f"{self.where}: column {name!r}: {error}") from None

    def numbers(self, name: str) -> Numbers:
        """`column_numbers` of column `name`."""
        return column_numbers(self.column(name), self.reading)


def table_suffix(path: Path) -> str:
    """How the name of a table file ends, without .gz, in lower case; "" if it is not one's."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
        return suffix if suffix in TEXT_SUFFIXES else ""
    return suffix if suffix in (*SUFFIXES, ".zip") else ""


def read_table(path: str | Path) -> TableFile:
    """Reads a csv, tsv, parquet or xlsx file (its first sheet); csv and tsv also as .gz, or alone in a .zip.

    Text is UTF-8 with or without a byte order mark, with LF, CRLF or CR line ends, and quoted as csv
    files are; a .csv may be separated by commas, semicolons, tabs or bars, whichever give each row as
    many cells, or by what its first line says as in `sep=;`.  The first row names the columns; lines of
    nothing but white space are skipped.

    Raises:
      UserError: the file is missing, unreadable, of an unknown kind, not UTF-8, empty, or has rows with
        another number of cells than the header, or column names that repeat.
    """
    path = Path(path)
    if os.path.isdir(path):
        raise UserError(f"{path}: is a folder; give the path of a table file")
    suffix = table_suffix(path)
    if not suffix:
        endings = f"{', '.join(SUFFIXES)} (csv and tsv also .gz, .zip)"
        raise UserError(f"{path}: a table's name ends in {endings}; save it as one of them")
    try:
        if suffix == ".parquet":
            return _from_columns(path, *parquet_columns(path))
        if suffix == ".xlsx":
            return _from_rows(path, xlsx_rows(path))
        name, data = _text_bytes(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; give the path of a table") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or reason_of(error)})") from None
    return _read_text(path, _decode(path, data), tabs=Path(name).suffix.lower() in (".tsv", ".tab"))


def _text_bytes(path: Path) -> tuple[str, bytes]:
    """The name and bytes of the text file at `path` or inside it (.gz, .zip)."""
    data = path.read_bytes()
    suffix = path.suffix.lower()
    try:
        # A browser or a mail program may have dropped the .gz.
        if suffix == ".gz" or data.startswith(GZIP_MAGIC):
            with gunzipped(io.BytesIO(data)) as text:
                return path.stem if suffix == ".gz" else path.name, text.read()
        if suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = [
                    member
                    for member in archive.infolist()
                    if member.filename.lower().endswith(TEXT_SUFFIXES) and is_content(member.filename)
                ]
                if len(members) != 1:
                    raise UserError(f"{path}: holds {len(members)} csv or tsv files, must be 1; unpack it")
                with opened_member(archive, members[0]) as text:
                    return members[0].filename, text.read()
    except (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path}: damaged archive ({error}); fetch it again") from None
    except (RuntimeError, NotImplementedError) as error:  # a password, a rare compression
        raise UserError(f"{path}: cannot be unpacked here ({error}); unpack it and give the table") from None
    return path.name, data


def _decode(path: Path, data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise UserError(f"{path}: is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\r|\n", data[: error.start])) + 1
        byte = data[error.start]
        raise UserError(f"{path}:{line}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8") from None


def _read_text(path: Path, text: str, *, tabs: bool) -> TableFile:
    header: list[str] = []
    columns: list[list[Any]] = []
    rows: list[list[str]] = []  # not in columns yet
    known: dict[str, str] = {}  # one object for short cells that are equal, of which there are many
    wrong = []
    lines = io.StringIO(text, newline="")
    with _cells_of_any_length(text):
        declared = DECLARED_SEPARATOR.match(text)
        separator = declared["separator"] if declared else "\t" if tabs else _separator(text, lines)
        lines.seek(0)
        reader = csv.reader(lines, delimiter=separator, strict=True)
        try:
            for row in reader:
                if _is_blank(row, len(header)) or (declared and reader.line_num == 1):
                    continue
                if not header:
                    header = row
                elif len(row) != len(header):
                    wrong.append(f"line {reader.line_num} has {len(row)}")
                else:
                    rows.append([known.setdefault(cell, cell) if len(cell) < SHORT else cell for cell in row])
                if len(rows) == ROWS_AT_ONCE:
                    _append_rows(columns, rows)
        except csv.Error as error:
            raise UserError(f"{path}:{reader.line_num}: {error}; quote cells as csv does") from None
    if not header:
        raise UserError(f"{path}: is empty; the first row must name the columns")
    if wrong:
        raise UserError(f"{path}: every row needs {len(header)} cells; {first_of(wrong, 5)}")
    _append_rows(columns, rows)
    return _from_columns(path, header, columns)


def _append_rows(columns: list[list[Any]], rows: list[list[str]]) -> None:
    """Moves rows to the ends of columns."""
    if rows:
        columns += [[] for _ in range(len(rows[0]) - len(columns))]
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
            column += cells
        rows.clear()


@contextlib.contextmanager
def _cells_of_any_length(text: str) -> Iterator[None]:
    """The csv module, which refuses cells of over 128 KiB for the whole process, reads any cell of `text`."""
    before = csv.field_size_limit()
    csv.field_size_limit(min(max(len(text), before), LARGEST_CELL))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _is_blank(row: Sequence[str], num_columns: int) -> bool:
    """Whether a row comes from a blank line; in a table of one column white space is a missing cell."""
    return not row or (len(row) == 1 and num_columns != 1 and not row[0].strip())


def _separator(text: str, lines: io.StringIO) -> str:
    """The separator of a .csv or .txt.

    By the header it is the comma, or if there is none outside quotes the more frequent of semicolon and
    tab.  If the first rows do not all have as many cells, two at least, it is the one of `SEPARATORS`
    with which they do, and with the most.
    """
    header = next((line for line in re.split(r"[\r\n]+", text[:100_000]) if line.strip()), "")
    outside = re.sub(r'"[^"]*"', "", header)
    likely = "," if "," in outside else max(",;\t", key=outside.count)
    if _cells_per_row(lines, likely) > 1:
        return likely
    counts = {separator: _cells_per_row(lines, separator) for separator in SEPARATORS}
    best = max(SEPARATORS, key=lambda separator: counts[separator])
    return best if counts[best] > 1 else likely


def _cells_per_row(lines: io.StringIO, separator: str) -> int:
    """How many cells each of the first `SAMPLED_ROWS` rows has; 0 if they differ or are malformed."""
    lines.seek(0)
    counts: set[int] = set()
    try:
        for row in itertools.islice(csv.reader(lines, delimiter=separator, strict=True), SAMPLED_ROWS):
            if not _is_blank(row, 0):
                counts.add(len(row))
    except csv.Error:
        return 0
    return counts.pop() if len(counts) == 1 else 0


def _from_rows(path: Path, rows: Sequence[list[Any]]) -> TableFile:
    if not rows:
        raise UserError(f"{path}: is empty; the first row must name the columns")
    columns = [list(cells) for cells in zip(*rows, strict=True)]
    return _from_columns(path, [cell_text(cells[0]) for cells in columns], [cells[1:] for cells in columns])


def _from_columns(path: Path, header: Sequence[str], cells: Sequence[list[Any]]) -> TableFile:
    names = [cell_text(name).strip() for name in header]
    cells = cells or [[] for _ in names]
    refuse_repeated(str(path), names)
    if not any(names):
        raise UserError(f"{path}: the first row names no column; remove empty rows above the names")
    if not any(map(len, cells)):
        raise UserError(f"{path}: has column names but no rows")
    # Spreadsheets leave unnamed empty columns at the right, which cannot be asked for.
    unnamed = names.count("") > 1
    named = [(name, column) for name, column in zip(names, cells, strict=True) if name or not unnamed]
    return TableFile(str(path), dict(named))


def refuse_repeated(where: str, names: Sequence[str]) -> None:
    """Raises UserError if two columns have one title."""
    repeated = sorted(name for name, count in collections.Counter(names).items() if name and count > 1)
    if repeated:
        raise UserError(f"{where}: two columns are called {repeated[0]!r}; rename one")


def cell_text(cell: Any) -> str:
    """A cell as a name, to the letter but for what the tab-separated text layout cannot hold.

    A run of tabs, line ends and NUL characters turns into one space, byte order marks in front are
    dropped.  A float that is an integer is written as one: a missing cell makes a whole column of
    integers floats, and csv has "1" for what is then 1.0.  None, NaN, NaT, NA and a cell of nothing but
    white space give "".  Bytes are read as UTF-8.  Raises UserError for what is not valid Unicode.
    """
    if _is_missing(cell):
        return ""
    if isinstance(cell, bytes):
        try:
            cell = cell.decode()
        except UnicodeDecodeError:
            raise UserError(f"the bytes {printable(cell)} are not UTF-8; save names as text") from None
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    text = UNWRITABLE.sub(" ", str(cell)).lstrip("\ufeff")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"the name {text!r} is not valid Unicode; fix it") from None
    return text if text.strip() else ""


def column_names(cells: Sequence[Any]) -> list[str]:
    """`cell_text` of each cell; most are plain text and need no second look.

    Where all are 1.0, 2.0, ..., as programs write integers beside a missing cell, the names are 1, 2, ...
    """
    names = [
        cell if isinstance(cell, str) and cell.isprintable() and cell.strip() else cell_text(cell)
        for cell in cells
    ]
    whole = all(WHOLE.fullmatch(name) for name in names if name)
    return [name.removesuffix(".0") for name in names] if whole else names


def column_numbers(cells: Sequence[Any], reading: Reading = PLAIN) -> Numbers:
    """Reads cells as float64 numbers: text by the rules of `numbers.py`, but `MISSING` texts are missing.

    Infinities, numbers beyond float64 and dates that `reading` does not ask for are no numbers.  Truth values
    are 1 and 0, in a column of nothing else.
    """
    values = np.zeros(len(cells), np.float64)
    observed = np.zeros(len(cells), bool)
    wrong: dict[int, str] = {}
    is_text = np.array([isinstance(cell, str) for cell in cells], bool)
    texts = pc.utf8_trim_whitespace(pa.array([cell for cell in cells if isinstance(cell, str)], pa.string()))
    missing = pc.is_in(pc.utf8_lower(texts), value_set=pa.array(sorted(MISSING)))
    text_rows = np.flatnonzero(is_text)[~missing.to_numpy(zero_copy_only=False)]
    parsed = parse_values(pa.chunked_array([texts.filter(pc.invert(missing))]), reading)
    values[text_rows], observed[text_rows] = parsed.values, True
    wrong.update((int(text_rows[position]), why) for position, why in parsed.bad.items())
    converted = collections.Counter(parsed.converted)
    for row in np.flatnonzero(~is_text).tolist():
        number, note = _number(cells[row], reading)
        if number is None:
            wrong[row] = note
        elif not math.isnan(number):
            values[row], observed[row] = number, True
            converted.update([note] if note else [])
    observed[list(wrong)] = False
    truths = {row: _truth(cells[row]) for row in wrong} if not observed.any() else {}
    if truths and None not in truths.values():
        for row, truth in truths.items():
            values[row], observed[row] = float(bool(truth)), True
        wrong, converted = {}, collections.Counter({TRUTHS_READ: len(truths)})
    return Numbers(values, observed, dict(sorted(wrong.items())), dict(converted))


def _is_missing(cell: Any) -> bool:
    """Whether a cell has no value: None, and the NaN, NaT and NA of any type, but no text."""
    if isinstance(cell, str | int):
        return False
    if isinstance(cell, float):
        return math.isnan(cell)
    if isinstance(cell, Decimal):
        return cell.is_nan()  # pandas raises for a signalling NaN
    return bool(pd.api.types.is_scalar(cell) and pd.isna(cell))


def _truth(cell: Any) -> bool | None:
    """The truth value that a cell is, or says; None for others."""
    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    return TRUTHS.get(cell.strip().lower()) if isinstance(cell, str) else None


def _number(cell: Any, reading: Reading) -> tuple[float | None, str]:
    """What `parse_number` says of a cell that is not text; NaN if it is missing."""
    if _is_missing(cell):
        return math.nan, ""
    if isinstance(cell, datetime.date):  # a time and zone, too
        return parse_number(str(cell), reading) if reading.dates else (None, A_DATE)
    if isinstance(cell, bool | np.bool_) or not isinstance(cell, int | float | np.number | Decimal):
        return None, f"a {type(cell).__name__}"
    try:
        number = float(cell)
    except OverflowError:  # an int beyond float64
        number = math.inf
    return (None, "not finite") if math.isinf(number) else (number, "")


def describe_cells(cells: Sequence[Any], wrong: dict[int, str], most: int = 3) -> str:
    """The first `most` of the wrong cells that `column_numbers` found, and how many more there are."""
    listed = []
    for row, why in list(wrong.items())[:most]:
        text = repr(cells[row])
        listed.append(f"{text if len(text) <= 40 else text[:37] + '...'} in data row {row + 1} ({why})")
    more = f" and {len(wrong) - most} more" if len(wrong) > most else ""
    return ", ".join(listed) + more
