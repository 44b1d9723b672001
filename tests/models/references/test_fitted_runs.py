"""A run of a fitted model: one step without a compiled one, then all that is done with other runs."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from numcoke_jax.cli.main import main
from numcoke_jax.config.schema import default_config
from numcoke_jax.inference.trained import load_trained
from numcoke_jax.models import MODELS, GraphSizes, create_model
from numcoke_jax.models.interface import FittedModel
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.loop import evaluate_only, train_and_evaluate
from numcoke_jax.runs.memory import check_memory
from numcoke_jax.runs.screen import Screen
from tests.tiny_runs import compiled_fast, config_of, flags_of, outcome, run_program, train, write_folder

FITTED = tuple(name for name, model in MODELS.items() if model.fitted)
WITHOUT_EXTRAS = [name for name in FITTED if name != "boosted_pairs"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("fitted") / "graph", entities=16)


@pytest.fixture(scope="module", params=WITHOUT_EXTRAS)
def finished(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, dict[str, Any], str]]:
    """Name, workdir, report and screen of a run whose step must not be compiled."""
    workdir = tmp_path_factory.mktemp(request.param) / "run"
    run = create_run(config_of(folder, model__name=request.param))
    compiled = run.programs.step._cache_size()  # type: ignore[attr-defined]
    report, screen = train(run, workdir)
    assert compiled == run.programs.step._cache_size() == 0  # type: ignore[attr-defined]
    yield request.param, workdir, report, screen


def test_the_names_of_fitted_models_are_those_that_have_a_fit() -> None:
    config, found = default_config(), []
    for name in MODELS:
        config.model.name = name
        if isinstance(create_model(config, GraphSizes(5, 2, 3)), FittedModel):
            found.append(name)
    partly = {"numcoke", "cone", "nekg", "rule"}  # the rest of their parameters is trained
    assert set(found) == {*FITTED, *partly} and not any(MODELS[name].fitted for name in partly)


def test_one_epoch_of_one_step_is_reported_as_complete(finished: Any, folder: Path) -> None:
    name, workdir, report, screen = finished
    assert (report["best_epoch"], report["complete"]) == (1, True)
    assert "train.epochs" not in screen
    # A fact of two observed values is never in doubt for those that compare values.
    assert report["test"]["mrr"] > (0.4 if name == "bradley_terry" else 0.6)
    found = outcome(create_run(config_of(folder, model__name=name)), workdir)
    assert found["step"] == 1 and [row["step"] for row in found["log"]] == [1, 1]
    assert not any("opt_state" in path for path in found["state"])  # no moments


def test_the_checkpoint_holds_the_fit_and_the_same_seed_gives_the_same_bits(
    finished: Any, folder: Path, tmp_path: Path
) -> None:
    name, workdir, _, _ = finished
    config = config_of(folder, model__name=name)
    train(config, tmp_path / "again")
    first, second = outcome(config, workdir), outcome(config, tmp_path / "again")
    assert first["state"] == second["state"] and first["report"] == second["report"]
    run = create_run(config)
    positions = run.scale.positions.apply(run.graph.values, run.graph.observed)
    positions = np.where(run.graph.observed, positions, np.nan)
    fitted = run.programs.model.fit(run.graph, positions, seed=0)  # type: ignore[attr-defined]
    stored = load_trained(workdir, pytest.fail).params
    assert stored.keys() == fitted.keys()
    for path, array in fitted.items():
        np.testing.assert_array_equal(stored[path], np.asarray(array, stored[path].dtype))


def test_a_finished_run_is_not_fitted_again_but_evaluated_and_compared(
    finished: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, workdir, report, _ = finished
    config = config_of(folder, model__name=name)
    monkeypatch.setattr(type(create_run(config)), "fresh_state", lambda *_: pytest.fail("fitted again"))
    screen = io.StringIO()
    with compiled_fast():
        again = train_and_evaluate(config, workdir, Screen(screen))
        assert "the run is complete at step 1: nothing to train" in screen.getvalue()
        evaluated = evaluate_only(config, workdir, Screen(io.StringIO()))
    assert again["test"] == evaluated["test"] == report["test"]
    assert main(["compare", str(workdir), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["runs"]
    assert shown["test"]["mrr"] == report["test"]["mrr"]


def test_predictions_are_the_models_scores(finished: Any, tmp_path: Path) -> None:
    _, workdir, _, _ = finished
    flags = ["--mode=predict", f"--workdir={workdir}", "--relation=higher", f"--out={tmp_path / 'tails.csv'}"]
    with compiled_fast():
        assert main([*flags, "--head=e15", "--known=mark", "--top=16"]) == 0
        trained = load_trained(workdir, pytest.fail)
        names, scorer = trained.run.graph.vocabulary.entities, trained.run.scorer
        ((_, scores),) = scorer.scored_heads(trained.params, np.array([names.index("e15")]), 0)
    answers = pd.read_csv(tmp_path / "tails.csv").set_index("tail")["score"]
    assert len(answers) == 16
    np.testing.assert_allclose(answers[list(names)], scores[0], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_mesh_has_the_same_ranks(tmp_path: Path) -> None:
    """15 entities in two parts of 8 rows: the last one is padding."""
    folder = write_folder(tmp_path / "graph", entities=15)
    config = config_of(folder, model__name="posterior")
    alone, _ = train(config, tmp_path / "alone")
    config.mesh.entity = 2
    flags = flags_of(config, tmp_path / "mesh")
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    process = run_program(flags, tmp_path / "cache", **devices)
    assert (tmp_path / "mesh" / "report.json").exists(), process.stderr
    report = json.loads((tmp_path / "mesh" / "report.json").read_text())
    assert report["test"] == alone["test"]


def test_moments_and_memory_of_a_fitted_model(folder: Path) -> None:
    """Parameters alone: no optimiser's state, no compiled step to measure."""
    run = create_run(config_of(folder, model__name="bounds"))
    with compiled_fast():
        need = check_memory(run, Screen(io.StringIO()))
    sizes = 16 * 1 + 16 * 1 * 2 + 1 * 2  # seen, bounds, weights of one relation and two fields
    assert need.parameters == 4 * sizes
    assert need.step == need.state < need.parameters + 64
