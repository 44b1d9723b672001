"""Two processes of one run, of which one is lost: the other ends well, and both can go on."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from numcoke_jax.system.watched import EXIT_LOST, LOST

EPOCHS = 40


@contextlib.contextmanager
def two_processes(workdir: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Both processes of a run of the paper's model on the cars; what each says goes to said-0 and said-1."""
    with socket.socket() as opened:
        opened.bind(("localhost", 0))
        port = opened.getsockname()[1]
    flags = [
        f"--workdir={workdir}",
        "--mesh.data=2",
        f"--train.epochs={EPOCHS}",
        "--train.eval_every_epochs=5",
    ]
    flags += [f"--coordinator=localhost:{port}", "--processes=2", "--checkpoint.every_seconds=0"]
    command = [sys.executable, "-m", "numcoke_jax", "train", "cars:paper", *flags]
    with contextlib.ExitStack() as stack:
        processes = []
        for number in (0, 1):
            said = stack.enter_context((workdir.parent / f"said-{number}").open("wb"))
            process = subprocess.Popen(
                [*command, f"--process={number}"],
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, "XLA_FLAGS": ""},  # one device each
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        yield processes


def trained(workdir: Path) -> dict[str, object]:
    """The metrics of the run once both processes have ended it."""
    with two_processes(workdir) as processes:
        codes = [process.wait(timeout=600) for process in processes]
    assert codes == [0, 0], (workdir.parent / "said-0").read_text()
    report = json.loads((workdir / "report.json").read_text())
    return {split: report[split] for split in ("valid", "test")}


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 0], ids=["another", "the coordinator"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_lost_process_ends_the_other_well_and_both_go_on(tmp_path: Path, lost: int, how: int) -> None:
    """In the steps after the first validation; then the same command gives the metrics of a straight run."""
    workdir = tmp_path / "run"
    with two_processes(workdir) as processes:
        deadline = time.monotonic() + 300
        while not (workdir / "metrics.jsonl").exists() or not (workdir / "metrics.jsonl").read_text():
            assert time.monotonic() < deadline and all(process.poll() is None for process in processes)
            time.sleep(0.1)
        (child,) = (
            Path(f"/proc/{processes[lost].pid}/task/{processes[lost].pid}/children").read_text().split()
        )
        os.kill(int(child), how)
        lost_at = time.monotonic()
        code = processes[1 - lost].wait(timeout=120)
        assert code == EXIT_LOST and time.monotonic() - lost_at < 30
    said = (tmp_path / f"said-{1 - lost}").read_text()
    assert said == f"error: {LOST}\n"
    (tmp_path / "other").mkdir()
    assert trained(workdir) == trained(tmp_path / "other" / "run")
