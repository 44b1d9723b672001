"""Columns of a table, as a command line names and reads them."""

import argparse
from collections.abc import Collection

from numcoke_jax.cli.commands import OneLineParser, as_typed
from numcoke_jax.data.files.dates import UNITS
from numcoke_jax.data.files.written import PARSED
from numcoke_jax.system.errors import UserError, suggestion

READING = {  # the options that a `Reading` is made of: what they may be, and their meaning
    "dates": (UNITS, "columns of dates become numbers: years, or days since 1970-01-01"),
    "parse": (PARSED, "numbers may be written 14.2 %%, 1,065, 3,5 or $12 (default: plain ones only)"),
}

TABLE_OPTIONS = {  # which columns of a table are what
    "name": "that name an entity, joined by ', '; index: the number of the row",
    "relations": "that get a relation (default: numbers with over two values; a known table has its own)",
    "fields": "with numbers stored as literals, besides those of --relations (default: all)",
    "categories": "that become facts, such as artist: (song, artist, its value)",
}


def add_table_options(parser: OneLineParser | argparse._ArgumentGroup) -> None:
    """The options about columns of a table with a row per entity, `TABLE_OPTIONS` and `READING`."""
    for name, meaning in TABLE_OPTIONS.items():
        parser.add_argument(f"--{name}", metavar="COLUMN,...", help=f"the columns {meaning}")
    add_reading_options(parser)


def add_reading_options(parser: OneLineParser | argparse._ArgumentGroup) -> None:
    """--dates and --parse: which cells of a table are numbers besides plain ones; "": no others."""
    for name, (allowed, meaning) in READING.items():
        parser.add_argument(f"--{name}", choices=allowed, default="", help=meaning)


def split_names(option: str, text: str, known: Collection[str]) -> tuple[str, ...]:
    """The column names in `text`, separated by commas; where a name has one itself, the longest is taken.

    Raises:
      UserError: one of them is not `known`; the message has `option` and the closest known name.
    """
    parts, names = as_typed(text).split(","), list[str]()
    while parts:
        for count in range(len(parts), 0, -1):
            written = ",".join(parts[:count])
            name = written if written in known else written.strip()
            if name and name in known:
                break
        else:
            raise UserError(f"{option}: no column {name!r}; {suggestion(name, known)}")
        names.append(name)
        parts = parts[count:]
    return tuple(dict.fromkeys(names))
