"""What a person sees of a run: config, graph, validations, results."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from ml_collections import ConfigDict
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from numcoke_jax.config.checks import flatten
from numcoke_jax.config.schema import KEYS, default_config
from numcoke_jax.data.graph import SPLITS, NumericGraph
from numcoke_jax.runs.order_tables import ORDER_REMARK, TERMINAL_TITLES, order_cells, order_rows, shown_metric
from numcoke_jax.runs.stored import Report
from numcoke_jax.system.console import ELLIPSIS, WIDTH, Console, shown_share
from numcoke_jax.system.errors import plural, plural_of
from numcoke_jax.system.progress import ProgressReporter, duration

LONGEST_NAME = 25  # of a field, so that two stand side by side
MOST_FIELDS = 30  # with more, only the ends of the list are shown
SHOWN_ENDS = 6
MOST_RELATIONS = 12  # in the table of orders; report.json has all
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
SOFTMAX_COLUMN = ("cross_entropy", "CE", 9)  # in the place of BCE
SIDES = ("heads", "both")  # of a report whose relations have inverses
METRIC_TITLES = {"mrr": "MRR", "mr": "MR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10"}


class Screen(Console):
    """A console that also shows what a run consists of and finds.

    Args:
      stream, settings: those of `Console`.
      verbose: show every config key, not only those that differ from the default.
    """

    _header_due = True

    def __init__(self, stream: Any = None, *, verbose: bool = False, **settings: Any) -> None:
        super().__init__(stream, **settings)
        self._verbose = verbose

    def config(self, config: ConfigDict, workdir: str | os.PathLike[str] | None = None) -> None:
        """What differs from the default in the resolved config; or all of it, with * at what differs."""
        defaults, values = flatten(default_config()), flatten(config)
        known = [key for key in KEYS if key in values]
        sections: dict[str, list[Text]] = {}
        alike = 0
        for key in [*known, *(key for key in values if key not in KEYS)]:
            section, _, name = key.rpartition(".")
            changed = key not in defaults or defaults[key] != values[key]
            if not changed and not self._verbose:
                alike += 1
                continue
            entry = f"{'*' if changed and self._verbose else ''}{name}={self._value(values[key])}"
            sections.setdefault(section, []).append(Text(entry, style="bold" if changed else ""))
        rest = f"{plural(alike, 'other key')} as by default; --verbose shows them"
        self._title("Config", "* differs from the default" if self._verbose else rest)
        for section, entries in sections.items():
            self._wrapped(self._clean(section), entries)
        if workdir is not None:
            self._wrapped("workdir", [Text(self._clean(str(workdir)))])
        self._print(Text())

    def graph(
        self,
        graph: NumericGraph,
        notices: Iterable[str] = (),
        name: str = "",
        warnings: Iterable[str] = (),
    ) -> None:
        """Counts of the graph, the observed share of each field, and what its reader noticed."""
        self._title("Graph", name)
        graph = graph.without_inverses()
        sizes = (
            plural_of(graph.num_entities, "entity", "entities"),
            plural(graph.num_relations, "relation"),
            plural(graph.num_fields, "field"),
        )
        splits = [f"{len(graph.split(split)):,} {split}" for split in SPLITS]
        self._wrapped("sizes", [Text(", ".join(sizes))])
        self._wrapped("triples", [Text(", ".join([*splits, f"{len(graph.negatives):,} negatives"]))])
        self._observed_shares(graph)
        for warning in warnings:
            self.warn(warning)
        for notice in notices:
            words = [Text(word) for word in self._clean(notice).split(" ")]
            self._flow(Text("notice: ", style="cyan"), words, gap=1, width=min(self.width, WIDTH))
        self._print(Text())

    @contextlib.contextmanager
    def progress(
        self, total_steps: int, start_step: int = 0, *, label: str = "step"
    ) -> Iterator[ProgressReporter]:
        """As of every console; validations that are written meanwhile begin with a line of titles."""
        self._header_due = True
        with super().progress(total_steps, start_step, label=label) as reporter:
            yield reporter

    def validation(self, row: Mapping[str, Any]) -> None:
        """One validation as a line of a table; a row has the keys of VALIDATION_COLUMNS and `best`.

        Keys that are missing are shown as -; a true `best` marks the line.
        """
        softmax = SOFTMAX_COLUMN[0] in row
        columns = [SOFTMAX_COLUMN if softmax and c[0] == "bce" else c for c in VALIDATION_COLUMNS]
        if self._header_due:
            header = "".join(title.rjust(width) for _, title, width in columns)
            self._print(Text(header, style="bold"))
            self._header_due = False
        cells = [shown_metric(name, row.get(name)).rjust(width) for name, _, width in columns]
        self._print(Text("".join(cells) + ("  best" if row.get("best") else "")))

    def result_table(self, report: Report) -> None:
        """The order measures of the test facts; then the ranks of both splits, also without the head."""
        rows, more = order_rows(report.get("order"), MOST_RELATIONS)
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
        ranked: list[tuple[str, Mapping[str, Any]]] = []
        for split in ("valid", "test"):
            ranked += [(split, report[split]), ("  without head", report[split]["exclude_self"])]
        test: Mapping[str, Any] = report["test"]
        ranked += [(f"  test, {side}", test[side]) for side in SIDES if side in test]
        if "inductive" in report:
            found = report["inductive"]
            ranked += [("new entities", found), ("  raw values", found["raw_values"])]
        for name, metrics in ranked:
            values = [shown_metric(metric, metrics[metric]) for metric in ("count", *METRIC_TITLES)]
            table.add_row(name, *values, style="bold" if name == "test" else "")
        best = f"best epoch {report['best_epoch']}, seed {report['seed']}, {duration(report['seconds'])}"
        if not rows:
            self._print(Text())
        self._title("Results", f"tails ranked{' first' * ('both' in report['test'])}, filtered; {best}")
        self._print(table)

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
