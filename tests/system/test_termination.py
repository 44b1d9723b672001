"""SIGTERM where Python drops exceptions; trainings that get it are in test_resume.py and test_kills.py."""

import contextlib
import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from numcoke_jax.system.termination import EXIT_TERMINATED, Termination


@contextlib.contextmanager
def sent_inside(moment: str) -> Iterator[Callable[[], None]]:
    """Gives what sends SIGTERM from a callback of the collector or from a destructor, once."""
    if moment == "destructor":

        class Dying:
            def __del__(self) -> None:
                signal.raise_signal(signal.SIGTERM)

        def trigger() -> None:
            Dying()

        yield trigger
        return
    sent: list[bool] = []

    def callback(*_: object) -> None:
        if not sent:
            sent.append(True)
            signal.raise_signal(signal.SIGTERM)

    gc.callbacks.append(callback)

    def collect() -> None:
        gc.collect()

    try:
        yield collect
    finally:
        gc.callbacks.remove(callback)


@pytest.mark.parametrize("moment", ["collector", "destructor"])
def test_a_dropped_end_is_asked_for_again_without_a_word(
    moment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = sys.unraisablehook
    with sent_inside(moment) as trigger, pytest.raises(SystemExit) as ended, Termination().watching():
        trigger()
        time.sleep(60.0)
    assert ended.value.code == EXIT_TERMINATED
    assert capsys.readouterr().err == ""
    assert sys.unraisablehook is hook


def test_inside_deferred_it_is_only_remembered() -> None:
    with sent_inside("collector") as trigger, Termination().watching() as termination, termination.deferred():
        trigger()
        assert termination.requested


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_exceptions_that_python_drops_are_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append(what.exc_value))

    class Dying:
        def __del__(self) -> None:
            raise ValueError("of a destructor")

    with Termination().watching():
        Dying()
    assert [str(error) for error in told] == ["of a destructor"]
