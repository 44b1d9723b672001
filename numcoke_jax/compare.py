"""Puts finished runs side by side: `python -m numcoke_jax.compare RUN RUN ...`.

Reads report.json and config.json of every workdir and nothing else: needs no data, no model and no JAX.
Shows the order measures and the ranks of each run, both by relation, and the config keys that differ.
"""

import dataclasses
import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numcoke_jax.commands import OneLineParser, as_typed, run_command
from numcoke_jax.config import default_config
from numcoke_jax.config_checks import flatten, home_path, printable, shown_path
from numcoke_jax.console import Console
from numcoke_jax.errors import UserError
from numcoke_jax.order_tables import ORDER_REMARK, ORDER_TITLES, TERMINAL_TITLES, order_cells
from numcoke_jax.progress import duration
from numcoke_jax.report import METRICS, REPORT_FILE, read_json

RUNS_A_BLOCK = 4  # columns of a table that fit into 80 characters
MOST_RELATIONS = 20  # in the table; --json has all
LONGEST_CELL = 14
NOT_THERE = "-"


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """Contents of a workdir: its name, report.json and config.json (flat: "section.key" -> value).

    A key that was added after the run has its default, which keeps the earlier behaviour.
    """

    name: str
    report: Mapping[str, Any]
    config: Mapping[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Runs the command that the arguments describe and returns the exit code."""
    return run_command(functools.partial(_run, arguments))


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(
        prog="python -m numcoke_jax.compare",
        description="Puts finished runs side by side: order and rank metrics, also by relation, config keys "
        "that differ.",
        allow_abbrev=False,
    )
    options.add_argument("runs", nargs="+", metavar="RUN", help="workdir of a finished run")
    options.add_argument("--json", action="store_true", help="print the same as JSON")
    return options


def _run(arguments: Sequence[str]) -> int:
    options = parser().parse_args([as_typed(argument) for argument in arguments])
    runs = read_runs([home_path(run) for run in options.runs])
    if options.json:
        print(json.dumps(comparison(runs), indent=2))  # in ASCII: a locale's escapes would not be JSON
    else:
        show(comparison(runs), Console())
    return 0


def read_runs(workdirs: Sequence[Path]) -> list[FinishedRun]:
    """The runs of workdirs, each called by its folder, or by its path where two folders share a name.

    Raises:
      UserError: a folder is missing, given twice, or holds no finished run.
    """
    resolved = [workdir.resolve() for workdir in workdirs]
    found = []
    for place, workdir in enumerate(workdirs):
        if resolved[place] in resolved[:place]:
            raise UserError(f"{shown_path(workdir)} is given twice; name every run once")
        shared = sum(other.name == resolved[place].name for other in resolved) > 1
        found.append(_read_run(workdir, str(workdir) if shared else resolved[place].name))
    return found


def comparison(runs: Sequence[FinishedRun]) -> dict[str, Any]:
    """Results of the runs and where the runs differ, as JSON values.

    Returns:
      {"runs": [{"run", "seed", "best_epoch", "seconds", "complete", "order" (measures of all test pairs, and
      "narrowest_quarter" with its accuracy), "valid", "test" (metrics), "calibration_error",
      "inductive_mrr"}], "order_relations": {name: [order accuracy per run]}, "relations": {name: [MRR per
      run]}, "config": {key: [value per run]} for the keys that differ, "same_data": bool, or None if a run
      does not say}; what a run does not have is None.
    """
    hashes = [run.report.get("environment", {}).get("data_sha256") for run in runs]
    return {
        "runs": [_row(run) for run in runs],
        "order_relations": _by_relation([(run.report.get("order") or {}).get("relations") for run in runs]),
        "relations": _by_relation([run.report.get("relations") for run in runs], "mrr"),
        "config": differing([run.config for run in runs]),
        "same_data": None if None in hashes else len(set(hashes)) == 1,
    }


def _by_relation(
    found: Sequence[Mapping[str, Any] | None], key: str = "order_accuracy"
) -> dict[str, list[float | None]]:
    """relation -> the entry `key` of each run; None where a run lacks it."""
    names = dict.fromkeys(name for relations in found for name in relations or {})
    return {name: [((relations or {}).get(name) or {}).get(key) for relations in found] for name in names}


def differing(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """key -> its values, for the keys that are not the same in all configs; None where one lacks it."""
    keys = dict.fromkeys(key for config in configs for key in config)
    return {
        key: [config.get(key) for config in configs]
        for key in keys
        if any(key not in config or config[key] != configs[0].get(key) for config in configs)
    }


def show(found: Mapping[str, Any], console: Console) -> None:
    """Write a comparison as tables of at most 80 columns."""
    runs = found["runs"]
    names = [f"{number} {run['run']}" for number, run in enumerate(runs, 1)]
    _show_order(names, runs, console)
    rows = [(name, *_metrics(run["test"])) for name, run in zip(names, runs, strict=True)]
    titles = (">facts", ">MRR", ">MR", ">Hits@1", ">Hits@3", ">Hits@10")
    console.table("Test", "tails ranked, filtered", ("run", *titles), rows)
    rows = [
        (
            name,
            str(run["seed"]),
            str(run["best_epoch"]),
            duration(run["seconds"]),
            _figure(run["valid"]["mrr"]),
            _figure(run["calibration_error"]),
            _figure(run["inductive_mrr"]),
        )
        for name, run in zip(names, runs, strict=True)
    ]
    titles = (">seed", ">best epoch", ">time", ">valid MRR", ">ECE", ">held out")
    remark = "ECE: calibration error on test facts; held out: MRR of unseen entities"
    console.table("Runs", remark, ("run", *titles), rows)
    for title, key in (("order accuracy", "order_relations"), ("MRR", "relations")):
        relations = sorted(found[key].items(), key=lambda item: _lowest(item[1]))
        if len(relations) > 1:
            many = len(relations) > MOST_RELATIONS
            more = f", the {MOST_RELATIONS} lowest of {len(relations)}" if many else ""
            shown = {
                name: [_figure(value) for value in values] for name, values in relations[:MOST_RELATIONS]
            }
            _blocks(f"Test {title} by relation{more}", "relation", shown, console)
    if found["config"]:
        shown = {key: [_shortened(value) for value in values] for key, values in found["config"].items()}
        _blocks("Config keys that differ", "key", shown, console)
    elif len(runs) > 1:
        console.note("The configs are the same in every key.")
    unfinished = ", ".join(name for name, run in zip(names, runs, strict=True) if run["complete"] is False)
    if unfinished:
        console.warn(f"not trained to the end, evaluated on the way: {unfinished}")
    if found["same_data"] is False:
        console.warn("the runs have different data: their metrics are not for the same task")


def _show_order(names: Sequence[str], runs: Sequence[Mapping[str, Any]], console: Console) -> None:
    """The table of order measures of the runs that have any."""
    rows = [
        (
            name,
            *order_cells(run["order"], NOT_THERE)[: len(TERMINAL_TITLES)],
            _figure(run["order"]["narrowest_quarter"]),
        )
        for name, run in zip(names, runs, strict=True)
        if run["order"]
    ]
    if rows:
        columns = ("run", *(f">{title}" for title in TERMINAL_TITLES), ">narrow")
        remark = f"{ORDER_REMARK}; narrow: accuracy at the narrowest gaps"
        console.table("Order", remark, columns, rows)


def _read_run(workdir: Path, name: str) -> FinishedRun:
    where = shown_path(workdir)
    if not workdir.is_dir():
        raise UserError(f"{where}: there is no such folder; give workdirs of finished runs")
    if not (workdir / REPORT_FILE).exists():
        raise UserError(f"{where} has no {REPORT_FILE}: the run is not finished, or this is not a workdir")
    report, config = read_json(workdir / REPORT_FILE), read_json(workdir / "config.json")
    defaults = json.loads(json.dumps(flatten(default_config())))  # as a stored config has them
    try:
        run = FinishedRun(name, report, {**defaults, **config})
        comparison([run])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{where}: {REPORT_FILE} is not a report of this program; write it again") from None
    return run


def _row(run: FinishedRun) -> dict[str, Any]:
    report = run.report
    calibration = report.get("calibration")
    order = report.get("order")
    return {
        "run": run.name,
        **{key: report[key] for key in ("seed", "best_epoch", "seconds")},
        "complete": report.get("complete"),
        "order": order
        and {
            **{name: order["all"][name] for name in ORDER_TITLES},
            "narrowest_quarter": order["narrowest_quarter"]["order_accuracy"],
        },
        **{split: {name: report[split][name] for name in METRICS} for split in ("valid", "test")},
        "calibration_error": calibration["test"]["after"]["ece"] if calibration else None,
        "inductive_mrr": report["inductive"]["mrr"] if "inductive" in report else None,
    }


def _blocks(title: str, first: str, rows: Mapping[str, Sequence[str]], console: Console) -> None:
    """A table with one column per run, cut into tables of `RUNS_A_BLOCK` columns; runs go by number."""
    count = len(next(iter(rows.values())))
    for begin in range(0, count, RUNS_A_BLOCK):
        numbers = range(begin, min(begin + RUNS_A_BLOCK, count))
        columns = (first, *(f">{number + 1}" for number in numbers))
        cells = [(name, *(values[number] for number in numbers)) for name, values in rows.items()]
        console.table(title, "by number of the run", columns, cells)


def _metrics(metrics: Mapping[str, Any]) -> list[str]:
    return [f"{metrics['count']:,}", *(_figure(metrics[name], name) for name in METRICS[1:])]


def _figure(value: float | None, name: str = "mrr") -> str:
    if value is None:
        return NOT_THERE
    return f"{value:.2f}" if name == "mr" else f"{value:.4f}"


def _shortened(value: Any) -> str:
    text = NOT_THERE if value is None else printable(str(value), 1000)
    return text if len(text) <= LONGEST_CELL else "..." + text[3 - LONGEST_CELL :]


def _lowest(mrrs: Sequence[float | None]) -> float:
    return min((mrr for mrr in mrrs if mrr is not None), default=1.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
