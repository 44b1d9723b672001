"""How long a person waits before anything happens: CPU seconds of whole commands on one core.

    python -m experiments.benchmark.start [--repeats=3] [--json=FILE]

Every line is a command in a fresh process, bound to one core, with a cache folder and a workdir that the
script makes and removes: "first" finds no compiled function there, "second" finds those of the first.  Python
keeps its bytecode in the checkout.  Shown are the least and the most CPU seconds (user and system, all
threads) of the repeats, the wall-clock time of the fastest, and what was aimed for.  The time to the first
step ends after the first epoch, of three steps.
"""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser, as_file
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import write_json_atomically

HEAD, RELATION = "ford maverick (1973)", "Horsepower_comp"
TO_FIRST_STEP = "from experiments.benchmark.start import to_first_step; to_first_step({!r})"
PROGRAM = ("-m", "numcoke_jax")
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Wait:
    """A command that a person waits for.

    Attributes:
      what: what it is called.
      arguments: of the interpreter.
      goal: CPU seconds aimed for; None if there is no such aim.
      cold: whether the cache folder is emptied before.
      code: the exit code that it must have.
    """

    what: str
    arguments: tuple[str, ...]
    goal: float | None
    cold: bool = False
    code: int = 0


def waits(scratch: Path) -> list[Wait]:
    """The commands, in an order in which each finds what it needs under `scratch`."""
    demo = ("train", "cars", f"--workdir={scratch / 'demo'}", "--overwrite")
    trained = ("train", "cars:paper", f"--workdir={scratch / 'paper'}", "--train.epochs=1", "--overwrite")
    asked = ("predict", f"--workdir={scratch / 'paper'}", f"--relation={RELATION}")
    steps = TO_FIRST_STEP.format([*trained, f"--workdir={scratch / 'begun'}", "--train.eval_every_epochs=1"])
    known, unknown = f"--head={HEAD}", f"--head={HEAD.replace('ick', 'ik')}"
    return [
        Wait("import numcoke_jax", ("-c", "import numcoke_jax"), 0.5),
        Wait("first demo (train cars)", (*PROGRAM, *demo), 15.0, cold=True),
        Wait("second demo", (*PROGRAM, *demo), None),
        Wait("cars:paper to its first step, first start", ("-c", steps), None, cold=True),
        Wait("cars:paper to its first step, second start", ("-c", steps), 6.0),
        Wait("cars:paper, one epoch with ranking and report", (*PROGRAM, *trained), None),
        Wait("first predict of cars:paper", (*PROGRAM, *asked, known), None, cold=True),
        Wait("second predict of cars:paper", (*PROGRAM, *asked, known), 4.0),
        Wait("predict with a misspelt name", (*PROGRAM, *asked, unknown), 0.7, code=2),
    ]


def to_first_step(arguments: Sequence[str]) -> None:
    """`numcoke ARGUMENTS`, which train, up to the first steps that the screen hears of."""
    import numcoke_jax.runs.screen as screen
    from numcoke_jax.cli.main import main

    class Begun(screen.Screen):
        @contextlib.contextmanager
        def progress(self, *_: Any, **__: Any) -> Iterator[Any]:
            yield self

        def advance(self, *_: Any) -> None:
            raise SystemExit(0)

    screen.Screen = Begun  # type: ignore[misc]
    raise SystemExit(main(arguments))


def measure(repeats: int, core: int) -> list[dict[str, Any]]:
    """For each command the keys what, goal, and of its repeats cpu_seconds and wall_seconds.

    Raises:
      UserError: a command ended with another exit code than it should.
    """
    with tempfile.TemporaryDirectory() as scratch:
        cache, rows = Path(scratch) / "cache", []
        for wait in waits(Path(scratch)):
            timed = []
            for _ in range(repeats):
                if wait.cold:
                    shutil.rmtree(cache, ignore_errors=True)
                code, *seconds = in_a_process(wait.arguments, cache, core)
                if code != wait.code:
                    command = " ".join(wait.arguments)
                    raise UserError(f"{wait.what}: exit code {code} in place of {wait.code}: {command}")
                timed.append(seconds)
            cpu, wall = zip(*timed, strict=True)
            rows.append({"what": wait.what, "goal": wait.goal, "cpu_seconds": cpu, "wall_seconds": wall})
        return rows


def in_a_process(
    arguments: Sequence[str], cache: Path, core: int, errors: Any = subprocess.DEVNULL
) -> tuple[int, float, float]:
    """Runs the interpreter on the CPU, in a fresh process on one core.

    Args:
      arguments: of the interpreter.
      cache: its cache folder, where compiled functions are kept.
      core: the one that it is bound to.
      errors: an open file for its standard error.

    Returns:
      The exit code, -N if signal N ended it; its CPU seconds (user and system, all threads); wall-clock
      seconds.
    """
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or all modules would be compiled at each start
    began, cores = time.perf_counter(), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})  # a child starts with those of its parent
    try:
        child = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    finally:
        os.sched_setaffinity(0, cores)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_utime + usage.ru_stime, time.perf_counter() - began


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the table."""
    table = Table("what", title="CPU seconds, one core")
    for name in ("least", "most", "wall", "goal"):
        table.add_column(name, justify="right")
    for row in rows:
        cpu, goal = row["cpu_seconds"], row["goal"]
        figures = (min(cpu), max(cpu), min(row["wall_seconds"]))
        table.add_row(row["what"], *(f"{x:.2f}" for x in figures), "" if goal is None else f"{goal:g}")
    rich.console.Console().print(table)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.benchmark.start", description=__doc__)
    options.add_argument("--repeats", type=int, default=3, help="fresh processes for each line")
    options.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)), help="which one to use")
    options.add_argument("--json", type=as_file, help="file for the figures")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Prints the figures; returns the exit code."""
    options = parser().parse_args(arguments)
    refuse_below(1, options, "repeats")
    allowed = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
    if options.core not in os.sched_getaffinity(0):
        raise UserError(f"--core={options.core} is not a core that this process may use: {allowed}")
    rows = measure(options.repeats, options.core)
    show(rows)
    if options.json:
        write_json_atomically(options.json, {"rows": rows, "repeats": options.repeats})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
