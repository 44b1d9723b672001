"""What must hold on a single accelerator, and how fast it is there: one command of at most 8 minutes.

    python -m experiments.benchmark.accelerator --json=FILE [--small] [--minutes=8]

Every part is a command in a process of its own on JAX's default device; what a part has not done when the
time is over is said.  The parts:

    same bits    cars:paper is trained twice with a seed and XLA's deterministic operations: losses and
                 metrics must be the same to the last bit
    agreement    once more on the CPU, all with float32 products: the losses are at most TOLERANCE apart
    step         a step, its rates and their share of the card's; bfloat16: with products in bfloat16
    ranking      filtered ranking
    fb15k_237    two epochs and a ranking, with the data in $NUMCOKE_DATA

--small has sizes for a CPU, on which the test of this script runs it; its data are synthetic in place of
FB15k-237.
Exit code 1: a part failed, or bits or tolerance did not hold.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from experiments.commands import command
from numcoke_jax.cli.commands import OneLineParser, as_file
from numcoke_jax.runs.file_names import METRICS_FILE
from numcoke_jax.runs.stored import read_report
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import read_json, write_json_atomically

TOLERANCE = 1e-3  # of losses after nine steps, as a share; a guess until an accelerator has been tried
DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
FLOAT32 = {"JAX_DEFAULT_MATMUL_PRECISION": "highest"}  # not rounded to TF32 or bfloat16
TIMES = ("queries_per_second", "seconds")
TRAIN = ("-m", "numcoke_jax", "train")
STEP, RANKING = (("-m", f"experiments.benchmark.{name}") for name in ("step", "evaluation"))
REPOSITORY = Path(__file__).resolve().parents[2]
LARGE = {
    "cars": (),
    "step": ("--entities=4000", "--queries=1024"),
    "ranking": ("--entities=15000", "--queries=2000"),
    "fb15k_237": ("--train.epochs=2", "--train.eval_every_epochs=2", "--train.candidates=0"),
}
SMALL = {
    "cars": ("--model.dim=8", "--model.attribute_dim=8"),
    "step": ("--entities=40", "--fields=3", "--dim=8", "--queries=8", "--repeats=2"),
    "ranking": ("--entities=40", "--fields=3", "--dim=8", "--queries=20", "--chunk=16"),
    "fb15k_237": (
        *("--data.table=synthetic", "--data.synthetic_entities=40", "--data.synthetic_triples=200"),
        *("--model.dim=8", "--model.attribute_dim=8", "--train.epochs=1", "--train.eval_every_epochs=1"),
        "--train.candidates=0",
    ),
}


class NotDoneError(Exception):
    """Why a part has no figures."""


@dataclasses.dataclass
class Machine:
    """Runs commands in `place` until the time is over.

    Attributes:
      place: a folder for what they write.
      sizes: flags by part, `LARGE` or `SMALL`.
      deadline: on the monotonic clock.
    """

    place: Path
    sizes: Mapping[str, Sequence[str]]
    deadline: float

    def run(self, command: Sequence[str], **variables: str) -> None:
        """One command; raises NotDoneError with its last line if it fails or the time is over."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise NotDoneError("the time was over before it began")
        try:
            done = subprocess.run(
                [sys.executable, *command],
                cwd=REPOSITORY,
                env=os.environ | variables,
                capture_output=True,
                text=True,
                timeout=left,
            )
        except subprocess.TimeoutExpired:
            raise NotDoneError("the time was over before it ended") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise NotDoneError(lines[-1].removeprefix("error: "))

    def trained(self, name: str, **variables: str) -> list[dict[str, Any]]:
        """The log of a run of cars:paper, three epochs of three steps, without times."""
        workdir = self.place / name
        if not workdir.exists():
            # Compiled anew each time: a kept function would hide what compiling leaves to chance.
            epochs = ("--train.epochs=3", "--train.eval_every_epochs=1", f"--workdir={workdir}", "--no-cache")
            flags = f"{os.environ.get('XLA_FLAGS', '')} {DETERMINISTIC}".strip()
            self.run([*TRAIN, "cars:paper", *epochs, *self.sizes["cars"]], XLA_FLAGS=flags, **variables)
        rows = [json.loads(line) for line in (workdir / METRICS_FILE).read_text().splitlines()]
        return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]

    def figures(self, part: str, command: Sequence[str]) -> dict[str, Any]:
        """What another benchmark writes to its file."""
        file = self.place / f"{part}.json"
        self.run([*command, f"--json={file}"])
        return read_json(file)


