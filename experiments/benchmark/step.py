"""Time of one training step at given sizes, beside the pairwise reductions alone.

    python -m experiments.benchmark.step --entities=300 --fields=20 --dim=200 --queries=256 [--json=FILE]

The step is the paper's whole model (`presets.PRESETS["paper"]`) with all entities scored, on a synthetic
graph.  step_ms and pairwise_ms are medians of --repeats after a warm-up, measured in turn, a step after a
pairwise pass, so that a machine that slows down slows both.  The pairwise pass is the translation distance
and the order term of the same sizes, forward and backward: the floor of a 1-vs-all step.
"""

import argparse
import functools
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rich.console
from jaxtyping import Array
from rich.table import Table

from numcoke_jax import prng
from numcoke_jax.batches import Batch
from numcoke_jax.commands import OneLineParser, run_command
from numcoke_jax.config import default_config
from numcoke_jax.errors import UserError
from numcoke_jax.losses.objective import create_objective
from numcoke_jax.models import GraphSizes, create_model
from numcoke_jax.models.numeric_embedding import Literals
from numcoke_jax.ops import pairwise
from numcoke_jax.optimizer import create_optimizer
from numcoke_jax.presets import apply_preset
from numcoke_jax.report import write_json_atomically
from numcoke_jax.step import create_state, train_step

RELATIONS = 8


def random_batch(slots: int, heads: int, entities: int, *, seed: int) -> Batch:
    """A batch of random queries; a fifth of all entities are tails, a few are known negatives."""
    rng = np.random.default_rng(seed)
    labels = rng.random((slots, heads, entities)) < 0.2
    return Batch(
        relations=jnp.asarray(rng.integers(0, RELATIONS, slots), jnp.int32),
        heads=jnp.asarray(rng.integers(0, entities, (slots, heads)), jnp.int32),
        mask=jnp.ones((slots, heads), bool),
        labels=jnp.asarray(labels),
        negatives=jnp.asarray((rng.random(labels.shape) < 5 / entities) & ~labels),
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The keys of the JSON file: step_ms, pairwise_ms, peak_rss_gib, compiled_temp_bytes, device, sizes."""
    config = default_config()
    apply_preset(config, "paper")
    config.model.dim = config.model.attribute_dim = options.dim
    sizes = GraphSizes(options.entities, RELATIONS, options.fields)
    model, optimizer = create_model(config, sizes), create_optimizer(config.train, 1)
    rng = np.random.default_rng(0)
    literals = Literals(
        values=jnp.asarray(rng.random((options.entities, options.fields)), jnp.float32),
        observed=jnp.asarray(rng.random((options.entities, options.fields)) < 0.8),
    )
    slots, heads = options.relations, options.queries // options.relations
    batch = random_batch(slots, heads, options.entities, seed=1)
    objective = create_objective(config)

    def step(state: Any, batch: Batch, literals: Literals) -> Any:
        return train_step(state, batch, literals, model=model, optimizer=optimizer, objective=objective)[0]

    new_state = functools.partial(create_state, model, optimizer)
    state = jax.jit(new_state)(literals, key=prng.base_key(0))
    began = time.perf_counter()
    compiled = jax.jit(step, donate_argnums=0).lower(state, batch, literals).compile()
    compile_seconds = time.perf_counter() - began
    pairwise_pass = _pairwise_pass(slots, heads, options.entities, options.dim)
    step_times, pairwise_times = [], []
    for repeat in range(options.repeats + 2):
        elapsed, state = _timed(functools.partial(compiled, state, batch, literals))
        floor, _ = _timed(pairwise_pass)
        if repeat >= 2:
            step_times.append(elapsed)
            pairwise_times.append(floor)
    memory = compiled.memory_analysis()
    return {
        "step_ms": 1e3 * statistics.median(step_times),
        "pairwise_ms": 1e3 * statistics.median(pairwise_times),
        "peak_rss_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "compiled_temp_bytes": getattr(memory, "temp_size_in_bytes", None),
        "compile_seconds": compile_seconds,
        "device": jax.devices()[0].device_kind,
        "sizes": {name: getattr(options, name) for name in ("entities", "fields", "dim", "queries")},
    }


def _pairwise_pass(slots: int, heads: int, entities: int, dim: int) -> Callable[[], Any]:
    left = jax.random.normal(jax.random.key(0), (slots, heads, dim))
    right = jax.random.normal(jax.random.key(1), (slots, entities, dim))

    def total(left: Array, right: Array) -> Array:
        return jnp.sin(pairwise.l1_distance(left, right) + pairwise.squared_relu(left, right)).sum()

    gradient = jax.jit(jax.grad(total, (0, 1)))
    return lambda: gradient(left, right)


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = jax.block_until_ready(function())
    return time.perf_counter() - began, result


def _run(arguments: list[str]) -> int:
    parser = OneLineParser(
        prog="python -m experiments.benchmark.step",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, value in (("entities", 300), ("fields", 20), ("dim", 200), ("queries", 256), ("relations", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--repeats", type=int, default=10, help="measured steps")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args(arguments)
    for name in ("entities", "fields", "dim", "queries", "relations", "repeats"):
        if getattr(options, name) < 1:
            raise UserError(f"--{name}={getattr(options, name)} is out of range: needs an integer >= 1")
    if options.queries % options.relations:
        raise UserError(f"--queries={options.queries} must be a multiple of --relations={options.relations}")
    figures = measure(options)
    table = Table("what", "figure", title=f"{options.entities:,} entities, {options.queries} queries a step")
    table.add_row("training step", f"{figures['step_ms']:.1f} ms")
    table.add_row("pairwise reductions alone", f"{figures['pairwise_ms']:.1f} ms")
    table.add_row("step over pairwise", f"{figures['step_ms'] / figures['pairwise_ms']:.2f} x")
    table.add_row("compilation", f"{figures['compile_seconds']:.1f} s")
    table.add_row("peak process memory", f"{figures['peak_rss_gib']:.2f} GiB")
    table.add_row("device", figures["device"])
    rich.console.Console().print(table)
    if options.json:
        write_json_atomically(options.json, figures)
    return 0


def main(arguments: list[str]) -> int:
    """Prints the figures; returns the exit code."""
    return run_command(functools.partial(_run, arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
