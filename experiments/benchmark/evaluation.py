"""Time and memory of filtered ranking, next to the per-query formulation.

    python -m experiments.benchmark.evaluation --table=fb15k_237 --dim=200 [--dir=FOLDER] [--json=FILE]
    python -m experiments.benchmark.evaluation --entities=4000 --fields=20 --dim=200 --queries=1000

Ranks the test split of FB15k-237, or of a synthetic graph, with NumCoKE and untrained parameters: the work
does not depend on their values.  --naive=K also scores K of the queries one at a time, encoding every entity
anew for each, alternating with the package's encoder and score used in the same way.
"""

import argparse
import functools
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rich.console
from rich.table import Table

from experiments.benchmark import naive
from experiments.benchmark.problem import Sizes, config_of
from experiments.benchmark.timing import process_figures
from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser, as_file
from numcoke_jax.config.schema import default_config
from numcoke_jax.data.graph import HEAD, RELATION, LoadedGraph
from numcoke_jax.data.literals import Literals, LiteralScale
from numcoke_jax.data.load import load_graph
from numcoke_jax.evaluation.evaluator import Evaluator
from numcoke_jax.evaluation.ranking import summaries
from numcoke_jax.evaluation.scorer import Scorer
from numcoke_jax.models import GraphSizes, create_model
from numcoke_jax.system import random_streams
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import write_json_atomically

TABLES = ("synthetic", "fb15k_237")
NUMBERS = {"entities": 1000, "fields": 20, "dim": 200, "queries": 1000, "chunk": 256}


def graph_of(options: argparse.Namespace) -> LoadedGraph:
    """FB15k-237, or a synthetic graph with about `queries` test facts."""
    data = default_config().data
    data.table, data.dir = options.table, options.dir
    if options.table == "synthetic":
        data.synthetic_entities, data.synthetic_fields = options.entities, options.fields
        data.synthetic_triples = max(10 * options.queries, 2 * options.entities)
        share = options.queries / data.synthetic_triples
        data.split = (1.0 - share, 0.0, share)
        data.negatives_per_pair = 0
    return load_graph(data)


def measure(loaded: LoadedGraph, *, dim: int, chunk: int, preset: str, naive_queries: int) -> dict[str, Any]:
    """The keys of the JSON file: seconds, queries, milliseconds per query, memory, device."""
    graph = loaded.graph
    of_graph = GraphSizes.of(graph)
    config = config_of(Sizes(of_graph.entities, of_graph.fields, dim, 1, 1), preset)
    model = create_model(config, of_graph)
    literals = LiteralScale.fit(graph, "minmax").literals(graph.values, graph.observed)
    params = random_parameters(model, literals)
    scorer = Scorer(model, literals, graph.vocabulary, chunk=chunk)
    evaluator = Evaluator(scorer, graph, selection="seen")
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), params)
    need = evaluator.memory(abstract)
    began, began_cpu = time.perf_counter(), time.process_time()
    metrics = summaries(evaluator.sides(params, "test")["tails"])
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    figures = {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "queries": len(graph.test),
        "query_ms": 1e3 * seconds / len(graph.test),
        "mrr": metrics["all"]["mrr"],
        "needed_bytes": need,
        **process_figures(),
        "preset": preset,
        "sizes": {**vars(of_graph), "dim": dim, "chunk": scorer.chunk, "graph": loaded.name},
    }
    if naive_queries:
        figures |= compare(
            scorer,
            params,
            literals,
            graph.test[:: max(len(graph.test) // naive_queries, 1)][:naive_queries],
        )
    return figures


def random_parameters(model: Any, literals: Literals) -> Any:
    """Parameters as training starts with them."""
    one = jnp.zeros((1,), jnp.int32)
    return jax.jit(lambda key: model.init(key, one, one[:, None], literals, train=False)["params"])(
        random_streams.base_key(0)
    )


def compare(scorer: Scorer, params: Any, literals: Literals, queries: np.ndarray) -> dict[str, Any]:
    """Time single queries with both formulations, alternating on the same queries: encode and score.

    The first query is run once before, to compile, and is not timed then.

    Raises:
      AssertionError: the two formulations do not agree on a score.
    """
    score_alone = jax.jit(functools.partial(naive.logits, params, literals=literals))
    times: dict[str, list[float]] = {"naive": [], "single": []}
    warm_up_and_all = np.concatenate([queries[:1], queries])
    for head, relation in warm_up_and_all[:, [HEAD, RELATION]].tolist():
        found = {}
        for name in times:
            began = time.perf_counter()
            if name == "naive":
                scores = score_alone(relation=jnp.int32(relation), head=jnp.int32(head))
            else:
                encoded = scorer.encode(params, relation)
                scores = scorer.score(params, encoded, jnp.asarray([head], jnp.int32))[0]
            found[name] = np.asarray(scores)
            times[name].append(time.perf_counter() - began)
        np.testing.assert_allclose(found["naive"], found["single"], rtol=1e-3, atol=1e-3)
    return {f"{name}_query_ms": 1e3 * float(np.median(seconds[1:])) for name, seconds in times.items()}


def show(figures: dict[str, Any]) -> None:
    """Print the table."""
    sizes = figures["sizes"]
    table = Table(
        "what", "figure", title=f"{sizes['graph']}: {sizes['entities']:,} entities, d {sizes['dim']}"
    )
    table.add_row("test queries", f"{figures['queries']:,}")
    table.add_row("filtered ranking", f"{figures['seconds']:.1f} s")
    table.add_row("its CPU time", f"{figures['cpu_seconds']:.1f} s")
    table.add_row("per query", f"{figures['query_ms']:.2f} ms")
    if "naive_query_ms" in figures:
        table.add_row("one query alone, its relation encoded for it", f"{figures['single_query_ms']:.2f} ms")
        table.add_row("one query, per-query formulation", f"{figures['naive_query_ms']:.2f} ms")
        ratio = figures["naive_query_ms"] / figures["query_ms"]
        table.add_row("per-query formulation over ranking", f"{ratio:.1f} x")
    table.add_row("peak process memory", f"{figures['peak_rss_gib']:.2f} GiB")
    table.add_row("device", figures["device"])
    rich.console.Console().print(table)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.benchmark.evaluation", description=__doc__)
    options.add_argument("--table", default="synthetic", help=f"one of {', '.join(TABLES)}")
    options.add_argument("--dir", default="", help="folder with the files of fb15k_237, as in data.dir")
    for name, value in NUMBERS.items():
        options.add_argument(f"--{name}", type=int, default=value)
    options.add_argument("--preset", default="paper", choices=("paper", "numeric"))
    options.add_argument("--naive", type=int, default=0, help="queries also scored one at a time; 0: none")
    options.add_argument("--json", type=as_file, help="file for the figures")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Prints the figures; returns the exit code."""
    options = parser().parse_args(arguments)
    if options.table not in TABLES:
        raise UserError(f"--table={options.table} is not a choice: needs one of {', '.join(TABLES)}")
    refuse_below(1, options, *NUMBERS)
    refuse_below(0, options, "naive")
    if options.naive and options.preset != "paper":
        raise UserError("--naive has only the paper's model: leave --preset out")
    figures = measure(
        graph_of(options),
        dim=options.dim,
        chunk=options.chunk,
        preset=options.preset,
        naive_queries=options.naive,
    )
    show(figures)
    if options.json:
        write_json_atomically(options.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
