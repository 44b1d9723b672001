r"""Do the numbers matter?  Every model on true, shuffled, zeroed and removed values, side by side.

    python -m experiments.literal_use --config=configs/credit.py --data=DIR --presets=numeric,paper \
        --values=true,shuffled --seeds=0,1,2 --out=runs/literal_use

    python -m experiments.literal_use --config=configs/credit.py --splits=10/10/80,80/10/10 --out=runs/splits

One run per (split, preset, values, seed), each in a workdir of its own under --out; finished runs are not
repeated.  The table has mean and standard deviation over the seeds and, in its own column, the gap between
true and shuffled values; the same numbers go to literal_use.json and literal_use.png.  --splits divides the
facts of the config's table anew; a folder of --data has its own split.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from experiments import figures, sweep
from experiments.commands import RESUMES, command
from experiments.rounds import failed_seeds, finished, raise_failed, round_command, run_rounds, shown_mrr
from experiments.seeds import summary
from numcoke_jax.cli.command_line import Command
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.config.presets import PRESETS
from numcoke_jax.data.variants import CONTROLS
from numcoke_jax.runs.screen import METRIC_TITLES
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path, write_json_atomically

GIVEN = ""  # the split that the config or the folder has
SHOWN = ("mrr", "hits@1", "mr")

Key = tuple[str, str, str]  # split, preset, control


def shares_of(split: str) -> tuple[float, ...]:
    """80/10/10 -> (0.8, 0.1, 0.1).

    Raises:
      UserError: not three percentages that add up to 100.
    """
    parts = split.split("/")
    if not all(re.fullmatch(r"\d{1,3}", part) for part in parts) or len(parts) != 3:
        raise UserError(f"--splits={split} must be percentages of train/valid/test, such as 80/10/10")
    percentages = [int(part) for part in parts]
    if sum(percentages) != 100:
        raise UserError(f"--splits={split} adds up to {sum(percentages)}, must be 100")
    return tuple(percentage / 100 for percentage in percentages)


def commands_of(options: argparse.Namespace, extra: Sequence[str]) -> dict[tuple[Key, int], Command]:
    """The command of every run; all flags are checked before the first one starts.

    Raises:
      UserError: a wrong flag, preset, control or split.
    """
    splits = options.splits.split(",") if options.splits else [GIVEN]
    if options.splits and options.data:
        raise UserError(
            "--splits divides the facts of a table, but a folder of --data has its own split: leave one out"
        )
    commands = {}
    for split in splits:
        shares = {"data.split": shares_of(split)} if split != GIVEN else {}
        for preset in options.presets.split(","):
            for control in options.values.split(","):
                for seed in sweep.seeds_of(options.seeds):
                    parts = [*([split.replace("/", "-")] if split else []), preset, control, f"seed{seed}"]
                    commands[(split, preset, control), seed] = round_command(
                        sweep.flags_of(
                            f"{options.config}:{preset}",
                            {**shares, "data.control": control},
                            options.out / "-".join(parts),
                            data=options.data,
                            seed=seed,
                            epochs=options.epochs,
                            extra=extra,
                        )
                    )
    return commands


def rows_of(reports: Mapping[Key, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row per (split, preset, control): test metrics as mean and std, and the gap to shuffled values.

    "seeds" counts the runs that the means are of, "failed" has the seeds whose runs failed.
    """
    rows = []
    for (split, preset, control), of_key in reports.items():
        done = finished(of_key)
        test = summary(done)["test"]
        shuffled = finished(reports.get((split, preset, "shuffled"), [])) if control == "true" else []
        rows.append(
            {
                "split": split or None,
                "preset": preset,
                "values": control,
                "seeds": len(done),
                "failed": failed_seeds(of_key),
                **{metric: test[metric] for metric in METRIC_TITLES},
                "gap to shuffled": sweep.gap_of(test["mrr"], summary(shuffled)["test"]["mrr"]),
            }
        )
    return rows


def show(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print the rows as a table of at most 80 columns."""
    table = Table(title=title, caption="test, filtered, tails; gap: MRR on true minus shuffled values")
    with_split = any(row["split"] for row in rows)
    names = [*(["split"] if with_split else []), "preset", "values"]
    for name in names:
        table.add_column(name)
    for name in (*(METRIC_TITLES[metric] for metric in SHOWN), "gap"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = [sweep.cell(row[metric], digits=2 if metric == "mr" else 3) for metric in SHOWN]
        if not row["seeds"]:
            cells = ["failed"] * len(SHOWN)
        gap = "-" if row["gap to shuffled"] is None else f"{row['gap to shuffled']:+.3f}"
        of_seeds = sweep.counted(row["seeds"], len(row["failed"]))
        values = "\n".join(filter(None, [row["values"], of_seeds]))
        table.add_row(*(row[name] for name in names[:-1]), values, *cells, gap)
    rich.console.Console(width=80, markup=False, highlight=False).print(table)


def draw(rows: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Draw bars of test MRR: one group per split and preset, one bar per control."""
    groups = list(dict.fromkeys((row["split"], row["preset"]) for row in rows))
    by_key = {(row["split"], row["preset"], row["values"]): row for row in rows}
    series = {
        f"{control} values": [sweep.point(by_key[*group, control], "mrr") for group in groups]
        for control in dict.fromkeys(row["values"] for row in rows)
    }
    figure, (panel,) = figures.new_figure(2.2 + 0.55 * len(groups) * len(series), 3.8)
    names = [f"{preset}\n{split}" if split else preset for split, preset in groups]
    figures.bars(panel, names, series)
    panel.set_ylim(0.0, 1.08)
    panel.set_ylabel("test MRR, filtered, tails", fontsize=9)
    panel.set_title(title, fontsize=10)
    figures.legend_below(figure, panel)
    figures.save(figure, path)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(
        prog="python -m experiments.literal_use",
        description=__doc__,
        epilog="Further --config.KEY=VALUE flags are given to every run.",
    )
    options.add_argument("--config", required=True, help="config file, such as configs/credit.py")
    options.add_argument("--data", default="", help="folder in text layout; else the config's table")
    options.add_argument("--presets", default="numeric,paper", help=f"some of {','.join(PRESETS)}")
    options.add_argument("--values", default="true,shuffled", help=f"some of {','.join(CONTROLS)}")
    options.add_argument("--splits", default=GIVEN, help="train/valid/test, such as 10/10/80,80/10/10")
    options.add_argument("--seeds", default="0,1,2")
    options.add_argument(
        "--epochs", type=int, default=0, help="at most so many per run; 0: no cap (default: %(default)s)"
    )
    options.add_argument(
        "--out", required=True, type=home_path, help="folder for the runs, the table and the figure"
    )
    return options


@command(RESUMES)
def main(arguments: Sequence[str]) -> int:
    """Runs what is missing, prints the table, writes JSON and figure; returns the exit code."""
    options, extra = parser().parse_known_args(arguments)

    def tell(which: tuple[Key, int], report: dict[str, Any]) -> None:
        run = f"{' '.join(filter(None, which[0]))} seed {which[1]}"
        print(f"{run}: {shown_mrr(report)}", flush=True)

    commands = commands_of(options, extra)
    reports = run_rounds(commands, tell)
    rows = rows_of(sweep.by_key(reports))
    title = Path(options.data).name or Path(options.config).stem
    show(rows, title)
    write_json_atomically(options.out / "literal_use.json", rows)
    draw(rows, title, options.out / "literal_use.png")
    raise_failed(commands, reports)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
