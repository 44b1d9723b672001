"""What `experiments.benchmark.start` measures: processor time of whole commands, with and without a cache."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.benchmark import start
from experiments.benchmark.start import Wait
from numcoke_jax.cli.command_line import Command
from numcoke_jax.cli.parser import parse_arguments
from tests.tiny_runs import REPOSITORY, config_of, flags_of, numcoke, write_folder

CORE = min(os.sched_getaffinity(0))
BURN = "import time\nwhile time.process_time() < 0.4: pass"
# Ends with the number of runs before that left something in the cache folder, of those still there.
LEAVES_ONE_MORE = """
import os, pathlib, sys
folder = pathlib.Path(os.environ["XDG_CACHE_HOME"])
folder.mkdir(exist_ok=True)
found = len(list(folder.iterdir()))
(folder / str(found)).touch()
sys.exit(found)
"""


def python(what: str, program: str, **attributes: object) -> Wait:
    return Wait(what, ("-c", program), goal=None, **attributes)  # type: ignore[arg-type]


def test_it_counts_processor_time_and_not_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [python("works", BURN), python("sleeps", "import time; time.sleep(0.4)")]
    monkeypatch.setattr(start, "waits", lambda scratch: commands)
    works, sleeps = start.measure(2, CORE)
    assert len(works["cpu_seconds"]) == len(works["wall_seconds"]) == 2
    assert min(works["cpu_seconds"]) >= 0.4 > max(sleeps["cpu_seconds"])
    assert min(sleeps["wall_seconds"]) >= 0.4


def test_first_finds_an_empty_cache_every_time_and_second_what_the_first_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = [
        python("first", LEAVES_ONE_MORE, cold=True, code=0),
        python("second", LEAVES_ONE_MORE, code=1),
        python("first again", LEAVES_ONE_MORE, cold=True, code=0),
    ]
    monkeypatch.setattr(start, "waits", lambda scratch: commands)
    assert [row["what"] for row in start.measure(1, CORE)] == ["first", "second", "first again"]
    monkeypatch.setattr(start, "waits", lambda scratch: commands[:1])
    assert len(start.measure(2, CORE)[0]["cpu_seconds"]) == 2


def test_it_uses_one_core_and_a_cache_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    code = (
        "import os; assert len(os.sched_getaffinity(0)) == 1; "
        f"assert os.environ['XDG_CACHE_HOME'] != {os.environ.get('XDG_CACHE_HOME')!r}; "
        "assert 'JAX_COMPILATION_CACHE_DIR' not in os.environ"
    )
    monkeypatch.setattr(start, "waits", lambda scratch: [python("asks", code)])
    start.measure(1, CORE)


def test_a_command_that_ends_otherwise_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "waits", lambda scratch: [python("ends", "raise SystemExit(3)", code=2)])
    with pytest.raises(start.UserError, match="^ends: exit code 3 in place of 2: -c raise SystemExit"):
        start.measure(1, CORE)


def test_the_commands_are_commands_and_have_the_goals(tmp_path: Path) -> None:
    """Whatever `numcoke` is asked for here, it takes; nothing of it is run."""
    commands = start.waits(tmp_path)
    assert {wait.what: wait.goal for wait in commands if wait.goal} == {
        "import numcoke_jax": 0.5,
        "first demo (train cars)": 15.0,
        "cars:paper to its first step, second start": 6.0,
        "second predict of cars:paper": 4.0,
        "predict with a misspelt name": 0.7,
    }
    asked = [parse_arguments(wait.arguments[2:]) for wait in commands if wait.arguments[0] == "-m"]
    trained = [command.workdir for command in asked if isinstance(command, Command)]
    assert trained == [tmp_path / name for name in ("demo", "demo", "paper")]
    assert all(command.workdir == tmp_path / "paper" for command in asked if not isinstance(command, Command))


def test_the_table_has_least_most_and_goal(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [
        {"what": "a", "goal": 0.5, "cpu_seconds": (0.75, 0.25), "wall_seconds": (2.0, 3.0)},
        {"what": "b", "goal": None, "cpu_seconds": (1.0,), "wall_seconds": (1.5,)},
    ]
    start.show(rows)
    cells = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["│", "a", "│", "0.25", "│", "0.75", "│", "2.00", "│", "0.5", "│"] in cells
    assert ["│", "b", "│", "1.00", "│", "1.00", "│", "1.50", "│", "│"] in cells


@pytest.mark.slow  # a process that compiles
def test_the_time_to_the_first_step_ends_there(tmp_path: Path) -> None:
    """After the three steps of the first epoch, before they are validated."""
    config = numcoke(config_of(write_folder(tmp_path / "graph")))
    code = start.TO_FIRST_STEP.format(flags_of(config, tmp_path / "run"))
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == ""
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["0"]
