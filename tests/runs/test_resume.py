"""Resumed equals straight, to the last bit: whatever ended the run, whatever was lost on the disk."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from numcoke_jax.runs.checkpoints import Checkpoints
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.logs import RunLog, read_metrics
from numcoke_jax.runs.loop import evaluate_only, train_and_evaluate
from numcoke_jax.runs.report import calibration_kind
from numcoke_jax.runs.resume import Progress, checkpoints_of
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.screen import Screen
from numcoke_jax.runs.stored import Report
from numcoke_jax.system.errors import UserError
from tests.straight_runs import Straight, best_at_six, stopping, straight_run
from tests.tiny_runs import (
    arrays_of,
    assert_same_outcome,
    call_before,
    compiled_fast,
    config_of,
    numcoke,
    outcome,
    snapshot,
    stopped,
    terminate,
    train,
    without_times,
    write_folder,
)


def test_the_straight_run_is_what_the_tests_think(straight: Straight) -> None:
    assert straight.run.batches.steps_per_epoch == 3 and straight.run.total_steps == 12
    rows = [(line["step"], line["epoch"], line["kind"]) for line in straight.outcome["log"]]
    assert rows == [(step, step // 3, kind) for step in (3, 6, 9, 12) for kind in ("train", "valid")]
    assert straight.outcome["step"] == 12


@pytest.mark.parametrize("step", [1, 2, 3, 7, 12])
def test_a_stop_by_sigterm_in_any_step(straight: Straight, tmp_path: Path, step: int) -> None:
    """The state after the running step is saved; steps 3 and 12 end an epoch before its validation."""
    screen = stopped(stopping(straight.run, step), tmp_path)
    assert f"terminated; the same command resumes from checkpoint {step}\n" in screen
    with checkpoints_of(straight.run, tmp_path) as checkpoints:
        newest, _ = checkpoints.restore_newest()
    assert newest is not None and newest.name.step == step
    _, screen = train(straight.run, tmp_path)
    assert f"resuming from checkpoint {step}, of 12 steps\n" in screen
    assert_same_outcome(outcome(straight.run, tmp_path), straight.outcome)


def test_a_stop_in_every_step_one_after_the_other(straight: Straight, tmp_path: Path) -> None:
    for _ in range(12):
        stopped(stopping(straight.run, 1), tmp_path)
    train(straight.run, tmp_path)
    assert_same_outcome(outcome(straight.run, tmp_path), straight.outcome)


@pytest.mark.parametrize("validation", [1, 4])
def test_a_stop_in_a_validation_saves_the_state_and_validates_later(
    straight: Straight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validation: int
) -> None:
    evaluate = straight.run.evaluator
    with monkeypatch.context() as patch:
        rank = call_before(validation, terminate, evaluate.for_selection)
        patch.setattr(evaluate, "for_selection", rank)
        stopped(straight.run, tmp_path)
    validated = [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")]
    assert validated == [step for number in range(1, validation) for step in (3 * number,) * 2]
    train(straight.run, tmp_path)
    assert_same_outcome(outcome(straight.run, tmp_path), straight.outcome)


def test_a_stop_while_the_report_is_made(
    straight: Straight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to save: the program ends at once; the next start only makes the report."""
    with monkeypatch.context() as patch:
        patch.setattr("numcoke_jax.runs.report.build_report", call_before(1, terminate, dict))
        stopped(straight.run, tmp_path)
    assert not (tmp_path / "report.json").exists()
    never = stopping(straight.run, 1, action=lambda: pytest.fail("trained again"))
    _, screen = train(never, tmp_path)
    assert "the run is complete at step 12: nothing to train\n" in screen
    assert_same_outcome(outcome(straight.run, tmp_path), straight.outcome)


class Killed(BaseException):
    """Stands for SIGKILL: nobody may catch it."""


def die(*_: Any, **__: Any) -> None:
    raise Killed


@pytest.mark.parametrize("written", ["write_html_report", "write_report"])
def test_a_kill_while_the_report_is_written_leaves_no_run_that_looks_finished(
    straight: Straight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"numcoke_jax.runs.report.{written}", die)
        with pytest.raises(Killed):
            train(straight.run, tmp_path)
    assert not (tmp_path / "report.json").exists()
    train(straight.run, tmp_path)
    assert (tmp_path / "report.html").exists()
    assert_same_outcome(outcome(straight.run, tmp_path), straight.outcome)


