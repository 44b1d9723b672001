"""Time of one training step at given sizes, next to the pairwise reductions alone.

    python -m experiments.benchmark.step --entities=300 --fields=20 --dim=200 --queries=256 [--json=FILE]
    python -m experiments.benchmark.step --entities=1000000 --dim=64 --candidates=2048
    python -m experiments.benchmark.step --naive          also the per-query formulation (slow)
    XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m experiments.benchmark.step --mesh-entity=8

The step is NumCoKE with the settings of a preset, on random numbers.  All times are measured in turn, so that
a machine that slows down slows all of them; step_ms and pairwise_ms are medians of --repeats calls after a
warm-up, keys with "best" are the fastest call, keys with "cpu" the least processor time of all threads.  The
pairwise pass is the translation distance and the order term at the same sizes, forward and backward, on one
device: a lower bound for a step.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import rich.console
from jaxtyping import Array
from rich.table import Table

from experiments.benchmark.naive import NaiveStep
from experiments.benchmark.problem import Sizes, Step, add_mesh, add_sizes, sizes_of
from experiments.benchmark.timing import interleaved, process_figures, rates
from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser, as_file
from numcoke_jax.config.schema import choices
from numcoke_jax.models.ops import pairwise
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import write_json_atomically

PRESETS = ("paper", "numeric")


def measure(
    sizes: Sizes, *, repeats: int, preset: str, naive: bool, products: str = "float32"
) -> dict[str, Any]:
    """The keys of the JSON file: step_ms, pairwise_ms, peak_rss_gib, compiled_temp_bytes, device and more."""
    began = time.perf_counter()
    step = Step(sizes, preset, products)
    compile_seconds = time.perf_counter() - began
    functions: dict[str, Callable[[], Any]] = {"step": step, "pairwise": pairwise_pass(sizes)}
    process = {}
    if naive:  # its memory must not count: the figures of the process are taken before
        jax.block_until_ready([function() for function in functions.values()])
        process = process_figures()
        functions["naive"] = NaiveStep(sizes)
    timings = interleaved(functions, repeats)
    figures: dict[str, Any] = {}
    for name, timing in timings.items():
        figures |= {f"{name}_ms": timing.median, f"{name}_best_ms": timing.best, f"{name}_cpu_ms": timing.cpu}
    return {
        **figures,
        **(process or process_figures()),
        "compiled_temp_bytes": step.temporary_bytes(),
        "state_bytes": step.state_bytes(),
        "compile_seconds": compile_seconds,
        **rates(step.compiled, timings["step"].median / 1e3),
        "preset": preset,
        "products": products,
        "sizes": vars(sizes),
    }


def pairwise_pass(sizes: Sizes) -> Callable[[], Any]:
    """Translation distance and order term of a step, with the gradients of both."""
    heads = sizes.queries // sizes.relations
    left = jax.random.normal(jax.random.key(0), (sizes.relations, heads, sizes.dim))
    right = jax.random.normal(jax.random.key(1), (sizes.relations, sizes.columns, sizes.dim))

    def total(left: Array, right: Array) -> Array:
        return jnp.sin(pairwise.l1_distance(left, right) + pairwise.squared_relu(left, right)).sum()

    gradient = jax.jit(jax.grad(total, (0, 1)))
    return lambda: gradient(left, right)


def show(figures: dict[str, Any]) -> None:
    """Print the table."""
    sizes = figures["sizes"]
    what = f"{sizes['candidates']:,} candidates" if sizes["candidates"] else "all scored"
    table = Table(
        "what",
        "median",
        "best",
        "CPU time",
        title=f"{sizes['entities']:,} entities, {what}, {sizes['queries']} queries",
    )

    def row(label: str, name: str) -> None:
        times = (figures[f"{name}{kind}_ms"] for kind in ("", "_best", "_cpu"))
        table.add_row(label, *(f"{time_:.1f} ms" for time_ in times))

    def ratio(label: str, above: str, below: str) -> None:
        parts = (
            figures[f"{above}{kind}_ms"] / figures[f"{below}{kind}_ms"] for kind in ("", "_best", "_cpu")
        )
        table.add_row(label, *(f"{part:.2f} x" for part in parts))

    row("training step", "step")
    row("pairwise reductions alone", "pairwise")
    ratio("step over pairwise", "step", "pairwise")
    if "naive_ms" in figures:
        row("per-query formulation", "naive")
        ratio("per-query formulation over step", "naive", "step")
    table.add_row("set-up and compilation", f"{figures['compile_seconds']:.1f} s")
    table.add_row("peak process memory", f"{figures['peak_rss_gib']:.2f} GiB")
    if figures["compiled_temp_bytes"] is not None:
        table.add_row("temporaries of the step", f"{figures['compiled_temp_bytes'] / 2**20:.1f} MiB")
    if "gflops_per_second" in figures:
        loops = " (a loop counts once)" if figures["loops_counted_once"] else ""
        table.add_row(f"by XLA's count{loops}", f"{figures['gflops_per_second']:.1f} GFLOP/s")
    for key, label in (
        ("share_of_flops", "share of the card's FLOP rate, at least"),
        ("share_of_bandwidth", "share of its bandwidth, by that count"),
    ):
        if key in figures:
            table.add_row(label, f"{100 * figures[key]:.1f} %")
    table.add_row("parameters and moments per device", f"{figures['state_bytes'] / 2**20:.1f} MiB")
    table.add_row("device", figures["device"])
    rich.console.Console().print(table)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.benchmark.step", description=__doc__)
    add_sizes(options)
    add_mesh(options)
    options.add_argument("--repeats", type=int, default=10, help="measured steps")
    options.add_argument("--preset", default="paper", help=f"one of {', '.join(PRESETS)}")
    options.add_argument("--products", default="float32", choices=choices("model.products"))
    options.add_argument("--naive", action="store_true", help="time the per-query formulation too")
    options.add_argument("--json", type=as_file, help="file for the figures")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Prints the figures; returns the exit code."""
    options = parser().parse_args(arguments)
    refuse_below(1, options, "repeats")
    if options.preset not in PRESETS:
        raise UserError(f"--preset={options.preset} is not a choice: needs one of {', '.join(PRESETS)}")
    sizes = sizes_of(options)
    if options.naive and sizes.candidates:
        raise UserError("--naive scores all entities: leave --candidates out")
    figures = measure(
        sizes,
        repeats=options.repeats,
        preset=options.preset,
        naive=options.naive,
        products=options.products,
    )
    show(figures)
    if options.json:
        write_json_atomically(options.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
