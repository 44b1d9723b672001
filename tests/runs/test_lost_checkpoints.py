"""What is lost or damaged on the disk between two starts of a run is told, and never trained over."""

import shutil
from pathlib import Path

import pytest

from numcoke_jax.runs.resume import checkpoints_of
from numcoke_jax.system.errors import UserError
from tests.straight_runs import Straight, best_at_six, stopping
from tests.tiny_runs import assert_same_outcome, config_of, outcome, snapshot, stopped, train


def damage_checkpoint(workdir: Path, step: int) -> None:
    file = workdir / "checkpoints" / str(step) / "run.json"
    file.write_bytes(file.read_bytes() + b" ")


def test_a_damaged_newest_checkpoint_is_named_and_the_run_goes_on_from_the_one_before(
    straight: Straight, finished: Path
) -> None:
    damage_checkpoint(finished, 12)
    _, screen = train(straight.run, finished)
    shown = " ".join(screen.split())
    assert (
        "warning: checkpoint 12: run.json is damaged: its bytes are not those that were written; falling "
        "back to the one before" in shown
    )
    assert "resuming from checkpoint 9, of 12 steps" in shown
    assert (finished / "checkpoints" / "12").is_dir() and (finished / "checkpoints" / "12.1").is_dir()
    assert_same_outcome(outcome(straight.run, finished), straight.outcome)


def test_a_lost_best_checkpoint_is_told_and_the_best_of_those_left_reported(
    straight: Straight, data: Path, tmp_path: Path
) -> None:
    """Best at step 6, then the checkpoints 9 and 12; the report does not hide that 6 is lost."""
    report, _ = train(best_at_six(data), tmp_path)
    assert report["best_epoch"] == 2 and "faults" not in report
    damage_checkpoint(tmp_path, 6)
    (tmp_path / "report.json").unlink()
    # The real validation now ranks the two that are left.
    report, screen = train(straight.run, tmp_path)
    with checkpoints_of(straight.run, tmp_path) as checkpoints:
        left = {
            name.step: checkpoints.restore(name).state.params for name in checkpoints.names() if name.step > 6
        }
    metrics = {
        step: straight.run.evaluator.for_selection(params)["all"]["mrr"] for step, params in left.items()
    }
    best = max(metrics, key=lambda step: (metrics[step], -step))
    assert sorted(metrics) == [9, 12] and report["best_epoch"] == best // 3
    fault = (
        "checkpoint 6: run.json is damaged: its bytes are not those that were written, and it was the best; "
        f"checkpoint {best} (epoch {best // 3}) takes its place"
    )
    assert report["faults"] == [fault] and f"warning: {fault}" in " ".join(screen.split())


def test_a_best_checkpoint_that_is_lost_half_way_is_told_at_once(
    straight: Straight, data: Path, tmp_path: Path
) -> None:
    run = best_at_six(data)
    stopped(stopping(run, 11), tmp_path)
    shutil.rmtree(tmp_path / "checkpoints" / "6")
    report, screen = train(straight.run, tmp_path)
    fault = "checkpoint 6 is missing, and it was the best; checkpoint 9 (epoch 3) takes its place"
    assert f"warning: {fault}" in " ".join(screen.split())
    assert report["faults"] == [fault]


def test_without_any_usable_checkpoint_the_run_does_not_start_again(
    straight: Straight, finished: Path
) -> None:
    for step in (9, 12):
        damage_checkpoint(finished, step)
    for path in (finished / "checkpoints").iterdir():
        if path.name not in ("9", "12"):
            damage_checkpoint(finished, int(path.name))
    before = snapshot(finished)
    with pytest.raises(
        UserError, match="no checkpoint can be used: checkpoint 12: run.json is damaged: .* 9: "
    ):
        train(straight.run, finished)
    assert snapshot(finished) == before
    shutil.rmtree(finished / "checkpoints")
    before = snapshot(finished)
    with pytest.raises(
        UserError, match=r"a run was here \(metrics.jsonl goes to step 12\), but no checkpoint of it is left"
    ):
        train(straight.run, finished)
    assert snapshot(finished) == before


def test_a_checkpoint_of_other_facts_is_refused_also_without_the_vocabulary(
    straight: Straight, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(straight.run.config.data.path, tmp_path / "graph")
    facts = tmp_path / "graph" / "train.txt"
    facts.write_text("".join(facts.read_text().splitlines(keepends=True)[1:]))
    (finished / "vocabulary.json").unlink()
    before = snapshot(finished)
    with pytest.raises(
        UserError, match="12 is from another run: the facts or values it was trained on: sha256"
    ):
        train(config_of(tmp_path / "graph"), finished)
    assert snapshot(finished) == before