def test_a_page_that_is_lost_is_made_again(straight: Straight, finished: Path) -> None:
    (finished / "report.html").unlink()
    train(straight.run, finished)
    assert (finished / "report.html").exists()
    assert_same_outcome(outcome(straight.run, finished), straight.outcome)


@pytest.mark.parametrize("save", [1, 2, 3, 5])
@pytest.mark.parametrize("moment", ["before", "inside", "after"])
def test_a_kill_around_a_save(
    straight: Straight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: int, moment: str
) -> None:
    """Save 1 is the one before the first step; log lines beyond the checkpoint are replaced."""
    name = {"before": "save", "inside": "_write", "after": "_delete_old"}[moment]
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, name, call_before(save, die, getattr(Checkpoints, name)))
        with pytest.raises(Killed):
            train(straight.run, tmp_path)
    _, screen = train(straight.run, tmp_path)
    known = 3 * (save - 1 if moment == "after" else save - 2)
    if known >= 0:
        says = "the run is complete at step 12" if known == 12 else f"resuming from checkpoint {known}, of 12"
        assert says in screen
    assert_same_outcome(outcome(straight.run, tmp_path), straight.outcome)


def test_what_a_killed_save_left_is_named_and_removed(straight: Straight, finished: Path) -> None:
    shutil.copytree(finished / "checkpoints" / "12", finished / "checkpoints" / "12.1.partial")
    _, screen = train(straight.run, finished)
    assert "checkpoint 12.1 was not written to the end: ignored\n" in screen
    assert not (finished / "checkpoints" / "12.1.partial").exists()


@pytest.mark.parametrize("line", [1, 2])
def test_a_kill_between_the_log_lines_of_a_validation(
    straight: Straight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "write", call_before(2 + line, die, RunLog.write))
        with pytest.raises(Killed):
            train(straight.run, tmp_path)
    train(straight.run, tmp_path)
    assert_same_outcome(outcome(straight.run, tmp_path), straight.outcome)


def test_a_checkpoint_after_every_step_changes_nothing(
    straight: Straight, data: Path, tmp_path: Path
) -> None:
    run = create_run(config_of(data, checkpoint__every_seconds=0.0, checkpoint__keep=100))
    train(run, tmp_path)
    assert_same_outcome(outcome(straight.run, tmp_path), straight.outcome)
    names = sorted(int(path.name) for path in (tmp_path / "checkpoints").iterdir())
    assert names == list(range(13))


def test_a_finished_run_is_left_alone_and_says_so(straight: Straight, finished: Path) -> None:
    before = snapshot(finished)
    report, screen = train(straight.run, finished)
    assert snapshot(finished) == before
    assert "the run is complete at step 12: nothing to train\n" in screen
    assert f"its result is in {finished / 'report.json'}\n" in screen and "Results" in screen
    assert without_times(report) == straight.outcome["report"]


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"seed": 1, "best_epoch": 1}'])
def test_a_report_that_is_missing_or_damaged_is_made_again_without_training(
    straight: Straight, finished: Path, content: bytes | None
) -> None:
    path = finished / "report.json"
    path.unlink() if content is None else path.write_bytes(content)
    before = snapshot(finished)
    never = stopping(straight.run, 1, action=lambda: pytest.fail("trained again"))
    train(never, finished)
    after = snapshot(finished)
    assert {name for name in after if after[name] != before.get(name)} == {"report.json", "report.html"}
    assert_same_outcome(outcome(straight.run, finished), straight.outcome)


def test_a_config_that_was_lost_is_still_held_by_the_checkpoints(straight: Straight, finished: Path) -> None:
    (finished / "config.json").unlink()
    with pytest.raises(
        UserError, match=r"checkpoint 12 is from another run: score.margin=9.0 there, 3.0 now;"
    ):
        train(config_of(Path(straight.run.config.data.path), score__margin=3.0), finished)
    assert not (finished / "config.json").exists()
    train(straight.run, finished)


