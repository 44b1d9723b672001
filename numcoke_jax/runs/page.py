"""report.html: what a run found, on one page that needs no network.

The page comes from `runs/templates/report.html`; this module supplies its contents.
"""

import dataclasses
import importlib.resources
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from numcoke_jax.config.checks import flatten
from numcoke_jax.config.schema import default_config
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.evaluation.internals import internals
from numcoke_jax.evaluation.metrics import METRICS
from numcoke_jax.evaluation.reference_orders import RULES
from numcoke_jax.runs.figures import heat_map, line_chart, reliability_chart
from numcoke_jax.runs.file_names import HTML_FILE, METRICS_FILE
from numcoke_jax.runs.logs import read_metrics
from numcoke_jax.runs.order_tables import (
    ABOUT_MRR,
    ABOUT_ORDER,
    ORDER_REMARK,
    ORDER_TITLES,
    order_cells,
    order_rows,
)
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.screen import METRIC_TITLES, SIDES
from numcoke_jax.runs.stored import Report
from numcoke_jax.system.console import shown_share
from numcoke_jax.system.errors import plural
from numcoke_jax.system.files import write_bytes_atomically
from numcoke_jax.system.processes import leads
from numcoke_jax.system.progress import duration

MOST_ROWS = 40  # relations or fields on the page; report.json has all
CERTAIN = 0.995  # weight of a compared field from which it alone is said to be compared
ABOUT_RULES = (
    "Beside the model stand rules that learn nothing. Raw values: the head has the better value, a guess "
    "where one is missing; win rate: it is more often the head of training facts; bounds: as raw values, a "
    "missing one in the middle of what the facts allow."
)
TITLES = {"count": "facts", **METRIC_TITLES}


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of texts under column titles; numbers, but for the first column, unless they are `words`."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False


