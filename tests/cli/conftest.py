"""The program with a training that only notes how it was called."""

import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from ml_collections import ConfigDict

from numcoke_jax.cli.main import main
from tests.tiny_runs import REPOSITORY


@pytest.fixture(autouse=True)
def in_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ConfigDict, Path]]:
    """Replaces the training by one that notes how it was called: (mode, config, workdir)."""
    calls: list[tuple[str, ConfigDict, Path]] = []
    stand_in = types.ModuleType("numcoke_jax.runs.loop")
    stand_in.train_and_evaluate = lambda config, workdir, console, *, overwrite, loaded: calls.append(  # type: ignore[attr-defined]
        ("train", config, workdir)
    )
    stand_in.evaluate_only = lambda config, workdir, console: calls.append(  # type: ignore[attr-defined]
        ("eval", config, workdir)
    )
    monkeypatch.setitem(sys.modules, "numcoke_jax.runs.loop", stand_in)
    return calls


@pytest.fixture
def error_line(
    capsys: pytest.CaptureFixture[str], training: list[tuple[str, ConfigDict, Path]]
) -> Callable[..., str]:
    """Runs the program with arguments that must be refused; gives the one line without "error: "."""

    def run(*arguments: str) -> str:
        assert main(list(arguments)) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and training == []
        assert captured.err.startswith("error: ") and captured.err.endswith("\n")
        line = captured.err.removeprefix("error: ").removesuffix("\n")
        assert line.isprintable(), "one line, no control characters"
        return line

    return run
