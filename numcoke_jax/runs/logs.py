"""The run's log: one JSON object per line in metrics.jsonl, the same numbers as TensorBoard events."""

import itertools
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numcoke_jax.runs.file_names import METRICS_FILE
from numcoke_jax.system.errors import UserError, shown_path
from numcoke_jax.system.files import cannot_write, write_bytes_atomically

EVENTS_FOLDER = "tensorboard"
RESERVED = ("step", "epoch", "kind")
EVENT_FLUSH_SECONDS = 5.0  # flushing waits for the disk: too slow for every line
_event_files = itertools.count()  # distinguishes files that one process opens within a second


class RunLog:
    """Appends to the log of a workdir; a line is complete on the disk before `write` returns.

    A line reads {"step": 120, "epoch": 3, "kind": "train", "loss": 0.031, ...}: `pandas.read_json(path,
    lines=True)` makes a table of it.  A number that is not finite is written as null, never as NaN, which
    is not JSON.  TensorBoard shows every finite number as KIND/NAME.

    Args:
      workdir: an existing folder.  A last line torn by a kill is cut off.

    Raises:
      UserError: the log cannot be written.
    """

    def __init__(self, workdir: str | os.PathLike[str]) -> None:
        self._workdir = Path(workdir)
        self._path = self._workdir / METRICS_FILE
        self._events: EventFile | None = None
        self._purge_step: int | None = None
        self._cut_torn_line()
        self._file = self._open()

    def write(self, step: int, kind: str, values: Mapping[str, Any], *, epoch: int) -> None:
        """Logs `values` (numbers, strings, booleans, None or 0-d arrays by name) as of `step`.

        Args:
          step: training steps done.
          kind: "train", "valid", "test", ...
          values: by name.
          epoch: epochs done.

        Raises:
          UserError: the line cannot be written: the disk is full.
          ValueError: `values` names step, epoch or kind.
        """
        if set(RESERVED) & set(values):
            raise ValueError(f"values must not name step, epoch or kind, got {list(values)}")
        line: dict[str, Any] = {"step": int(step), "epoch": int(epoch), "kind": kind}
        line |= {name: _plain(value) for name, value in values.items()}
        content = (
            json.dumps(line, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
        )
        try:
            while content:  # a disk that fills up takes a part before it refuses
                content = content[self._file.write(content) :]
            self._write_events(int(step), kind, line)
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def truncate_after(self, step: int) -> int:
        """Drops the lines of later steps, which a resumed run will write again.

        The file is replaced as a whole, so a kill leaves the old log or the new one.  Lines that are not
        JSON objects are dropped too.  TensorBoard is told to hide its events after `step`.

        Returns:
          The number of lines dropped.
        """
        lines = self._path.read_bytes().splitlines(keepends=True) if self._path.exists() else []
        kept = [line for line in lines if (entry := _parse(line)) is not None and entry["step"] <= step]
        if len(kept) < len(lines):
            self._file.close()
            write_bytes_atomically(self._path, b"".join(kept))
            self._file = self._open()
        self._close_events()
        self._purge_step = step + 1
        return len(lines) - len(kept)

    def close(self) -> None:
        """Closes both files; the log must not be written afterwards.

        Raises:
          UserError: the disk refuses what TensorBoard's file had buffered.
        """
        self._file.close()
        self._close_events()

    def _open(self) -> Any:
        try:
            # Unbuffered: a line is one write to the system, whole or torn, never delayed.
            return open(self._path, "ab", buffering=0)
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def _cut_torn_line(self) -> None:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise cannot_write(self._path, error) from error
        if content and not content.endswith(b"\n"):
            whole, last = content[: content.rfind(b"\n") + 1], content[content.rfind(b"\n") + 1 :]
            # Only the line end may be missing: then the line is a good one.
            write_bytes_atomically(self._path, whole if _parse(last) is None else content + b"\n")

    def _write_events(self, step: int, kind: str, line: Mapping[str, Any]) -> None:
        if self._events is None:
            self._events = EventFile(self._workdir / EVENTS_FOLDER, self._purge_step)
        for name, value in line.items():
            if name not in RESERVED and isinstance(value, int | float) and not isinstance(value, bool):
                self._events.add(f"{kind}/{name}", float(value), step)

    def _close_events(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            try:
                events.close()
            except OSError as error:
                raise cannot_write(self._workdir / EVENTS_FOLDER, error) from error


class NoLog:
    """The log of the processes that keep none."""

    def write(self, step: int, kind: str, values: Mapping[str, Any], **more: Any) -> None:
        """Does nothing."""

    def truncate_after(self, step: int) -> int:
        """Drops nothing."""
        return 0

    def close(self) -> None:
        """Does nothing."""


class EventFile:
    """A TensorBoard event file, written in the calling thread.

    tensorboardX's SummaryWriter writes from a thread of its own, where a full disk ends in a traceback that
    nobody catches and a kill loses up to two minutes; its writer of single events has neither fault.

    Args:
      folder: where the file is created; TensorBoard merges all files in a folder.
      purge_step: TensorBoard forgets what older files say from this step on; None: nothing.
    """

    def __init__(self, folder: Path, purge_step: int | None) -> None:
        # Only here: a log that is only read needs neither protocol buffers nor TensorBoard.
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        folder.mkdir(parents=True, exist_ok=True)
        self._writer = EventsWriter(str(folder / "events"), f".{os.getpid()}.{next(_event_files)}")
        self._event = Event
        self._flushed = time.monotonic()
        if purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            self._writer.write_event(Event(step=purge_step, wall_time=time.time(), session_log=start))

    def add(self, tag: str, value: float, step: int) -> None:
        """Adds one number; OSError if the disk refuses it."""
        from tensorboardX.summary import scalar

        self._writer.write_event(self._event(step=step, wall_time=time.time(), summary=scalar(tag, value)))
        if time.monotonic() - self._flushed > EVENT_FLUSH_SECONDS:
            self._writer.flush()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._writer.close()


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl, oldest first; a last line torn by a kill is left out.

    Raises:
      UserError: the file cannot be read, or a line before the last is damaged.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(f"cannot read {shown_path(path)}: {error.strerror}") from error
    entries = []
    for number, line in enumerate(lines, start=1):
        entry = _parse(line)
        if entry is not None:
            entries.append(entry)
        elif number < len(lines):
            shown = shown_path(path)
            raise UserError(f"{shown}:{number}: this line is not a JSON object with a step; delete or fix it")
    return entries


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line.decode("utf-8"))
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("step"), int) else None


def _plain(value: Any) -> Any:
    """A JSON value: Python numbers for arrays of one number, None for what is not finite."""
    if value is None or isinstance(value, str | bool | int):
        return value
    number = value if isinstance(value, float) else value.item()
    return None if isinstance(number, float) and not math.isfinite(number) else number
