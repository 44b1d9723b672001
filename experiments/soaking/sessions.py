"""One command in a process of its own, stopped on the way, and what it said."""

import contextlib
import dataclasses
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from numcoke_jax.runs.checkpoints import Name
from numcoke_jax.runs.file_names import CHECKPOINTS_FOLDER
from numcoke_jax.system.termination import EXIT_TERMINATED
from numcoke_jax.system.watched import EXIT_LOST

DISK_KIBIBYTES = 16 << 10  # of the small disk
LEAST_ROOM = 600 << 10  # bytes below which the free space or a file's size is cut
HANGS_AFTER = 3600.0  # seconds
LOOKS_EVERY = 0.05  # seconds
TEN_YEARS = 10 * 365 * 86_400  # seconds
INTERRUPTED = 130
# XLA's own remark where a busy machine takes minutes.
SLOW_COMPILATION = re.compile(r"^.*slow_operation_alarm.*\n(?:(?:\s*|\*+|\[Compiling.*)\n)*", re.MULTILINE)
# What each way to stop a training may end in, besides 0 if it comes too late.  The system ends a process
# that does not yet listen.
CODES = {
    "kill": (-signal.SIGKILL,),
    "terminate": (EXIT_TERMINATED, -signal.SIGTERM),
    "interrupt": (INTERRUPTED, -signal.SIGINT),
    "interrupt twice": (INTERRUPTED, -signal.SIGINT),
    "full disk": (2,),
    "small files": (2,),
    "asleep": (),
    "child killed": (128 + signal.SIGKILL,),  # of a process that watches over the one that computes
    "other killed": (EXIT_LOST,),
}
SINGLE = tuple(CODES)[:7]  # of a run of one process


@dataclasses.dataclass(frozen=True)
class Session:
    """What became of a command.

    Attributes:
      words: of the command.
      blow: how it was stopped, and after how many seconds of processor time; "" if it was not.
      in_time: whether it still ran then.
      code, out, err: exit code and output.
      seconds: until its end.
      work: seconds of processor time.
      mebibytes: of memory, at its peak.
    """

    words: tuple[str, ...]
    blow: str
    in_time: bool
    code: int
    out: str
    err: str
    seconds: float
    work: float
    mebibytes: int

    def faults(self) -> list[str]:
        """What it did that no command may do."""
        found = []
        if self.code not in (0, *CODES.get(self.blow.partition(" after ")[0], ())):
            found.append(f"exit code {self.code}")
        lines = self.err.splitlines()
        if self.code > 0 and self.code != EXIT_TERMINATED:
            if len(lines) != 1 or not lines[0].startswith("error: "):
                found.append("not one line of error")
        elif lines and self.code != -signal.SIGINT:  # Python's own answer before the program begins
            found.append("error output without an error")
        if "Traceback" in self.out or re.search(r"damaged|falling back|takes its place", self.out):
            found.append("a damaged checkpoint")
        return found

    def told(self) -> str:
        """For a person."""
        head = f"{' '.join(self.words)}\n{self.blow or 'not stopped'}: exit code {self.code}"
        return f"{head} after {self.seconds:.1f} s\n--- stdout\n{self.out}\n--- stderr\n{self.err}\n"


class Process(subprocess.Popen[str]):
    """A process that is looked at while it runs.

    Attributes:
      work: seconds of processor time that it and its children have used.
      mebibytes: peak memory of it or a child.  What the system says of one that has ended (`ru_maxrss`) is
        also that of its parent before the program was loaded.
    """

    work, mebibytes = 0.0, 0

    def children(self) -> list[int]:
        """Their process ids."""
        with contextlib.suppress(OSError):
            listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
            return [int(word) for word in listed.split()]
        return []

    def ends_within(self, seconds: float, work: float = math.inf) -> bool:
        """Whether it ends before so much time or work; killed if the wait is broken off."""
        end = time.monotonic() + seconds
        try:
            while self.poll() is None:
                self.look()
                if time.monotonic() > end or self.work > work:
                    return False
                time.sleep(LOOKS_EVERY)
        except BaseException:  # such as an interrupt from the keyboard
            self.kill()
            raise
        return True

    def look(self) -> None:
        """Reads what it has used so far."""
        work = 0.0
        for process in (self.pid, *self.children()):
            with contextlib.suppress(OSError, IndexError):  # it has ended
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                work += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                peak = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{process}/status").read_text())
                self.mebibytes = max(self.mebibytes, int(peak[1]) >> 10 if peak else 0)
        self.work = max(self.work, work)


