"""Query files in, answers out, a block at a time: neither texts nor answers have to fit in memory.

In: UTF-8, one query per line, "head <tab> relation", with exact names.  Out: csv, json (one array), jsonl or
parquet, by the file's ending, with the columns of `COLUMNS`, one row per answer.
"""

import contextlib
import csv
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from numcoke_jax.inference.names import NameIndex
from numcoke_jax.inference.predict import COLUMNS
from numcoke_jax.system.errors import UserError, printable, shown_path

BLOCK = 4096  # queries
Columns = Mapping[str, np.ndarray]


def read_queries(path: Path, entities: NameIndex, relations: NameIndex) -> Iterator[np.ndarray]:
    """The queries of a file in blocks int32 [n, 2] of at most `BLOCK`; blank lines are skipped.

    Raises:
      UserError: the file cannot be read, or the line that is named does not have two columns or has an
        unknown name.
    """
    block: list[tuple[int, int]] = []
    for number, text in name_lines(path, f"--queries={shown_path(path)}"):
        cells, where = text.split("\t"), f"{shown_path(path)}:{number}"
        if len(cells) != 2:
            raise UserError(
                f"{where}: a query needs 2 tab-separated columns (head, relation), "
                f"found {len(cells)}: {printable(text)}"
            )
        block.append((entities.id(cells[0], where), relations.id(cells[1], where)))
        if len(block) == BLOCK:
            yield np.array(block, np.int32)
            block = []
    if block:
        yield np.array(block, np.int32)


def name_lines(path: Path, flag: str) -> Iterator[tuple[int, str]]:
    """(number from 1, text without its end) of the lines that are not blank, as in a graph's files.

    They end at LF, CRLF or CR and at nothing else: U+2028 and the like stay inside names.

    Args:
      path: a UTF-8 file, with or without a byte-order mark.
      flag: what names the file, for messages.

    Raises:
      UserError: the file cannot be read, or a line is not UTF-8.
    """
    try:
        # A byte that is not UTF-8 becomes a lone surrogate, which UTF-8 cannot hold: so its line is known.
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            for number, line in enumerate(file, start=1):
                _refuse_bad_bytes(line, f"{shown_path(path)}:{number}")
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except OSError as error:
        raise UserError(f"{flag}: cannot be read ({error.strerror})") from None


def _refuse_bad_bytes(line: str, where: str) -> None:
    """Raises UserError naming the first byte of a line that is not UTF-8."""
    try:
        line.encode()
    except UnicodeEncodeError as error:
        byte, place = ord(line[error.start]) & 0xFF, len(line[: error.start].encode()) + 1
        raise UserError(
            f"{where}: byte 0x{byte:02x} at byte {place} is not UTF-8; save the file as UTF-8, for example: "
            "iconv -f LATIN1 -t UTF-8"
        ) from None


@contextlib.contextmanager
def answer_writer(path: Path, columns: Sequence[str] = COLUMNS) -> Iterator[Callable[[Columns], None]]:
    """Writes rows with these columns block by block; the file appears whole, under its name, at the end.

    Yields:
      A function that takes the columns of the next rows, by name.

    Raises:
      UserError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        with _WRITERS[path.suffix](temporary, columns) as write:
            yield write
        os.replace(temporary, path)
    except BrokenPipeError:  # from the screen that shows the progress
        raise
    except OSError as error:
        raise UserError(f"--out={shown_path(path)}: cannot be written ({error.strerror})") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def _csv_writer(path: Path, columns: Sequence[str]) -> Iterator[Callable[[Columns], None]]:
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(columns)
        yield lambda found: rows.writerows(_rows(found, columns))


@contextlib.contextmanager
def _jsonl_writer(path: Path, columns: Sequence[str]) -> Iterator[Callable[[Columns], None]]:
    with open(path, "w", encoding="utf-8") as file:
        yield lambda found: file.writelines(f"{text}\n" for text in _json_rows(found, columns))


@contextlib.contextmanager
def _json_writer(path: Path, columns: Sequence[str]) -> Iterator[Callable[[Columns], None]]:
    with open(path, "w", encoding="utf-8") as file:
        separators = itertools.chain(["\n"], itertools.repeat(",\n"))
        file.write("[")
        yield lambda found: file.writelines(
            f"{separator}{text}"
            for text, separator in zip(_json_rows(found, columns), separators, strict=False)
        )
        file.write("\n]\n")


@contextlib.contextmanager
def _parquet_writer(path: Path, columns: Sequence[str]) -> Iterator[Callable[[Columns], None]]:
    schema = pa.schema([(name, _PARQUET_TYPES.get(name, pa.string())) for name in columns])
    with pq.ParquetWriter(path, schema) as rows:
        yield lambda found: rows.write_table(
            pa.table(
                [
                    pa.array(found[name].tolist(), schema.field(name).type, from_pandas=True)
                    for name in columns
                ],
                schema=schema,
            )
        )


def _json_rows(found: Columns, columns: Sequence[str]) -> Iterator[str]:
    for row in _rows(found, columns):
        yield json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)


def _rows(found: Columns, columns: Sequence[str]) -> Iterator[list[Any]]:
    """The rows, None for NaN: an empty cell, or null."""
    for row in zip(*(found[name].tolist() for name in columns), strict=True):
        yield [None if value != value else value for value in row]


_PARQUET_TYPES = dict.fromkeys(("low_rank", "high_rank", "of"), pa.int64()) | dict.fromkeys(
    ("rank", "score", "probability", "low_value", "high_value"), pa.float64()
)
_WRITERS: dict[str, Callable[[Path, Sequence[str]], AbstractContextManager[Callable[[Columns], None]]]] = {
    ".csv": _csv_writer,
    ".json": _json_writer,
    ".jsonl": _jsonl_writer,
    ".parquet": _parquet_writer,
}
