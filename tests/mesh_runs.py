"""A small run on some devices or processes, started by tests/training/test_placement.py: prints JSON.

python -m tests.mesh_runs DATA_FOLDER WORKDIR DATAxENTITY CANDIDATES [HOST:PORT PROCESSES PROCESS]
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np
from ml_collections import ConfigDict

from numcoke_jax.evaluation.ranking import summaries
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.run import Run
from numcoke_jax.system.processes import fetch, join
from tests import tiny_runs

STEPS = 6


def config_of(data: Path, mesh: tuple[int, int], candidates: int) -> ConfigDict:
    """NumCoKE on all entities, or on samples of 8 heads and 2 tails and others, with a softmax over these."""
    config = tiny_runs.numcoke(tiny_runs.config_of(data, train__batch_size=8, train__epochs=2, eval__chunk=8))
    config.train.candidates = candidates
    config.train.loss = "cross_entropy" if candidates else "bce"
    config.mesh.data, config.mesh.entity = mesh
    return config


def figures(run: Run) -> dict[str, object]:
    """Losses of the first steps, metrics after them, and how the entity table lies on the devices."""
    state, losses = run.fresh_state(), []
    for step in range(STEPS):
        state, loss = run.step(state, run.batch(step))
        losses.append(float(loss))
    table = state.params["entity_embedding"]
    moments = state.opt_state[0].mu["entity_embedding"]
    encoded = run.scorer.encode(state.params, 0)
    scores = run.scorer.score(state.params, encoded, jax.numpy.arange(2))
    vectors = next(leaf for leaf in jax.tree.leaves(encoded) if leaf.ndim == 3)  # [1, N, d]
    return {
        "losses": losses,
        "metrics": summaries(run.evaluator.sides(state.params, "test")["tails"]),
        "table": np.asarray(fetch(table))[: run.graph.num_entities].tolist(),
        "bytes": [[shard.data.nbytes for shard in array.addressable_shards] for array in (table, moments)],
        "literal_bytes": [shard.data.nbytes for shard in run.literals.values.addressable_shards],
        "encoding_bytes": [shard.data.nbytes for shard in vectors.addressable_shards],
        "score_columns": [shard.data.shape[1] for shard in scores.addressable_shards],
        "devices": len(jax.devices()),
        "share": list(run.batch(0).mask.addressable_shards[0].data.shape),
    }


def main(arguments: list[str]) -> None:
    """Joins the other processes, computes, trains in the workdir, prints."""
    data, workdir, mesh, candidates = Path(arguments[0]), Path(arguments[1]), arguments[2], int(arguments[3])
    join(dict(zip(("coordinator", "processes", "process"), arguments[4:], strict=False)))
    across, along = map(int, mesh.split("x"))
    config = config_of(data, (across, along), candidates)
    with tiny_runs.compiled_fast():
        found = figures(create_run(config))
    report, screen = tiny_runs.train(config, workdir)
    print(json.dumps({**found, "report": report["test"], "resumed": "resuming from" in screen}))


if __name__ == "__main__":
    main(sys.argv[1:])
