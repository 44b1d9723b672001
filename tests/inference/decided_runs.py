"""Runs whose only relation an order core decides, fitted and not trained."""

from pathlib import Path
from typing import Any

import numpy as np

from numcoke_jax.data.graph import LoadedGraph
from numcoke_jax.inference.trained import Trained
from numcoke_jax.runs.create import create_run
from tests.inference.imputed import Holes
from tests.tiny_runs import config_of, numcoke, untrained


def decided(
    holes: Holes, relations: dict[str, np.ndarray] | None = None, *, facts: int = 250, **changes: Any
) -> Trained:
    """NumCoKE with the core on the facts "above" of a table's field a, or on other relations."""
    graph = holes.graph(relations or {"above": holes.pairs(0, facts)})
    config = numcoke(config_of(Path("memory"), **{"score__order_core": True, **changes}))
    run = create_run(config, LoadedGraph(graph, [], "memory"))
    model = untrained(config, run)
    return Trained(run, run.refitted(model.params, run.programs.model, run.graph))


def complete(seed: int, count: int = 30) -> Holes:
    """A table with every cell observed."""
    holes = Holes.drawn(seed, count=count, fields=2)
    return Holes(holes.values, np.ones_like(holes.observed))
