"""What a person sees of a run: config, graph, progress, validations, results.

Everything reads well in 80 columns.  On a terminal there is a progress bar; elsewhere (a log file, CI) a
line now and then and no control characters.  Names from data are text, never rich markup, and characters
that the output's encoding lacks are written as escapes instead of ending the run.
"""

import contextlib
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import rich.console
from ml_collections import ConfigDict
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from numcoke_jax.config import default_config
from numcoke_jax.config_checks import RULES, flatten
from numcoke_jax.graph import SPLITS, NumericGraph
from numcoke_jax.order_tables import ORDER_REMARK, TERMINAL_TITLES, order_cells, order_rows
from numcoke_jax.progress import BarDisplay, ProgressReporter, QuietDisplay, duration

WIDTH = 80  # without a terminal to ask
SMALLEST_WIDTH = 40  # below it tables lose their meaning: let the terminal wrap them
LONGEST_NAME = 25  # of a field, so that two stand side by side
MOST_FIELDS = 30  # with more, only the ends of the list are shown
SHOWN_ENDS = 6
MOST_RELATIONS = 12  # in the table of orders; report.json has all
ELLIPSIS = "..."
INDENT = 14  # of what follows a label
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
        self._header_due = True

    def config(self, config: ConfigDict, workdir: str | os.PathLike[str] | None = None) -> None:
        """The resolved config, one or two lines per section; * marks what differs from the default."""
        defaults, values = flatten(default_config()), flatten(config)
        known = [key for key in RULES if key in values]
        sections: dict[str, list[Text]] = {}
        for key in [*known, *(key for key in values if key not in RULES)]:
            section, _, name = key.rpartition(".")
            changed = key not in defaults or defaults[key] != values[key]
            entry = f"{'*' if changed else ''}{name}={self._value(values[key])}"
            sections.setdefault(section, []).append(Text(entry, style="bold" if changed else ""))
        self._title("Config", "* differs from the default")
        for section, entries in sections.items():
            self._wrapped(self._clean(section), entries)
        if workdir is not None:
            self._wrapped("workdir", [Text(self._clean(str(workdir)))])
        self._print(Text())

    def graph(self, graph: NumericGraph, notices: Iterable[str] = (), name: str = "") -> None:
        """Counts of the graph, the observed share of each field, and what its reader noticed."""
        self._title("Graph", name)
        sizes = (
            _counted(graph.num_entities, "entity", "entities"),
            _counted(graph.num_relations, "relation", "relations"),
            _counted(graph.num_fields, "field", "fields"),
        )
        splits = [f"{len(graph.split(split)):,} {split}" for split in SPLITS]
        self._wrapped("sizes", [Text(", ".join(sizes))])
        self._wrapped("triples", [Text(", ".join([*splits, f"{len(graph.negatives):,} negatives"]))])
        self._observed_shares(graph)
        for notice in notices:
            self._print(Text.assemble(("notice: ", "cyan"), self._clean(notice)))
        self._print(Text())

    def note(self, text: str) -> None:
        """One line of information."""
        self._print(Text(self._clean(text)))

    def warn(self, text: str) -> None:
        """One line that deserves attention; the run continues."""
        self._print(Text.assemble(("warning: ", "yellow"), self._clean(text)))

    @contextlib.contextmanager
    def progress(
        self, total_steps: int, start_step: int = 0, *, label: str = "step"
    ) -> Iterator[ProgressReporter]:
        """A progress display for the steps from `start_step` to `total_steps`, ended also by exceptions.

        Yields:
          An object whose `advance(steps, losses, queries_per_second)` is called as the run proceeds;
          notes and validations may be written meanwhile.
        """
        self._header_due = True
        if not self.live:
            show = QuietDisplay(lambda parts: self.note("  ".join([label, *parts])))
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
        """The order measures of the test facts; then the ranks of both splits, also without the head."""
        rows, more = order_rows(report, MOST_RELATIONS)
        if rows:
            columns = ("test facts", *(f">{title}" for title in TERMINAL_TITLES))
            cells = [(name, *order_cells(measures)[: len(TERMINAL_TITLES)]) for name, measures in rows]
            self._print(Text())
            self.table("Order", f"{ORDER_REMARK}{more}", columns, cells)
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
        if "inductive" in report:
            for name, key in (("new entities", None), ("  raw values", "raw_values")):
                metrics = report["inductive"][key] if key else report["inductive"]
                table.add_row(
                    name, _number("count", metrics["count"]), *(_number(m, metrics[m]) for m in METRIC_TITLES)
                )
        best = f"best epoch {report['best_epoch']}, seed {report['seed']}, {duration(report['seconds'])}"
        if not rows:
            self._print(Text())
        self._title("Results", f"tails ranked, filtered; {best}")
        self._print(table)

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
        text, column = Text(f"  {label:<{INDENT - 2}}", style="cyan"), INDENT
        for number, entry in enumerate(entries):
            if number and column + 2 + entry.cell_len > self._rich.width:
                text.append("\n" + " " * INDENT)
                column = INDENT
            elif number:
                text.append("  ")
                column += 2
            text.append_text(entry)
            column += entry.cell_len
        self._print(text)

    def _observed_shares(self, graph: NumericGraph) -> None:
        """The share of observed values by field; only the ends of a long list, ordered by share."""
        if not graph.num_fields:
            return
        shares = graph.observed.mean(axis=0) if graph.num_entities else np.zeros(graph.num_fields)
        fields = list(range(graph.num_fields))
        if graph.num_fields > MOST_FIELDS:
            fields.sort(key=lambda field: (-shares[field], field))
            left_out = fields[SHOWN_ENDS:-SHOWN_ENDS]
            fields = fields[:SHOWN_ENDS] + fields[-SHOWN_ENDS:]
        names = [self._shortened(graph.vocabulary.fields[field]) for field in fields]
        longest = max(cell_len(name) for name in names)
        cells = [
            Text(set_cell_size(name, longest) + shown_share(shares[field]).rjust(7))
            for name, field in zip(names, fields, strict=True)
        ]
        if graph.num_fields <= MOST_FIELDS:
            self._wrapped("observed", cells)
            return
        low, high = shown_share(shares[left_out[-1]]), shown_share(shares[left_out[0]])
        self._wrapped("observed", cells[:SHOWN_ENDS])
        self._wrapped("", [Text(f"... {len(left_out)} more fields, from {high} down to {low} ...")])
        self._wrapped("", cells[SHOWN_ENDS:])

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
        text = self._clean(str(value))
        plain = not isinstance(value, str) or re.fullmatch(r"[\w./~-]+", text)
        return text if plain else f"'{text}'"

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


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


def _number(name: str, value: Any) -> str:
    if value is None or isinstance(value, float) and math.isnan(value):
        return "-"
    if name in ("epoch", "step", "count"):
        return f"{value:,.0f}"
    return f"{value:.2f}" if name == "mr" else f"{value:.4f}" if abs(value) < 100 else f"{value:.3g}"


def shown_value(value: float) -> str:
    """A value of a field: 6 digits, or as many as come before the point, up to float64's 15."""
    before = len(f"{abs(value):.0f}")
    return f"{value:.{before if 6 < before <= 15 else 6}g}"


def shown_share(share: float) -> str:
    """A share as a percentage; "100%" only for all, "0%" only for none."""
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    return f"{min(max(100.0 * float(share), 0.1), 99.9):.1f}%"