def test_more_epochs_go_on_and_equal_the_longer_run(straight: Straight, data: Path, tmp_path: Path) -> None:
    """The report of the shorter run and its page are kept beside the new ones."""
    shorter, _ = train(config_of(data, train__epochs=2), tmp_path)
    page = (tmp_path / "report.html").read_bytes()
    _, screen = train(straight.run, tmp_path)
    assert "resuming from checkpoint 6, of 12 steps" in screen
    assert_same_outcome(outcome(straight.run, tmp_path), straight.outcome)
    assert json.loads((tmp_path / "previous-report.json").read_text()) == shorter
    assert (tmp_path / "previous-report.html").read_bytes() == page != (tmp_path / "report.html").read_bytes()


def test_fewer_epochs_than_are_done_are_refused(data: Path, finished: Path) -> None:
    before = snapshot(finished)
    with pytest.raises(
        UserError,
        match=r"train.epochs=2 is less than the run has already done \(4 epochs, 12 steps\); give 4 or",
    ):
        train(config_of(data, train__epochs=2), finished)
    assert snapshot(finished) == before


def test_fewer_epochs_than_a_run_has_that_stopped_early_are_refused(data: Path, tmp_path: Path) -> None:
    """Best at epoch 2, stopped after epoch 4: neither is the result of a run of one or three epochs."""
    run = best_at_six(data, train__patience=2, train__epochs=10)
    report, screen = train(run, tmp_path)
    assert "stopped early" in screen and report["best_epoch"] == 2
    before = snapshot(tmp_path)
    for epochs in (1, 3):
        with pytest.raises(UserError, match=rf"={epochs} is less than the run has .* \(4 epochs, 12 steps\)"):
            train(config_of(data, train__patience=2, train__epochs=epochs), tmp_path)
    assert snapshot(tmp_path) == before
    again, screen = train(config_of(data, train__patience=2, train__epochs=4), tmp_path)
    assert again == report and "nothing to train" in screen


def test_more_patience_wakes_a_run_that_had_stopped_early(data: Path, tmp_path: Path) -> None:
    """And the result is that of the run which was patient from the start."""
    impatient = config_of(data, train__patience=1, train__epochs=30)
    report, screen = train(impatient, tmp_path / "run")
    assert "stopped early" in screen
    patient = config_of(data, train__patience=3, train__epochs=30)
    train(patient, tmp_path / "run")
    train(patient, tmp_path / "patient")
    assert_same_outcome(outcome(patient, tmp_path / "run"), outcome(patient, tmp_path / "patient"))
    assert len(read_metrics(tmp_path / "run" / "metrics.jsonl")) > 2 * (report["best_epoch"] + 1)


def test_evaluation_alone_writes_the_report_and_nothing_else(straight: Straight, finished: Path) -> None:
    (finished / "report.json").unlink()
    before = snapshot(finished)
    with compiled_fast():
        evaluate_only(straight.run.config, finished, Screen(io.StringIO()))
    after = snapshot(finished)
    assert {name for name in after if after[name] != before.get(name)} == {"report.json", "report.html"}
    assert_same_outcome(outcome(straight.run, finished), straight.outcome)


def evaluated(run: Run, workdir: Path) -> dict[str, Any]:
    with compiled_fast():
        return dict(evaluate_only(run.config, workdir, Screen(io.StringIO())))


@pytest.mark.parametrize("again", [evaluated, lambda run, workdir: train(run, workdir)[0]])
def test_another_calibration_makes_the_report_again_and_config_json_says_so(
    straight: Straight,
    finished: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    again: Callable[[Run, Path], dict[str, Any]],
) -> None:
    """What the environment of the training was stays known; patience was not that of the training."""
    first = json.loads((finished / "report.json").read_text())
    assert first["calibration_kind"] == "relation" and "evaluation_environment" not in first
    other = create_run(config_of(data, eval__calibration="none", train__patience=7))
    here = {**first["environment"], "device_kind": "another one"}
    monkeypatch.setattr("numcoke_jax.runs.report.describe_environment", lambda graph: here)
    report = again(other, finished)
    assert report["calibration_kind"] == "none" and report["calibration"] is None
    assert report == json.loads((finished / "report.json").read_text())
    assert report["environment"] == first["environment"] and report["evaluation_environment"] == here
    assert "evaluation: device_kind" in (finished / "report.html").read_text()
    config = json.loads((finished / "config.json").read_text())
    assert (config["eval.calibration"], config["train.patience"]) == ("none", 0)
    assert json.loads((finished / "previous-report.json").read_text()) == first
    before = snapshot(finished)
    _, screen = train(other, finished)
    assert "its result is in" in screen and snapshot(finished) == before
    for part in ("valid", "test", "best_epoch", "seconds"):
        assert report[part] == first[part]


