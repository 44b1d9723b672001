"""What a person sees of a run: config, graph, progress, validations, results.

Everything reads well on 80 columns.  On a terminal there is a progress bar; elsewhere (a log file, CI) a
line now and then and no control characters.  Names from data are text, never rich markup, and characters
that the output's encoding lacks are written as escapes instead of ending the run.
"""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import rich.console
from ml_collections import ConfigDict
from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from numcoke_jax.config import default_config
from numcoke_jax.config_checks import flatten
from numcoke_jax.graph import SPLITS, NumericGraph
from numcoke_jax.progress import BarDisplay, ProgressReporter, QuietDisplay, duration

WIDTH = 80  # without a terminal to ask
SMALLEST_WIDTH = 40  # below it tables lose their meaning: let the terminal wrap them
LONGEST_NAME = 34  # of a field, so that two stand side by side
MOST_FIELDS = 30  # with more, only the ends of the list are shown
SHOWN_ENDS = 6
ELLIPSIS = "..."
VALIDATION_COLUMNS = (  # key of a row, title, width
    ("epoch", "epoch", 5),
    ("step", "step", 8),
    ("bce", "BCE", 9),
    ("contrastive", "contr.", 8),
    ("mrr", "MRR", 8),
    ("mr", "MR", 8),
    ("hits@1", "Hits@1", 8),
    ("hits@3", "Hits@3", 8),
    ("hits@10", "Hits@10", 8),
)
METRIC_TITLES = {
    "mrr": "MRR",
    "mr": "MR",
    "hits@1": "Hits@1",
    "hits@3": "Hits@3",
    "hits@10": "Hits@10",
}


