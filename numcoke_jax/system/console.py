"""What a person sees of any command: notes, warnings, tables, progress.

Everything reads well in 80 columns.  On a terminal there is a progress bar; elsewhere (a log file, CI) a
line now and then and no control characters.  Names from data are text, never rich markup, and characters
that the output's encoding lacks are written as escapes instead of ending the run.
"""

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import rich.console
from rich import box
from rich.table import Table
from rich.text import Text

from numcoke_jax.system.compiled import timed
from numcoke_jax.system.errors import escaped
from numcoke_jax.system.progress import BarDisplay, ProgressReporter, QuietDisplay

WIDTH = 80  # without a terminal to ask
SMALLEST_WIDTH = 40  # below it tables lose their meaning: let the terminal wrap them
ELLIPSIS = "..."
INDENT = 14  # of what follows a label
SILENT_SECONDS = 1.5  # after which a person is told what is being waited for
# Of a probability, within 80 columns.
WHY_UNKNOWN = "unknown: training fact, what-if, category, or too few validation facts like it"
LOADING = "loading the program"  # JAX and what needs it, which commands import once their arguments are right


class Console:
    """Writes to `stream` (standard output).

    Args:
      stream: a text stream; its encoding and whether it is a terminal decide what is written.
      clock: seconds of a monotonic clock; tests give their own.
    """

    def __init__(self, stream: Any = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._clock = clock
        self._encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self.live = self._stream.isatty()
        self._rich = rich.console.Console(
            file=self._stream,
            # Given, not guessed: a variable such as FORCE_COLOR must not put control characters into a log.
            force_terminal=self.live,
            force_jupyter=False,
            width=None if self.live else WIDTH,
            markup=False,
            highlight=False,
            emoji=False,
            soft_wrap=False,
        )
        self.live = self.live and not self._rich.is_dumb_terminal
        if self.live and self._rich.width < SMALLEST_WIDTH:
            self._rich.width = SMALLEST_WIDTH

    @property
    def width(self) -> int:
        """Columns of the terminal, or of what is written elsewhere."""
        return self._rich.width

    def note(self, text: str, *, wrap: bool = False) -> None:
        """One line of information; `wrap` breaks it also where there is no terminal."""
        self._print(Text(self._clean(text)), wrap=wrap)

    def warn(self, text: str) -> None:
        """One line that deserves attention; the run continues."""
        self._print(Text.assemble(("warning: ", "yellow"), self._clean(text)))

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Says, as one line, what is being waited for if the block takes `SILENT_SECONDS`.

        The block may write; it shows no progress.
        """
        timer = threading.Timer(SILENT_SECONDS, self.note, (text,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    @contextlib.contextmanager
    def compiling(self, settings: str, shapes: str) -> Iterator[None]:
        """`waiting` for a program that is compiled, or was compiled before; see `compiled.timed`."""
        with timed(settings, shapes, self._clock) as text, self.waiting(text):
            yield

    @contextlib.contextmanager
    def progress(
        self, total_steps: int, start_step: int = 0, *, label: str = "step"
    ) -> Iterator[ProgressReporter]:
        """A progress display for the steps from `start_step` to `total_steps`, ended also by exceptions.

        Yields:
          An object whose `advance(steps, losses, queries_per_second)` is called as the run proceeds;
          notes and validations may be written meanwhile.
        """
        if not self.live:
            show = QuietDisplay(lambda parts: self.note("  ".join([label, *parts])))
            yield ProgressReporter(show, total_steps, start_step, self._clock)
            return
        with BarDisplay(self._rich, total_steps, start_step, label) as bar:
            yield ProgressReporter(bar, total_steps, start_step, self._clock)

    def table(self, title: str, remark: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table with a heading; a column whose title starts with ">" holds numbers, aligned right."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for name in columns:
            right = name.startswith(">")
            table.add_column(name.lstrip(">"), justify="right" if right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(self._clean(cell)) for cell in row))
        self._title(title, remark)
        self._print(table)
        self._print(Text())

    def _title(self, title: str, remark: str) -> None:
        text = Text(self._clean(title), style="bold")
        if remark:
            text.append(f"  {self._clean(remark)}", style="not bold dim")
        self._print(text)

    def _wrapped(self, label: str, entries: Sequence[Text]) -> None:
        """Entries side by side after a label, never broken inside one, with a hanging indent."""
        self._flow(Text(f"  {label:<{INDENT - 2}}", style="cyan"), entries, gap=2, width=self.width)

    def _flow(self, label: Text, entries: Sequence[Text], *, gap: int, width: int) -> None:
        """Entries after a label, with `gap` spaces between, in lines of at most `width` where they fit."""
        text, indent = label, label.cell_len
        column = indent
        for number, entry in enumerate(entries):
            if number and column + gap + entry.cell_len > width:
                text.append("\n" + " " * indent)
                column = indent
            elif number:
                text.append(" " * gap)
                column += gap
            text.append_text(entry)
            column += entry.cell_len
        self._print(text)

    def _clean(self, text: str) -> str:
        """`text` without line ends and control characters, and with escapes for what cannot be encoded."""
        return escaped(text).encode(self._encoding, "backslashreplace").decode(self._encoding)

    def _print(self, content: Text | Table, *, wrap: bool = False) -> None:
        # Only a terminal needs its lines broken; in a log a long path or warning stays in one piece.
        wrap = wrap or isinstance(content, Table) or self.live
        self._rich.print(content, soft_wrap=not wrap, overflow="fold" if wrap else None)
        self._stream.flush()


def shown_value(value: float) -> str:
    """A value of a field: 6 digits, or as many as come before the point, up to float64's 15."""
    before = len(f"{abs(value):.0f}")
    return f"{value:.{before if 6 < before <= 15 else 6}g}"


def shown_probability(probability: float | None) -> str:
    """A probability as a percentage, or that it is unknown (None, NaN)."""
    known = probability is not None and not math.isnan(probability)
    return f"{probability:.1%}" if known else "unknown"


def shown_share(share: float) -> str:
    """A share as a percentage; "100%" only for all, "0%" only for none."""
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    return f"{min(max(100.0 * float(share), 0.1), 99.9):.1f}%"
