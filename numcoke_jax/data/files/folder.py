"""A graph in text layout: a folder, or a zip archive of one, and back.

    train.txt  valid.txt  test.txt      head <tab> relation <tab> tail
    neg.txt                             optional: triples known to be false
    literals/numerical_literals.txt     optional: entity <tab> field <tab> value; numeric_literals.txt is
                                        read in its place, as LitWD's folders have it
    entities_without_facts.txt          optional: a name on each line, of entities that no fact mentions
    hidden_fields.txt                   optional: a name on each line, of fields that only measures look at

Each file may be packed as `NAME.gz` or `NAME.zip` instead.  `lines.py`, `headers.py` and
`numbers.py` say how lines, header rows and values are read.
"""

import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.config.schema import choices
from numcoke_jax.data.files import headers
from numcoke_jax.data.files.archive import GraphFiles
from numcoke_jax.data.files.encode import encode_graph, named_facts
from numcoke_jax.data.files.findings import EMPTY, GraphReport
from numcoke_jax.data.files.lines import (
    FACT_COLUMNS,
    LISTED_LINES,
    LITERAL_COLUMNS,
    DataError,
    TextFile,
    line_numbers,
    read_names,
    read_triples,
)
from numcoke_jax.data.files.numbers import A_DATE, Reading, parse_values
from numcoke_jax.data.graph import HIDDEN_FIELDS, SPLITS, NumericGraph, entities_without_facts
from numcoke_jax.system.errors import UserError, list_some, plural, plural_of, shown_name, suggestion

LITERALS = "literals/numerical_literals.txt"
LITWD_LITERALS = "numeric_literals.txt"  # in the data of Gesese et al., LiterallyWikidata, ISWC 2021
WITHOUT_FACTS = "entities_without_facts.txt"
BAD_VALUES, DATES = choices("data.bad_values"), choices("data.dates")
NO_DATES = DATES[0]
UNREADABLE_STARTS = (
    "\ufeff",
    "PK\x03\x04",
    "BZh91AY&SY",
)  # a file whose first name starts so would be taken for another kind of file
ROWS_WRITTEN_AT_ONCE = 1_000_000


def read_folder(
    path: str | os.PathLike, *, bad_values: str = "error", dates: str = NO_DATES
) -> tuple[NumericGraph, GraphReport]:
    """The graph of a folder (or zip archive) in text layout, and what was found in it.

    Args:
      path: the folder.
      bad_values: "error", or "missing": literals that are not numbers are left out with a warning.
      dates: "year" or "days", in which literals that are dates become numbers; "error": they are none.

    Raises:
      UserError: `path` is not such a folder.
      DataError: its content is wrong; the message lists every fault of every file.
    """
    graph, report = inspect_folder(path, bad_values=bad_values, dates=dates)
    if graph is None or report.errors:
        raise DataError([f"{path}: {report.errors[0]}", *report.errors[1:]])
    return graph, report


def inspect_folder(
    path: str | os.PathLike, *, bad_values: str = "error", dates: str = NO_DATES
) -> tuple[NumericGraph | None, GraphReport]:
    """Like `read_folder`, with the faults of the content in `report.errors` instead of an exception.

    The graph then lacks the literals that are not numbers; it is None when a fact file is faulty.
    """
    if bad_values not in BAD_VALUES:
        raise ValueError(f"bad_values must be one of {BAD_VALUES}, got {bad_values!r}")
    if dates not in DATES:
        raise ValueError(f"dates must be one of {DATES}, got {dates!r}")
    files = GraphFiles(Path(path))
    source = GraphReport()
    try:
        facts = _read_facts(files, source)
        literals = read_literals(files, source, bad_values, Reading("" if dates == NO_DATES else dates))
        without_facts, hidden = (_read_names(files, name, source) for name in (WITHOUT_FACTS, HIDDEN_FIELDS))
    except UserError as error:  # a file that cannot be read, by its name inside the folder
        raise UserError(f"{path}: {error}") from error
    source.source_notes += files.notes
    if any(split not in facts for split in SPLITS) or facts["train"].num_rows == 0:
        return None, source
    graph, report = encode_read(facts, literals, without_facts, source)
    report.hidden_fields = tuple(hidden)
    if hidden:
        report.source_notes.append(f"{HIDDEN_FIELDS}: no model is given {', '.join(map(shown_name, hidden))}")
    for row, name in enumerate(hidden):
        if name not in graph.vocabulary.fields and (file := files.find(HIDDEN_FIELDS)):
            where = f"{file.name}:{line_numbers(file, [row])[row]}"
            hint = suggestion(name, graph.vocabulary.fields)
            report.errors.append(f"{where}: the graph has no field {shown_name(name)}; {hint}")
    return graph, report


