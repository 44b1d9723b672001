"""Two processes of one run, of which one is lost: the other ends well, and both can go on."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from numcoke_jax.system.watched import EXIT_LOST, LOST

EPOCHS = 60


def start(workdir: Path, port: int) -> list[subprocess.Popen[str]]:
    """Both processes of a run of the paper's model on the cars."""
    flags = [
        f"--workdir={workdir}",
        "--mesh.data=2",
        f"--train.epochs={EPOCHS}",
        "--train.eval_every_epochs=5",
    ]
    flags += [f"--coordinator=localhost:{port}", "--processes=2", "--checkpoint.every_seconds=0"]
    command = [sys.executable, "-m", "numcoke_jax", "train", "cars:paper", *flags]
    environment = {**os.environ, "XLA_FLAGS": ""}
    return [
        subprocess.Popen(
            [*command, f"--process={process}"],
            text=True,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        for process in (0, 1)
    ]


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("localhost", 0))
        return int(opened.getsockname()[1])


def wait_for(path: Path, processes: list[subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + 300
    while not path.exists():
        assert time.monotonic() < deadline and all(process.poll() is None for process in processes)
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 0], ids=["another", "the coordinator"])
def test_a_lost_process_ends_the_other_well_and_both_go_on(tmp_path: Path, lost: int) -> None:
    """Killed after the first checkpoint; the same command ends with the metrics of a run that was not."""
    outcomes = {}
    for name in ("straight", "killed"):
        workdir, port = tmp_path / name, free_port()
        if name == "killed":
            processes = start(workdir, port)
            wait_for(workdir / "metrics.jsonl", processes)
            processes[lost].send_signal(signal.SIGKILL)
            killed = time.monotonic()
            _, said = processes[1 - lost].communicate(timeout=120)
            processes[lost].communicate()
            assert processes[1 - lost].returncode == EXIT_LOST and time.monotonic() - killed < 30
            assert said.splitlines()[-1] == f"error: {LOST}" and "Traceback" not in said
        for process in (processes := start(workdir, port + 1)):
            _, said = process.communicate(timeout=600)
            assert process.returncode == 0, said
        report = json.loads((workdir / "report.json").read_text())
        outcomes[name] = {split: report[split] for split in ("valid", "test")}
    assert outcomes["killed"] == outcomes["straight"]
