r"""Do the numbers count?  Every model on true, shuffled, zeroed and removed values, side by side.

    python -m experiments.literal_use --config=configs/credit.py --data=DIR --presets=numeric,paper \
        --values=true,shuffled --seeds=0,1,2 --out=runs/literal_use

One run a (preset, values, seed), each in a workdir of its own under --out; finished runs are not done
again.  The table has mean and standard deviation over the seeds and, as its own column, the gap between
true and shuffled values; the same numbers go to literal_use.json and literal_use.png.
"""

import argparse
import functools
import statistics
import sys
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from experiments.rounds import round_command, run_round
from numcoke_jax.command_line import Command
from numcoke_jax.commands import OneLineParser, run_command
from numcoke_jax.data.controls import CONTROLS
from numcoke_jax.presets import PRESETS
from numcoke_jax.report import write_json_atomically

METRICS = ("mrr", "hits@1", "mr")


def command_of(
    config: str, data: str, preset: str, values: str, seed: str, out: Path, extra: list[str]
) -> Command:
    """The command of one run."""
    return round_command(
        [
            f"--config={config}:{preset}",
            *([f"--config.data.path={data}"] if data else []),
            *extra,
            f"--workdir={out / f'{preset}-{values}-seed{seed}'}",
            f"--config.seed={seed}",
            f"--config.data.control={values}",
        ]
    )


def rows_of(reports: dict[tuple[str, str, int], Any]) -> list[dict[str, Any]]:
    """One row a (preset, values): mean and standard deviation of the test metrics, and the gap in MRR."""
    rows = []
    for preset, values in dict.fromkeys((preset, values) for preset, values, _ in reports):
        mine = [report["test"] for key, report in reports.items() if key[:2] == (preset, values)]
        row: dict[str, Any] = {"preset": preset, "values": values, "seeds": len(mine)}
        for metric in METRICS:
            numbers = [test[metric] for test in mine]
            row[metric] = statistics.fmean(numbers)
            row[f"{metric} std"] = statistics.stdev(numbers) if len(numbers) > 1 else None
        rows.append(row)
    for row in rows:
        controls = {other["values"]: other["mrr"] for other in rows if other["preset"] == row["preset"]}
        has_gap = row["values"] == "true" and "shuffled" in controls
        row["gap to shuffled"] = row["mrr"] - controls["shuffled"] if has_gap else None
    return rows


def show(rows: list[dict[str, Any]], title: str) -> None:
    """Print the rows as a table."""
    table = Table(title=title)
    for name in ("preset", "values", "seeds", "MRR", "Hits@1", "MR", "gap to shuffled"):
        table.add_column(name, justify="left" if name in ("preset", "values") else "right")
    for row in rows:
        cells = [_with_deviation(row[metric], row[f"{metric} std"]) for metric in METRICS]
        gap = "-" if row["gap to shuffled"] is None else f"{row['gap to shuffled']:.3f}"
        table.add_row(row["preset"], row["values"], str(row["seeds"]), *cells, gap)
    rich.console.Console().print(table)


def draw(rows: list[dict[str, Any]], title: str, path: Path) -> None:
    """Bars of test MRR, a group a preset, a bar a control."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    presets = list(dict.fromkeys(row["preset"] for row in rows))
    controls = list(dict.fromkeys(row["values"] for row in rows))
    figure, axes = plt.subplots(figsize=(1.6 + 1.4 * len(presets), 3.6), layout="constrained")
    width = 0.8 / len(controls)
    for place, control in enumerate(controls):
        mine = {row["preset"]: row for row in rows if row["values"] == control}
        heights = [mine[preset]["mrr"] for preset in presets]
        errors = [mine[preset]["mrr std"] or 0.0 for preset in presets]
        middles = [number + (place - (len(controls) - 1) / 2) * width for number in range(len(presets))]
        bars = axes.bar(middles, heights, width * 0.92, yerr=errors, label=f"{control} values", capsize=2)
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=8)
    axes.set_xticks(range(len(presets)), presets)
    axes.set_ylim(0.0, 1.08)
    axes.set_ylabel("test MRR, filtered, tails")
    axes.set_title(title)
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=150, facecolor="white")  # opaque: reads the same on a dark page
    plt.close(figure)


def _with_deviation(mean: float, deviation: float | None) -> str:
    return f"{mean:.3f}" if deviation is None else f"{mean:.3f} ± {deviation:.3f}"


def _options(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = OneLineParser(
        prog="python -m experiments.literal_use",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Further --config.KEY=VALUE flags are given to every run.",
    )
    parser.add_argument("--config", required=True, help="config file, such as configs/credit.py")
    parser.add_argument("--data", default="", help="folder in text layout; else the config's table")
    parser.add_argument("--presets", default="numeric,paper", help=f"some of {','.join(PRESETS)}")
    parser.add_argument("--values", default="true,shuffled", help=f"some of {','.join(CONTROLS)}")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument(
        "--out", required=True, type=Path, help="folder for the runs, the table and the figure"
    )
    return parser.parse_known_args(arguments)


def _run(arguments: list[str]) -> int:
    options, extra = _options(arguments)
    commands = {  # all of them, so that a wrong name shows before the first run
        (preset, values, seed): command_of(
            options.config, options.data, preset, values, seed, options.out, extra
        )
        for preset in options.presets.split(",")
        for values in options.values.split(",")
        for seed in options.seeds.split(",")
    }
    reports = {}
    for (preset, values, seed), command in commands.items():
        report = reports[preset, values, command.config.seed] = run_round(command)
        print(f"{preset} {values} seed {seed}: test MRR {report['test']['mrr']:.4f}", flush=True)
    rows = rows_of(reports)
    title = Path(options.data).name or Path(options.config).stem
    show(rows, title)
    write_json_atomically(options.out / "literal_use.json", rows)
    draw(rows, title, options.out / "literal_use.png")
    return 0


def main(arguments: list[str]) -> int:
    """Runs what is missing, prints the table, writes JSON and figure; returns the exit code."""
    return run_command(functools.partial(_run, arguments), "interrupted; the same command goes on")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
