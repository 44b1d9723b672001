"""What experiments share: which runs count as finished."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from experiments import rounds
from numcoke_jax.command_line import Command
from numcoke_jax.config_files import canonical_config
from numcoke_jax.console import Console
from numcoke_jax.run import create_run
from numcoke_jax.train import evaluate_only
from tests.test_resume import stopping
from tests.tiny_runs import compiled_fast, config_of, stopped, train, write_folder


def command_of(data: Path, workdir: Path, **changes: Any) -> Command:
    return Command(canonical_config(config_of(data, **changes)).lock(), workdir, "train")


def report_of(workdir: Path) -> dict[str, Any]:
    return json.loads((workdir / "report.json").read_text())


def evaluate(command: Command) -> None:
    with compiled_fast():
        evaluate_only(command.config, command.workdir, Console(io.StringIO()))


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
