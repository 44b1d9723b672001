"""SIGTERM, which schedulers send before they kill: the state is saved, the program ends with code 143."""

import contextlib
import signal
from collections.abc import Iterator

EXIT_TERMINATED = 143  # 128 + SIGTERM


class Terminated(Exception):
    """SIGTERM came while the state in hand was not saved."""


class Termination:
    """Takes SIGTERM from `watching` on: ends the program at once, or inside `deferred` remembers it."""

    def __init__(self) -> None:
        self.requested = False
        self._deferred = False

    @contextlib.contextmanager
    def watching(self) -> Iterator["Termination"]:
        """Take SIGTERM until the end of the block; outside the main thread nothing is ever taken."""
        try:
            before = signal.signal(signal.SIGTERM, self._take)
        except ValueError:  # only the main thread may set handlers
            yield self
            return
        try:
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
            raise SystemExit(EXIT_TERMINATED)
