"""A soak notices what a stopped training must not do, and finds nothing wrong with the program."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import soak
from experiments.soaking.sessions import DISK_KIBIBYTES, Process, Session, newest_step, small_disk
from numcoke_jax.system.watched import EXIT_LOST
from tests.tiny_runs import REPOSITORY


def session(code: int, *, blow: str = "", out: str = "", err: str = "") -> Session:
    return Session(("train",), blow and f"{blow} after 1.00 s", bool(blow), code, out, err, 1.0, 1.0, 300)


@pytest.mark.parametrize(
    ("seen", "faults"),
    [
        (session(0), []),
        (session(1, err="error: the loss is nan\n"), ["exit code 1"]),
        (session(0, err="warning: odd\n"), ["error output without an error"]),
        (session(0, out="checkpoint 3: run.json is damaged; falling back\n"), ["a damaged checkpoint"]),
        (session(-signal.SIGKILL, blow="kill"), []),
        (session(-signal.SIGSEGV, blow="kill"), ["exit code -11"]),
        (session(143, blow="terminate"), []),
        (session(130, blow="terminate", err="error: interrupted\n"), ["exit code 130"]),
        (session(130, blow="interrupt", err="error: interrupted\n"), []),
        (session(130, blow="interrupt twice"), ["not one line of error"]),
        (session(2, blow="full disk", err="error: no space\n"), []),
        (session(2, blow="full disk", err="Traceback\nerror: no space\n"), ["not one line of error"]),
        (session(-signal.SIGABRT, blow="small files"), ["exit code -6"]),
        (session(EXIT_LOST, blow="other killed", err="error: lost\n"), []),
        (
            session(134, blow="other killed", err="F0000\n*** Check\n"),
            ["exit code 134", "not one line of error"],
        ),
    ],
)
def test_what_a_stopped_training_may_and_may_not_end_in(seen: Session, faults: list[str]) -> None:
    assert seen.faults() == faults


def test_memory_that_grows_is_told_from_memory_that_does_not() -> None:
    assert soak.growth([300, 900]) == 1.0  # too few to say
    assert soak.growth([900, *[300] * 14]) == 1.0  # whatever the first round takes
    assert soak.growth([*[300] * 11, 900, 900, 900, 300]) == 1.0  # where many happen to compile
    assert soak.growth([100 + 20 * number for number in range(15)]) == pytest.approx(300 / 200)


def test_the_memory_and_the_code_of_a_process_are_its_own() -> None:
    for mebibytes, code in ((200, 3), (0, 0)):
        program = f"import time; a = b'x' * ({mebibytes} << 20); time.sleep(0.3); raise SystemExit({code})"
        process = Process([sys.executable, "-c", program])
        assert process.ends_within(60) and process.returncode == code
        assert mebibytes < process.mebibytes < mebibytes + 50
    process = Process([sys.executable, "-c", "while True: pass"])
    assert not process.ends_within(60, work=0.2) and 0.2 < process.work < 1.0
    process.kill()
    assert process.ends_within(60)
    process = Process([sys.executable, "-c", "import time; time.sleep(60)"])
    assert not process.ends_within(0.1)
    process.kill()
    assert process.ends_within(60) and process.returncode == -signal.SIGKILL


def test_the_newest_checkpoint_is_one_that_was_written_to_its_end(tmp_path: Path) -> None:
    assert newest_step(tmp_path) == -1
    for name in ("9", "10.1", "11.partial", "12.orbax"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert newest_step(tmp_path) == 10


def test_the_small_disk_is_small_or_said_not_to_be(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as small:
        if not small:
            pytest.skip("mounting a tmpfs is not permitted here")
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "disk" / "a").write_bytes(b"\0" * (DISK_KIBIBYTES << 10) + b"\0")
    assert not any((tmp_path / "disk").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_round_loses_nothing(processes: int, tmp_path: Path) -> None:
    words = ["--rounds=1", f"--processes={processes}", f"--out={tmp_path}", "--seed=3"]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.soak", *words], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert row["stops"] and not row["findings"] and row["peak_mebibytes"] > 100
    assert not any((tmp_path / "disk").iterdir())
