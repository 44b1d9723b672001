"""Files of answers: csv, json (one array), jsonl or parquet by their ending, a block of rows at a time."""

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

from numcoke_jax.system.errors import UserError, shown_path

Columns = Mapping[str, np.ndarray]


@contextlib.contextmanager
def answer_writer(path: Path, columns: Sequence[str]) -> Iterator[Callable[[Columns], None]]:
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
