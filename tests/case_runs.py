"""Small runs on case folders, for the tests that do what the expect.md files say."""

import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from numcoke_jax.data.batches import Batch
from numcoke_jax.runs.run import Run
from tests.tiny_runs import compiled_fast, config_of, numcoke


def case_copy(cases_dir: Path, name: str, place: Path, literals: str = "") -> Path:
    """A copy of a case folder; `literals` names another of its files to take as its literals."""
    folder = shutil.copytree(cases_dir / name, place)
    if literals:
        shutil.copy(folder / literals, folder / "literals" / "numerical_literals.txt")
    return folder


def small(data: Path, **changes: Any) -> ConfigDict:
    """A few epochs of a TransE on a case folder."""
    return config_of(data, train__batch_size=4, train__relations_per_step=2, **changes)


def small_numcoke(data: Path, **changes: Any) -> ConfigDict:
    """NumCoKE with its contrastive loss; equal sizes compile once."""
    config = numcoke(small(data, **changes))
    config.train.entity_dropout = 0.0
    return config


def on_device(batch: Batch) -> Batch:
    """The arrays as the compiled step gets them."""
    return jax.tree.map(jnp.asarray, batch)


def all_scores(run: Run, params: Any) -> np.ndarray:
    """Scores [R, N, N] of every triple."""
    heads = jnp.arange(run.graph.num_entities, dtype=jnp.int32)
    with compiled_fast():
        return np.stack(
            [
                run.scorer.score(params, run.scorer.encode(params, relation), heads)
                for relation in range(run.graph.num_relations)
            ]
        )
