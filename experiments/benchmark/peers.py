"""A training step and a filtered ranking next to those of PyKEEN, at the same N, d, batch and facts.

    python -m venv ENV && ENV/bin/pip install pykeen
    python -m experiments.benchmark.peers --peer-python=ENV/bin/python --entities=1000 --dim=200 [--json=FILE]

Both do the same task: TransE with L1 distance, every entity scored as tail of each (head, relation) of the
batch, binary cross-entropy, Adam; then filtered ranks of the tails of the test facts.  PyKEEN calls the
training LCWA.  It runs in a process of its own, from another environment.  The two take turns, one
measurement each, so that a machine that slows down slows both.  Both may use all cores.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import rich.console
from rich.table import Table

from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser, as_file
from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config
from numcoke_jax.data.load import load_graph
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.run import Run
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path, write_json_atomically

SIZES = {"entities": 1000, "triples": 20_000, "dim": 200, "queries": 256, "chunk": 256}
PEER = Path(__file__).with_name("pykeen_peer.py")


def create(sizes: dict[str, int]) -> Run:
    """TransE under the settings of `SIZES` on a synthetic graph."""
    config = default_config()
    apply_preset(config, "transe")
    config.data.table, config.data.synthetic_entities = "synthetic", sizes["entities"]
    config.data.synthetic_triples, config.data.split = sizes["triples"], (0.9, 0.0, 0.1)
    config.data.negatives_per_pair = 0
    config.model.dim, config.eval.chunk = sizes["dim"], sizes["chunk"]
    config.train.batch_size, config.score.dropout = sizes["queries"], 0.0
    return create_run(config, load_graph(config.data))


class Peer:
    """PyKEEN in its own process: one line with a command in, one line of JSON out.

    Args:
      python: interpreter of an environment that has PyKEEN.
      run: the run whose facts it gets.
      sizes: of the problem.
    """

    def __init__(self, python: Path, run: Run, sizes: dict[str, int], folder: Path) -> None:
        facts = folder / "facts.npz"
        graph = run.graph
        np.savez(facts, train=graph.train, test=graph.test)
        numbers = [
            graph.num_entities,
            graph.num_relations,
            *(sizes[name] for name in ("dim", "queries", "chunk")),
        ]
        self._log = folder / "peer.log"
        with self._log.open("w") as errors:
            self._process = subprocess.Popen(
                [str(python), str(PEER), str(facts), *map(str, numbers)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.about = self.ask("about")

    def ask(self, command: str) -> dict[str, Any]:
        """Its answer; raises UserError if it has ended instead."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            self.close()
            lines = self._log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            raise UserError(f"--peer-python: PyKEEN ended at {command!r}: {lines[-1]}") from None

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        with contextlib.suppress(BrokenPipeError):  # a command that it has not read
            self._process.communicate()


class Own:
    """This package doing the same work."""

    def __init__(self, run: Run) -> None:
        self._run, self._state, self._number = run, run.fresh_state(), 0

    def step(self) -> dict[str, float]:
        """Wall-clock and processor seconds of a training step, including the making of its batch."""
        began, began_cpu = time.perf_counter(), time.process_time()
        self._state, loss = self._run.step(self._state, self._run.batch(self._number))
        jax.block_until_ready(loss)
        self._number += 1
        return {"wall": time.perf_counter() - began, "cpu": time.process_time() - began_cpu}

    def rank(self) -> dict[str, float]:
        """Wall-clock and processor seconds of a filtered ranking of the test facts' tails."""
        began, began_cpu = time.perf_counter(), time.process_time()
        ranks = self._run.evaluator.sides(self._state.params, "test")["tails"]
        assert len(ranks.all) == len(self._run.graph.test)
        return {"wall": time.perf_counter() - began, "cpu": time.process_time() - began_cpu}


def measure(python: Path, sizes: dict[str, int], *, repeats: int) -> dict[str, Any]:
    """Milliseconds of both, measured in turn: median wall-clock time and least processor time."""
    run = create(sizes)
    own = Own(run)
    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(python, run, sizes, Path(folder))
        figures: dict[str, Any] = {"peer": peer.about, "sizes": sizes, "device": jax.devices()[0].device_kind}
        try:
            for what, count in (("step", repeats), ("rank", max(repeats // 3, 3))):
                found: dict[str, list[dict[str, float]]] = {"own": [], "peer": []}
                for _ in range(count + 2):
                    found["own"].append(getattr(own, what)())
                    found["peer"].append(peer.ask(what))
                for who, rounds in found.items():
                    rounds = rounds[2:]  # the first ones compile and warm up
                    figures[f"{who}_{what}_ms"] = 1e3 * statistics.median(one["wall"] for one in rounds)
                    figures[f"{who}_{what}_cpu_ms"] = 1e3 * min(one["cpu"] for one in rounds)
        finally:
            peer.close()
    return {**figures, "test_queries": len(run.graph.test)}


def show(figures: dict[str, Any]) -> None:
    """Print the table."""
    sizes, about = figures["sizes"], figures["peer"]
    title = (
        f"TransE, L1: {sizes['entities']:,} entities, d {sizes['dim']}, {sizes['queries']} queries per step"
    )
    table = Table("what", "here", f"PyKEEN {about['pykeen']}", "ratio", "ratio of CPU time", title=title)
    for what, label in (
        ("step", "training step"),
        ("rank", f"ranking of {figures['test_queries']:,} tails"),
    ):
        own, peer = figures[f"own_{what}_ms"], figures[f"peer_{what}_ms"]
        cpu = figures[f"peer_{what}_cpu_ms"] / figures[f"own_{what}_cpu_ms"]
        table.add_row(label, f"{own:.1f} ms", f"{peer:.1f} ms", f"{peer / own:.2f} x", f"{cpu:.2f} x")
    rich.console.Console().print(table)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.benchmark.peers", description=__doc__)
    options.add_argument(
        "--peer-python", type=home_path, help="interpreter of an environment that has PyKEEN"
    )
    for name, value in SIZES.items():
        options.add_argument(f"--{name}", type=int, default=value)
    options.add_argument("--repeats", type=int, default=10, help="measured steps")
    options.add_argument("--json", type=as_file, help="file for the figures")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Prints the figures; returns the exit code."""
    options = parser().parse_args(arguments)
    refuse_below(1, options, *SIZES, "repeats")
    if options.peer_python is None or not options.peer_python.is_file():
        found = " is missing" if options.peer_python is None else f"={options.peer_python} is not a file"
        raise UserError(
            f"--peer-python{found}: make an environment with `python -m venv ENV && ENV/bin/pip install "
            "pykeen` and give ENV/bin/python"
        )
    sizes = {name: getattr(options, name) for name in SIZES}
    figures = measure(options.peer_python, sizes, repeats=options.repeats)
    show(figures)
    if options.json:
        write_json_atomically(options.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
