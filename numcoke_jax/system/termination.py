"""SIGTERM, which schedulers send before they kill: the state is saved, the program ends with code 143."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

EXIT_TERMINATED = 143  # 128 + SIGTERM
SECONDS_UNTIL_AGAIN = 0.01


class Terminated(Exception):
    """SIGTERM came while the state in hand was not saved."""


class TerminatedAtOnce(SystemExit):
    """SIGTERM came where nothing was to be saved: perhaps in the middle of a library's work."""


class Termination:
    """Handles SIGTERM from `watching` on: ends the program at once, or only remembers it in `deferred`."""

    def __init__(self) -> None:
        self.requested = False
        self._deferred = False

    @contextlib.contextmanager
    def watching(self) -> Iterator["Termination"]:
        """Handle SIGTERM until the end of the block; outside the main thread it is never handled."""
        try:
            before = signal.signal(signal.SIGTERM, self._take)
        except ValueError:  # only the main thread may set handlers
            yield self
            return
        try:
            with sent_again(signal.SIGTERM, lambda error: isinstance(error, TerminatedAtOnce)):
                yield self
        finally:
            signal.signal(signal.SIGTERM, before)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Only remember SIGTERM inside the block, which asks `requested` or calls `check` now and then."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def check(self) -> None:
        """Raises Terminated if SIGTERM has come."""
        if self.requested:
            raise Terminated

    def _take(self, *_: object) -> None:
        self.requested = True
        if not self._deferred:
            raise TerminatedAtOnce(EXIT_TERMINATED)


@contextlib.contextmanager
def sent_again(number: signal.Signals, raised: Callable[[BaseException | None], bool]) -> Iterator[None]:
    """Sends a signal to this process again, a moment later, where Python drops what its handler has `raised`.

    In a destructor or a callback of the garbage collector Python drops every exception.
    """
    tell = sys.unraisablehook

    def dropped(what: Any) -> None:
        if not raised(what.exc_value):
            tell(what)
            return
        try:
            timer = threading.Timer(SECONDS_UNTIL_AGAIN, os.kill, (os.getpid(), number))
            timer.daemon = True
            timer.start()  # on a busy machine it is sent before this has returned
        except BaseException as error:
            if not raised(error):
                raise
            dropped(what)

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = tell
