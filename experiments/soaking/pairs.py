"""Two processes of one run, of which one is killed."""

import os
import random
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.soaking.sessions import HANGS_AFTER, Process, Session, Sessions

ONE_FOR_TWO = "--xla_force_host_platform_device_count=2"  # one process with the devices of two


def pair(
    sessions: Sessions,
    words: Sequence[str],
    workdir: Path,
    draw: random.Random,
    after: float | None = None,
) -> tuple[list[Session], float, bool]:
    """Both to their ends, one of them killed after some seconds of processor time of both.

    Returns:
      What became of both; the seconds from the kill to the end of the other one, 0.0 without a kill or if one
      of them had ended before; whether they had found each other by then.
    """
    with socket.socket() as opened:
        opened.bind(("localhost", 0))
        port = opened.getsockname()[1]
    joined = [*words, f"--workdir={workdir}", f"--coordinator=localhost:{port}", "--processes=2"]
    each = [[*joined, f"--process={number}"] for number in (0, 1)]
    sessions.move_times(draw)
    began, blows, lost, in_time, met = time.monotonic(), ["", ""], 0.0, False, True
    processes = [sessions.start(one, draw) for one in each]
    if after is not None:
        victim = draw.randrange(2)
        while (in_time := all(not process.ends_within(0.05) for process in processes)) and after > sum(
            process.work for process in processes
        ):
            pass
        at = f" after {after:.2f} s"
        met = workdir.exists()
        blows[victim] = _killed(processes[victim], child=draw.random() < 0.5) + at
        blows[1 - victim] = "other killed" + at
        killed_at = time.monotonic()
        processes[1 - victim].ends_within(HANGS_AFTER)
        lost = time.monotonic() - killed_at if in_time else 0.0
    ends = [
        sessions.ended(process, one, blow, in_time=in_time, began=began)
        for process, one, blow in zip(processes, each, blows, strict=True)
    ]
    return ends, lost, met


def _killed(process: Process, *, child: bool) -> str:
    """Kills a process, or the child that computes for it if there is one already; says which."""
    children = process.children() if child and process.returncode is None else []
    if children:
        os.kill(children[0], signal.SIGKILL)
        return "child killed"
    if process.returncode is None:
        process.kill()
    return "kill"