def same_bits(machine: Machine) -> dict[str, Any]:
    """Whether a seed gives the same log twice."""
    first, second = (machine.trained(name, **FLOAT32) for name in ("first", "second"))
    device = read_report(machine.place / "first")["environment"]["device_kind"]
    return {"ok": first == second, "rows": len(first), "device": device, "xla_flags": DETERMINISTIC}


def agreement(machine: Machine) -> dict[str, Any]:
    """How far the losses are from those of a CPU, as a share."""
    here = machine.trained("first", **FLOAT32)
    there = machine.trained("cpu", JAX_PLATFORMS="cpu", **FLOAT32)
    apart = max(
        abs(row[key] - other[key]) / abs(other[key])
        for row, other in zip(here, there, strict=True)
        for key in ("bce", "contrastive")
        if key in other
    )
    ranks = max(
        abs(row["mrr"] - other["mrr"]) for row, other in zip(here, there, strict=True) if "mrr" in row
    )
    return {
        "ok": apart <= TOLERANCE,
        "largest_share": apart,
        "tolerance": TOLERANCE,
        "largest_mrr_gap": ranks,
    }


def step(machine: Machine) -> dict[str, Any]:
    """Figures of `experiments.benchmark.step`."""
    return machine.figures("step", [*STEP, *machine.sizes["step"]])


def bfloat16(machine: Machine) -> dict[str, Any]:
    """The same with products in bfloat16."""
    return machine.figures("bfloat16", [*STEP, *machine.sizes["step"], "--products=bfloat16"])


def ranking(machine: Machine) -> dict[str, Any]:
    """Figures of `experiments.benchmark.evaluation`."""
    return machine.figures("ranking", [*RANKING, *machine.sizes["ranking"]])


def fb15k_237(machine: Machine) -> dict[str, Any]:
    """Seconds of the training and the test MRR after it."""
    workdir = machine.place / "fb15k_237"
    began = time.monotonic()
    machine.run([*TRAIN, "fb15k_237:paper", *machine.sizes["fb15k_237"], f"--workdir={workdir}"])
    report = read_report(workdir)
    whole = time.monotonic() - began
    return {"seconds": report["seconds"], "whole_seconds": whole, "mrr": report["test"]["mrr"]}


PARTS = {
    "same bits": same_bits,
    "agreement": agreement,
    "step": step,
    "bfloat16": bfloat16,
    "ranking": ranking,
    "fb15k_237": fb15k_237,
}
SHOWN = (
    *("device", "rows", "largest_share", "tolerance", "step_ms", "gflops_per_second", "share_of_flops"),
    *("gbytes_per_second", "share_of_bandwidth", "query_ms", "peak_device_bytes", "seconds", "mrr"),
)


def measure(sizes: Mapping[str, Sequence[str]], minutes: float) -> dict[str, dict[str, Any]]:
    """By part: `ok`, and its figures or `why` it has none."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), sizes, time.monotonic() + 60.0 * minutes)
        for name, part in PARTS.items():
            try:
                found[name] = {"ok": True, **part(machine)}
            except NotDoneError as error:
                found[name] = {"ok": False, "why": str(error)}
    return found


def show(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the table."""
    table = Table("part", "holds", "figures")
    for name, figures in found.items():
        cells = [f"{key} {_shown(figures[key])}" for key in ("why", *SHOWN) if figures.get(key) is not None]
        table.add_row(name, "yes" if figures["ok"] else "NO", ", ".join(cells))
    rich.console.Console().print(table)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.benchmark.accelerator", description=__doc__)
    options.add_argument("--json", type=as_file, help="file for the figures")
    options.add_argument("--small", action="store_true", help="sizes for a CPU")
    options.add_argument("--minutes", type=float, default=8.0, help="after which nothing more is done (8)")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Prints the figures; returns the exit code."""
    options = parser().parse_args(arguments)
    if not options.minutes > 0:
        raise UserError(f"--minutes={options.minutes:g} is out of range: needs a number > 0")
    found = measure(SMALL if options.small else LARGE, options.minutes)
    show(found)
    if options.json:
        write_json_atomically(options.json, {"small": options.small, "parts": found})
    return 0 if all(figures["ok"] for figures in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
