"""`numcoke audit RUN`: recounts a sample of ranks and looks for leaks; exit code 1 if there are faults."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numcoke_jax.cli.commands import OneLineParser, add_cache_option, as_folder
from numcoke_jax.system.console import LOADING, Console
from numcoke_jax.system.errors import plural, printable, shown_path


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of the command."""
    parser.set_defaults(run=_run)
    parser.description = (
        "Recount a sample of a run's ranks from raw scores; look for leaks in filters,\n"
        "splits, negatives and values. Exit code 0: no fault found; 1: faults, named."
    )
    parser.add_argument("workdir", metavar="RUN", type=as_folder, help="workdir of a finished run")
    sample = "facts of valid and of test whose ranks are recounted (200)"
    parser.add_argument("--sample", type=_positive, default=200, metavar="N", help=sample)
    parser.add_argument("--seed", type=_natural, default=0, metavar="N", help="of the sample (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_cache_option(parser)


def _run(options: argparse.Namespace) -> int:
    console = Console(sys.stderr if options.json else None)
    with console.waiting(LOADING):
        from numcoke_jax.inference.audit import FAULT, audit
        from numcoke_jax.inference.trained import load_trained
        from numcoke_jax.system.compiled import keep_compiled

    if not options.no_cache:
        keep_compiled()
    warnings: list[str] = []
    with console.waiting("loading the run"):
        trained = load_trained(options.workdir, warnings.append)
    with console.waiting("ranking a sample anew, and looking for leaks"):
        findings = audit(trained, sample=options.sample, seed=options.seed)
    faults = sum(finding.verdict == FAULT for finding in findings)
    if options.json:
        print(json.dumps(_as_json(options, findings, warnings, faults), indent=1))
    else:
        _show(options.workdir, findings, warnings, faults, console)
    return 1 if faults else 0


def _as_json(
    options: argparse.Namespace, findings: Sequence[Any], warnings: list[str], faults: int
) -> dict[str, Any]:
    return {
        "workdir": str(options.workdir),
        "ok": not faults,
        "sample": options.sample,
        "seed": options.seed,
        "checks": [dataclasses.asdict(finding) for finding in findings],
        "warnings": warnings,
    }


def _show(workdir: Path, findings: Sequence[Any], warnings: list[str], faults: int, console: Console) -> None:
    for warning in warnings:
        console.warn(warning)
    rows = [
        (finding.check, finding.verdict, f"{finding.looked_at:,}", f"{finding.faults:,}", finding.says)
        for finding in findings
    ]
    title = f"Audit of {shown_path(workdir)}"
    console.table(title, "", ("check", "verdict", ">looked at", ">wrong", "what was found"), rows)
    unknown = sum(finding.verdict == "unknown" for finding in findings)
    left = f"; {unknown} could not be judged" if unknown else ""
    checks = plural(len(findings), "check")
    console.note(f"{plural(faults, 'fault') if faults else 'No fault'} found in {checks}{left}.")


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"needs an integer >= 0, got {printable(text)}")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"needs an integer >= 1, got {printable(text)}")
    return int(text)
