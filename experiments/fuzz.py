"""Looks for inputs that a reader answers with anything but one line that says what is wrong.

    python -m experiments.fuzz --minutes=1 --seed=0
    python -m experiments.fuzz --reader=csv,xlsx --minutes=60 --guided

Each reader is given its seeds, changed at random, in a process of its own.  A finding is: an exception, a
warning, a message of several lines or without a place, over 10 seconds of processor time, memory of over ten
times the input (and 96 MiB), a file written outside the folder of the case, a process that dies or hangs.
Its input and what was seen are kept in --out, one for each cause.  --guided lets atheris choose the changes
by the branches that they reach.  Linux only.  Exit code 1: there are findings.
"""

import argparse
import contextlib
import importlib.util
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.commands import command
from experiments.fuzzing.child import CURRENT, LOG, TALLY
from experiments.fuzzing.readers import READERS
from experiments.fuzzing.watch import Finding, keep
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError, suggestion
from numcoke_jax.system.files import home_path

HUNG_SECONDS = 30.0  # of processor time with one input,
ASLEEP_SECONDS = 600.0  # ... or of any time


def hunt(name: str, options: argparse.Namespace) -> int:
    """Runs processes for one reader until its minutes are over; returns how many inputs were read."""
    end, inputs, starts = time.monotonic() + 60 * options.minutes, 0, 0
    folder = options.out / name
    folder.mkdir(parents=True, exist_ok=True)
    while (left := end - time.monotonic()) > 0:
        (folder / CURRENT).unlink(missing_ok=True)
        (folder / TALLY).write_text("0")
        words = [name, str(options.out), str(left), str(options.seed + starts), "guided"][
            : 4 + options.guided
        ]
        with open(folder / LOG, "wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "experiments.fuzzing.child", *words], stdout=log, stderr=log
            )
            hung = _wait(child, folder / CURRENT)
        inputs += int((folder / TALLY).read_text())
        starts += 1
        if hung or child.returncode < 0:
            kind = "hangs" if hung else f"ends by {signal.Signals(-child.returncode).name}"
            said = (folder / LOG).read_text(errors="replace")[-2000:]
            keep(folder, Finding(kind, said), (folder / CURRENT).read_bytes())
        elif child.returncode:
            raise UserError(f"{folder / LOG}: the reader's process failed; its last lines say why")
        else:
            break
    return inputs


def _wait(child: subprocess.Popen, current: Path) -> bool:
    """Waits for the end of a process; True if it was killed because it stayed with one input."""
    seen, used, since = 0, 0.0, time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=1)
            return False
        if not current.exists():  # it is still importing
            continue
        if current.stat().st_mtime_ns != seen:
            seen, used, since = current.stat().st_mtime_ns, _processor_seconds(child.pid), time.monotonic()
        busy, waited = _processor_seconds(child.pid) - used, time.monotonic() - since
        if busy > HUNG_SECONDS or waited > ASLEEP_SECONDS:
            child.kill()
            child.wait()
            return True


def _processor_seconds(process: int) -> float:
    try:
        after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def parser() -> OneLineParser:
    """The command's flags."""
    parser = OneLineParser(prog="python -m experiments.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for each reader (default: %(default)s)")
    parser.add_argument(
        "--reader", default=",".join(READERS), metavar="NAME,...", help="default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the changes (default: %(default)s)")
    parser.add_argument("--out", type=home_path, default=Path("runs/fuzz"), help="default: %(default)s")
    parser.add_argument("--guided", action="store_true", help="by branches reached; needs atheris")
    return parser


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser().parse_args(arguments)
    if not 0.0 < options.minutes < math.inf:
        raise UserError(f"--minutes={options.minutes:g} is out of range: needs a number above 0")
    options.reader = options.reader.split(",")
    for name in options.reader:
        if name not in READERS:
            raise UserError(f"--reader: there is no reader {name!r}; {suggestion(name, READERS)}")
    if options.guided and importlib.util.find_spec("atheris") is None:
        raise UserError("--guided needs atheris: pip install atheris")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Hunts through each reader in turn; returns the exit code."""
    options = _options(arguments)
    rows, found = [], 0
    for name in options.reader:
        inputs = hunt(name, options)
        kept = len(list((options.out / name).glob("*.txt")))
        found += kept
        rows.append((name, f"{inputs:,}", f"{options.minutes:g}", str(kept)))
    columns = ("reader", ">inputs", ">minutes", ">findings")
    Console().table("Fuzz", f"findings in {options.out}", columns, rows)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
