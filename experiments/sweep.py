"""Shared by the experiments that change some keys of one config: runs by setting and seed, means, files.

A setting is a label and the keys that it changes.  Every (setting, values, seed) is one run in a workdir of
its own under --out; finished runs are read and stopped ones resume, so the same command after a stop ends
with the result of an uninterrupted one.  Each setting runs on the true values and, as a control, on shuffled
ones: the gap between the two says how much of its MRR comes from the numbers.
"""

import argparse
import dataclasses
import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import rich.console
from rich.table import Table

from experiments.commands import RESUMES, command
from experiments.rounds import (
    CONFIG_FLAG,
    failed_seeds,
    finished,
    flag_names,
    raise_failed,
    refuse_flags,
    round_command,
    run_rounds,
    shown_mrr,
)
from experiments.seeds import summary
from numcoke_jax.cli.command_line import Command
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.config.schema import KEYS
from numcoke_jax.runs.screen import METRIC_TITLES
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path, write_json_atomically

LONGEST_RUN = KEYS["train.epochs"].allowed.high
SHOWN = ("mrr", "hits@1", "mr")  # on the screen, which has 80 columns; the JSON has all metrics
VALUES = ("true,shuffled", "true")
GIVEN = {"config": CONFIG_FLAG, "workdir": "--out", "seed": "--seeds", "data.path": "--data"}
OF_A_TABLE = ("data.split", "data.missing_rate")  # what a folder has already

Key = tuple[str, str]  # setting, values
K = TypeVar("K")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One row of an experiment.

    Attributes:
      label: what tables and figures call it.
      values: config keys, such as "experts.count", and the values that it sets.
      config: config file with or without a preset, in place of the experiment's.
    """

    label: str
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    config: str = ""


def parser_of(
    name: str, description: str, *, config: str, seeds: str | None = "0,1,2", epochs: int = 0
) -> argparse.ArgumentParser:
    """The options that all sweeps take; the defaults are the experiment's.

    Without seeds there are neither --seeds nor --values.
    """
    parser = OneLineParser(
        prog=f"python -m experiments.{name}",
        description=description,
        epilog="Further --config.KEY=VALUE flags are given to every run.",
    )
    parser.add_argument("--config", default=config, help="config file:preset (default: %(default)s)")
    parser.add_argument("--data", default="", help="folder in text layout; else the config's table")
    if seeds is not None:
        parser.add_argument("--seeds", default=seeds, help="(default: %(default)s)")
        parser.add_argument(
            "--values",
            default=VALUES[0],
            choices=VALUES,
            help="true: without the control (default: %(default)s)",
        )
    parser.add_argument(
        "--epochs",
        type=int,
        default=epochs,
        help="most epochs per run, their number if train.epochs=0; 0: no cap (default: %(default)s)",
    )
    parser.add_argument("--out", type=home_path, default=Path("runs") / name, help="(default: %(default)s)")
    return parser


def seeds_of(text: str) -> list[int]:
    """The seeds of "0,1,2".

    Raises:
      UserError: not distinct integers >= 0.
    """
    parts = text.split(",")
    if not all(re.fullmatch(r"\d{1,10}", part) for part in parts) or len(set(parts)) < len(parts):
        raise UserError(f"--seeds={text} must be different integers joined by commas, such as 0,1,2")
    return [int(part) for part in parts]


def flags_of(
    config: str,
    values: Mapping[str, Any],
    workdir: Path,
    *,
    data: str = "",
    seed: int = 0,
    epochs: int = 0,
    extra: Sequence[str] = (),
) -> list[str]:
    """The arguments of `numcoke_jax.main` that make one run.

    `epochs` caps what the config asks for: the budget of a run, the same on every machine.  It replaces a
    number that the config leaves to the graph.

    Raises:
      UserError: a wrong key or value, or a flag of `extra` for what the experiment gives; or values for a
        table where the config has a folder.
    """
    for name in flag_names(extra):
        if name in values:
            raise UserError(f"--config.{name}: the experiment sets {name} itself; leave the flag out")
    refuse_flags(extra, GIVEN)
    if not 0 <= epochs <= LONGEST_RUN:
        raise UserError(f"--epochs={epochs} is out of range: needs an integer >= 0 and <= {LONGEST_RUN:.0f}")
    flags = [
        f"--config={config}",
        *([f"--config.data.path={data}"] if data else []),
        *extra,
        *(f"--config.{key}={_written(value)}" for key, value in values.items()),
        f"--config.seed={seed}",
        f"--workdir={workdir}",
    ]
    parsed = round_command(flags).config
    train = parsed.train
    for key in OF_A_TABLE if parsed.data.path else ():
        if key in values:
            raise UserError(f"{key} is of a table: the folder data.path={parsed.data.path} is as it is")
    if not epochs or 0 < train.epochs <= epochs:
        return flags
    every = min(train.eval_every_epochs, epochs)
    return [*flags, f"--config.train.epochs={epochs}", f"--config.train.eval_every_epochs={every}"]


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def folder_name(label: str) -> str:
    """The label as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9.]+", "_", label).strip("_")


def commands_of(
    settings: Sequence[Setting], options: argparse.Namespace, extra: Sequence[str]
) -> dict[tuple[Key, int], Command]:
    """The run of every setting, control and seed; raises UserError for a wrong flag."""
    seeds = seeds_of(options.seeds)
    return {
        ((setting.label, control), seed): round_command(
            flags_of(
                setting.config or options.config,
                {**setting.values, "data.control": control},
                options.out / _run_folder(setting.label, control, seed),
                data=options.data,
                seed=seed,
                epochs=options.epochs,
                extra=extra,
            )
        )
        for setting in settings
        for control in options.values.split(",")
        for seed in seeds
    }


