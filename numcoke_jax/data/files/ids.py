"""The files of other toolkits, in which facts are ids, or names in another order -> a graph.

    entity2id.txt   relation2id.txt               name, id                OpenKE and what follows it
    train2id.txt    valid2id.txt    test2id.txt   head, tail, relation

    entity_ids.del  relation_ids.del              id, name                LibKGE
    train.del       valid.del       test.del      head, relation, tail

    train.txt       valid.txt       test.txt      ids of entity2id.txt, head, relation, tail; or names,
                                                  in an order that the caller knows

Columns are separated by tabs or spaces, and in the files of names a name may have spaces.  A first line of
one number is the count of the lines that follow it, and must be right.  Entities that no fact mentions are
kept.  Literals are read as in a folder in text layout, by name.
"""

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from numcoke_jax.data.files.archive import FACT_FILES, PACKINGS, GraphFiles
from numcoke_jax.data.files.encode import named_facts
from numcoke_jax.data.files.findings import GraphReport
from numcoke_jax.data.files.folder import encode_read, read_literals
from numcoke_jax.data.files.lines import FACT_COLUMNS, DataError, TextFile, numbered_lines, read_triples
from numcoke_jax.data.files.numbers import PLAIN
from numcoke_jax.data.graph import SPLITS, NumericGraph
from numcoke_jax.system.errors import UserError, plural, printable, shown_name


@dataclasses.dataclass(frozen=True)
class IdFormat:
    """How a toolkit calls its files.

    Attributes:
      toolkit: its name.
      names: the files of entities and of relations.
      facts: the file of a split, with {} for "train" and so on.
      order: the columns of a fact.
    """

    toolkit: str
    names: tuple[str, str]
    facts: str
    order: tuple[str, ...]


FORMATS = (
    IdFormat("OpenKE", ("entity2id.txt", "relation2id.txt"), "{}2id.txt", ("head", "tail", "relation")),
    IdFormat("LibKGE", ("entity_ids.del", "relation_ids.del"), "{}.del", FACT_COLUMNS),
)
FORK = dataclasses.replace(FORMATS[0], toolkit="a fork of OpenKE", facts="{}.txt", order=FACT_COLUMNS)
KINDS = ("entity", "relation")  # of names
ID = re.compile(r"[0-9]{1,18}")  # the longest that int64 holds whatever the digits
ID_OR_UNKNOWN = re.compile(r"-?[0-9]{1,18}")  # as some programs mark what they do not know
FIRST_FILES = tuple(form.facts.format("train") + packing for form in FORMATS for packing in PACKINGS)


def read_ids(path: str | os.PathLike, order: Sequence[str] = ()) -> tuple[NumericGraph, GraphReport]:
    """The graph of a folder, or a zip archive of one, as other toolkits write it.

    Args:
      path: the folder.
      order: the columns of a fact; (): as the toolkit writes them.

    Raises:
      UserError: there are no such files.
      DataError: a line is wrong, or an id has no name.
    """
    files, report = GraphFiles(Path(path), (*FIRST_FILES, *FACT_FILES)), GraphReport()
    found = [form for form in FORMATS if files.find(form.facts.format("train"))]
    try:
        train = files.find("train.txt")
        found += [FORK] if train and files.holds_ids(train) else []
        if found:
            facts, entities = _facts_of_ids(files, found[0], tuple(order) or found[0].order, report)
        elif order:
            facts, entities = _facts_of_names(files, tuple(order)), []
        else:
            raise UserError(
                "the facts are names, not ids: a folder whose columns are head, relation, tail needs no "
                "conversion, and for another one --order=head,tail,relation says what they are"
            )
        literals = read_literals(files, report, "error", PLAIN)
    except DataError as error:
        raise DataError([f"{path}: {error.problems[0]}", *error.problems[1:]]) from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    report.source_notes += files.notes
    graph, report = encode_read(facts, literals, entities, report)
    if report.errors:
        raise DataError([f"{path}: {report.errors[0]}", *report.errors[1:]])
    return graph, report


def _facts_of_names(files: GraphFiles, order: tuple[str, ...]) -> dict[str, pa.Table]:
    first, second, third = order
    return {
        split: read_triples(_needed(files, f"{split}.txt"), (first, second, third)).select(list(FACT_COLUMNS))
        for split in SPLITS
    }


def _facts_of_ids(
    files: GraphFiles, form: IdFormat, order: tuple[str, ...], report: GraphReport
) -> tuple[dict[str, pa.Table], list[str]]:
    """The facts of each split by name, and the names of all entities."""
    names = {
        kind: _read_names(_needed(files, name, f": the facts are ids, and it has the name of each {kind}"))
        for kind, name in zip(KINDS, form.names, strict=True)
    }
    known = {kind: np.array(sorted(ids), np.int64) for kind, ids in names.items()}
    ordered = {kind: pa.array([names[kind][i] for i in known[kind].tolist()], pa.string()) for kind in KINDS}
    tables = {}
    for split in SPLITS:
        file = _needed(files, form.facts.format(split))
        rows, lines = _read_rows(file)
        if split == "train" and not lines:
            raise DataError([f"{file.name} holds no facts: training needs at least one"])
        _check_ids(file.name, rows, lines, order, known)
        places = [
            np.searchsorted(known[KINDS[name == "relation"]], rows[:, order.index(name)])
            for name in FACT_COLUMNS
        ]
        triples = np.stack(places, axis=1).astype(np.int32)
        tables[split] = named_facts(triples, ordered["entity"], ordered["relation"])
    counts = ", ".join(f"{tables[split].num_rows:,} {split}" for split in SPLITS)
    report.source_notes.append(
        f"ids as {form.toolkit} writes them, each fact read as {', '.join(order)}: "
        f"{len(known['entity']):,} entities, {plural(len(known['relation']), 'relation')}, facts: {counts}"
    )
    return tables, list(names["entity"].values())


