"""Checks a graph in text layout without training on it.

    numcoke data check DIR [--json] [--bad-values=missing] [--dates=year]

DIR is a folder or zip archive as `data/files/folder.py` describes it.  Prints counts per split, overlaps,
literal coverage and range per field, and every finding.  Exit code 0: can be trained on; 1: the data have
errors, which are listed; 2: wrong arguments or a path that cannot be read, one line on stderr.
"""

import argparse
import dataclasses
import io
import json
import sys
from collections.abc import Sequence
from typing import Any

from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.data.files.findings import GraphReport
from numcoke_jax.data.files.folder import BAD_VALUES, DATES, NO_DATES, inspect_folder
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.system.console import Console, shown_share, shown_value
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
    parser.add_argument(
        "--dates",
        choices=DATES,
        default=NO_DATES,
        help="literals that are dates: list them as errors, or read their year, or days since 1970",
    )


def _run(options: argparse.Namespace) -> int:
    graph, report = inspect_folder(options.folder, bad_values=options.bad_values, dates=options.dates)
    try:
        if options.json:
            print(json.dumps(report_as_json(options.folder, report), indent=1))
        else:
            print_report(Console(), options.folder, report)
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
    """Tables of counts, then errors and findings."""
    console.note(f"Graph {shown_name(str(folder))}", wrap=True)
    if report.facts:
        counts = (
            plural_of(report.num_entities, "entity", "entities"),
            plural(report.num_relations, "relation"),
            plural(len(report.fields), "numeric field"),
            plural(report.negatives, "negative"),
        )
        console.note(", ".join(counts))
        console.table("Facts", "", ("", *(f">{split}" for split in SPLITS)), _split_rows(report))
    if report.fields:
        rows = [
            (
                shown_name(field.name),
                f"{field.observed:,}",
                shown_share(field.observed / report.num_entities),
                shown_value(field.minimum),
                shown_value(field.maximum),
            )
            for field in report.fields
        ]
        title = f"Numeric fields of {plural_of(report.num_entities, 'entity', 'entities')}"
        console.table(title, "", ("field", ">observed", ">share", ">minimum", ">maximum"), rows)
    for title, lines in (("Errors", report.errors), ("Findings", report.notices())):
        for text in (f"{title}:", *(f"- {line}" for line in lines)) if lines else ():
            console.note(text, wrap=True)
    console.note("The data have errors." if report.errors else "No errors.")


def _split_rows(report: GraphReport) -> list[tuple[str, ...]]:
    lines: dict[str, Sequence[int | None]] = {
        "rows": [report.rows[split] for split in SPLITS],
        "repeated rows": [report.repeated[split] for split in SPLITS],
        "facts": [report.facts[split] for split in SPLITS],
        "self-loops": [report.self_loops[split] for split in SPLITS],
        "with names unseen in train": [report.unseen_facts.get(split) for split in SPLITS],
        "also in train": [report.overlaps.get(("train", split)) for split in SPLITS],
        "also in valid": [report.overlaps.get(("valid", split)) for split in SPLITS],
    }
    return [
        (name, *("" if count is None else f"{count:,}" for count in counts)) for name, counts in lines.items()
    ]
