"""How often a trained model puts two entities in the right order, by how close their values are.

    python -m experiments.order_accuracy --workdir=runs/credit-seed0 [--json=FILE]

The paper's claim of telling 183 cm from 184 cm, measured: test pairs by quarter of the gap between both
values and by whether both, one or no value is observed, beside the rule "compare the raw values" (a guess
where one is missing).
"""

import functools
import sys
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from numcoke_jax.commands import OneLineParser, run_command
from numcoke_jax.console import Console
from numcoke_jax.order_accuracy import pair_orders, summary
from numcoke_jax.report import write_json_atomically
from numcoke_jax.trained import load_trained


def order_accuracy(workdir: Path, split: str = "test") -> list[dict[str, Any]]:
    """Rows of `order_accuracy.summary` for the best checkpoint of a run."""
    trained = load_trained(workdir, Console().warn)
    run = trained.run
    orders = pair_orders(
        run.graph,
        run.graph.split(split),
        run.scale.positions.apply(run.graph.values, run.graph.observed),
        lambda relation: run.evaluate.encode(trained.params, relation),
        lambda encoded, heads: run.evaluate.score(trained.params, encoded, heads),
        run.evaluate.chunk,
    )
    return summary(orders)


def _run(arguments: list[str]) -> int:
    parser = OneLineParser(prog="python -m experiments.order_accuracy", description=__doc__)
    parser.add_argument("--workdir", required=True, type=Path, help="folder of a finished run")
    parser.add_argument("--split", default="test", choices=("valid", "test"))
    parser.add_argument("--json", type=Path, help="file for the same numbers")
    options = parser.parse_args(arguments)
    rows = order_accuracy(options.workdir, options.split)
    table = Table(title=f"{options.workdir.name}: share of {options.split} pairs in the right order")
    for name in ("pairs", "count", "model", "raw values"):
        table.add_column(name, justify="left" if name == "pairs" else "right")
    for row in rows:
        shares = ["-" if row[name] is None else f"{row[name]:.4f}" for name in ("model", "raw values")]
        table.add_row(row["pairs"], f"{row['count']:,}", *shares)
    rich.console.Console().print(table)
    if options.json:
        write_json_atomically(options.json, rows)
    return 0


def main(arguments: list[str]) -> int:
    """Prints the table; returns the exit code."""
    return run_command(functools.partial(_run, arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