def _needed(files: GraphFiles, name: str, why: str = ", it is needed, and may be empty") -> TextFile:
    """The file called `name`; raises UserError if there is none."""
    file = files.find(name)
    if file is None:
        raise UserError(f"{name} is missing{why}; there are {', '.join(files.names)}")
    return file


def _cells(file: TextFile) -> list[tuple[int, str]]:
    """The number and the text of each line but a first one that is the count of the others.

    Raises:
      DataError: a line is not UTF-8, or the count is wrong.
    """
    rows: list[tuple[int, str]] = []
    count = -1
    for number, line in numbered_lines(file):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise DataError(
                [f"{file.name}:{number}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"]
            ) from None
        if not text.strip():
            continue
        if count < 0 and not rows and ID.fullmatch(text.strip()):
            count = int(text)
        else:
            rows.append((number, text))
    if count not in (-1, len(rows)):
        raise DataError([f"{file.name}: its first line counts {plural(count, 'row')}, it has {len(rows):,}"])
    return rows


def _read_names(file: TextFile) -> dict[int, str]:
    """id -> name."""
    rows = _cells(file)
    # Whether the id comes first: where both fit, names are numbers, and stand first as OpenKE has them.
    readings = [[_pair(text, id_first) for _, text in rows] for id_first in (False, True)]
    pairs = min(readings, key=lambda reading: reading.count(None))
    if None in pairs:
        number, text = rows[pairs.index(None)]
        raise DataError([f"{file.name}:{number}: needs a name and an id, found {printable(text.strip())}"])
    names: dict[int, str] = {}
    ids: dict[str, int] = {}
    for (number, _), pair in zip(rows, pairs, strict=True):
        assert pair is not None
        name, key = pair
        if key in names or name in ids:
            what = f"id {key}" if key in names else f"name {shown_name(name)}"
            raise DataError([f"{file.name}:{number}: the {what} is there already; each needs one of its own"])
        names[key], ids[name] = name, key
    return names


def _pair(text: str, id_first: bool) -> tuple[str, int] | None:
    """(name, id) of a line; None if it is not one."""
    text = text.strip()
    separator = "\t" if "\t" in text else None
    parts = text.split(separator, 1) if id_first else text.rsplit(separator, 1)
    if len(parts) != 2:
        return None
    name, key = reversed(parts) if id_first else parts
    name, key = name.strip(), key.strip()
    one = name and "\t" not in name  # else it is a row of three columns
    return (name, int(key)) if one and ID.fullmatch(key) else None


def _read_rows(file: TextFile) -> tuple[np.ndarray, list[int]]:
    """Ids int64 [n, 3] of the facts of a file, and their lines."""
    rows = _cells(file)
    ids = np.empty((len(rows), len(FACT_COLUMNS)), np.int64)
    for place, (number, text) in enumerate(rows):
        parts = text.split()
        if len(parts) != len(FACT_COLUMNS) or not all(map(ID_OR_UNKNOWN.fullmatch, parts)):
            raise DataError([f"{file.name}:{number}: needs three ids, found {printable(text.strip())}"])
        ids[place] = [int(part) for part in parts]
    return ids, [number for number, _ in rows]


def _check_ids(
    name: str, rows: np.ndarray, lines: Sequence[int], order: tuple[str, ...], known: dict[str, np.ndarray]
) -> None:
    """Raises DataError for the first id without a name, with an order in which there is none."""
    unknown = _unknown(rows, order, known)
    if not unknown.any():
        return
    row, column = np.argwhere(unknown)[0]
    kind = KINDS[order[column] == "relation"]
    entities_and_relation = (FACT_COLUMNS, ("head", "tail", "relation"), ("relation", "head", "tail"))
    fitting = [other for other in entities_and_relation if not _unknown(rows, other, known).any()]
    hint = f"; --order={','.join(fitting[0])} fits all rows" if fitting else ""
    raise DataError(
        [
            f"{name}:{lines[row]}: {order[column]} {rows[row, column]} (column {column + 1}) is none of the "
            f"{len(known[kind]):,} ids of {'relations' if kind == 'relation' else 'entities'}{hint}"
        ]
    )


def _unknown(rows: np.ndarray, order: Sequence[str], known: dict[str, np.ndarray]) -> np.ndarray:
    """bool [n, 3]: which ids have no name."""
    columns = [~np.isin(rows[:, i], known[KINDS[name == "relation"]]) for i, name in enumerate(order)]
    return np.stack(columns, axis=1)
