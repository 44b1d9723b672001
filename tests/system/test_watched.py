"""A process that is watched: exit codes, signals and messages pass; a lost peer is one line and code 75."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from numcoke_jax.system.watched import EXIT_LOST, KILLED, LOST

START = """
import os, signal, sys, time
from numcoke_jax.system.watched import end_if_lost, watch
code = watch()
if code is not None:
    sys.exit(code)
"""
# What JAX 0.10 wrote when its coordinator was killed, shortened.
LAST_WORDS = (
    "E1129 10:29:48.433282   14272 coordination_service_agent.cc:289] Polled an error from another task\\n"
    "F1129 10:29:48.997362    9593 client.h:80] Terminating process because the JAX distributed service\\n"
    "    @     0x7f8c4a0f0321  tsl::RPCState<>::OnCompleted()\\n"
)
CHECK_FAILED = "F1129 10:20:30.997362   1 cpu.cc:1] Check failed"
SAID = f"os.write(2, b'''{LAST_WORDS}'''); "
GLOO = "UNKNOWN: Gloo AllGather failed: Connection closed by peer"
WRAPPED = f"""
try:
    try:
        raise ValueError({GLOO!r})
    except ValueError as error:
        raise OSError("cannot write the checkpoint") from error
except OSError as error:
    end_if_lost(error)
"""


def start(child: str, before: str = "") -> subprocess.Popen[str]:
    """A process that runs these lines in its child, and others before it is watched."""
    command, pipe = [sys.executable, "-c", before + START + child], subprocess.PIPE
    return subprocess.Popen(command, text=True, stderr=pipe, stdout=pipe)


@pytest.mark.parametrize(
    ("child", "code", "said"),
    [
        ("sys.exit(0)", 0, ""),
        ("print('a warning', file=sys.stderr); sys.exit(2)", 2, "a warning\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL, f"error: {KILLED}\n"),
        (SAID + "os.abort()", EXIT_LOST, f"error: {LOST}\n"),
        (f"os.write(2, b'{CHECK_FAILED}'); os.abort()", 128 + signal.SIGABRT, CHECK_FAILED),
        ("os.write(2, b'a fault elsewhere'); os.abort()", 128 + signal.SIGABRT, "a fault elsewhere"),
        (f"end_if_lost(ValueError('{GLOO}'))", EXIT_LOST, f"error: {LOST}\n"),
        (SAID + f"end_if_lost(ValueError({GLOO!r}))", EXIT_LOST, f"error: {LOST}\n"),
        (WRAPPED, EXIT_LOST, f"error: {LOST}\n"),
        ("end_if_lost(ValueError('shapes of a peer do not fit')); sys.exit(3)", 3, ""),
    ],
    ids=[
        "done",
        "user error",
        "killed",
        "lost",
        "check failed",
        "aborted",
        "in a collective",
        "and said",
        "in a save",
        "else",
    ],
)
def test_codes_and_messages(child: str, code: int, said: str) -> None:
    with start(child) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (code, "", said)


# A busy machine: the child runs long before its parent is ready to pass signals on.
SLOW_PARENT = """
import time
from numcoke_jax.system import watched
ready = watched._pass_signals
watched._pass_signals = lambda child: time.sleep(0.5) or ready(child)
"""
# Short sleeps: Python misses a signal that comes just before one, until it ends.
ENDS_WHEN_TOLD = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print("on", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize("before", ["", SLOW_PARENT], ids=["ready", "slow"])
def test_sigterm_goes_to_the_child_and_its_code_comes_back(before: str) -> None:
    with start(ENDS_WHEN_TOLD, before=before) as process:
        assert process.stdout is not None and process.stdout.readline() == "on\n"
        process.terminate()
        assert process.wait(timeout=30) == 143


def test_the_child_ends_with_the_process() -> None:
    with start("print(os.getpid(), flush=True); time.sleep(60)") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert runs(child)
        process.kill()
        deadline = time.monotonic() + 30
        while runs(child) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert not runs(child)


def runs(process: int) -> bool:
    """Whether a process exists and is more than an entry that nobody has asked for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
