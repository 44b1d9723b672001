"""What encoding costs where few values are observed: by fields, by observed cells, and with two fields.

    python -m experiments.benchmark.values [--table=fb15k_237] [--dim=100] [--relations=4] [--json=FILE]

All entities of the graph are encoded by the paper's model under a few relations, with the gradient of all
parameters, as a training step without sampled candidates does; without the score.  All ways are measured in
turn.  "fields" has coefficients of all cells, "cells" those of the observed ones, which is what a run of this
graph does; "skip" gives missing cells no attention (`numeric.missing=skip`), another model; "two" has only
the two fields with most values, and "none" no value at all.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rich.console
from jaxtyping import Array
from ml_collections import ConfigDict
from rich.table import Table

from experiments.benchmark.timing import interleaved, process_figures
from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser, as_file
from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import GRAPHS, TABLES, default_config
from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.data.literals import Literals, LiteralScale
from numcoke_jax.data.load import load_graph
from numcoke_jax.models import create_model
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.runs.run import literals_for
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import write_json_atomically

WAYS = ("fields", "cells", "skip", "two", "none")


def config_of(table: str, dim: int) -> ConfigDict:
    """The paper's model on a graph."""
    config = default_config()
    config.data.table = table
    apply_preset(config, "paper")
    config.model.dim = config.model.attribute_dim = dim
    return config


def with_fields(graph: NumericGraph, count: int) -> NumericGraph:
    """Only the `count` fields with most values."""
    kept = np.sort(np.argsort(-graph.observed.sum(axis=0), kind="stable")[:count])
    names = graph.vocabulary
    fields = tuple(names.fields[field] for field in kept)
    return dataclasses.replace(
        graph,
        vocabulary=Vocabulary(entities=names.entities, relations=names.relations, fields=fields),
        values=graph.values[:, kept],
        observed=graph.observed[:, kept],
    )


def compiled_way(way: str, config: ConfigDict, graph: NumericGraph, relations: int) -> tuple[Any, tuple]:
    """The gradient of an encoding, compiled, and what it is called with."""
    config = ConfigDict(config)
    graph = with_fields(graph, {"two": 2, "none": 0}.get(way, graph.num_fields))
    if way == "skip":
        config.numeric.missing = "skip"
    literals = literals_for(config, LiteralScale.fit(graph, config.data.normalize), graph)
    if way == "fields":
        literals = dataclasses.replace(literals, cells=None)
    elif way in ("cells", "skip") and literals.cells is None:
        table, share = config.data.table, graph.observed.mean()
        raise UserError(
            f"--table={table}: {share:.0%} of its cells are observed, so that all fields are encoded; "
            "take a graph with few values, such as fb15k_237"
        )
    model, ids = create_model(config, GraphSizes.of(graph)), jnp.arange(relations, dtype=jnp.int32)

    def total(params: Any, literals: Literals) -> Array:
        encoded = model.apply({"params": params}, ids, literals, train=False, method="encode")
        return jnp.sin(encoded.entities).sum()

    one = jnp.zeros((1,), jnp.int32)
    params = jax.jit(functools.partial(model.init, train=False))(
        jax.random.key(0), one, one[:, None], literals
    )["params"]
    inputs = params, literals
    return jax.jit(jax.grad(total)).lower(*inputs).compile(), inputs


def measure(table: str, dim: int, relations: int, repeats: int) -> dict[str, Any]:
    """The figures of all ways, by their names."""
    config = config_of(table, dim)
    graph = load_graph(config.data).graph
    calls = {way: compiled_way(way, config, graph, relations) for way in WAYS}
    functions = {way: functools.partial(compiled, *inputs) for way, (compiled, inputs) in calls.items()}
    figures: dict[str, Any] = {
        "entities": graph.num_entities,
        "num_fields": graph.num_fields,
        "observed": float(graph.observed.mean()),
        "most": int(graph.observed.sum(axis=1).max()),
    }
    for way, timing in interleaved(functions, repeats).items():
        memory = getattr(calls[way][0].memory_analysis(), "temp_size_in_bytes", None)
        figures[way] = {**dataclasses.asdict(timing), "temporary_bytes": memory}
    return {**figures, **process_figures(), "dim": dim, "relations": relations}


def show(figures: dict[str, Any]) -> None:
    """The figures as a table."""
    table = Table(
        title=f"{figures['entities']:,} entities, {figures['num_fields']} fields, {figures['observed']:.1%} "
        f"observed, at most {figures['most']} an entity; d = {figures['dim']}",
        title_justify="left",
    )
    for name in ("way", "CPU ms", "best ms", "of two fields", "temporary MiB"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for way in WAYS:
        found = figures[way]
        memory = "unknown" if found["temporary_bytes"] is None else f"{found['temporary_bytes'] / 2**20:,.0f}"
        share = found["cpu"] / figures["two"]["cpu"]
        table.add_row(way, f"{found['cpu']:,.0f}", f"{found['best']:,.0f}", f"{share:.2f}", memory)
    rich.console.Console().print(table)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.benchmark.values", description=__doc__)
    options.add_argument("--table", default="fb15k_237", choices=(*TABLES, *GRAPHS), help="data.table")
    for name, size, told in (
        ("dim", 100, "d and a"),
        ("relations", 4, "relation slots"),
        ("repeats", 3, "calls that are timed"),
    ):
        options.add_argument(f"--{name}", type=int, default=size, help=f"{told} (default: %(default)s)")
    options.add_argument("--json", type=as_file, help="also write the figures to this file")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Measures and shows; returns the exit code."""
    options = parser().parse_args(arguments)
    refuse_below(1, options, "dim", "relations", "repeats")
    figures = measure(options.table, options.dim, options.relations, options.repeats)
    show(figures)
    if options.json:
        write_json_atomically(options.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