class Sessions:
    """Starts commands in surroundings of their own.

    Args:
      out: for caches and temporary files.
      disk: for workdirs, which may be small.
      small: whether it is.
    """

    def __init__(self, out: Path, disk: Path, *, small: bool) -> None:
        self.disk, self.small = disk, small
        self.cache, self.temporary = out / "cache", out / "temporary"
        self.temporary.mkdir(parents=True, exist_ok=True)
        owner = {"XDG_CACHE_HOME": str(self.cache), "TMPDIR": str(self.temporary), "JAX_PLATFORMS": "cpu"}
        self.environment = {**os.environ, **owner}
        self.environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        own_clock = ["unshare", "--time", "--monotonic=1", "true"]
        self.own_clock = (
            bool(shutil.which("unshare")) and not subprocess.run(own_clock, capture_output=True).returncode
        )

    def start(self, words: Sequence[str], draw: random.Random, xla_flags: str = "") -> Process:
        """`numcoke WORDS`, with a monotonic clock that is far ahead of the machine's."""
        ahead, clock = draw.randrange(TEN_YEARS), []
        if self.own_clock:
            clock = ["unshare", "--time", f"--monotonic={ahead}", f"--boottime={ahead}"]
        return Process(
            [*clock, sys.executable, "-m", "numcoke_jax", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pipesize=1 << 20,  # all that it says: nobody reads before it ends
            text=True,
            env={**self.environment, "XLA_FLAGS": xla_flags},
        )

    def run(
        self,
        words: Sequence[str],
        draw: random.Random,
        blow: str = "",
        after: float = 0.0,
        xla_flags: str = "",
    ) -> Session:
        """The command to its end, with a blow after some processor time, which no busy machine changes.

        The times of all files move before.
        """
        self.move_times(draw)
        began, process = time.monotonic(), self.start(words, draw, xla_flags)
        in_time = bool(blow) and not process.ends_within(HANGS_AFTER, after)
        if in_time:
            self._strike(process, blow, draw)
        blow = blow and f"{blow} after {after:.2f} s"
        return self.ended(process, words, blow, in_time=in_time, began=began)

    def ended(
        self, process: Process, words: Sequence[str], blow: str, *, in_time: bool, began: float
    ) -> Session:
        """What becomes of a process that was started at `began`; one that hangs is killed."""
        if not process.ends_within(HANGS_AFTER):
            process.kill()
        seconds = time.monotonic() - began
        (self.disk / "filling").unlink(missing_ok=True)
        out, err = process.communicate()
        err = SLOW_COMPILATION.sub("", err)
        used = process.work, process.mebibytes
        return Session(tuple(words), blow, in_time, process.returncode, out, err, seconds, *used)

    def _strike(self, process: Process, blow: str, draw: random.Random) -> None:
        if blow == "small files":
            limit = draw.randrange(LEAST_ROOM)
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        elif blow == "full disk":
            left = draw.randrange(LEAST_ROOM)
            with (self.disk / "filling").open("wb") as file, contextlib.suppress(OSError):
                while (more := shutil.disk_usage(self.disk).free - left) > 0:
                    file.write(b"\0" * more)
                    file.flush()
        elif blow == "asleep":
            process.send_signal(signal.SIGSTOP)
            time.sleep(draw.uniform(0.0, 3.0))
            process.send_signal(signal.SIGCONT)
        else:
            number = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM}.get(blow, signal.SIGINT)
            process.send_signal(number)
            if blow.endswith("twice"):
                time.sleep(draw.uniform(0.0, 0.3))
                process.send_signal(number)

    def move_times(self, draw: random.Random) -> None:
        """As if the clock had been put by years since the files were written."""
        seconds = draw.uniform(-TEN_YEARS, TEN_YEARS)
        for folder in (self.disk, self.cache):
            for path in folder.rglob("*"):
                with contextlib.suppress(OSError):
                    status = path.stat()
                    os.utime(path, (status.st_atime + seconds, max(status.st_mtime + seconds, 0.0)))

    def strays(self) -> list[str]:
        """Temporary files that commands which ended have left outside their workdirs."""
        hidden = [path for path in self.cache.rglob(".*") if path.is_file()]
        return sorted(path.name for path in [*hidden, *self.temporary.iterdir()])


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[bool]:
    """Mounts a tmpfs of `DISK_KIBIBYTES` at a new folder; false if that is not permitted."""
    path.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_KIBIBYTES}k", "tmpfs", str(path)]
    mounted = bool(shutil.which("mount")) and not subprocess.run(mount, capture_output=True).returncode
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)


def newest_step(workdir: Path) -> int:
    """The step of the newest checkpoint that was written to its end; -1 without any."""
    folder = workdir / CHECKPOINTS_FOLDER
    names = os.listdir(folder) if folder.is_dir() else []
    return max((name.step for text in names if (name := Name.parse(text))), default=-1)