def encode_read(
    facts: Mapping[str, pa.Table],
    literals: pa.Table | None,
    without_facts: Sequence[str],
    source: GraphReport,
) -> tuple[NumericGraph, GraphReport]:
    """The graph of what was read; the findings of reading, which `source` has, and of encoding."""
    splits = {split: facts[split] for split in SPLITS}
    graph, report = encode_graph(splits, facts.get("neg"), literals, without_facts)
    report.source_notes, report.errors = source.source_notes, source.errors
    report.literals_bad = source.literals_bad
    report.literals_converted = source.literals_converted
    report.literals_rounded = source.literals_rounded
    return graph, report


def write_folder(
    graph: NumericGraph,
    path: str | os.PathLike,
    hidden: Sequence[str] = (),
    *,
    source: str | os.PathLike = "",
) -> None:
    """Writes `graph` in text layout so that `read_folder` gives the same names, facts and values.

    Fields that are `hidden` are written, too, and named in a file: models will not be given them.
    Files are written under a temporary name beside `path` and renamed at the end: the folder appears
    whole or not at all.  Floats are written with the fewest digits that read back to the same float64.
    A message about a name begins with `source`, the file that it comes from.

    Raises:
      UserError: `path` exists; its parent cannot be written; or a name cannot be stored (blank, with a
        tab, line end or NUL character, starting with U+FEFF or like a packed file, or not valid Unicode).
    """
    target = Path(path)
    if target.exists() or target.is_symlink():
        raise UserError(f"{target}: exists already; give another folder, nothing is overwritten")
    place = f"{source}: " if source else ""
    entities = _storable_names(graph.vocabulary.entities, f"{place}entity")
    relations = _storable_names(graph.vocabulary.relations, f"{place}relation")
    fields = _storable_names(graph.vocabulary.fields, f"{place}field")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            made = scratch / "made"  # with the permissions of the user's umask, which `mkdtemp` ignores
            made.mkdir()
            _write_facts(graph, made, entities, relations)
            alone = entities_without_facts(graph)
            if len(alone):
                _write_rows(made / WITHOUT_FACTS, (entities, alone))
            if hidden:
                places = [graph.vocabulary.fields.index(name) for name in hidden]
                _write_rows(made / HIDDEN_FIELDS, (fields, np.array(places)))
            if fields:
                (made / LITERALS).parent.mkdir()
                rows, columns = np.nonzero(graph.observed)
                values = pa.array(map(repr, graph.values[rows, columns].tolist()), type=pa.string())
                _write_rows(
                    made / LITERALS, (entities, rows), (fields, columns), (values, np.arange(len(rows)))
                )
            os.rename(made, target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror or error})") from error


