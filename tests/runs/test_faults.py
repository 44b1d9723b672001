"""Faults on the disk and of the machine, from the first flag to the exit code: one message, nothing lost.

What each part does on its own is in test_checkpoints.py, test_resume.py and test_workdir.py.
"""

import shutil
import subprocess
from pathlib import Path

import jax
import pytest

from numcoke_jax.cli.main import main
from numcoke_jax.runs.checkpoints import Checkpoints
from numcoke_jax.runs.resume import checkpoints_of
from numcoke_jax.runs.run import Run
from tests.disks import small_disk
from tests.straight_runs import Straight
from tests.tiny_runs import (
    assert_same_outcome,
    call_before,
    compiled_fast,
    config_of,
    flags_of,
    outcome,
    run_program,
    snapshot,
    train,
)


@pytest.fixture(scope="module")
def run(straight: Straight) -> Run:
    return straight.run


@pytest.fixture(scope="module")
def finished(straight: Straight) -> Path:
    """Not a copy: to be read alone."""
    return straight.workdir


def error_of(run: Run, workdir: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a training that ends with code 2."""
    with compiled_fast():
        assert main(flags_of(run.config, workdir)) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    return err[7:-1]


@pytest.mark.parametrize("save", [1, 3])
def test_a_disk_that_is_full_before_a_save_ends_the_training_and_space_lets_it_go_on(
    run: Run,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    save: int,
) -> None:
    """A real small file system, filled before the first save or the third."""
    with small_disk(tmp_path / "disk", 4096) as disk:

        def fill() -> None:
            (disk / "filling").write_bytes(b"\0" * (shutil.disk_usage(disk).free - 20_000))

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, "save", call_before(save, fill, Checkpoints.save))
            line = error_of(run, disk / "run", capsys)
        step = 3 * (save - 1)
        kept = f"checkpoint {step - 3} is intact" if step else "there is no earlier one"
        assert f"cannot write checkpoint {step} to " in line and kept in line
        (disk / "filling").unlink()
        train(run, disk / "run")
        assert_same_outcome(outcome(run, disk / "run"), outcome(run, finished))


def test_a_disk_that_is_full_for_the_log_is_one_message(
    run: Run, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not one byte is left: the first file that is written says so."""
    with small_disk(tmp_path / "disk", 1024) as disk:
        (disk / "run").mkdir()
        with (disk / "filling").open("wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(b"\0" * 4096)
        line = error_of(run, disk / "run", capsys)
        assert "No space left on device" in line
        (disk / "filling").unlink()
        train(run, disk / "run")
        assert_same_outcome(outcome(run, disk / "run"), outcome(run, finished))


def test_a_workdir_that_becomes_read_only_keeps_what_it_has(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk", 4096) as disk:

        def remount(*_: object) -> None:
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

        # The log holds its file open for writing, which no read-only remount allows: it is made afterwards.
        workdir = disk / "run"
        shutil.copytree(finished_copy(run, tmp_path), workdir)
        remount()
        before = snapshot(workdir)
        line = error_of(run, workdir, capsys)
        assert "cannot write there (Read-only file system)" in line
        assert snapshot(workdir) == before
        with checkpoints_of(run, workdir) as checkpoints:
            newest, faults = checkpoints.restore_newest()
        assert newest is not None and newest.name.step == 6 and faults == []


def finished_copy(run: Run, place: Path) -> Path:
    """A run of the same config that has two of its four epochs behind it."""
    train(config_of(Path(run.config.data.path), train__epochs=2), place / "half")
    return place / "half"


def files_of_newest(workdir: Path) -> list[str]:
    newest = workdir / "checkpoints" / "12"
    return sorted(str(path.relative_to(newest)) for path in newest.rglob("*") if path.is_file())


DAMAGES = ["a changed byte", "cut short", "emptied", "missing", "another file's"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_file_of_a_checkpoint_damaged_in_turn(
    run: Run, finished: Path, tmp_path: Path, damage: str
) -> None:
    """The checkpoint is named, the one before is taken; a fifth of the runs go on, to the same bits.

    These are each file's with one of the damages.
    """
    expected = outcome(run, finished)
    for number, name in enumerate(files_of_newest(finished)):
        workdir = shutil.copytree(finished, tmp_path / str(number))
        file = workdir / "checkpoints" / "12" / name
        content = file.read_bytes()
        if damage == "missing":
            file.unlink()
        elif damage == "a changed byte":
            middle = len(content) // 2
            file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        else:
            other = (workdir / "checkpoints" / "9" / "run.json").read_bytes() + b" "
            file.write_bytes({"cut short": content[:-1], "emptied": b"", "another file's": other}[damage])
        with checkpoints_of(run, workdir) as checkpoints:
            newest, faults = checkpoints.restore_newest()
        assert newest is not None and newest.name.step == 9
        assert len(faults) == 1 and faults[0].startswith(f"checkpoint 12: {name} is ")
        if number % len(DAMAGES) != DAMAGES.index(damage):
            continue
        _, screen = train(run, workdir)
        shown = " ".join(screen.split())
        assert f"warning: checkpoint 12: {name} is " in shown and "resuming from checkpoint 9, of 12" in shown
        assert_same_outcome(outcome(run, workdir), expected)


@pytest.mark.slow
def test_a_checkpoint_goes_on_on_another_number_of_devices(run: Run, finished: Path, tmp_path: Path) -> None:
    """Written on one device, resumed by a program that sees eight: equal to 1e-5, here to the last bit."""
    workdir = finished_copy(run, tmp_path)
    done = run_program(
        flags_of(run.config, workdir),
        tmp_path / "cache",
        XLA_FLAGS="--xla_force_host_platform_device_count=8 --xla_cpu_multi_thread_eigen=false",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "resuming from checkpoint 6, of 12 steps" in done.stdout
    with checkpoints_of(run, workdir) as there, checkpoints_of(run, finished) as here:
        resumed, straight = there.restore_newest()[0], here.restore_newest()[0]
    assert resumed is not None and straight is not None and resumed.name.step == straight.name.step == 12
    for one, other in zip(
        jax.tree.leaves(resumed.state.params), jax.tree.leaves(straight.state.params), strict=True
    ):
        assert abs(one - other).max() <= 1e-5
