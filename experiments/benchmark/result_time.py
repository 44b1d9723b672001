"""When a run is worth its name: CPU seconds from its start to 95 % of its best validation MRR.

    python -m experiments.benchmark.result_time [--configs=cars,credit] [--presets=paper] [--budget=600]

Every line is `numcoke train CONFIG` in a fresh process, bound to one core, with an empty cache folder, so
that start, reading, compiling and fitting count.  Times are processor time (user and system, all threads)
from the start of the process to the end of a validation: the first one whose MRR is at least 95 % of the best
of that run, the one of the best checkpoint; then to the end of the command, with ranking and report.

A figure is no finer than the validations lie apart (`train.eval_every_epochs`).  Of a run that --budget
stops, best and test MRR are unknown: its times are "at least".  The validation MRR is that of
`eval.selection`, often higher than the test MRR.  Nothing is downloaded: a config whose data are neither in
the folder of $NUMCOKE_DATA nor, without that, in the user cache is named below the table.
"""

import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pooch
import rich.box
import rich.console
from rich.table import Table

from experiments.benchmark.start import in_a_process
from experiments.commands import command, refuse_below
from experiments.rounds import refuse_flags, round_command
from numcoke_jax.cli.commands import OneLineParser, as_file
from numcoke_jax.config.files import shipped_configs
from numcoke_jax.data.public.downloads import FOLDER_VARIABLE
from numcoke_jax.runs.stored import read_report
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import write_json_atomically

SHARE = 0.95
AT_LEAST = "≥ "
MEASURED = ("report", "budget")  # ways to end that have times
RECORD = "from experiments.benchmark.result_time import record; record({!r}, {!r}, {!r})"
COLUMNS = ("config", "epochs", "95 %", "epoch", "best", "epoch", "all", "test MRR")


