"""The training loop: same bits for the same seed, resumed or not; what a workdir refuses; optional files."""

import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from numcoke_jax.config.schema import default_config
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.logs import read_metrics
from numcoke_jax.runs.loop import evaluate_only, train_and_evaluate
from numcoke_jax.runs.resume import checkpoints_of, newest_state, selection_metrics
from numcoke_jax.runs.screen import Screen
from numcoke_jax.system.errors import UserError
from tests import tiny_runs

TIMINGS = ("queries_per_second",)


def folder(path: Path, *, literals: bool = True, negatives: bool = True, valid: bool = True) -> Path:
    """Ten entities in a strict order under two relations, one the reverse of the other."""
    path.mkdir()
    pairs = [(i, j) for i in range(10) for j in range(i)]
    facts = [f"e{i}\thigher\te{j}" for i, j in pairs] + [f"e{j}\tlower\te{i}" for i, j in pairs]
    order = np.random.default_rng(0).permutation(len(facts))
    shuffled = [facts[place] for place in order]
    (path / "train.txt").write_text("\n".join(shuffled[:50]) + "\n")
    (path / "valid.txt").write_text("\n".join(shuffled[50:60]) + "\n" if valid else "")
    (path / "test.txt").write_text("\n".join(shuffled[60:]) + "\n")
    if negatives:
        rows = [fact.split("\t") for fact in shuffled[:20]]
        (path / "neg.txt").write_text("".join(f"{t}\t{r}\t{h}\n" for h, r, t in rows))
    if literals:
        (path / "literals").mkdir()
        rows = [f"e{i}\tsize\t{i * 1.5}\ne{i}\tnoise\t{(i * 7) % 10}\n" for i in range(10) if i != 4]
        (path / "literals" / "numerical_literals.txt").write_text("".join(rows))
    return path


def config_of(data: Path, **changes: object) -> ConfigDict:
    config = default_config()
    config.data.path = str(data)
    config.model.dim = config.model.attribute_dim = 8
    config.attention.heads = 2
    config.okcl.k = 2
    config.train.epochs = 6
    config.train.batch_size = 8
    config.train.relations_per_step = 2
    config.train.eval_every_epochs = 1
    config.train.entity_dropout = 0.2
    for key, value in changes.items():
        section, _, name = key.partition("__")
        config[section][name] = value
    return config


def train(config: ConfigDict, workdir: Path) -> tuple[dict, str]:
    """The report and what the screen showed."""
    screen = io.StringIO()
    report = train_and_evaluate(config, workdir, Screen(screen))
    return dict(report), screen.getvalue()


def saved_arrays(config: ConfigDict, workdir: Path) -> tuple[list[np.ndarray], dict]:
    """Every array of the newest checkpoint, keys as their bits, and the loop's progress but its seconds."""
    run = create_run(config)
    with checkpoints_of(run, workdir) as checkpoints:
        newest = newest_state(run, checkpoints, pytest.fail)
    assert newest is not None
    state, progress = newest
    fields = progress.to_json()
    del fields["seconds"]
    state = state.replace(key=jax.random.key_data(state.key))
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state)], fields


def log_lines(workdir: Path) -> list[dict]:
    lines = read_metrics(workdir / "metrics.jsonl")
    return [{name: value for name, value in line.items() if name not in TIMINGS} for line in lines]


def ranks_of(report: Mapping[str, Any]) -> dict:
    return {name: report[name] for name in ("best_epoch", "valid", "test")}


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[ConfigDict, Path, dict, str]:
    """A run of six epochs without a stop."""
    root = tmp_path_factory.mktemp("straight")
    config = config_of(folder(root / "data"))
    report, screen = train(config, root / "run")
    return config, root / "run", report, screen


