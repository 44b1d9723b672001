"""Puts finished runs side by side: `numcoke compare RUN RUN ...`.

Reads report.json and config.json of every workdir and nothing else: needs no data, no model and no JAX.
Shows the metrics of each run, the MRR by relation, and the config keys in which the runs differ.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.evaluation.metrics import METRICS
from numcoke_jax.runs.compare import comparison, read_runs
from numcoke_jax.runs.order_tables import ORDER_REMARK, TERMINAL_TITLES, order_cells, shown_metric
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import printable
from numcoke_jax.system.files import home_path
from numcoke_jax.system.progress import duration

RUNS_A_BLOCK = 4  # columns of a table that fit into 80 characters
MOST_RELATIONS = 20  # in the table; --json has all
LONGEST_CELL = 14
NOT_THERE = "-"


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of the command."""
    parser.set_defaults(run=_run)
    parser.description = "Order and rank metrics of finished runs side by side; the keys that differ."
    parser.add_argument("runs", nargs="+", metavar="RUN", type=home_path, help="workdir of a finished run")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")


def _run(options: argparse.Namespace) -> int:
    runs = read_runs(options.runs)
    if options.json:
        print(json.dumps(comparison(runs), indent=2))  # in ASCII: a locale's escapes would not be JSON
    else:
        show(comparison(runs), Console())
    return 0


def show(found: Mapping[str, Any], console: Console) -> None:
    """Write a comparison as tables of at most 80 columns."""
    runs = found["runs"]
    names = [f"{number} {run['run']}" for number, run in enumerate(runs, 1)]
    _show_order(names, runs, console)
    rows = [(name, *_metrics(run["test"])) for name, run in zip(names, runs, strict=True)]
    titles = (">facts", ">MRR", ">MR", ">Hits@1", ">Hits@3", ">Hits@10")
    console.table("Test", "tails ranked, filtered", ("run", *titles), rows)
    for side, remark in (("heads", "heads ranked"), ("both", "heads and tails ranked")):
        pairs = zip(names, runs, strict=True)
        if rows := [(name, *_metrics(run[side])) for name, run in pairs if run[side]]:
            console.table("Test", f"{remark}, filtered", ("run", *titles), rows)
    rows = [
        (
            name,
            str(run["seed"]),
            str(run["best_epoch"]),
            duration(run["seconds"]),
            shown_metric("mrr", run["valid"]["mrr"]),
            shown_metric("mrr", run["calibration_error"]),
            shown_metric("mrr", run["inductive_mrr"]),
        )
        for name, run in zip(names, runs, strict=True)
    ]
    titles = (">seed", ">best epoch", ">time", ">valid MRR", ">ECE", ">held out")
    remark = "ECE: calibration error on test facts; held out: MRR of unseen entities"
    console.table("Runs", remark, ("run", *titles), rows)
    for title, key in (
        ("order accuracy", "order_relations"),
        ("MRR", "relations"),
        ("MRR of both sides", "relations_both"),
        ("MRR", "cardinalities"),
    ):
        relations = sorted(found[key].items(), key=lambda item: _lowest(item[1]))
        if len(relations) > 1:
            many = len(relations) > MOST_RELATIONS
            more = f", the {MOST_RELATIONS} lowest of {len(relations)}" if many else ""
            shown = {
                name: [shown_metric("mrr", value) for value in values]
                for name, values in relations[:MOST_RELATIONS]
            }
            kind = "cardinality" if key == "cardinalities" else "relation"
            _blocks(f"Test {title} by {kind}{more}", kind, shown, console)
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
            shown_metric("mrr", run["order"]["narrowest_quarter"]),
        )
        for name, run in zip(names, runs, strict=True)
        if run["order"]
    ]
    if rows:
        columns = ("run", *(f">{title}" for title in TERMINAL_TITLES), ">narrow")
        remark = f"{ORDER_REMARK}; narrow: seen values, close ones"
        console.table("Order", remark, columns, rows)


def _blocks(title: str, first: str, rows: Mapping[str, Sequence[str]], console: Console) -> None:
    """A table with one column per run, cut into tables of `RUNS_A_BLOCK` columns; runs go by number."""
    count = len(next(iter(rows.values())))
    for begin in range(0, count, RUNS_A_BLOCK):
        numbers = range(begin, min(begin + RUNS_A_BLOCK, count))
        columns = (first, *(f">{number + 1}" for number in numbers))
        cells = [(name, *(values[number] for number in numbers)) for name, values in rows.items()]
        console.table(title, "by number of the run", columns, cells)


def _metrics(metrics: Mapping[str, Any]) -> list[str]:
    return [shown_metric(name, metrics[name]) for name in METRICS]


def _shortened(value: Any) -> str:
    text = NOT_THERE if value is None else printable(str(value), 1000)
    return text if len(text) <= LONGEST_CELL else "..." + text[3 - LONGEST_CELL :]


def _lowest(mrrs: Sequence[float | None]) -> float:
    return min((mrr for mrr in mrrs if mrr is not None), default=1.0)
