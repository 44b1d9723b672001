r"""Rounds with different seeds, as the paper runs five: mean ± standard deviation of every metric.

    python -m experiments.seeds --config=configs/credit.py --seeds=5 --config.data.path=DIR

Round i is the run with `config.seed` + i, in the folder seed{config.seed + i} under --out.  Finished rounds
are not repeated and a stopped one resumes, so the same command after a stop ends with the result of an
uninterrupted one.  The data and their split are the same in every round (`config.data.seed`).  The same
numbers, and those of each round, go to seeds.json in --out.
"""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from experiments.commands import RESUMES, command
from experiments.rounds import (
    CONFIG_FLAG,
    failed_seeds,
    finished,
    has_failed,
    raise_failed,
    refuse_flags,
    round_command,
    run_rounds,
)
from numcoke_jax.cli.command_line import Command
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.runs.order_tables import ORDER_TITLES
from numcoke_jax.runs.screen import METRIC_TITLES
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path, write_json_atomically

SPLITS = ("valid", "test")
FILE = "seeds.json"
MOST_SEEDS = 1000
SHOWN_ORDER = {name: title for name, title in ORDER_TITLES.items() if name not in ("count", "tau_values")}


def commands_of(
    config: str, seeds: int, out: Path | None, extra: Sequence[str]
) -> tuple[list[Command], Path]:
    """The command of each round and the folder of all; every flag is checked before the first round starts.

    Args:
      config: config file, with or without a preset.
      seeds: number of rounds.
      out: folder of the rounds; None: next to the config's own workdir, ending in -seeds.
      extra: --config.KEY=VALUE flags of every round.

    Raises:
      UserError: a wrong flag, key or value.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise UserError(f"--seeds={seeds} is out of range: needs an integer >= 1 and <= {MOST_SEEDS}")
    refuse_flags(extra, {"config": CONFIG_FLAG, "workdir": "--out, under which every round has a folder"})
    base = round_command([f"--config={config}", *extra])
    first, own = base.config.seed, base.workdir
    out = out or own.with_name(f"{own.name.removesuffix(f'seed{first}')}seeds")
    return [
        round_command(
            [f"--config={config}", *extra, f"--config.seed={seed}", f"--workdir={out / f'seed{seed}'}"]
        )
        for seed in range(first, first + seeds)
    ], out


def summary(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and sample standard deviation over the rounds, by split and metric, and of the order measures.

    A metric is None without queries or rounds, or if a report is older than it; so is the deviation of a
    single round.
    """
    orders = [(report.get("order") or {}).get("all") or {} for report in reports]
    result: dict[str, Any] = {
        "order": {
            measure: mean_and_deviation([order.get(measure) for order in orders]) for measure in SHOWN_ORDER
        }
    }
    for split in SPLITS:
        result[split] = {"count": reports[0][split]["count"] if reports else 0}
        for metric in METRIC_TITLES:
            result[split][metric] = mean_and_deviation([report[split][metric] for report in reports])
    return result


def mean_and_deviation(numbers: Sequence[float | None]) -> dict[str, float | None]:
    """Mean and sample standard deviation (n - 1); None if any number is; the deviation needs two numbers.

    Both are None without numbers.
    """
    known = [number for number in numbers if number is not None]
    complete = 0 < len(known) == len(numbers)
    return {
        "mean": statistics.fmean(known) if complete else None,
        "std": statistics.stdev(known) if complete and len(known) > 1 else None,
    }


def show(result: dict[str, Any], rounds: int, title: str) -> None:
    """Print the summary as a table of at most 80 columns."""
    heading = f"{title}: {rounds} round{'s' if rounds != 1 else ''}"
    table = Table(title=heading, caption="mean ± standard deviation")
    table.add_column("metric")
    for split in SPLITS:
        table.add_column(f"{split} ({result[split]['count']:,})", justify="right")
    for measure, name in SHOWN_ORDER.items():
        if result["order"][measure]["mean"] is not None:
            table.add_row(f"order {name}", "", cell(result["order"][measure]))
    for metric, name in METRIC_TITLES.items():
        table.add_row(name, *(cell(result[split][metric]) for split in SPLITS))
    rich.console.Console(width=80, markup=False, highlight=False).print(table)


def cell(metric: dict[str, float | None]) -> str:
    """0.1234 ± 0.0056; without the deviation for one round."""
    mean, deviation = metric["mean"], metric["std"]
    if mean is None:
        return "-"
    return f"{mean:.4f}" if deviation is None else f"{mean:.4f} ± {deviation:.4f}"


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(
        prog="python -m experiments.seeds",
        description=__doc__,
        epilog="Further --config.KEY=VALUE flags are given to every round.",
    )
    options.add_argument("--config", required=True, help="config file, such as configs/credit.py:paper")
    options.add_argument("--seeds", type=int, default=5, help="number of rounds (default: %(default)s)")
    options.add_argument("--out", type=home_path, help="folder of the rounds (default: runs/CONFIG-seeds)")
    return options


@command(RESUMES)
def main(arguments: Sequence[str]) -> int:
    """Runs the rounds that are missing, prints the table, writes the JSON; returns the exit code."""
    options, extra = parser().parse_known_args(arguments)
    commands, out = commands_of(options.config, options.seeds, options.out, extra)

    def tell(seed: int, report: dict[str, Any]) -> None:
        mrr = None if has_failed(report) else cell({"mean": report["test"]["mrr"], "std": None})
        print(f"seed {seed}: {'failed' if mrr is None else f'test MRR {mrr}'}", flush=True)

    by_seed = {command.config.seed: command for command in commands}
    reports = run_rounds(by_seed, tell)
    every = list(reports.values())
    done = finished(every)
    result = summary(done)
    write_json_atomically(out / FILE, {**result, "failed": failed_seeds(every), "rounds": every})
    show(result, len(done), out.name)
    print(f"the same numbers and those of each round are in {out / FILE}")
    raise_failed(by_seed, reports)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
