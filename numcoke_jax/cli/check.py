"""Checks a graph in text layout without training on it.

    numcoke data check DIR [--json] [--bad-values=missing]

DIR is a folder or zip archive as `data/files/folder.py` describes it.  Prints counts per split, overlaps,
literal coverage and range per field, and every finding.  Exit code 0: can be trained on; 1: the data have
errors, which are listed; 2: wrong arguments or a path that cannot be read, one line on stderr.
"""

import argparse
import dataclasses
import functools
import io
import json
import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.data.files.findings import GraphReport
from numcoke_jax.data.files.folder import BAD_VALUES, inspect_folder
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.system.console import shown_share, shown_value
from numcoke_jax.system.errors import UserError, plural, plural_of, shown_name

JSON_NAMES = 100  # names listed under one key of --json, next to their number


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of the command."""
    parser.set_defaults(run=_run)
    parser.description = "Check a graph in text layout. Exit code 0: can be trained on; 1: has errors."
    parser.add_argument("folder", metavar="DIR", help="folder, or zip archive of one")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument(
        "--bad-values",
        choices=BAD_VALUES,
        default="error",
        help="literals that are not numbers: list them as errors, or leave them out",
    )


def _run(options: argparse.Namespace) -> int:
    graph, report = inspect_folder(options.folder, bad_values=options.bad_values)
    try:
        if options.json:
            print(json.dumps(report_as_json(options.folder, report), indent=1))
        else:
            print_report(Console(highlight=False, markup=False, emoji=False), options.folder, report)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stdout = io.StringIO()  # or the interpreter tries, and fails, once more at its end
        raise UserError(f"cannot write the report ({error.strerror or error})") from error
    return 1 if report.errors or graph is None else 0


def report_as_json(folder: str, report: GraphReport) -> dict[str, Any]:
    """Every count and finding of `report` as JSON values; long lists of names are cut, with their length."""
    counts: dict[str, Any] = {}
    for field in dataclasses.fields(report):
        value = getattr(report, field.name)
        if field.name in ("source_notes", "errors"):
            continue
        if field.name == "fields":
            counts["fields"] = [dataclasses.asdict(summary) for summary in value]
        elif field.name == "overlaps":
            counts["overlaps"] = {f"{first},{second}": shared for (first, second), shared in value.items()}
        elif isinstance(value, tuple):
            counts[field.name] = {"count": len(value), "first": list(value[:JSON_NAMES])}
        else:
            counts[field.name] = value
    return {
        "folder": str(folder),
        "ok": not report.errors,
        "errors": report.errors,
        "notices": report.notices(),
        **counts,
    }


def print_report(console: Console, folder: str, report: GraphReport) -> None:
    """Tables of counts, then errors and findings, in the width of `console`."""
    show = functools.partial(_show, console)
    show(f"Graph {shown_name(str(folder))}")
    if report.facts:
        counts = (
            plural_of(report.num_entities, "entity", "entities"),
            plural(report.num_relations, "relation"),
            plural(len(report.fields), "numeric field"),
            plural(report.negatives, "negative"),
        )
        show(", ".join(counts))
        console.print(_split_table(report))
    if report.fields:
        console.print(_field_table(report, console.encoding))
    for title, lines in (("Errors", report.errors), ("Findings", report.notices())):
        if lines:
            show(f"{title}:")
            for line in lines:
                show(f"- {line}")
    show("The data have errors." if report.errors else "No errors.")


def _show(console: Console, text: str) -> None:
    console.print(Text(_encodable(text, console.encoding)))


def _encodable(text: str, encoding: str) -> str:
    """`text` with escapes for what `encoding` lacks, before it is laid out, so that widths are right."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _plain_table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )


def _split_table(report: GraphReport) -> Table:
    table = _plain_table("Facts")
    table.add_column("")
    for split in SPLITS:
        table.add_column(split, justify="right")
    lines: dict[str, Sequence[int | None]] = {
        "rows": [report.rows[split] for split in SPLITS],
        "repeated rows": [report.repeated[split] for split in SPLITS],
        "facts": [report.facts[split] for split in SPLITS],
        "self-loops": [report.self_loops[split] for split in SPLITS],
        "with names unseen in train": [report.unseen_facts.get(split) for split in SPLITS],
        "also in train": [report.overlaps.get(("train", split)) for split in SPLITS],
        "also in valid": [report.overlaps.get(("valid", split)) for split in SPLITS],
    }
    for name, counts in lines.items():
        table.add_row(name, *("" if count is None else f"{count:,}" for count in counts))
    return table


def _field_table(report: GraphReport, encoding: str) -> Table:
    table = _plain_table(f"Numeric fields of {plural_of(report.num_entities, 'entity', 'entities')}")
    table.add_column("field", overflow="fold")
    for heading in ("observed", "share", "minimum", "maximum"):
        table.add_column(heading, justify="right", no_wrap=True)
    for field in report.fields:
        table.add_row(
            Text(_encodable(shown_name(field.name), encoding)),
            f"{field.observed:,}",
            shown_share(field.observed / report.num_entities),
            shown_value(field.minimum),
            shown_value(field.maximum),
        )
    return table
