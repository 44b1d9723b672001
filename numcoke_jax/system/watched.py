"""One of several processes of a run, watched by a parent: when another one is lost, it ends well and soon.

JAX's coordination service notices a process that ended, was stopped or cannot be reached, and then ends every
other one from a thread of C++, by SIGABRT and with a stack trace, whatever Python is doing.  So the program
forks before it imports JAX: the child computes; the parent passes signals and messages on, and turns such an
end into one line and the exit code `EXIT_LOST`, on which a scheduler can start the same command again.
"""

import ctypes
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable

EXIT_LOST = 75  # EX_TEMPFAIL of sysexits.h: it may work another time
HEARTBEAT_SECONDS = 20  # without a sign of life, a process counts as lost
LOST = "another process of this run ended or does not answer; start the same command again on all of them"
KILLED = "the process that computes was killed, often for lack of memory; start the same command again on all"
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
PASSED_ON = (signal.SIGTERM, signal.SIGINT)
# What the C++ of JAX writes to its log before such an end.
LAST_WORDS = re.compile(rb"F\d{4} \d\d:|[WE]\d{4} \d\d:.*(coordination|preemption)")
OF_OTHERS = re.compile(r"gloo|nccl|coordination_?\s?service|distributed (service|runtime)", re.IGNORECASE)


def watch() -> int | None:
    """None in a child that goes on; in the process itself the child's exit code, once it has ended.

    The child ends if the process does.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    # Handlers of Python would miss a signal before they are set, or just before a read that then blocks.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    parent, child = os.getpid(), os.fork()
    if not child:
        os.close(reading)
        os.dup2(writing, 2)
        os.close(writing)
        _end_with(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return None
    os.close(writing)
    threading.Thread(target=_pass_signals, args=(child,), daemon=True).start()
    with os.fdopen(reading, "rb") as messages:
        last_words = _relayed(messages)
    return _code(os.waitpid(child, 0)[1], last_words)


def end_if_lost(error: BaseException) -> None:
    """Ends the child if the error is, or came of, that of something another process did not take part in.

    At once: JAX's own end would wait for the others.  The parent says why.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, RuntimeError | ValueError) and OF_OTHERS.search(str(cause)):
            sys.stdout.flush()
            os._exit(EXIT_LOST)
        cause = cause.__cause__ or cause.__context__


def _end_with(parent: int) -> None:
    """Has Linux kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before it could be watched
        os._exit(EXIT_LOST)


def _pass_signals(child: int) -> None:
    """Waits for the blocked signals; the keyboard's goes to the child anyway."""
    while True:
        if signal.sigwait(PASSED_ON) == signal.SIGTERM:
            os.kill(child, signal.SIGTERM)


def _relayed(messages: Iterable[bytes]) -> bytes:
    """Writes the child's lines on standard error until its last words, which are returned."""
    last_words = b""
    for line in messages:
        if last_words or LAST_WORDS.match(line):
            last_words += line
        else:
            os.write(2, line)
    return last_words


def _code(status: int, last_words: bytes) -> int:
    code = os.waitstatus_to_exitcode(status)
    aborted = code == -signal.SIGABRT and OF_OTHERS.search(last_words.decode("utf-8", "replace"))
    if aborted or code == EXIT_LOST:
        print(f"error: {LOST}", file=sys.stderr, flush=True)
        return EXIT_LOST
    os.write(2, last_words)
    if code == -signal.SIGKILL:
        print(f"error: {KILLED}", file=sys.stderr, flush=True)
    return code if code >= 0 else 128 - code