class Console:
    """Writes a run's screen to `stream` (standard output).

    Args:
      stream: a text stream; its encoding and whether it is a terminal decide what is written.
      clock: seconds of a monotonic clock; tests give their own.
    """

    def __init__(self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
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
        self._header_due = True

    def config(self, config: ConfigDict, workdir: Any = None) -> None:
        """The resolved config, a line or two a section; * marks what differs from the default."""
        defaults = flatten(default_config())
        sections: dict[str, list[str]] = {}
        for key, value in flatten(config).items():
            section, _, name = key.rpartition(".")
            mark = "" if key in defaults and defaults[key] == value else "*"
            sections.setdefault(section, []).append(f"{mark}{name}={self._value(value)}")
        self._title("Config", "* differs from the default")
        for section, entries in sections.items():
            self._wrapped(self._clean(section), entries)
        if workdir is not None:
            self._wrapped("workdir", [self._clean(str(workdir))])
        self._print(Text())

    def graph(self, graph: NumericGraph, notices: Iterable[str] = (), name: str = "") -> None:
        """Counts of the graph, the observed share of each field, and what its reader noticed."""
        self._title("Graph", name)
        self._wrapped(
            "sizes",
            [
                f"{graph.num_entities:,} entities",
                f"{graph.num_relations:,} relations",
                f"{graph.num_fields:,} fields",
            ],
            separator=", ",
        )
        splits = [f"{len(graph.split(split)):,} {split}" for split in SPLITS]
        self._wrapped("triples", [*splits, f"{len(graph.negatives):,} negatives"], separator=", ")
        self._observed_shares(graph)
        for notice in notices:
            self.warn(notice)
        self._print(Text())

    def note(self, text: str) -> None:
        """One line of information."""
        self._print(Text(self._clean(text)))

    def warn(self, text: str) -> None:
        """One line that deserves attention; the run goes on."""
        self._print(Text.assemble(("warning: ", "yellow"), self._clean(text)))

    @contextlib.contextmanager
    def progress(
        self, total_steps: int, start_step: int = 0, *, label: str = "train"
    ) -> Iterator[ProgressReporter]:
        """A progress display for the steps from `start_step` to `total_steps`, ended also by exceptions.

        Yields:
          An object whose `advance(steps, losses, queries_per_second)` is called as the run goes on;
          notes and validations may be written meanwhile.
        """
        self._header_due = True
        if not self.live:
            show = QuietDisplay(lambda parts: self._wrapped(label, parts))
            yield ProgressReporter(show, total_steps, start_step, self._clock)
            return
        with BarDisplay(self._rich, total_steps, start_step, label) as bar:
            yield ProgressReporter(bar, total_steps, start_step, self._clock)

    def validation(self, row: Mapping[str, Any]) -> None:
        """One validation as a line of a table; a row has the keys of VALIDATION_COLUMNS and `best`.

        Keys that are missing are shown as -; a true `best` marks the line.
        """
        if self._header_due:
            header = "".join(title.rjust(width) for _, title, width in VALIDATION_COLUMNS)
            self._print(Text(header, style="bold"))
            self._header_due = False
        cells = [_number(name, row.get(name)).rjust(width) for name, _, width in VALIDATION_COLUMNS]
        self._print(Text("".join(cells) + ("  best" if row.get("best") else "")))

    def result_table(self, report: Mapping[str, Any]) -> None:
        """The ranking of the validation and test facts, each also without the head as a candidate."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("facts", no_wrap=True)
        table.add_column("count", justify="right", no_wrap=True)
        for title in METRIC_TITLES.values():
            table.add_column(title, justify="right", no_wrap=True)
        for split in ("valid", "test"):
            for name, metrics in ((split, report[split]), ("  without head", report[split]["exclude_self"])):
                values = [_number(metric, metrics[metric]) for metric in METRIC_TITLES]
                style = "bold" if name == "test" else ""
                table.add_row(name, _number("count", metrics["count"]), *values, style=style)
        best = f"best epoch {report['best_epoch']}, seed {report['seed']}, {duration(report['seconds'])}"
        self._print(Text())
        self._title("Results", best)
        self._print(table)

    def _title(self, title: str, remark: str) -> None:
        text = Text(title, style="bold")
        if remark:
            text.append(f"  {self._clean(remark)}", style="not bold dim")
        self._print(text)

    def _wrapped(self, label: str, entries: Sequence[str], separator: str = "  ") -> None:
        """Entries side by side after a label, never broken inside one, with a hanging indent."""
        indent = 12
        width = self._rich.width
        lines = [""]
        for entry in entries:
            candidate = lines[-1] + (separator if lines[-1] else "") + entry
            if lines[-1] and indent + cell_len(candidate) > width:
                lines[-1] += separator.rstrip()
                lines.append(entry)
            else:
                lines[-1] = candidate
        text = Text(f"  {label:<{indent - 2}}", style="cyan")
        text.append(lines[0], style="default")
        for line in lines[1:]:
            text.append("\n" + " " * indent + line, style="default")
        self._print(text)

    def _observed_shares(self, graph: NumericGraph) -> None:
        """The share of observed values by field; only the ends of a long list, ordered by share."""
        if not graph.num_fields:
            return
        shares = graph.observed.mean(axis=0) if graph.num_entities else graph.observed.sum(axis=0)
        names = [self._shortened(name) for name in graph.vocabulary.fields]
        order = list(range(graph.num_fields))
        heading = "observed"
        middle: list[str] = []
        if graph.num_fields > MOST_FIELDS:
            order.sort(key=lambda field: (-shares[field], field))
            left_out = order[SHOWN_ENDS:-SHOWN_ENDS]
            low, high = _percent(shares[left_out[-1]]), _percent(shares[left_out[0]])
            middle = [f"({len(left_out)} more fields between {low} and {high})"]
        cells = [f"{names[field]} {_percent(shares[field])}" for field in order]
        if middle:
            cells = [*cells[:SHOWN_ENDS], *middle, *cells[-SHOWN_ENDS:]]
        self._wrapped(heading, cells, separator="   ")

    def _shortened(self, name: str) -> str:
        """The end of a long name: field names that are paths differ at their ends."""
        clean = self._clean(name)
        if cell_len(clean) <= LONGEST_NAME:
            return clean
        while cell_len(clean) > LONGEST_NAME - len(ELLIPSIS):
            clean = clean[1:]
        return ELLIPSIS + clean

    def _value(self, value: Any) -> str:
        if isinstance(value, tuple):
            return "(" + ",".join(self._value(member) for member in value) + ")"
        if isinstance(value, float):
            return f"{value:g}"
        return self._clean(str(value)) or "''"

    def _clean(self, text: str) -> str:
        """`text` without line ends and control characters, and with escapes for what cannot be encoded."""
        text = "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
        )
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def _print(self, content: Text | Table) -> None:
        # Only a terminal needs its lines broken; in a log a long path or notice stays in one piece.
        wrap = isinstance(content, Table) or self.live
        self._rich.print(content, soft_wrap=not wrap, overflow="fold" if wrap else None)
        self._stream.flush()


def _number(name: str, value: Any) -> str:
    if value is None or isinstance(value, float) and math.isnan(value):
        return "-"
    if name in ("epoch", "step", "count"):
        return f"{value:,.0f}"
    return f"{value:.2f}" if name == "mr" else f"{value:.4f}" if abs(value) < 100 else f"{value:.3g}"


def _percent(share: float) -> str:
    """A share as a percentage; "100%" only for all, "0%" only for none."""
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    return f"{min(max(100.0 * float(share), 0.1), 99.9):.1f}%"
