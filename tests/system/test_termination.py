"""Signals where Python drops exceptions; test_resume.py and test_kills.py have trainings that get SIGTERM."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from numcoke_jax.cli.commands import run_command
from numcoke_jax.system.termination import EXIT_TERMINATED, TerminatedAtOnce, Termination


@contextlib.contextmanager
def sent_inside(moment: str, number: int = signal.SIGTERM) -> Iterator[Callable[[], None]]:
    """Gives what sends a signal from a callback of the collector or from a destructor, once."""
    if moment == "destructor":

        class Dying:
            def __del__(self) -> None:
                signal.raise_signal(number)

        def trigger() -> None:
            Dying()

        yield trigger
        return
    asked: list[bool] = []  # the collector also runs when nobody asks for it

    def callback(*_: object) -> None:
        if asked:
            asked.clear()
            signal.raise_signal(number)

    gc.callbacks.append(callback)

    def collect() -> None:
        asked.append(True)
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


@pytest.mark.parametrize("moment", ["collector", "destructor"])
def test_a_dropped_interrupt_is_taken_again_without_a_word(
    moment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """JAX has a callback of the collector, which runs all the time while it traces."""

    def action() -> int:
        trigger()
        time.sleep(60.0)
        return 0

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        with sent_inside(moment, signal.SIGINT) as trigger:
            assert run_command(action) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "error: interrupted\n"


def test_a_signal_that_is_sent_again_too_soon_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the hook that sends it still runs: an exception of a hook is dropped as well."""
    waits = iter([0.0, 0.0])

    def start(timer: threading.Timer) -> None:
        threading.Thread.start(timer)
        if next(waits, None) is not None:
            timer.join()
            time.sleep(60.0)

    monkeypatch.setattr(threading.Timer, "start", start)
    with sent_inside("destructor") as trigger, pytest.raises(SystemExit), Termination().watching():
        trigger()
        time.sleep(60.0)


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


INTERRUPTED_AT = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
signal.signal(signal.SIGINT, {handler})
from numcoke_jax.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("handler", "code"), [("signal.default_int_handler", -signal.SIGINT), ("signal.SIG_IGN", 0)]
)
def test_an_interrupt_while_modules_are_loaded_has_no_stack_trace(handler: str, code: int) -> None:
    program = [sys.executable, "-c", INTERRUPTED_AT.format(handler=handler), "--help"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, "")


LOADED = """
import os, signal, sys
from numcoke_jax.cli.commands import run_command
class Interrupting:  # as a module of C++ that does not survive an exception, and is loaded by a command
    def find_spec(self, name, *_):
        if name == "numcoke_jax_absent":
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
            finally:
                os.abort()
def action():
    sys.meta_path.insert(0, Interrupting())
    import numcoke_jax_absent
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(run_command(action, ends=True))
"""


def test_an_interrupted_command_raises_nothing_in_a_module_that_it_loads() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


DONE = """
import atexit, signal, sys
from numcoke_jax.cli.commands import run_command
atexit.register(signal.raise_signal, signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(run_command(lambda: 0, ends=True))
"""


def test_an_interrupt_of_a_command_that_is_done_says_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", DONE], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("stop", "code", "said"),
    [(KeyboardInterrupt, 130, "error: interrupted\n"), (lambda: TerminatedAtOnce(143), 143, "")],
)
def test_what_a_library_makes_of_a_signal_is_taken_as_the_signal(
    stop: Callable[[], BaseException],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Orbax raises an Exception of what stopped its reading."""

    def action() -> int:
        try:
            raise stop()
        except BaseException as error:
            raise Exception("while reading") from error

    monkeypatch.setattr(os, "_exit", lambda code: None)
    before = signal.getsignal(signal.SIGINT)
    try:
        assert run_command(action, ends=True) == code
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == said


def test_other_exceptions_are_raised_as_they_are() -> None:
    def action() -> int:
        try:
            raise ValueError
        except ValueError:
            raise RuntimeError("of a bug") from None

    with pytest.raises(RuntimeError, match="^of a bug$"):
        run_command(action)


STOPPED = """
import atexit, os, signal
from numcoke_jax.cli.commands import run_command
from numcoke_jax.system.termination import Termination
atexit.register(lambda: os._exit(9))  # as JAX may crash there
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
def action():
    with Termination().watching():
        print("begun")
        {stop}
raise SystemExit(run_command(action, ends=True))
"""


@pytest.mark.parametrize(
    ("stop", "code", "said"),
    [
        ("signal.raise_signal(signal.SIGTERM)", EXIT_TERMINATED, ""),
        ("signal.raise_signal(signal.SIGINT)", 130, "error: interrupted\n"),
        (f"raise SystemExit({EXIT_TERMINATED})", 9, ""),  # in order: the state is saved
        ("return 0", 9, ""),
    ],
    ids=["terminated", "interrupted", "terminated in order", "done"],
)
def test_a_process_stopped_anywhere_ends_without_cleaning_up(stop: str, code: int, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED.format(stop=stop)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "begun\n", said)
