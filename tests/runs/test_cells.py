"""Runs on graphs of which few cells are observed: what is chosen; steps and answers stay the same."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from numcoke_jax.inference.explain import explain
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.run import Run
from tests import tiny_runs

ENTITIES = 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve fields, of which an entity has two at most."""
    path = tiny_runs.write_folder(tmp_path_factory.mktemp("cells") / "data", entities=ENTITIES)
    rows = [f"e{i}\tfield{i}\t{i}\ne{i}\tfield{(i + 3) % 12}\t{2 * i}\n" for i in range(1, ENTITIES)]
    rows += [f"e0\tfield{i}\t1\n" for i in (10, 11)]
    (path / "literals" / "numerical_literals.txt").write_text("".join(rows))
    return path


def config_of(folder: Path, **changes: Any) -> ConfigDict:
    return tiny_runs.numcoke(tiny_runs.config_of(folder, **changes))


def by_fields(run: Run) -> Run:
    return dataclasses.replace(run, literals=dataclasses.replace(run.literals, cells=None))


@pytest.mark.parametrize("candidates", [0, 2])
def test_steps_by_cells_are_those_by_fields(folder: Path, candidates: int) -> None:
    """Of all entities, and of samples of 6, whose cells are taken along."""
    with tiny_runs.compiled_fast():
        run = create_run(config_of(folder, train__candidates=candidates))
        assert run.literals.cells.shape == (ENTITIES, 2) and run.graph.num_fields == 12
        found, expected = (one.step(run.fresh_state(), run.batch(0)) for one in (run, by_fields(run)))
    assert float(found[1]) == pytest.approx(float(expected[1]), rel=1e-5)
    # Adam's first step has the size of the learning rate, whatever the gradient: the moments are compared.
    moments = (state.opt_state[0].mu for state, _ in (found, expected))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-6), *moments)


def test_a_graph_without_a_value_trains_and_explains(folder: Path, tmp_path: Path) -> None:
    with tiny_runs.compiled_fast():
        config = config_of(folder, data__control="removed")
        tiny_runs.train(create_run(config), tmp_path / "run")
        found = explain(tiny_runs.untrained(config), 1, 0, 2)
    assert np.isfinite(found["score"])


def test_models_without_attention_and_graphs_with_many_values_are_not_told_of_cells(
    folder: Path, tmp_path: Path
) -> None:
    with tiny_runs.compiled_fast():
        assert create_run(tiny_runs.config_of(folder)).literals.cells is None
        full = tiny_runs.write_folder(tmp_path / "full", entities=ENTITIES)
        assert create_run(config_of(full)).literals.cells is None


def test_an_explanation_has_the_weights_of_all_fields(folder: Path) -> None:
    with tiny_runs.compiled_fast():
        trained = tiny_runs.untrained(config_of(folder))
        found = explain(trained, 1, 0, 2)
    assert len(found["attention"]["head"]) == 12
    for head in zip(*found["attention"]["head"].values(), strict=True):
        assert sum(head) == pytest.approx(1.0, rel=1e-5)


def test_skipped_cells_get_no_weight(folder: Path) -> None:
    with tiny_runs.compiled_fast():
        trained = tiny_runs.untrained(config_of(folder, numeric__missing="skip"))
        weights = explain(trained, 1, 0, 2)["attention"]["head"]
    assert {field for field, shares in weights.items() if max(shares)} == {"field1", "field4"}