def tell(which: tuple[Key, int], report: Mapping[str, Any]) -> None:
    """Print the test MRR of a run."""
    (label, control), seed = which
    label = label if control == "true" else f"{label}, {control} values"
    print(f"{label}, seed {seed}: {shown_mrr(report)}", flush=True)


def by_key(reports: Mapping[tuple[K, int], dict[str, Any]]) -> dict[K, list[dict[str, Any]]]:
    """The reports of (key, seed) by key, one a seed."""
    found: dict[K, list[dict[str, Any]]] = {}
    for (key, _), report in reports.items():
        found.setdefault(key, []).append(report)
    return found


def _run_folder(label: str, control: str, seed: int) -> str:
    parts = [folder_name(label), *([] if control == "true" else [control]), f"seed{seed}"]
    return "-".join(parts)


def rows_of(reports: Mapping[Key, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row per setting: label, seeds, epochs of the best checkpoints, test metrics as mean and std.

    "shuffled mrr" has mean and std of the control, "gap" the difference of the means; None without a control.
    Seeds whose run failed are in "failed" and "shuffled failed" and in no mean.
    """
    rows = []
    for (label, control), of_setting in reports.items():
        if control != "true":
            continue
        done, shuffled = finished(of_setting), reports.get((label, "shuffled"), [])
        test, control_mrr = summary(done)["test"], summary(finished(shuffled))["test"]["mrr"]
        rows.append(
            {
                "label": label,
                "seeds": [report["seed"] for report in done],
                "failed": failed_seeds(of_setting),
                "best_epochs": [report["best_epoch"] for report in done],
                **test,
                "shuffled mrr": control_mrr,
                "shuffled failed": failed_seeds(shuffled),
                "gap": gap_of(test["mrr"], control_mrr),
            }
        )
    return rows


def gap_of(true: Mapping[str, float | None], shuffled: Mapping[str, float | None]) -> float | None:
    """The difference of two means; None without one of them."""
    return None if true["mean"] is None or shuffled["mean"] is None else true["mean"] - shuffled["mean"]


def counted(done: int, failed: int) -> str:
    """How many seeds a mean is of, if some have failed; else ""."""
    return f"{done} of {done + failed} seeds" if failed else ""


def series_of(
    rows: Sequence[Mapping[str, Any]], *metrics: str
) -> dict[str, list[tuple[float | None, float | None]]]:
    """Test metrics as figures take them: those named, MRR, and MRR on shuffled values if there are any."""
    series = {METRIC_TITLES[metric]: [point(row, metric) for row in rows] for metric in (*metrics, "mrr")}
    if any(row["gap"] is not None for row in rows):
        series["MRR, shuffled values"] = [point(row, "shuffled mrr") for row in rows]
    return series


def point(row: Mapping[str, Any], metric: str) -> tuple[float | None, float | None]:
    """Mean and deviation of a metric, as figures take them."""
    return row[metric]["mean"], row[metric]["std"]


def cell(metric: Mapping[str, float | None], digits: int = 3) -> str:
    """0.123 ± 0.004; without the deviation for one seed."""
    mean, deviation = metric["mean"], metric["std"]
    if mean is None:
        return "-"
    return f"{mean:.{digits}f}" if deviation is None else f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def show(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print the rows as a table of at most 80 columns: mean ± standard deviation of the test metrics, gap."""
    caption = (
        "test, filtered, tails; mean ± standard deviation\ngap: MRR on true minus that on shuffled values"
    )
    if any(row["failed"] or row["shuffled failed"] for row in rows):
        caption += "\nmeans of the seeds whose runs have not failed"
    table = Table(title=title, caption=caption)
    table.add_column("setting")
    for name in (*(METRIC_TITLES[metric] for metric in SHOWN), "gap"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = [cell(row[metric], digits=2 if metric == "mr" else 3) for metric in SHOWN]
        if not row["seeds"]:
            cells = ["failed"] * len(SHOWN)
        lost = len(row["shuffled failed"])
        of_seeds = counted(len(row["seeds"]), len(row["failed"]))
        of_control = counted(len(row["seeds"]) + len(row["failed"]) - lost, lost)
        label = "\n".join(filter(None, [row["label"], of_seeds, of_control and f"shuffled:\n{of_control}"]))
        table.add_row(label, *cells, "-" if row["gap"] is None else f"{row['gap']:+.3f}")
    rich.console.Console(width=80, markup=False, highlight=False).print(table)


def run_experiment(
    name: str,
    settings: Callable[[argparse.Namespace], Sequence[Setting]],
    draw: Callable[[list[dict[str, Any]], Path], None],
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
) -> int:
    """Runs what is missing, prints the table, writes NAME.json and NAME.png; returns the exit code.

    Args:
      name: of the files.
      settings: the settings for the parsed options.
      draw: (rows, path) -> the figure.
      parser: of the options.
      arguments: of the command line.
    """

    @command(RESUMES)
    def run(arguments: Sequence[str]) -> int:
        options, extra = parser.parse_known_args(arguments)
        commands = commands_of(settings(options), options, extra)
        reports = run_rounds(commands, tell)
        rows = rows_of(by_key(reports))
        show(rows, f"{name}: {options.data or options.config}")
        write_json_atomically(options.out / f"{name}.json", rows)
        draw(rows, options.out / f"{name}.png")
        print(f"{options.out / name}.json and .png have the same numbers")
        raise_failed(commands, reports)
        return 0

    return run(arguments)


def main_of(run: Callable[[Sequence[str]], int]) -> None:
    """What each experiment's file ends with."""
    sys.exit(functools.partial(run, sys.argv[1:])())
