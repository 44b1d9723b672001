"""Query files: UTF-8, one query per line, "head <tab> relation", with exact names; read a block at a time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from numcoke_jax.inference.names import NameIndex
from numcoke_jax.system.errors import UserError, printable, shown_path

BLOCK = 4096  # queries
NO_TEXT = (".parquet", ".xlsx")


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
      UserError: the file is a table that is no text or cannot be read, or a line is not UTF-8.
    """
    if path.suffix.lower() in NO_TEXT:
        raise UserError(f"{flag}: only text is read here, not {path.suffix}; save it with tabs")
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