def _read_facts(stored: GraphFiles, report: GraphReport) -> dict[str, pa.Table]:
    """The tables of train, valid, test and neg whose file exists and is good."""
    files = {name: stored.find(f"{name}.txt") for name in (*SPLITS, "neg")}
    missing = [f"{split}.txt" for split in SPLITS if files[split] is None]
    if missing:
        report.errors.append(
            f"missing {', '.join(missing)}: each is needed, as NAME, NAME.gz or NAME.zip, and may be empty; "
            f"the folder holds {', '.join(stored.names[:LISTED_LINES])}"
        )
    if files["neg"] is None:
        report.source_notes.append("no neg.txt: no negatives are given")
    facts = {}
    for name, file in files.items():
        if file is not None:
            ids: set[str] = set()  # what to say if there are some, once
            try:
                ids = {stored.convert} if stored.holds_ids(file) else ids
                facts[name] = read_triples(file, FACT_COLUMNS)
                report.source_notes += ids.difference(report.source_notes)
            except DataError as error:
                report.errors += ids.difference(report.errors) if ids else error.problems
    facts = _skip_headers(facts, files, report)
    for split, consequence in EMPTY.items():
        if split in facts and facts[split].num_rows == 0:
            report.source_notes.append(f"{split}.txt holds no facts: {consequence}")
    if "train" in facts and facts["train"].num_rows == 0:
        report.errors.append("train.txt holds no facts: training needs at least one")
    return facts


def _skip_headers(
    facts: dict[str, pa.Table], files: Mapping[str, TextFile | None], report: GraphReport
) -> dict[str, pa.Table]:
    found = headers.without_headers(facts)
    report.errors += [
        f"{name}.txt: its header names the columns {', '.join(row)}; write them as head, relation, tail"
        for name, row in found.misordered.items()
    ]
    if found.skipped:
        names = ", ".join(f"{name}.txt" for name in found.skipped)
        report.source_notes.append(f"header row skipped in {names}")
    report.source_notes += [
        f"{name}.txt: {plural(repeats, 'row')} further down skipped: the header again"
        for name, repeats in found.skipped.items()
        if repeats
    ]
    for name, row in found.inside.items():
        file = files[name]
        line = line_numbers(file, [row])[row] if file else 0
        report.source_notes.append(
            f"{name}.txt:{line}: looks like a header, kept as a fact; remove the line if it is one"
        )
    report.source_notes += [
        f"{name}.txt: no name of its first row ({', '.join(map(shown_name, row))}) is used elsewhere; remove "
        "the row if it is a header"
        for name, row in found.lonely.items()
    ]
    report.source_notes += [
        f"{name}.txt: the first row looks like a header, but other rows use its names: kept as a fact"
        for name in found.kept
    ]
    return found.tables


def read_literals(
    files: GraphFiles, report: GraphReport, bad_values: str, reading: Reading
) -> pa.Table | None:
    """The literals that are numbers; None without a good file."""
    file = files.find(LITERALS) or files.find(LITWD_LITERALS)
    if file is None:
        report.source_notes.append(f"no {LITERALS}: the graph has no numeric fields")
        report.source_notes += [
            f"{name} is not read: literals belong in {LITERALS}"
            for name in files.names
            if "literal" in name.casefold()
        ]
        return None
    try:
        table = read_triples(file, LITERAL_COLUMNS, plain=("value",))
    except DataError as error:
        report.errors += error.problems
        return None
    parsed = parse_values(table["value"], reading)
    good = np.ones(table.num_rows, dtype=bool)
    good[list(parsed.bad)] = False
    if 0 in parsed.bad:
        entity, field, value = (column[0].as_py() for column in table.columns)
        if headers.looks_like_literals_header((entity, field, value)):
            report.source_notes.append(f"header row skipped in {file.name}")
            del parsed.bad[0]
    if not good.any() and not parsed.bad:
        report.source_notes.append(f"{file.name} holds no values: the graph has no numeric fields")
    report.literals_converted, report.literals_rounded = parsed.converted, parsed.rounded
    if parsed.bad:
        listed = _list_bad_values(file, table["value"], parsed.bad)
        header = "if the first row is a header, remove it; " if list(parsed.bad) == [0] else ""
        dated = sum(why.startswith(A_DATE) for why in parsed.bad.values())
        if dated and not reading.dates:
            header += (
                f"{plural_of(dated, 'is a date', 'are dates')}: --data.dates=year (--dates=year) reads them; "
            )
        if bad_values == "error":
            report.errors.append(
                f"{listed}; {header}write plain decimal numbers, or have these rows left out: "
                "--data.bad_values=missing (--bad-values=missing of numcoke data check)"
            )
        else:
            report.literals_bad = len(parsed.bad)
            report.source_notes.append(
                f"literals: {plural(len(parsed.bad), 'value')} left out as missing: {listed}"
            )
    if reading.dates == "days":
        report.source_notes += _mixed_fields(table["field"], parsed.dates, parsed.bad)
    literals = pa.table({"entity": table["entity"], "field": table["field"], "value": parsed.values})
    return literals.filter(pa.array(good))


