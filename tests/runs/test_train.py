"""The training loop: same bits for the same seed, resumed or not; what a workdir refuses; optional files."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ml_collections import ConfigDict

from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.logs import read_metrics
from numcoke_jax.runs.loop import evaluate_only, train_and_evaluate
from numcoke_jax.runs.resume import selection_metrics
from numcoke_jax.runs.screen import Screen
from numcoke_jax.system.errors import UserError
from tests.tiny_runs import (
    assert_same_outcome,
    compiled_fast,
    config_of,
    numcoke,
    outcome,
    train,
    write_folder,
)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[ConfigDict, Path, dict, str]:
    """A NumCoKE of two epochs on ten entities."""
    root = tmp_path_factory.mktemp("straight")
    config = numcoke(config_of(write_folder(root / "data", entities=10), train__epochs=2))
    report, screen = train(config, root / "run")
    return config, root / "run", report, screen


def test_same_seed_same_bits_and_another_seed_other_bits(straight, tmp_path):
    config, workdir, _, _ = straight
    train(config, tmp_path / "again")
    first = outcome(config, workdir)
    assert_same_outcome(outcome(config, tmp_path / "again"), first)
    other = numcoke(config_of(Path(config.data.path), train__epochs=2, seed=1))
    train(other, tmp_path / "other")
    assert outcome(other, tmp_path / "other")["state"] != first["state"]


def test_the_workdir_holds_what_the_readme_lists(straight):
    _, workdir, report, screen = straight
    for name in (
        "config.json",
        "metrics.jsonl",
        "vocabulary.json",
        "report.json",
        "checkpoints",
        "tensorboard",
    ):
        assert (workdir / name).exists(), name
    assert json.loads((workdir / "report.json").read_text())["test"] == report["test"]
    for split in ("valid", "test"):
        metrics = {"count", "mrr", "mr", "hits@1", "hits@3", "hits@10"}
        assert set(report[split]) == metrics | {"exclude_self"}
        assert set(report[split]["exclude_self"]) == metrics
    assert report["test"]["count"] == 19 and report["valid"]["count"] == 4
    assert "Results" in screen and "epoch" in screen


def without_negatives(path: Path, *, literals: bool = True) -> Path:
    data = write_folder(path)
    (data / "neg.txt").unlink()
    if not literals:
        shutil.rmtree(data / "literals")
    return data


def test_empty_valid_no_negatives_and_no_literals_still_train(tmp_path):
    data = without_negatives(tmp_path / "data", literals=False)
    (data / "valid.txt").write_text("")
    config, screen = numcoke(config_of(data, train__epochs=2)), io.StringIO()
    with compiled_fast():
        report: Any = train_and_evaluate(config, tmp_path / "run", Screen(screen))
    assert report["best_epoch"] == 2  # without validation the newest counts as the best
    assert report["valid"]["count"] == 0 and report["valid"]["mrr"] is None
    assert report["test"]["count"] == 7 and 0 < report["test"]["mrr"] <= 1
    assert "numerical_literals" in screen.getvalue()


def test_another_config_in_the_workdir_is_refused_by_key(straight):
    config, workdir, _, _ = straight
    other = numcoke(config_of(Path(config.data.path), train__epochs=2, score__margin=3.0))
    with pytest.raises(UserError, match=r"another config \(score\.margin=9\.0 there, 3\.0 now\)"):
        train(other, workdir)


def test_other_names_and_other_values_in_the_workdir_are_refused(straight, tmp_path):
    config, workdir, _, _ = straight
    renamed = tmp_path / "renamed"
    shutil.copytree(config.data.path, renamed)
    for file in renamed.rglob("*.txt"):
        file.write_text(file.read_text().replace("e7\t", "e7b\t").replace("\te7\n", "\te7b\n"))
    with pytest.raises(UserError, match=r"entities: number 7 was 'e7', is 'e7b'"):
        train(numcoke(config_of(renamed, train__epochs=2)), workdir)
    revalued = tmp_path / "revalued"
    shutil.copytree(config.data.path, revalued)
    literals = revalued / "literals" / "numerical_literals.txt"
    literals.write_text(literals.read_text().replace("e3\tsize\t4.5", "e3\tsize\t3.25"))
    with pytest.raises(UserError, match=r"scale differs|other facts or values"):
        train(numcoke(config_of(revalued, train__epochs=2)), workdir)


@pytest.mark.parametrize(("exclude_self", "chosen_by"), [(False, 0.2), (True, 0.7)])
def test_the_head_counts_as_a_candidate_in_the_choice_unless_it_is_excluded(
    tmp_path, exclude_self, chosen_by
):
    run = create_run(config_of(write_folder(tmp_path / "data"), eval__exclude_self=exclude_self))
    assert selection_metrics(run, {"all": {"mrr": 0.2}, "exclude_self": {"mrr": 0.7}})["mrr"] == chosen_by


def test_the_log_shows_the_number_that_the_best_checkpoint_is_chosen_by(tmp_path):
    config = config_of(write_folder(tmp_path / "data"), eval__exclude_self=True, train__epochs=3)
    report, screen = train(config, tmp_path / "w")
    logged = [entry["mrr"] for entry in read_metrics(tmp_path / "w" / "metrics.jsonl") if "mrr" in entry]
    assert len(logged) == 3 and max(logged) == report["selection_mrr"]
    assert f"{max(logged):.4f}" in screen


def test_evaluation_needs_a_checkpoint(tmp_path):
    config = config_of(write_folder(tmp_path / "data"))
    with pytest.raises(UserError, match="no checkpoints to evaluate; train there first"):
        evaluate_only(config, tmp_path / "nothing", Screen(io.StringIO()))


def test_a_loss_that_is_not_finite_stops_the_run_by_name(tmp_path):
    data = write_folder(tmp_path / "data", entities=10)
    config = config_of(data, train__learning_rate=1e38, train__epochs=40)
    with pytest.raises(
        FloatingPointError, match=r"^step \d+ \(epoch \d+, learning rate 1e\+38\): .* not finite"
    ):
        train(config, tmp_path / "run")


def test_no_number_of_epochs_leaves_it_to_the_graph_and_the_screen_says_how_many(tmp_path: Path) -> None:
    config = config_of(write_folder(tmp_path / "graph"), train__epochs=0)
    run = create_run(config)
    assert run.total_steps == 480 * run.batches.steps_per_epoch == 1440
    assert run.loaded.notices[-1] == "train.epochs=0: 480 epochs of 3 steps"
    config.train.epochs = 4
    assert create_run(config).total_steps == 12


def test_a_loss_without_a_single_false_fact_is_refused(tmp_path: Path) -> None:
    """Unknown ones weigh nothing, and none is known to be false."""
    data = without_negatives(tmp_path / "without")
    with pytest.raises(
        UserError, match="^train.unknown_weight=0 leaves the loss without a single false fact"
    ):
        create_run(config_of(data, train__unknown_weight=0.0))
    create_run(config_of(data, train__unknown_weight=0.0, train__negatives="reversed"))
    create_run(config_of(data, train__unknown_weight=0.01))
    with_negatives = write_folder(tmp_path / "with")
    create_run(config_of(with_negatives, train__unknown_weight=0.0))


@pytest.mark.parametrize(
    ("changes", "mended", "notice"),
    [
        (
            {"model__name": "rakge", "okcl__weight": 0.25},
            {"train__negatives": "reversed"},
            "okcl.weight=0.25 has no effect: the contrastive loss of rakge needs facts known to be false",
        ),
        (
            {"train__warmup_steps": 13, "train__learning_rate": 0.05},
            {"train__warmup_steps": 12},
            "train.warmup_steps=13 is more than the 12 steps of the run: train.learning_rate=0.05 is never",
        ),
    ],
)
def test_a_key_that_has_no_effect_on_a_graph_is_told(
    tmp_path: Path, changes: dict, mended: dict, notice: str
) -> None:
    """On a graph without negatives and without fields, four epochs of three steps."""
    data = without_negatives(tmp_path / "data", literals=False)
    assert any(line.startswith(notice) for line in create_run(config_of(data, **changes)).loaded.notices)
    run = create_run(config_of(data, **{**changes, **mended}))
    assert not any(line.startswith(notice) for line in run.loaded.notices)
