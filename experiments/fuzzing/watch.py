"""One input through one reader, and what must not happen meanwhile."""

import contextlib
import dataclasses
import hashlib
import io
import os
import re
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numcoke_jax.cli.commands import run_command

LONGEST_SECONDS = 10.0
MEMORY_FACTOR = 10  # times the size of the input,
MEMORY_FLOOR = 96 << 20  # ... or this many bytes more than before, if that is more
CHANGES_OF_FILES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate")
EXIT_CODES = (0, 1, 2)


@dataclasses.dataclass(frozen=True)
class Reader:
    """A way into the program for bytes that a user gives.

    Attributes:
      name: for the command line.
      seeds: good inputs, which are changed.
      action: writes the bytes into an empty folder and reads them; returns the exit code of a command, or
        raises what a command would catch.
      place: what a message about wrong content must name, "" where content may be wrong in many places.
    """

    name: str
    seeds: tuple[bytes, ...]
    action: Callable[[Path, bytes], int]
    place: str = ""


@dataclasses.dataclass(frozen=True)
class Finding:
    """A rule that an input broke: `kind` tells causes apart, `detail` is for a person."""

    kind: str
    detail: str


class _Outside:
    """The files that are written while it watches, outside of the one folder where they may be."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.found: list[str] = []
        sys.addaudithook(self._hear)  # for the life of the process: a hook cannot be removed

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event == "open":
            path, _, flags = arguments
            paths = [path] if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else []
        elif event in CHANGES_OF_FILES:
            paths = list(arguments[: 2 if event in ("os.rename", "os.symlink", "os.link") else 1])
        else:
            return
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike):
                whole = os.path.realpath(os.fsdecode(path))
                if whole not in (os.devnull, self.folder) and not whole.startswith(self.folder + os.sep):
                    self.found.append(f"{event} {whole}")


_outside: _Outside | None = None


@contextlib.contextmanager
def _watched(folder: Path) -> Iterator[list[str]]:
    global _outside
    _outside = _outside or _Outside()
    _outside.folder, _outside.found = os.path.realpath(folder), []
    try:
        yield _outside.found
    finally:
        _outside.folder = None


def check(reader: Reader, data: bytes, folder: Path) -> Finding | None:
    """Reads one input in `folder`, which is emptied before; None if every rule was kept.

    A hang is noticed when it ends; one without an end is for the parent process to notice.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    output, errors = io.StringIO(), io.StringIO()
    before, start = _reset_peak(), time.process_time()
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
            _watched(folder) as outside,
        ):
            for shown in (UserWarning, RuntimeWarning):  # which a user would see
                warnings.simplefilter("error", shown)
            code = run_command(lambda: reader.action(folder, data))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        where = _innermost(error)
        return Finding(f"{type(error).__name__} at {where}", "".join(traceback.format_exception(error)))
    seconds, grown = time.process_time() - start, _peak() - before
    if outside:
        return Finding("written outside", "; ".join(outside))
    if seconds > LONGEST_SECONDS:
        return Finding("slow", f"{seconds:.1f} s")
    if grown > max(MEMORY_FLOOR, MEMORY_FACTOR * len(data)):
        return Finding("memory", f"{grown >> 20} MiB for {len(data):,} bytes")
    return _wrong_message(reader, code, errors.getvalue())


def _wrong_message(reader: Reader, code: int, shown: str) -> Finding | None:
    """Whether what a command said breaks the rule of one line with a place."""
    if code not in EXIT_CODES:
        return Finding(f"exit code {code}", shown)
    lines = shown.splitlines()
    if code == 2 and (len(lines) != 1 or not lines[0].startswith("error: ")):
        return Finding("not one line", shown)
    if code == 2 and reader.place and not re.search(reader.place, shown):
        return Finding(f"no place: {_shape(shown)}", shown)
    if code != 2 and shown:
        return Finding(f"error output without an error: {_shape(shown)}", shown)
    return None


def _shape(message: str) -> str:
    """A message without what differs between inputs, to tell kinds of messages apart."""
    return re.sub(r"'[^']*'|[0-9]+", "_", message.strip())[:120]


def _innermost(error: BaseException) -> str:
    """The line of the package nearest to where an exception came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "numcoke_jax" in Path(frame.filename).parts] or list(frames)
    return f"{'/'.join(Path(ours[-1].filename).parts[-3:])}:{ours[-1].lineno}"


def keep(folder: Path, finding: Finding, data: bytes) -> None:
    """Writes the input and the words of a finding, unless one of its kind is there."""
    name = name_of(finding.kind.encode())
    if not (folder / f"{name}.txt").exists():
        (folder / f"{name}.input").write_bytes(data)
        (folder / f"{name}.txt").write_text(
            f"{finding.kind}\n\n{finding.detail}\n", errors="backslashreplace"
        )


def name_of(data: bytes) -> str:
    """A short name for a file that keeps an input."""
    return hashlib.sha256(data).hexdigest()[:12]


def _reset_peak() -> int:
    """The memory now, in bytes, from which the peak is counted anew (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0