@dataclasses.dataclass(frozen=True)
class Details:
    """Entries that are folded away until someone opens them."""

    title: str
    entries: Sequence[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page with a heading; `figures` are titles with inline SVG, or a sentence in its place."""

    id: str
    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    figures: Sequence[tuple[str, str]] = ()
    details: Details | None = None
    numbers: Table | None = None  # of the figure, folded away


def write_html_report(run: Run, params: Any, report: Report, workdir: Path) -> None:
    """Write report.html into the folder of the run; raises UserError if that is impossible."""
    sections = [
        _order(report),
        _orders(report),
        _results(report),
        _relations(report),
        _learning(workdir, report["best_epoch"]),
        _attention(run, params),
        _calibration(report),
        _data(run),
        _settings(run),
        _environment(report),
    ]
    test = report["test"]
    measured, _ = order_rows(report.get("order"), 0)
    accuracy = f"test order accuracy {number(measured[0][1]['order_accuracy'])}, " if measured else ""
    summary = (
        f"{run.config.model.name}, seed {report['seed']}, best epoch {report['best_epoch']}, trained in "
        f"{duration(report['seconds'])}; {accuracy}test MRR {number(test['mrr'])} over {test['count']:,} "
        "facts."
    )
    text = render(f"{run.loaded.name}: {workdir.resolve().name}", summary, [s for s in sections if s])
    if leads():  # of several processes, all of which compute what is shown
        write_bytes_atomically(workdir / HTML_FILE, text.encode("utf-8", "replace"))


def render(title: str, summary: str, sections: Sequence[Section]) -> str:
    """The page; all text is escaped."""
    source = (
        importlib.resources.files("numcoke_jax.runs").joinpath("templates/report.html").read_text("utf-8")
    )
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
    return page.render(title=title, summary=summary, sections=sections)


def number(value: Any) -> str:
    """A metric on the page."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def metric_cells(metrics: Mapping[str, Any]) -> list[str]:
    """The cells of `METRICS`."""
    return [number(metrics[name]) for name in METRICS]


def _order(report: Report) -> Section | None:
    rows, more = order_rows(report.get("order"), MOST_ROWS)
    if not rows:
        return None
    columns = ["pairs of", *ORDER_TITLES.values()]
    table = Table(
        f"Order of {ORDER_REMARK}{more}", columns, [[name, *order_cells(found)] for name, found in rows]
    )
    references = _references(report)
    text = f"{ABOUT_ORDER} {ABOUT_RULES}" if references else ABOUT_ORDER
    return Section("order", "Order", text, tables=[table, *references, *_compared(report)])


def _references(report: Report) -> list[Table]:
    """The model beside rules that learn nothing; none in a report of an older version."""
    order = report.get("order")
    found = order.get("references") if order else None
    if not found:
        return []
    names = sorted(found["relations"], key=lambda name: (found["relations"][name]["model"], name))
    rows = [("all that compare", found["all"]), *((name, found["relations"][name]) for name in names)]
    columns = ("model", *RULES)
    cells = [[name, *(number(row[column]) for column in columns)] for name, row in rows[: 1 + MOST_ROWS]]
    return [Table("Accuracy beside rules that learn nothing", ["pairs of", *columns], cells)]


def _compared(report: Report) -> list[Table]:
    """The field that each relation compares, in words."""
    found = report.get("compared_fields") or {}
    rows = [[name, compared_in_words(**of)] for name, of in list(found.items())[:MOST_ROWS]]
    return [Table("What the relations compare", ["relation", "field"], rows, words=True)] if rows else []


def compared_in_words(field: str, weight: float) -> str:
    """What a `ComparedField` says, such as "the head has the higher Weight"."""
    words = f"the head has the {'higher' if weight > 0 else 'lower'} {field}"
    return words if abs(weight) >= CERTAIN else f"{words}, by {abs(weight):.2f} of 1: not {field} alone"


def _results(report: Report) -> Section:
    rows = []
    for split in ("valid", "test"):
        metrics: Mapping[str, Any] = report[split]
        rows.append([split, *metric_cells(metrics)])
        rows.append([f"{split}, head not a candidate", *metric_cells(metrics["exclude_self"])])
        rows += [[f"{split}, {side}", *metric_cells(metrics[side])] for side in SIDES if side in metrics]
    if "inductive" in report:
        found = report["inductive"]
        rows.append([f"{found['entities']} entities held out", *metric_cells(found)])
        rows.append(["  the rule: compare the raw values", *metric_cells(found["raw_values"])])
    columns = ["facts of", *(TITLES[name] for name in METRICS)]
    caption = (
        "Ranks of tails (other sides are named), filtered by the facts of all splits, ties at their mean rank"
    )
    return Section("results", "Ranks", ABOUT_MRR, tables=[Table(caption, columns, rows)])


def _relations(report: Report) -> Section | None:
    found: Mapping[str, Any] = report["relations"]
    names = sorted(found, key=lambda name: found[name]["mrr"])[:MOST_ROWS]
    if not names:
        return None
    rows = [[name, *_cells_by_side(found[name])] for name in names]
    more = f", the {MOST_ROWS} with the lowest MRR of {len(found)}" if len(found) > MOST_ROWS else ""
    titles = [
        *(TITLES[name] for name in METRICS),
        *(f"MRR, {side}" for side in SIDES if side in found[names[0]]),
    ]
    tables = [Table(f"Test facts by relation{more}", ["relation", *titles], rows)]
    if kinds := report.get("cardinalities"):
        rows = [[f"{kind} ({part['relations']})", *_cells_by_side(part)] for kind, part in kinds.items()]
        caption = "Test facts by cardinality, heads of a tail to tails of a head (number of relations)"
        tables.append(Table(caption, ["cardinality", *titles], rows))
    return Section("relations", "By relation", tables=tables)


def _cells_by_side(metrics: Mapping[str, Any]) -> list[str]:
    """The cells of tails, and where heads are ranked the MRR of the other sides."""
    return [*metric_cells(metrics), *(number(metrics[side]["mrr"]) for side in SIDES if side in metrics)]


def _orders(report: Report) -> Section | None:
    found = report["order_accuracy"]
    if not found:
        return None
    rows = [
        [row["pairs"], f"{row['count']:,}", number(row["model"]), number(row["raw values"])] for row in found
    ]
    columns = ["test pairs", "count", "model", "raw values"]
    text = "The column of raw values is the rule that compares them, which guesses where one is missing."
    return Section("orders", "By value gap", text, [Table("Pairs in the right order", columns, rows)])


def _learning(workdir: Path, best_epoch: int) -> Section | None:
    path = workdir / METRICS_FILE
    rows = read_metrics(path) if path.exists() else []

    def lines(*names: str) -> dict[str, list[tuple[float, float]]]:
        """The points of each; without validation facts the log has null."""
        points = {n: [(row["epoch"], row[n]) for row in rows if row.get(n) is not None] for n in names}
        return {name: found for name, found in points.items() if found}

    best = (best_epoch, f"best epoch {best_epoch}") if best_epoch else None
    loss, mrr = (("epoch", title, None, None, best) for title in ("loss", "MRR"))
    figures = [
        _figure("Training loss by epoch", line_chart, lines("bce", "cross_entropy", "contrastive"), *loss),
        _figure("Validation MRR by epoch", line_chart, lines("mrr"), *mrr),
    ]
    return Section("learning", "Learning curves", figures=figures) if rows else None


def _attention(run: Run, params: Any) -> Section | None:
    """Mean attention of all entities and heads, by relation and field; None for a model without it."""
    names = run.graph.vocabulary
    count = min(run.graph.own_relations, MOST_ROWS)
    found = []
    for relation in range(count):
        sown = internals(run.programs.model, run.literals, run.graph.num_entities, params, relation)
        if "attention" not in sown:
            return None
        found.append(sown["attention"].mean(axis=(0, 1)))
    weights = np.stack(found)
    fields = np.sort(np.argsort(-weights.mean(axis=0), kind="stable")[:MOST_ROWS])
    columns = [names.fields[field] for field in fields]
    chart = _figure(
        "Mean attention by relation and field",
        heat_map,
        names.relations[:count],
        columns,
        weights[:, fields],
    )
    rows = [
        [name, *(f"{share:.3f}" for share in row)]
        for name, row in zip(names.relations[:count], weights[:, fields], strict=True)
    ]
    table = Table("Mean attention by relation and field", ["relation", *columns], rows)
    text = "How much the model looks at each field, averaged over entities and attention heads."
    return Section("attention", "Attention", text, figures=[chart], numbers=table)


def _figure(title: str, draw: Callable[..., str], *what: Any) -> tuple[str, str]:
    """A title and its figure."""
    return title, draw(title, *what)


def _calibration(report: Report) -> Section | None:
    found = report["calibration"]
    if found is None:
        return None
    names = {"before": "raw scores", "after": "temperature and shift"}
    rows = [
        [f"{split}, {title}", number(found[split][name]["ece"]), number(found[split][name]["nll"])]
        for split in ("valid", "test")
        for name, title in names.items()
    ]
    table = Table("Expected calibration error and negative log-likelihood", ["", "ECE", "NLL"], rows)
    bins = {title: found["test"][name]["bins"] for name, title in names.items()}
    chart = _figure("Calibration on test facts", reliability_chart, bins)
    count, relations = found["valid"]["count"], plural(len(found["relations"]), "relation")
    text = f"By {count:,} validation scores of {relations}; of any other one probabilities are unknown."
    share = found["valid"]["labelled_share"]
    if share < 1.0:
        text += f" The validation rows are about labels, which {shown_share(share)} of the true triples have."
    return Section("calibration", "Calibration", text, [table], [chart])


def _data(run: Run) -> Section:
    graph = run.graph.without_inverses()
    sizes = [
        ["entities", f"{graph.num_entities:,}"],
        ["relations", f"{graph.num_relations:,}"],
        ["fields", f"{graph.num_fields:,}"],
        *([f"{split} facts", f"{len(graph.split(split)):,}"] for split in SPLITS),
        ["known negatives", f"{len(graph.negatives):,}"],
    ]
    tables = [Table("Sizes", ["", "count"], sizes)]
    if graph.num_fields:
        shares = graph.observed.mean(axis=0)
        rows = [
            [graph.vocabulary.fields[m], shown_share(shares[m])]
            for m in range(min(graph.num_fields, MOST_ROWS))
        ]
        tables.append(Table("Observed values by field", ["field", "observed"], rows))
    notices = [
        (str(place), notice) for place, notice in enumerate((*run.loaded.warnings, *run.loaded.notices), 1)
    ]
    return Section("data", "Data", tables=tables, details=Details("Notices", notices) if notices else None)


def _settings(run: Run) -> Section:
    defaults = flatten(default_config())
    entries = [
        (key if defaults.get(key) == value else f"{key} (changed)", repr(value))
        for key, value in flatten(run.config).items()
    ]
    return Section("config", "Config", details=Details("All keys", entries))


def _environment(report: Report) -> Section:
    entries = []
    parts = ("", report.get("environment", {})), ("evaluation: ", report.get("evaluation_environment", {}))
    for prefix, part in parts:
        for name, value in part.items():
            for key, item in value.items() if isinstance(value, Mapping) else [("", value)]:
                entries.append((f"{prefix}{name} {key}".strip(), "-" if item is None else str(item)))
    return Section("environment", "Environment", details=Details("Versions, device, hashes", entries))
