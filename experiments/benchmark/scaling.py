"""How time and memory of a training step grow with its sizes and the devices that share it.

    python -m experiments.benchmark.scaling [--vary=entities,fields,...] [--json=FILE]
    python -m experiments.benchmark.scaling --vary=entities --values=4000,64000 --rounds=3

One size changes at a time.  Every value runs `experiments.benchmark.step` in a process of its own, so that
peak memory is measured separately, --rounds times in turn with the others; the round with the fastest step
counts.  Growth is a step's time per unit of the size over that of the first value: 1 is linear.  For
candidates the graph grows and the 2,048 candidates stay, so growth is the step's time itself over the first:
1 is constant.  The same holds for devices, which share the entities: 1 / devices would be ideal.  On a
machine with fewer devices the CPU's cores are divided into simulated ones, which show the memory of each and
the cost of communication, but no gain.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from experiments.benchmark.problem import DEFAULTS
from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser, as_file
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import write_json_atomically

VALUES = {
    "entities": (1_000, 4_000, 16_000, 64_000),
    "fields": (5, 20, 80),
    "dim": (50, 100, 200, 400),
    "queries": (64, 256, 1024),
    "candidates": (100_000, 1_000_000),
    "devices": (1, 2, 4, 8),
}
WHOLE = ("candidates", "devices")  # growth is not per unit
FIXED = {
    "candidates": {"dim": 64, "candidates": 2048},
    "fields": {"entities": 1000},
    "dim": {"entities": 1000},
    "devices": {"entities": 4000},
}
VARIED = {"candidates": "entities", "devices": "mesh-entity"}  # where the argument has another name


def step_arguments(vary: str, value: int) -> dict[str, int]:
    """The sizes of one row."""
    return DEFAULTS | FIXED.get(vary, {}) | {VARIED.get(vary, vary): value}


def run_step(sizes: dict[str, int], repeats: int) -> dict[str, Any]:
    """Figures of a step that runs in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "step.json"
        arguments = [f"--{name}={value}" for name, value in sizes.items()]
        command = [sys.executable, "-m", "experiments.benchmark.step", *arguments, f"--repeats={repeats}"]
        devices = f"--xla_force_host_platform_device_count={sizes.get('mesh-entity', 1)}"  # affects CPUs only
        environment = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {devices}".strip()}
        done = subprocess.run([*command, f"--json={file}"], capture_output=True, text=True, env=environment)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
            raise UserError(f"{' '.join(command[1:])}: {lines[-1].removeprefix('error: ')}")
        return json.loads(file.read_text())


def measure(vary: str, values: tuple[int, ...], *, rounds: int, repeats: int) -> list[dict[str, Any]]:
    """One row per value, with "growth" relative to the first."""
    best: dict[int, dict[str, Any]] = {}
    for _ in range(rounds):
        for value in values:
            figures = run_step(step_arguments(vary, value), repeats)
            if value not in best or figures["step_best_ms"] < best[value]["step_best_ms"]:
                best[value] = figures
    rows = []
    for value in values:
        units = 1.0 if vary in WHOLE else value / values[0]
        growth = {
            f"growth{kind}": best[value][f"step{kind}_ms"] / best[values[0]][f"step{kind}_ms"] / units
            for kind in ("", "_best", "_cpu")
        }
        rows.append({"vary": vary, "value": value, **growth, **best[value]})
    return rows


def show(vary: str, rows: list[dict[str, Any]]) -> None:
    """Print the table of one size."""
    fixed = ", ".join(f"{key} {value}" for key, value in step_arguments(vary, 0).items() if value)
    columns = "step\nms", "CPU\nms", "growth", "pairwise\nms", "peak\nGiB", "temp.\nMiB", "state\nMiB"
    table = Table(vary, *columns, title=fixed, caption="temp. and state: per device")
    for row in rows:
        temporary = row["compiled_temp_bytes"]
        table.add_row(
            f"{row['value']:,}",
            f"{row['step_ms']:.1f}",
            f"{row['step_cpu_ms']:.1f}",
            f"{row['growth_best']:.2f}",
            f"{row['pairwise_ms']:.1f}",
            f"{row['peak_rss_gib']:.2f}",
            "" if temporary is None else f"{temporary / 2**20:.0f}",
            f"{row['state_bytes'] / 2**20:.1f}",
        )
    rich.console.Console().print(table)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.benchmark.scaling", description=__doc__)
    options.add_argument("--vary", default=",".join(VALUES), help="sizes, separated by commas")
    options.add_argument("--values", help="for one size: numbers joined by commas, not the usual ones")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--repeats", type=int, default=10, help="measured steps per process")
    options.add_argument("--json", type=as_file, help="file for the rows")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Prints the tables; returns the exit code."""
    options = parser().parse_args(arguments)
    chosen = options.vary.split(",")
    for name in chosen:
        if name not in VALUES:
            raise UserError(f"--vary={options.vary}: {name!r} is not one of {', '.join(VALUES)}")
    refuse_below(1, options, "rounds", "repeats")
    if options.values and len(chosen) > 1:
        raise UserError(f"--values is for one size, but --vary={options.vary} names {len(chosen)}")
    if options.values and not all(value.isdigit() and int(value) for value in options.values.split(",")):
        raise UserError(f"--values={options.values} must be integers >= 1, separated by commas")
    rows = []
    for name in chosen:
        values = tuple(map(int, options.values.split(","))) if options.values else VALUES[name]
        part = measure(name, values, rounds=options.rounds, repeats=options.repeats)
        show(name, part)
        rows += part
    if options.json:
        write_json_atomically(options.json, {"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
