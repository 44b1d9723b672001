"""`numcoke predict --pairs=FILE` and one pair on the command line: scores of triples, not ranks.

The file is UTF-8 without a header, tab-separated, or separated by commas if its name ends in .csv:
"head <tab> tail" on each line, with --relation for all of them, or "head <tab> relation <tab> tail".
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from numcoke_jax.cli.answer_files import Columns
from numcoke_jax.cli.query_files import name_lines
from numcoke_jax.inference.names import Names
from numcoke_jax.inference.questions import SCORE_COLUMNS
from numcoke_jax.system.console import Console, shown_probability
from numcoke_jax.system.errors import UserError, plural, printable, shown_path

SHOWN_PAIRS = 20
HEADERS = (["head", "tail"], ["head", "relation", "tail"])


def read_pairs(path: Path, names: Names, relation: str | None) -> np.ndarray:
    """The triples of a file, int64 [n, 3], every name looked up.

    Args:
      path: the file.
      names: of the graph.
      relation: that of all pairs; None if each line has its own.

    Raises:
      UserError: the file cannot be read or has no pairs, or the line that is named has another number of
        columns or an unknown name.
    """
    given = None if relation is None else names.relations.id(relation, "--relation")
    triples = []
    for number, cells in _rows(path):
        where = f"{shown_path(path)}:{number}"
        if given is None and len(cells) == 2:
            raise UserError(f"{where}: a pair has 2 columns (head, tail): give --relation=NAME as well")
        if given is not None and len(cells) == 3:
            raise UserError(f"{where}: has 3 columns, with its relation: leave --relation out")
        if len(cells) not in (2, 3):
            kind = "comma" if _by_commas(path) else "tab"
            raise UserError(
                f"{where}: needs 2 or 3 {kind}-separated columns (head, tail, or head, relation, tail), "
                f"found {len(cells)}: {printable(' '.join(cells))}"
            )
        if number == 1 and cells[0] not in names.entities and cells[-1] not in names.entities:
            header = "call them head,tail or head,relation,tail" if _by_commas(path) else "remove line 1"
            raise UserError(
                f"{where}: there is neither an entity {printable(repr(cells[0]))} nor "
                f"{printable(repr(cells[-1]))}; if these are the columns' names, {header}"
            )
        head, tail = (names.entities.id(cell, where) for cell in (cells[0], cells[-1]))
        triples.append((head, names.relations.id(cells[1], where) if given is None else given, tail))
    if not triples:
        raise UserError(f"--pairs={shown_path(path)}: the file has no pairs")
    return np.array(triples, np.int64)


def _by_commas(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of the lines that are not blank, without the header of a .csv."""
    for number, line in name_lines(path, f"--pairs={shown_path(path)}"):
        if not _by_commas(path):
            yield number, line.split("\t")
            continue
        try:
            cells = next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise UserError(f"{shown_path(path)}:{number}: {error}; quote names as csv does") from None
        if number > 1 or cells not in HEADERS:
            yield number, cells


def show_pairs(found: Columns, console: Console) -> None:
    """The first rows of scored triples on the screen, and how many more there are."""
    shown = {name: [*found[name][:SHOWN_PAIRS]] for name in SCORE_COLUMNS}
    shown["score"] = [f"{score:.3f}" for score in shown["score"]]
    shown["probability"] = [shown_probability(probability) for probability in shown["probability"]]
    remark = "likelier: the likelier head of the two" if any(found["likelier"]) else ""
    count = len(found["head"])
    title, relations = plural(count, "pair"), set(found["relation"])
    if len(relations) == 1:  # said once, which leaves its column's room to names
        title = f"{title} under {relations.pop()}"
        del shown["relation"]
    titles = [f">{name}" if name in ("score", "probability") else name for name in shown]
    console.table(title, remark, titles, zip(*shown.values(), strict=True))
    if count > SHOWN_PAIRS:
        console.note(f"and {count - SHOWN_PAIRS:,} more: --out=FILE writes all")