def _mixed_fields(fields: pa.ChunkedArray, dates: Sequence[int], bad: Collection[int]) -> list[str]:
    """A note on each field that is days for some entities, and another number for others."""
    others = np.ones(len(fields), dtype=bool)
    others[[*dates, *bad]] = False
    dated = fields.take(pa.array(dates, pa.int64()))  # the type is needed where there are none
    mixed = {*dated.to_pylist()} & {*fields.filter(pa.array(others)).unique().to_pylist()}
    return [
        f"literals: field {shown_name(field)} has dates, read as days, beside other numbers; "
        "--data.dates=year suits dates and years"
        for field in sorted(mixed)
    ]


def _read_names(files: GraphFiles, name: str, report: GraphReport) -> list[str]:
    """The names in the file `name`, [] if there is none."""
    file = files.find(name)
    try:
        return read_names(file) if file else []
    except DataError as error:
        report.errors += error.problems
        return []


def _list_bad_values(file: TextFile, texts: pa.ChunkedArray, bad: dict[int, str]) -> str:
    """The lines whose value is not a number, as "file:line:value: why"."""
    shown = sorted(bad)[:LISTED_LINES]
    lines = line_numbers(file, shown)
    values = {row: shown_name(texts[row].as_py()) or repr("") for row in shown}
    listed = [f"{file.name}:{lines[row]}:{values[row]}: {bad[row]}" for row in shown]
    return list_some(listed, len(bad), "bad values")


def _storable_names(names: tuple[str, ...], what: str) -> pa.Array:
    for name in names:
        if not name.strip() or name.startswith(UNREADABLE_STARTS) or any(m in name for m in "\t\n\r\0"):
            raise UserError(
                f"{what} name {name!r} cannot be stored in a text file: a name must not be blank, hold a "
                "tab, line end or NUL character, or start like a packed file or with U+FEFF"
            )
    try:
        return pa.array(names, type=pa.string())
    except UnicodeEncodeError as error:
        raise UserError(f"{what} name {error.object!r} cannot be stored: it is not valid Unicode") from error


def _write_facts(graph: NumericGraph, folder: Path, entities: pa.Array, relations: pa.Array) -> None:
    """Fact files.  A first row that would read as a header is written twice, which marks it as a fact."""
    files = {split: graph.split(split) for split in SPLITS}
    if len(graph.negatives):
        files["neg"] = graph.negatives
    findings = headers.without_headers(
        {name: named_facts(facts, entities, relations) for name, facts in files.items()}
    )
    for name, facts in files.items():
        if name in findings.skipped or name in findings.misordered:
            facts = np.concatenate([facts[:1], facts])
        head, relation, tail = facts.T
        _write_rows(folder / f"{name}.txt", (entities, head), (relations, relation), (entities, tail))


def _write_rows(path: Path, *columns: tuple[pa.Array, np.ndarray]) -> None:
    """Tab-separated rows; each column is (names, int [rows] indices into them)."""
    num_rows = len(columns[0][1])
    with open(path, "wb") as stream:
        for start in range(0, num_rows, ROWS_WRITTEN_AT_ONCE):
            rows = slice(start, start + ROWS_WRITTEN_AT_ONCE)
            cells = [names.take(pa.array(ids[rows])) for names, ids in columns]
            ended = pc.binary_join_element_wise(cells[-1], "", "\n")
            lines = pc.binary_join_element_wise(*cells[:-1], ended, "\t") if cells[1:] else ended
            stream.write("".join(lines.to_pylist()).encode())
        stream.flush()
        os.fsync(stream.fileno())  # before the folder gets its name, for the case of a power cut
