"""What experiments share: which runs count as finished, and that all are on the same data."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from experiments import rounds
from numcoke_jax.cli.command_line import Command
from numcoke_jax.config.files import canonical_config
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.loop import evaluate_only
from numcoke_jax.runs.screen import Screen
from numcoke_jax.system.errors import UserError
from tests.runs.test_resume import stopping
from tests.tiny_runs import compiled_fast, config_of, stopped, train, write_folder


def command_of(data: Path, workdir: Path, **changes: Any) -> Command:
    return Command(canonical_config(config_of(data, **changes)).lock(), workdir, "train")


def report_of(workdir: Path) -> dict[str, Any]:
    return json.loads((workdir / "report.json").read_text())


def evaluate(command: Command) -> None:
    with compiled_fast():
        evaluate_only(command.config, command.workdir, Screen(io.StringIO()))


def test_a_stopped_run_that_was_evaluated_is_trained_to_its_end(tmp_path: Path) -> None:
    data = write_folder(tmp_path / "graph")
    command = command_of(data, tmp_path / "run")
    stopped(stopping(create_run(command.config), 7), command.workdir)
    evaluate(command)
    assert report_of(command.workdir)["complete"] is False
    evaluate(command_of(data, command.workdir, train__patience=1))  # perhaps its end, but not that of the run
    assert report_of(command.workdir)["complete"] is False
    with compiled_fast():
        report = rounds.run_round(command)
    assert report["complete"] is True and report == report_of(command.workdir)
    rows = (command.workdir / "metrics.jsonl").read_text().splitlines()
    assert json.loads(rows[-1])["epoch"] == command.config.train.epochs


def test_a_report_without_the_key_is_completed_without_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = command_of(write_folder(tmp_path / "graph"), tmp_path / "run", train__epochs=1)
    report, _ = train(command.config, command.workdir)
    older = {key: value for key, value in report.items() if key != "complete"}
    (command.workdir / "report.json").write_text(json.dumps(older))
    with compiled_fast():
        assert rounds.run_round(command) == {**older, "complete": True} == report_of(command.workdir)
    monkeypatch.setattr(rounds, "train_and_evaluate", None)
    assert rounds.run_round(command) == report_of(command.workdir), "read from now on"


@pytest.mark.slow
def test_runs_on_data_that_changed_meanwhile_are_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither with what is trained now nor with one another; each control and share held out has a graph."""
    data = write_folder(tmp_path / "graph")
    changes: list[dict[str, Any]] = [{}, {"data__control": "shuffled"}, {"eval__inductive": 0.2}, {"seed": 1}]
    commands = {
        str(number): command_of(data, tmp_path / f"run{number}", train__epochs=1, **change)
        for number, change in enumerate(changes)
    }
    told: list[str] = []
    with compiled_fast():
        trained = {key: command for key, command in commands.items() if key != "3"}
        found = rounds.run_rounds(trained, lambda key, _: told.append(key))
        assert told == ["0", "1", "2"] and rounds.run_rounds(trained, lambda *_: None) == found
        assert len({report["environment"]["data_sha256"] for report in found.values()}) == 3
    lines = (data / "test.txt").read_text().splitlines(keepends=True)
    (data / "test.txt").write_text("".join(lines[1:]))
    for keys in (["0"], ["1"], ["2"], ["3", "0"]):
        with pytest.raises(UserError, match=f"run{keys[-1]} is a run on other data"):
            rounds.run_rounds({key: commands[key] for key in keys}, lambda *_: None)
    assert not (tmp_path / "run3").exists(), "refused before anything is trained"

    monkeypatch.setattr(rounds, "_finished_report", lambda _: None)
    monkeypatch.setattr(
        rounds, "run_round", lambda command, _: {"environment": {"data_sha256": f"{command.workdir}"}}
    )
    with pytest.raises(UserError, match=r"run3 is a run on other data"):
        rounds.run_rounds({key: commands[key] for key in ("0", "1", "3")}, lambda *_: None)