def record(arguments: Sequence[str], history: str, budget: int | None) -> NoReturn:
    """`numcoke ARGUMENTS`, which train, in this process; each validation adds a line to the file `history`.

    Its keys: epoch, mrr, best (so far), cpu_seconds of this process.  The system ends the process after
    `budget` CPU seconds (None: never).
    """
    if budget:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (budget, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    import numcoke_jax.data.public.sources as sources
    import numcoke_jax.runs.screen as screen
    from numcoke_jax.cli.main import main

    class Recorded(screen.Screen):
        def validation(self, row: Mapping[str, Any]) -> None:
            super().validation(row)
            kept = {key: row[key] for key in ("epoch", "mrr", "best")}
            with open(history, "a", encoding="utf-8") as file:
                file.write(json.dumps({**kept, "cpu_seconds": time.process_time()}) + "\n")

    def refuse(source: Any, folder: Path) -> NoReturn:
        names = ", ".join(file.name for file in source.files)
        raise UserError(f"{names}: not found, and not downloaded here; set $NUMCOKE_DATA, or train once")

    screen.Screen = Recorded  # type: ignore[misc]
    sources.download = refuse
    raise SystemExit(main(arguments))


def measure(config: str, extra: Sequence[str], core: int, budget: int | None) -> dict[str, Any]:
    """One run from a cold start.

    Returns:
      config; history, as `record` writes it; ended: "report", "budget" or why it failed; cpu_seconds and
      wall_seconds of the whole command; load, the number of processes that wanted to run before; test_mrr,
      None unless it ended with a report.
    """
    with tempfile.TemporaryDirectory() as scratch:
        history, workdir, told = (Path(scratch) / name for name in ("history", "run", "errors"))
        code = RECORD.format(["train", config, f"--workdir={workdir}", *extra], str(history), budget)
        load = os.getloadavg()[0]
        with told.open("wb") as errors:
            exit_code, cpu, wall = in_a_process(("-c", code), Path(scratch) / "cache", core, errors)
        lines = history.read_text().splitlines() if history.exists() else []
        reason = told.read_text(errors="replace").split("error: ")[-1].strip() or f"exit code {exit_code}"
        return {
            "config": config,
            "history": [json.loads(line) for line in lines],
            "ended": {0: "report", -signal.SIGXCPU: "budget"}.get(exit_code, reason),
            "cpu_seconds": cpu,
            "wall_seconds": wall,
            "load": load,
            "test_mrr": None if exit_code else read_report(workdir)["test"]["mrr"],
        }


def first_within(history: Sequence[Mapping[str, Any]], share: float = SHARE) -> Mapping[str, Any] | None:
    """The first validation with at least `share` of the highest MRR; None without one that has an MRR."""
    known = [row for row in history if row["mrr"] is not None]
    best = max((row["mrr"] for row in known), default=0.0)
    return next((row for row in known if row["mrr"] >= share * best), None)


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A line of the table."""
    history, stopped = row["history"], row["ended"] == "budget"
    good = first_within(history)
    best = next((entry for entry in reversed(history) if entry["best"]), None)

    def seconds(found: float) -> str:
        return f"{AT_LEAST if stopped else ''}{found:,.{1 if found < 100 else 0}f}"

    shown = [row["config"], f"{history[-1]['epoch']}{'+' if stopped else ''}" if history else "-"]
    if not history:  # stopped before the first validation
        shown += [seconds(row["cpu_seconds"]), "-"]
    for found in ([good] if history else []) + [best]:
        shown += [seconds(found["cpu_seconds"]), f"{found['epoch']}"] if found else ["-", "-"]
    mrr = row["test_mrr"]
    return (*shown, seconds(row["cpu_seconds"]), "unknown" if mrr is None else f"{mrr:.4f}")


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the table, and which runs are not in it."""
    table = Table(
        title="CPU seconds of one core from a cold start, nothing compiled before",
        title_justify="left",
        box=rich.box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        show_edge=False,
    )
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "config" else "right")
    console = rich.console.Console(width=80, markup=False, highlight=False)
    left_out = [row for row in rows if row["ended"] not in MEASURED]
    for row in rows:
        if row not in left_out:
            table.add_row(*cells(row))
    console.print(table)
    if any(row["ended"] == "budget" for row in rows):
        console.print(f"{AT_LEAST}at least: stopped by --budget, what it would have come to is unknown")
    for row in left_out:
        console.print(f"{row['config']}: not measured: {row['ended']}")


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(
        prog="python -m experiments.benchmark.result_time",
        description=__doc__,
        epilog="Further --KEY=VALUE flags, such as --data.path=DIR, are given to every run.",
    )
    names = ",".join(shipped_configs())
    options.add_argument("--configs", default=names, help="comma-separated (default: %(default)s)")
    options.add_argument(
        "--presets", default="paper", help="of each config, beside its own settings ('': none; paper)"
    )
    options.add_argument("--budget", type=int, help="CPU seconds after which a run is stopped (no limit)")
    options.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)), help="which one to use")
    options.add_argument("--json", type=as_file, help="also write the figures, with every validation, here")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Prints the figures; returns the exit code."""
    options, extra = parser().parse_known_args(arguments)
    refuse_below(1, options, "budget")
    allowed = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
    if options.core not in os.sched_getaffinity(0):
        raise UserError(f"--core={options.core} is not a core that this process may use: {allowed}")
    refuse_flags(extra, {"config": "--configs", "workdir": "--json: every run has a workdir that is removed"})
    presets = ["", *(f":{name}" for name in options.presets.split(",") if name)]
    named = [f"{config}{preset}" for preset in presets for config in options.configs.split(",")]
    for config in named:
        round_command([f"--config={config}", *extra])  # a mistake is answered before the first run
    # The runs have another cache folder.
    os.environ.setdefault(FOLDER_VARIABLE, str(pooch.os_cache("numcoke_jax")))
    rows = []
    for config in named:
        rows.append(measure(config, extra, options.core, options.budget))
        ended = rows[-1]["ended"] if rows[-1]["ended"] in MEASURED else "not measured"
        print(f"{config}: {ended} after {rows[-1]['cpu_seconds']:,.0f} CPU s", flush=True)
        if options.json:
            figures = {"rows": rows, "share": SHARE, "budget": options.budget, "flags": extra}
            write_json_atomically(options.json, figures)
    show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
