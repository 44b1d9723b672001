"""How often a trained model puts two entities in the right order, by how close their values are.

    python -m experiments.order_accuracy --workdir=runs/credit-seed0 [--workdir=...] [--json=FILE]

The paper's claim of telling 183 cm from 184 cm, measured: test pairs by quarter of the gap between both
values and by whether both, one or no value is observed, next to the rule "compare the raw values" (a guess
if one is missing).  For several runs on one graph, such as its seeds: mean ± standard deviation over them.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from experiments.commands import command
from experiments.seeds import cell, mean_and_deviation
from numcoke_jax.cli.commands import OneLineParser, as_file
from numcoke_jax.evaluation.orders import orders_of_split, summary
from numcoke_jax.inference.trained import load_trained
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path, write_json_atomically


def of_workdir(workdir: Path, split: str) -> list[dict[str, Any]]:
    """The rows of a run's best checkpoint."""
    trained = load_trained(workdir, Console().warn)
    run = trained.run
    return summary(orders_of_split(run.judged_by_truth, split, run.scorer, trained.params))


def over_runs(tables: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows of several runs on one graph as one table: the model's mean share and its standard deviation.

    Raises:
      UserError: the runs differ in their pairs, by number, gap or observed values.
    """
    pairs = [[{**row, "model": None} for row in table] for table in tables]
    if any(found != pairs[0] for found in pairs):
        raise UserError("the runs differ in their pairs or values: give runs of one graph, such as its seeds")
    rows = []
    for of_pairs in zip(*tables, strict=True):
        model = mean_and_deviation([row["model"] for row in of_pairs])
        rows.append({**of_pairs[0], "model": model["mean"], "model std": model["std"]})
    return rows


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.order_accuracy", description=__doc__)
    options.add_argument(
        "--workdir",
        required=True,
        type=home_path,
        action="append",
        help="folder of a finished run; repeatable",
    )
    options.add_argument("--split", default="test", choices=("valid", "test"))
    options.add_argument("--json", type=as_file, help="file for the same numbers")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Prints the table; returns the exit code."""
    options = parser().parse_args(arguments)
    rows = over_runs([of_workdir(workdir, options.split) for workdir in options.workdir])
    name = options.workdir[0].name
    title = name if len(options.workdir) == 1 else f"{name} and {len(options.workdir) - 1} more"
    table = Table(title=f"{title}: share of {options.split} pairs in the right order")
    for heading in ("pairs", "count", "model", "raw values"):
        table.add_column(heading, justify="left" if heading == "pairs" else "right")
    for row in rows:
        shares = ((row["model"], row["model std"]), (row["raw values"], None))
        cells = [cell({"mean": mean, "std": deviation}) for mean, deviation in shares]
        table.add_row(row["pairs"], f"{row['count']:,}", *cells)
    rich.console.Console(markup=False, highlight=False).print(table)
    if options.json:
        write_json_atomically(options.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
