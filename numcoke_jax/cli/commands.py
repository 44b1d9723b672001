"""What all commands share: names that any terminal shows, exit codes, one line on stderr unless it is 0.

Exit codes: 0 done; 1 a loss or a score was not finite; 2 something the user can fix; 75 another process of
the run was lost: try again; 130 interrupted from the keyboard; 141 nobody reads the output any more;
143 terminated, the state saved.
"""

import argparse
import atexit
import functools
import gc
import io
import itertools
import os
import re
import shutil
import signal
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from numcoke_jax.config.checks import SPLIT_TOLERANCE, check_key_exists, closest_key, similar
from numcoke_jax.config.schema import KEYS
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.system.errors import CLOSE_ENOUGH, UserError, did_you_mean, printable, shown_path
from numcoke_jax.system.files import home_path
from numcoke_jax.system.termination import EXIT_TERMINATED, TerminatedAtOnce, sent_again

EXIT_INTERRUPTED = 130  # 128 + SIGINT
STOPPED = (EXIT_INTERRUPTED, EXIT_TERMINATED)
NOBODY_READS = 141  # what a shell reports of a process that SIGPIPE ended
HELP_WIDTH = 80
LONGEST_COMPLAINT = 400  # characters of what argparse says
LONGEST_MESSAGE = 2000  # characters of the one line on stderr
COLLECT_AFTER = 50_000  # new objects, before Python looks for garbage among them
KEPT_END = 400  # of them, the last ones of a longer message, where the remedy is


class Once(argparse.Action):
    """Keeps the file that a flag names; another one is refused, instead of read in the place of the first."""

    _given: tuple[argparse.Namespace, Any] | None = None

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, flag: str | None = None
    ) -> None:
        if flag and self._given and self._given[0] is namespace and self._given[1] != values:
            raise UserError(
                f"{flag} is given twice: {self._given[1]} and {values}; it takes one file: put all into one"
            )
        self._given = namespace, values
        setattr(namespace, self.dest, values)


