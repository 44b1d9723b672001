"""What a person is told while nothing else is shown: one line, on a terminal and in a log."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numcoke_jax.system import console as console_module
from numcoke_jax.system.console import Console
from tests.runs.test_console import Clock, Screen, plain_environment  # noqa: F401  (no colours, no forced width)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_module, "SILENT_SECONDS", 0.02)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_silence_is_explained_once(terminal: bool, impatient: None) -> None:
    screen = Screen(terminal=terminal)
    console = Console(screen)
    with console.waiting("reading [the] data"):
        time.sleep(0.2)
    with console.waiting("quick"):
        pass
    time.sleep(0.1)
    assert screen.shown().splitlines() == ["reading [the] data"]


def test_an_error_ends_the_waiting(impatient: None) -> None:
    screen = Screen(terminal=True)
    with pytest.raises(OSError), Console(screen).waiting("reading the data"):
        raise OSError
    time.sleep(0.1)
    assert screen.shown() == ""


def test_compiling_is_announced_with_what_is_known(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    @contextlib.contextmanager
    def timed(*arguments: Any) -> Iterator[str]:
        asked.append(arguments)
        yield "compiling, about 70 s"

    monkeypatch.setattr(console_module, "timed", timed)
    screen, clock = Screen(terminal=True), Clock()
    with Console(screen, clock=clock).compiling("paper", "60 entities"):
        time.sleep(0.2)
    assert screen.shown().splitlines() == ["compiling, about 70 s"]
    assert asked == [("paper", "60 entities", clock)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["predict", "--workdir=.", "--head=a", "--relation=r"], "loading the program"),
        (["train", "table.csv", "--name=nothing"], "reading the graph"),
    ],
)
def test_imports_are_told(arguments: list[str], told: str, tmp_path: Path) -> None:
    """JAX and pandas are imported after the arguments are read: that takes a while."""
    (tmp_path / "table.csv").write_text("name,height\na,1\nb,2\n")
    code = (
        "import sys; from numcoke_jax.system import console; from numcoke_jax.cli.main import main;"
        "console.SILENT_SECONDS = 0.01; sys.exit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", code, *arguments]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.returncode) == (f"{told}\n", 2)
    assert ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1
