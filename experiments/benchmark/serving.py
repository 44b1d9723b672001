"""How fast `numcoke serve` answers questions that come at a steady rate, answered or not.

    python -m experiments.benchmark.serving --workdir=RUN [--rate=50] [--seconds=20]

Starts the server for a trained run.  Of twenty requests fifteen ask for the tails of a random head, two for
the heads of a tail, two for names and one for what another value would change; two questions of each kind
come before the clock starts.  Prints one JSON line; a latency counts from when its request was due, so that a
queue shows.  "cpu_ms" is the server's processor time per request, which other work on the machine hardly
changes.
"""

import collections
import http.client
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np

from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser, as_folder

KINDS = ["tails"] * 15 + ["heads"] * 2 + ["names"] * 2 + ["what if"]
CLIENTS = 16  # connections
WARM = 2  # questions of each kind before the clock starts


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.benchmark.serving", description=__doc__)
    options.add_argument("--workdir", type=as_folder, required=True, help="a finished run")
    options.add_argument("--rate", type=int, default=50, help="requests a second (50)")
    options.add_argument("--seconds", type=int, default=20, help="how long (20)")
    return options


def measure(port: int, process: int, rate: int, seconds: int) -> dict[str, Any]:
    """Status codes, requests a second, milliseconds of latency by kind and of the server's processor time."""
    drawn = random.Random(0)
    run = _ask(port, "/api/run")[1]
    entities = _ask(port, "/api/entities?limit=100")[1]["entities"]

    def path(kind: str) -> str:
        relation, name = drawn.choice(run["relations"])["relation"], drawn.choice(entities)
        if kind == "names":
            return f"/api/entities?{urlencode({'prefix': name[: drawn.randint(1, 3)]})}"
        asked = {"tail" if kind == "heads" else "head": name, "relation": relation}
        if kind == "what if":
            field = drawn.choice([field for field in run["fields"] if field["low"] is not None])
            asked["set"] = f"{field['field']}={drawn.uniform(field['low'], field['high']):.4g}"
        return f"/api/predict?{urlencode(asked)}"

    kinds = KINDS if any(field["low"] is not None for field in run["fields"]) else KINDS[:-1]
    for kind in dict.fromkeys(kinds):
        for _ in range(WARM):
            _ask(port, path(kind))
    asked = [(kind, path(kind)) for kind in drawn.choices(kinds, k=rate * seconds)]
    statuses: collections.Counter[int] = collections.Counter()
    latencies = collections.defaultdict(list)
    began, used = time.perf_counter(), _processor_seconds(process)
    with ThreadPoolExecutor(CLIENTS) as clients:
        found = []
        for number, (kind, where) in enumerate(asked):
            due = began + number / rate
            time.sleep(max(due - time.perf_counter(), 0.0))
            found.append((kind, clients.submit(_latency, port, where, due)))
        for kind, future in found:
            status, latency = future.result()
            statuses[status] += 1
            latencies[kind].append(latency)
    spent = time.perf_counter() - began
    used = _processor_seconds(process) - used
    names = ("median", "99 %", "most")
    milliseconds = {
        kind: dict(zip(names, np.percentile(rows, [50, 99, 100]).round(1), strict=True))
        for kind, rows in latencies.items()
    }
    return {
        "entities": run["entities"],
        "requests": len(asked),
        "a_second": round(len(asked) / spent, 1),
        "statuses": dict(statuses),
        "cpu_ms": round(1e3 * used / len(asked), 1),
        "milliseconds": milliseconds,
    }


def _processor_seconds(process: int) -> float:
    """Of all threads of a process, in it and in the kernel, by Linux."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ask(port: int, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def _latency(port: int, path: str, due: float) -> tuple[int, float]:
    status, _ = _ask(port, path)
    return status, 1e3 * (time.perf_counter() - due)


@command()
def main(arguments: Sequence[str]) -> int:
    """Starts the server, measures, prints; returns the exit code."""
    options = parser().parse_args(arguments)
    refuse_below(1, options, "rate", "seconds")
    flags = [f"--workdir={options.workdir}", "--port=0", f"--rate={100 * options.rate}"]
    command = [sys.executable, "-m", "numcoke_jax", "serve", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = next((line for line in server.stdout if "http://" in line), "")
        if not line:
            return server.wait()
        try:
            port = urlsplit(line[line.index("http://") :].split()[0]).port
            print(json.dumps(measure(port or 80, server.pid, options.rate, options.seconds)))
        finally:
            server.terminate()
    return server.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
