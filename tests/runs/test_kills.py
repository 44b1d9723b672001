"""A training in a process of its own, killed at random moments: nothing lost, the same bits at the end.

What a kill at a chosen moment does (inside a save, between two log lines, in a validation) is tested in
test_resume.py in one process; here the moments are the clock's, and the process is really gone.
"""

import dataclasses
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from ml_collections import ConfigDict

from numcoke_jax.runs.checkpoints import PARTIAL, Name
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.resume import checkpoints_of
from tests.tiny_runs import (
    assert_same_outcome,
    config_of,
    flags_of,
    outcome,
    run_program,
    start_program,
    write_folder,
)

STEPS = 180
KILLS = 20
EARLY_KILLS = 5  # of them: at any moment since the start, the imports and the first checkpoint included
TERMINATIONS = 6
LONGEST_START = 600.0  # seconds; far more than a start takes on a busy machine
LATEST_EARLY_STOP = 4.0  # seconds after the start
MOST_STEPS = 5  # between two stops, so that a fast machine does not end the training before the last one
LONGEST_SAVE = 0.05  # seconds; stops spread over such a time hit different moments of a save


def config_with_a_save_every_step(data: Path) -> ConfigDict:
    """STEPS steps, each followed by a checkpoint: many moments are inside a save."""
    return config_of(
        data, checkpoint__every_seconds=0.0, train__epochs=STEPS // 3, train__eval_every_epochs=5
    )


@dataclasses.dataclass(frozen=True)
class Straight:
    """A run that nothing stopped, and a cache of its compiled functions."""

    config: ConfigDict
    workdir: Path
    cache: Path


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Straight:
    root = tmp_path_factory.mktemp("straight")
    config = config_with_a_save_every_step(write_folder(root / "graph"))
    done = run_program(flags_of(config, root / "run"), root / "cache")
    assert (done.returncode, done.stderr) == (0, "")
    return Straight(config, root / "run", root / "cache")


def whole_checkpoints(workdir: Path) -> list[Name]:
    """Names of the checkpoints that were written to their end, ascending."""
    folder = workdir / "checkpoints"
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted(name for text in names if (name := Name.parse(text)))


def newest_step(workdir: Path) -> int:
    return max((name.step for name in whole_checkpoints(workdir)), default=0)


def wait_for_steps(process: subprocess.Popen[str], workdir: Path, count: int, seconds: float) -> bool:
    """Wait until `count` more steps are saved; False if the time or the process ended before."""
    wanted, began = newest_step(workdir) + count, time.monotonic()
    while newest_step(workdir) < wanted:
        if process.poll() is not None or time.monotonic() - began > seconds:
            return False
        time.sleep(0.002)
    return True


def wait_for_a_save(process: subprocess.Popen[str], workdir: Path, moments: random.Random) -> None:
    """Until one of the next steps is saved, and then into a save or between two."""
    if not wait_for_steps(process, workdir, moments.randint(1, MOST_STEPS), LONGEST_START):
        process.kill()
        pytest.fail(f"ended or saved nothing for {LONGEST_START:g} s: {process.communicate()}")
    time.sleep(moments.uniform(0.0, LONGEST_SAVE))


def stop_by(number: signal.Signals, process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code and output of a process after the signal."""
    process.send_signal(number)
    out, err = process.communicate(timeout=LONGEST_START)
    return process.returncode, out, err


@pytest.mark.slow
def test_twenty_kills_lose_nothing(straight: Straight, tmp_path: Path) -> None:
    """Each start resumes from the newest checkpoint that was whole when the process before it was killed."""
    workdir, moments = tmp_path / "run", random.Random(0)
    arguments = flags_of(straight.config, workdir)
    during_saves = 0
    for kill in range(KILLS):
        known = whole_checkpoints(workdir)[-1:]
        process = start_program(arguments, straight.cache)
        if kill < EARLY_KILLS:
            wait_for_steps(process, workdir, MOST_STEPS, moments.uniform(0.0, LATEST_EARLY_STOP))
        else:
            wait_for_a_save(process, workdir, moments)
        code, out, err = stop_by(signal.SIGKILL, process)
        assert code == -signal.SIGKILL, f"the training ended before kill {kill}: make it longer\n{out}{err}"
        assert err == ""
        assert whole_checkpoints(workdir)[-1:] >= known
        if known and "from checkpoint" in out:
            assert f"resuming from checkpoint {known[0].step}, of {STEPS} steps" in out
        folder = workdir / "checkpoints"
        during_saves += folder.is_dir() and any(name.endswith(PARTIAL) for name in os.listdir(folder))
    assert during_saves >= 3, "some kills must hit a save"
    known = whole_checkpoints(workdir)[-1:]
    done = run_program(arguments, straight.cache)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"resuming from checkpoint {known[0].step}, of {STEPS} steps" in done.stdout
    assert_same_outcome(outcome(straight.config, workdir), outcome(straight.config, straight.workdir))


@pytest.mark.slow
def test_terminations_at_any_moment_are_answered_by_code_143(straight: Straight, tmp_path: Path) -> None:
    workdir, moments = tmp_path / "run", random.Random(1)
    arguments = flags_of(straight.config, workdir)
    for number in range(TERMINATIONS):
        process = start_program(arguments, straight.cache)
        if number % 2:
            wait_for_a_save(process, workdir, moments)
        else:
            wait_for_steps(process, workdir, MOST_STEPS, moments.uniform(0.0, LATEST_EARLY_STOP))
        code, out, err = stop_by(signal.SIGTERM, process)
        # Before the program takes the signal, the system ends it: a shell calls that 143 too.
        assert code == 143 or (code == -signal.SIGTERM and "facts" not in out)
        assert err == ""
        if number % 2:
            assert f"the same command resumes from checkpoint {whole_checkpoints(workdir)[-1].step}\n" in out
            assert not any(name.endswith(PARTIAL) for name in os.listdir(workdir / "checkpoints"))
    done = run_program(arguments, straight.cache)
    assert (done.returncode, done.stderr) == (0, "")
    assert_same_outcome(outcome(straight.config, workdir), outcome(straight.config, straight.workdir))


@pytest.mark.slow
def test_two_programs_in_one_workdir(straight: Straight, tmp_path: Path) -> None:
    """The second stops with one line; the first is not disturbed."""
    workdir = tmp_path / "run"
    arguments = flags_of(straight.config, workdir)
    first = start_program(arguments, straight.cache)
    assert wait_for_steps(first, workdir, 1, LONGEST_START)
    second = run_program(arguments, straight.cache)
    assert first.poll() is None, "the training ended too soon: make it longer"
    assert second.returncode == 2
    assert second.stderr == (
        f"error: --workdir={workdir}: another process works there; wait for it or choose another folder\n"
    )
    code, out, err = stop_by(signal.SIGTERM, first)
    assert (code, err) == (143, "")
    newest = whole_checkpoints(workdir)[-1]
    assert f"resumes from checkpoint {newest.step}\n" in out
    with checkpoints_of(create_run(straight.config), workdir) as checkpoints:
        restored, faults = checkpoints.restore_newest()
    assert restored is not None and (restored.name, faults) == (newest, [])