def test_a_kill_between_config_and_report_leaves_no_report_of_another_config(
    straight: Straight, finished: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = create_run(config_of(data, eval__calibration="none"))
    with monkeypatch.context() as patch:
        patch.setattr("numcoke_jax.runs.report.keep_config", die)
        with pytest.raises(Killed):
            train(other, finished)
    assert not (finished / "report.json").exists()
    report, _ = train(straight.run, finished)
    assert report["calibration_kind"] == "relation"
    assert json.loads((finished / "config.json").read_text())["eval.calibration"] == "relation"


def test_a_report_that_is_older_than_its_calibration_kind_is_read_by_its_calibration() -> None:
    for told, kind in (
        ({"calibration": {"kind": "relation"}}, "relation"),
        ({"calibration": None}, "none"),
        ({"calibration": None, "calibration_kind": "global"}, "global"),
    ):
        assert calibration_kind(cast(Report, told)) == kind


def test_a_run_that_was_never_validated_cannot_be_evaluated(straight: Straight, tmp_path: Path) -> None:
    stopped(stopping(straight.run, 1), tmp_path)
    with compiled_fast(), pytest.raises(UserError, match="no checkpoint was validated; train there first"):
        evaluate_only(straight.run.config, tmp_path, Screen(io.StringIO()))


def test_overwriting_archives_the_old_run_whatever_its_config(
    straight: Straight, finished: Path, data: Path
) -> None:
    old = snapshot(finished)
    screen = io.StringIO()
    other = config_of(data, score__margin=3.0, train__epochs=1)
    with compiled_fast():
        train_and_evaluate(other, finished, Screen(screen), overwrite=True)
    archived = finished.with_name("run.old-1")
    assert snapshot(archived) == old
    moved = f"the run that was in {finished} is now {archived}"
    assert moved in " ".join(screen.getvalue().split())
    assert json.loads((finished / "config.json").read_text())["score.margin"] == 3.0
    with checkpoints_of(create_run(other), finished) as checkpoints:
        assert [name.step for name in checkpoints.names()] == [0, 3]


def test_a_numcoke_stopped_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    """All random streams, two optimiser moments of every array, both loss sums."""
    config = numcoke(config_of(write_folder(tmp_path / "graph"), train__epochs=2))
    whole = straight_run(create_run(config), tmp_path / "straight")
    stopped(stopping(whole.run, 2), tmp_path / "run")
    stopped(stopping(whole.run, 3), tmp_path / "run")
    train(whole.run, tmp_path / "run")
    assert_same_outcome(outcome(whole.run, tmp_path / "run"), whole.outcome)
    other = create_run(numcoke(config_of(Path(config.data.path), train__epochs=2, seed=1)))
    assert other.programs is whole.run.programs, "another seed compiles nothing"
    train(other, tmp_path / "other")
    assert outcome(other, tmp_path / "other")["state"] != whole.outcome["state"]


def test_progress_survives_json() -> None:
    progress = Progress(validated_step=6, seconds=0.1 + 0.2, faults=("checkpoint 3 is missing",))
    assert Progress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


def test_nothing_is_compiled_again_after_a_resume(straight: Straight, tmp_path: Path) -> None:
    """Restored and new arrays are on the same devices in the same way."""
    train(straight.run, tmp_path)
    step: Any = straight.run.programs.step  # jax's stubs leave `_cache_size` out
    compiled = step._cache_size()
    stopped(stopping(straight.run, 4), tmp_path / "run")
    train(straight.run, tmp_path / "run")
    assert step._cache_size() == compiled == 1


def test_a_state_is_the_same_bits_after_a_restart_of_the_loop_alone(straight: Straight) -> None:
    """`arrays_of`, by which these tests compare, tells different states apart."""
    with checkpoints_of(straight.run, straight.workdir) as checkpoints:
        states = [checkpoints.restore(name).state for name in checkpoints.names()]
    assert len({tuple(arrays_of(state).values()) for state in states}) == len(states) > 1