class OneLineParser(argparse.ArgumentParser):
    """An argparse parser of whole flags whose complaints are one line, a UserError; help fits 80 columns."""

    def __init__(self, **settings: Any) -> None:
        layout = functools.partial(
            argparse.RawDescriptionHelpFormatter, max_help_position=26, width=HELP_WIDTH
        )
        super().__init__(**{"formatter_class": layout, "allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        """What argparse calls for a wrong argument."""
        message = re.sub(r"^argument ([^:]+): ", r"\1: ", message)
        message = re.sub(r"^the following arguments are required: ", "missing: ", message)
        raise UserError(f"{printable(message, LONGEST_COMPLAINT)}; see {self.prog} --help")

    def flags(self) -> list[str]:
        """All flags of the command."""
        return [flag for action in self._actions for flag in action.option_strings]

    def refuse_unknown(self, words: Sequence[str]) -> None:
        """Raises UserError for the first of the words that looks like a flag and is none."""
        known = self.flags()
        for word in itertools.takewhile(lambda word: word != "--", words):
            if word.startswith("--") and word.partition("=")[0] not in known:
                self.refuse(word)

    def refuse(self, word: str) -> NoReturn:
        """Raises UserError for a word that the command has no use for, with the closest flag or key."""
        name, equals, value = word.partition("=")
        flags = self.flags()
        if name.startswith("--config."):
            if "--config" not in flags:
                raise UserError(f"{name} has no meaning with {self.prog}: the run's config is in its workdir")
            check_key_exists(name.removeprefix("--config."))
        trained = [key for key in KEYS if key.endswith(f".{name.removeprefix('--')}")]
        if trained and "--config" not in flags:
            raise UserError(
                f"{printable(word)} is not a flag of {self.prog}; numcoke train has --{trained[0]}"
            )
        key, similarity = closest_key(re.sub(r"^--(no-?)?(config\.)?", "", name))
        plain = [flag for flag in flags if flag.removeprefix("--") not in KEYS]
        key_hint = ""
        if "--config" in flags and similarity >= CLOSE_ENOUGH:
            key_hint = f"; did you mean --{key}{equals}{printable(value) if equals else ''}?"
            plain = [flag for flag in plain if similar(name, flag) >= similarity]
        for action in self._actions:
            if not action.option_strings and f"--{action.dest}" == name:
                given = printable(value) or action.metavar
                key_hint, plain = f"; give it without a flag: {self.prog} {given}", []
        if "--table" in flags and os.path.isfile(word):
            key_hint = f"; did you mean --table={printable(word)}?"
        hint = did_you_mean(name, plain) or key_hint
        hint = hint or f"; see {self.prog} --help"
        raise UserError(f"{printable(word)} is not a flag of {self.prog}{hint}")


def add_cache_option(parser: argparse.ArgumentParser) -> None:
    """--no-cache, of the commands that compile."""
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="compile anew, without the functions kept in the user's cache folder; results are the same",
    )


def escape_what_cannot_be_shown() -> None:
    """Makes standard output and error write escapes for what their encoding lacks.

    Names come in any script, and a terminal, a log or a C locale may take ASCII only: without this, printing
    one of those names would end a run.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not what a test or a notebook put in its place
            stream.reconfigure(errors="backslashreplace")


def as_typed(text: str) -> str:
    """An argument as it was typed: in a C locale Python reads the UTF-8 that a shell sends as ASCII."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def as_folder(text: str) -> Path:
    """A folder that is named, as the type of an argparse option."""
    if not text:
        raise argparse.ArgumentTypeError("is empty: give a folder")
    return home_path(text)


def refuse_existing(folder: Path) -> None:
    """Raises UserError if there is something at --out, which a folder shall be written to."""
    if os.path.lexists(folder):
        raise UserError(f"--out: {folder} exists already; give another folder, nothing is overwritten")


def tell_written(notices: Iterable[str], folder: Path) -> int:
    """What the commands that write a graph end with: the notices, where it is, exit code 0."""
    for notice in (*notices, f"written: {folder}"):
        print(_lines_of_terminal(notice))
    return 0


def _lines_of_terminal(text: str) -> str:
    """`text` in lines that fit the terminal, if it is written to one; a file has it in one piece."""
    if not sys.stdout.isatty():
        return text
    columns = shutil.get_terminal_size().columns
    return textwrap.fill(text, columns, break_long_words=False, break_on_hyphens=False)


def as_file(text: str) -> Path:
    """The name of a file to write, as the type of an argparse option."""
    path = home_path(text)
    if not path.name or path.is_dir():
        raise argparse.ArgumentTypeError(f"needs the name of a file, got {printable(text) or 'nothing'}")
    if not path.parent.is_dir():  # found out after the work, it would be lost
        folder = shown_path(path.parent)
        raise argparse.ArgumentTypeError(f"there is no folder {folder}; create it first")
    return path


def as_shares(text: str) -> tuple[float, ...]:
    """Shares of train, valid and test such as "0.8,0.1,0.1", as the type of an argparse option."""
    try:
        shares = tuple(float(share) for share in text.split(","))
    except ValueError:
        shares = ()
    if len(shares) != len(SPLITS) or not all(0 <= share <= 1 for share in shares) or shares[0] == 0:
        raise argparse.ArgumentTypeError(f"must be 3 numbers such as 0.8,0.1,0.1, got {text!r}")
    if abs(sum(shares) - 1) > SPLIT_TOLERANCE:
        raise argparse.ArgumentTypeError(f"must sum to 1, got {text!r}")
    return shares


def run_command(action: Callable[[], int], interrupted: str = "", *, ends: bool = False) -> int:
    """What `action` returns, or the exit code of the error it raises, which is reported in one line.

    Args:
      action: the command itself.
      interrupted: what to say when the user stops it from the keyboard, unless the action says it.
      ends: the process ends after it: a second interrupt is ignored, which would stop that half-way.
    """
    _collect_rarely()
    _open_what_is_closed()
    escape_what_cannot_be_shown()
    if ends and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        with sent_again(signal.SIGINT, lambda error: isinstance(error, KeyboardInterrupt)):
            code = _told(action, interrupted, ends)
    finally:  # also after --help, which ends in SystemExit
        problem = _write_out()
    if ends and signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, and JAX cleans up after itself
    if ends and code in STOPPED:
        # JAX was stopped anywhere, such as in building a program; cleaning up after itself it may crash then.
        os._exit(code)
    if problem is None or code:
        return code
    if isinstance(problem, BrokenPipeError):
        return NOBODY_READS
    return _fail(f"the command is done, but its output cannot be written ({problem.strerror}); fix this", 2)


def _told(action: Callable[[], int], interrupted: str, ends: bool) -> int:
    """What `run_command` returns, apart from trouble with output that is still buffered."""
    try:
        return action()
    except UserError as error:
        return _fail(str(error), 2)
    except FloatingPointError as error:
        return _fail(str(error), 1)
    except BrokenPipeError:  # whoever read the output, such as `head`, has had enough
        return NOBODY_READS
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # how rich answers one
            return NOBODY_READS
        if ends and isinstance(ended, TerminatedAtOnce):
            return EXIT_TERMINATED
        raise
    except OSError as error:  # a full disk, a missing permission, a name that is too long, wherever it occurs
        where = f"{shown_path(error.filename)}: " if isinstance(error.filename, str | os.PathLike) else ""
        return _fail(f"{where}{error.strerror or error}; fix this, then run the same command again", 2)
    except MemoryError as error:
        return _fail(f"there is not enough memory ({error or 'none is left'}); give it less to read", 2)
    except KeyboardInterrupt as stopped:
        return _interrupted(str(stopped) or interrupted, ends)
    except Exception as error:
        if _comes_of(error, KeyboardInterrupt):
            return _interrupted(interrupted, ends)
        if ends and _comes_of(error, TerminatedAtOnce):
            return EXIT_TERMINATED
        raise


def _interrupted(message: str, ends: bool) -> int:
    if ends:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return _fail(message or "interrupted", EXIT_INTERRUPTED)


def _comes_of(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether a library made the error of one of that kind, as Orbax does of what stops its reading."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error is not None


def _interrupt(_: int, frame: types.FrameType | None) -> None:
    """What SIGINT does: KeyboardInterrupt, but the end of the process while it loads a module.

    Modules of C++, such as jaxlib's, crash if they are interrupted then.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, b"error: interrupted\n")
            os._exit(EXIT_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def _collect_rarely() -> None:
    """Spares the search for garbage in what stays to the end: a tenth of the time of a short command.

    Importing JAX and tracing a model make a million objects, which Python would go through again and again,
    and once more before it exits.
    """
    gc.set_threshold(COLLECT_AFTER)
    atexit.register(gc.freeze)


def _open_what_is_closed() -> None:
    """Gives a null stream to standard output or error if the process started with it closed (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _write_out() -> OSError | None:
    """Flushes standard output; if that fails, drops the rest and returns the error.

    Left to the interpreter's exit, the failure would print its own message and give exit code 120.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None


def _fail(message: str, code: int) -> int:
    shown = printable(message, sys.maxsize)
    if len(shown) > LONGEST_MESSAGE:
        shown = f"{shown[: LONGEST_MESSAGE - KEPT_END - 5]} ... {shown[-KEPT_END:]}"
    print(f"error: {shown}", file=sys.stderr)
    return code
