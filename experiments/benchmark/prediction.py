"""How long a trained model takes to load and to answer, with compilation counted apart.

    python -m experiments.benchmark.prediction --entities=1000 --queries=10000

Trains NumCoKE for one epoch on a synthetic graph, then, in a fresh process, loads the run and answers the
same queries twice.  Prints one JSON line with wall-clock and CPU seconds of each part: "compile" is what XLA
spends on programs, counted by JAX itself, and is left out of "load" and "answer".
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.benchmark.prediction", description=__doc__)
    options.add_argument("--entities", type=int, default=1_000)
    options.add_argument(
        "--queries", type=int, default=10_000, help="random (head, relation) pairs, 10 answers each"
    )
    options.add_argument("--workdir", type=Path, help=argparse.SUPPRESS)
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Trains, measures, prints; returns the exit code."""
    options = parser().parse_args(arguments)
    refuse_below(2, options, "entities")
    refuse_below(1, options, "queries")
    if options.workdir:
        print(json.dumps(measure(options.workdir, options.queries)))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        _train(Path(scratch) / "run", options.entities)
        command = [sys.executable, "-m", "experiments.benchmark.prediction", f"--workdir={scratch}/run"]
        return subprocess.run([*command, f"--queries={options.queries}"], check=False).returncode


def measure(workdir: Path, queries: int) -> dict[str, Any]:
    """Seconds to load the run and to answer random queries, the second time with everything compiled."""
    import jax

    from numcoke_jax.inference.predict import AnswerSettings
    from numcoke_jax.inference.trained import load_trained

    compiling = [0.0]

    def count(event: str, duration_secs: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            compiling[0] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(count)

    def timed(action: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
        before, start, cpu = compiling[0], time.perf_counter(), time.process_time()
        found = action()
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        compiled = compiling[0] - before
        spent = {"seconds": wall - compiled, "compile_seconds": compiled, "cpu_seconds_of_both": cpu}
        return found, {name: round(value, 2) for name, value in spent.items()}

    trained, load = timed(lambda: load_trained(workdir, print))
    graph = trained.run.graph
    drawn = np.random.default_rng(0)
    asked = np.stack(
        [drawn.integers(graph.num_entities, size=queries), drawn.integers(graph.num_relations, size=queries)],
        axis=1,
    )
    predictor = trained.predictor()
    _, first = timed(lambda: predictor.answer(asked, AnswerSettings()))
    _, again = timed(lambda: predictor.answer(asked, AnswerSettings()))
    return {
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        "fields": graph.num_fields,
        "queries": queries,
        "device": jax.devices()[0].device_kind,
        "load": load,
        "answer": first,
        "answer_again": again,
    }


def _train(workdir: Path, entities: int) -> None:
    from numcoke_jax.config.presets import apply_preset
    from numcoke_jax.config.schema import default_config
    from numcoke_jax.runs.loop import train_and_evaluate
    from numcoke_jax.runs.screen import Screen

    config = default_config()
    config.data.table = "synthetic"
    config.data.synthetic_entities = entities
    apply_preset(config, "numeric")
    config.train.epochs = config.train.eval_every_epochs = 1
    train_and_evaluate(config, workdir, Screen(sys.stderr))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