def test_same_seed_same_bits_and_another_seed_other_bits(straight, tmp_path):
    config, workdir, report, _ = straight
    again, _ = train(config, tmp_path / "again")
    assert ranks_of(again) == ranks_of(report)
    first, second = saved_arrays(config, workdir), saved_arrays(config, tmp_path / "again")
    assert first[1] == second[1]
    for one, other in zip(first[0], second[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert log_lines(workdir) == log_lines(tmp_path / "again")
    other_config = config_of(Path(config.data.path))
    other_config.seed = 1
    train(other_config, tmp_path / "other")
    third = saved_arrays(other_config, tmp_path / "other")[0]
    assert any(not np.array_equal(one, other) for one, other in zip(first[0], third, strict=True))


def test_three_epochs_and_three_more_are_six_to_the_last_bit(straight, tmp_path):
    config, workdir, report, _ = straight
    train(config_of(Path(config.data.path), train__epochs=3), tmp_path / "run")
    resumed, screen = train(config, tmp_path / "run")
    assert "resuming from checkpoint" in screen
    assert ranks_of(resumed) == ranks_of(report)
    straight_state, resumed_state = saved_arrays(config, workdir), saved_arrays(config, tmp_path / "run")
    assert straight_state[1] == resumed_state[1]
    for one, other in zip(straight_state[0], resumed_state[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert log_lines(workdir) == log_lines(tmp_path / "run")


def test_a_finished_run_is_not_trained_again(straight):
    config, workdir, report, _ = straight
    before = saved_arrays(config, workdir)[0]
    again, screen = train(config, workdir)
    assert "nothing to train" in screen
    assert ranks_of(again) == ranks_of(report) and again["seconds"] == report["seconds"]
    for one, other in zip(before, saved_arrays(config, workdir)[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_evaluation_alone_gives_the_same_ranks(straight):
    config, workdir, report, _ = straight
    screen = io.StringIO()
    assert ranks_of(evaluate_only(config, workdir, Screen(screen))) == ranks_of(report)


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
    assert report["test"]["count"] == 30 and report["valid"]["count"] == 10
    assert "Results" in screen and "epoch" in screen


def test_early_stopping_reports_the_best_epoch_not_the_last(tmp_path):
    config = tiny_runs.config_of(folder(tmp_path / "data"), train__epochs=60, train__patience=2)
    report, screen = train(config, tmp_path / "run")
    validations = [line for line in log_lines(tmp_path / "run") if line["kind"] == "valid"]
    best = max(validations, key=lambda line: line["mrr"])  # of equal ones the first
    assert report["best_epoch"] == best["epoch"]
    assert validations[-1]["epoch"] == best["epoch"] + 2 < 60
    assert "stopped early" in screen


def test_empty_valid_no_negatives_and_no_literals_still_train(tmp_path):
    data = folder(tmp_path / "data", literals=False, negatives=False, valid=False)
    report, screen = train(config_of(data, train__epochs=2), tmp_path / "run")
    assert report["best_epoch"] == 2  # without validation the newest counts as the best
    assert report["valid"]["count"] == 0 and report["valid"]["mrr"] is None
    assert report["test"]["count"] == 30 and 0 < report["test"]["mrr"] <= 1
    assert "no literals" in screen.lower() or "numerical_literals" in screen


def test_another_config_in_the_workdir_is_refused_by_key(straight):
    config, workdir, _, _ = straight
    other = config_of(Path(config.data.path), score__margin=3.0)
    with pytest.raises(UserError, match=r"another config \(score\.margin=9\.0 there, 3\.0 now\)"):
        train(other, workdir)


def test_other_names_and_other_values_in_the_workdir_are_refused(straight, tmp_path):
    config, workdir, _, _ = straight
    renamed = tmp_path / "renamed"
    shutil.copytree(config.data.path, renamed)
    for file in renamed.rglob("*.txt"):
        file.write_text(file.read_text().replace("e7\t", "e7b\t").replace("\te7\n", "\te7b\n"))
    with pytest.raises(UserError, match=r"entities: number 7 was 'e7', is 'e7b'"):
        train(config_of(renamed), workdir)
    revalued = tmp_path / "revalued"
    shutil.copytree(config.data.path, revalued)
    literals = revalued / "literals" / "numerical_literals.txt"
    literals.write_text(literals.read_text().replace("e3\tsize\t4.5", "e3\tsize\t3.25"))
    with pytest.raises(UserError, match=r"sc" r"ale differs|other facts or values"):
        train(config_of(revalued), workdir)


@pytest.mark.parametrize(("exclude_self", "chosen_by"), [(False, 0.2), (True, 0.7)])
def test_the_head_counts_as_a_candidate_in_the_choice_unless_it_is_excluded(
    tmp_path, exclude_self, chosen_by
):
    run = create_run(config_of(folder(tmp_path / "data"), eval__exclude_self=exclude_self))
    assert selection_metrics(run, {"all": {"mrr": 0.2}, "exclude_self": {"mrr": 0.7}})["mrr"] == chosen_by


def test_the_log_shows_the_number_that_the_best_checkpoint_is_chosen_by(tmp_path):
    config = tiny_runs.config_of(folder(tmp_path / "data"), eval__exclude_self=True, train__epochs=3)
    report, screen = train(config, tmp_path / "w")
    logged = [entry["mrr"] for entry in read_metrics(tmp_path / "w" / "metrics.jsonl") if "mrr" in entry]
    assert len(logged) == 3 and max(logged) == report["selection_mrr"]
    assert f"{max(logged):.4f}" in screen


def test_evaluation_needs_a_checkpoint(tmp_path):
    config = config_of(folder(tmp_path / "data"))
    with pytest.raises(UserError, match="no checkpoints to evaluate; train there first"):
        evaluate_only(config, tmp_path / "nothing", Screen(io.StringIO()))


def test_a_loss_that_is_not_finite_stops_the_run_by_name(tmp_path):
    config = config_of(folder(tmp_path / "data"), train__learning_rate=1e6, train__epochs=40)
    with pytest.raises(
        FloatingPointError, match=r"^step \d+ \(epoch \d+, learning rate 1e\+06\): .* not finite"
    ):
        train(config, tmp_path / "run")


def test_no_number_of_epochs_leaves_it_to_the_graph_and_the_screen_says_how_many(tmp_path: Path) -> None:
    config = tiny_runs.config_of(tiny_runs.write_folder(tmp_path / "graph"), train__epochs=0)
    run = create_run(config)
    assert run.total_steps == 480 * run.batches.steps_per_epoch == 1440
    assert run.loaded.notices[-1] == "train.epochs=0: 480 epochs of 3 steps"
    config.train.epochs = 4
    assert create_run(config).total_steps == 12


def without_negatives(path: Path, *, literals: bool = True) -> Path:
    data = tiny_runs.write_folder(path)
    (data / "neg.txt").unlink()
    if not literals:
        shutil.rmtree(data / "literals")
    return data


def test_a_loss_without_a_single_false_fact_is_refused(tmp_path: Path) -> None:
    """Unknown ones weigh nothing, and none is known to be false."""
    data = without_negatives(tmp_path / "without")
    with pytest.raises(
        UserError, match="^train.unknown_weight=0 leaves the loss without a single false fact"
    ):
        create_run(tiny_runs.config_of(data, train__unknown_weight=0.0))
    create_run(tiny_runs.config_of(data, train__unknown_weight=0.0, train__negatives="reversed"))
    create_run(tiny_runs.config_of(data, train__unknown_weight=0.01))
    with_negatives = tiny_runs.write_folder(tmp_path / "with")
    create_run(tiny_runs.config_of(with_negatives, train__unknown_weight=0.0))


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
    assert any(
        line.startswith(notice) for line in create_run(tiny_runs.config_of(data, **changes)).loaded.notices
    )
    run = create_run(tiny_runs.config_of(data, **{**changes, **mended}))
    assert not any(line.startswith(notice) for line in run.loaded.notices)
