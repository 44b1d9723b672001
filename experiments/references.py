r"""NumCoKE beside the references, which learn no embedding: order measures, ranks, and what is left to do.

    python -m experiments.references --data=configs/credit.py@DIR,configs/spotify.py@DIR
    python -m experiments.references --data=configs/credit.py --cases=given,noisy --seeds=0,1,2
    python -m experiments.references --quick

A data set is a config file; @DIR names a folder in text layout to use in place of the config's table.  Cases:

* given: the graph as it is;
* hidden: no literal of a field that a relation is named after (data.hide), so that nothing can be looked up;
* noisy: a tenth of the training facts turned around (data.reversed=0.1);
* distance: mixes of two fields compared by their distance, not their sum (data.synthetic_mix=distance, of
  configs/synthetic.py);
* held_out: a fifth of the entities in no training fact, ranked from their values (eval.inductive=0.2).

Everything is fitted in seconds, without chance but for the posterior's draws.  So a seed is also `data.seed`:
a graph built from a table is another one for each seed, as are shuffled values, noise and held-out entities;
a folder is one build, whatever the seed.  Numbers are worth what a model loses when they are removed; the
loss on shuffled ones also has in it what false numbers spoil.

"left" is what is missing to the posterior's order accuracy, as a share of the way to it from the bounds':
below 0 is better than the posterior, 1 no better than the bounds, more is worse than them.  "left to 1" is
the same for the way to 1.  The log loss is of the difference of two raw scores, twice the log-odds where one
is the other's negative; "calibrated" is the log loss of both, of calibrated scores (eval.selection=reversed).

Every run has a workdir of its own under --out.  Finished runs are read and stopped ones resume.  The table
goes to references.json, .csv and .md.
"""

import argparse
import csv
import importlib.util
import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from experiments import sweep
from experiments.commands import RESUMES, command
from experiments.paper_table2 import MODELS as TABLE_MODELS
from experiments.paper_table2 import TableModel
from experiments.rounds import (
    Data,
    failed_seeds,
    finished,
    has_failed,
    raise_failed,
    round_command,
    run_rounds,
)
from experiments.seeds import mean_and_deviation
from experiments.table2 import DataSet, data_sets_of
from numcoke_jax.cli.command_line import Command
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.data.variants import CONTROLS
from numcoke_jax.evaluation.orders import field_of_relation
from numcoke_jax.system.errors import UserError, did_you_mean, printable
from numcoke_jax.system.files import home_path, write_bytes_atomically, write_json_atomically

CASES: Mapping[str, Mapping[str, Any]] = {
    "given": {},
    "hidden": {},  # data.hide: the graph says which
    "noisy": {"data.reversed": 0.1},
    "distance": {"data.synthetic_mix": "distance"},
    "held_out": {"eval.inductive": 0.2},
}
REFERENCES = ("raw", "bounds", "posterior", "bradley_terry", "bradley_terry_compared")
MODELS: Mapping[str, TableModel] = {
    "numeric": TableModel("NumCoKE, shipped", "NumCoKE", "numeric", ours=True),
    **{name: TABLE_MODELS[name] for name in REFERENCES},
    "bradley_terry_all": TableModel(
        "Bradley-Terry, all values", "References", "bradley_terry", {"references.covariates": "all"}
    ),
    "boosted_pairs": TableModel("boosted pairs", "References", "boosted_pairs"),
    "paper": TABLE_MODELS["paper"],
    **{name: TABLE_MODELS[name] for name in ("rakge", "transe", "tucker", "literale")},
}
NEEDS_VALUES = ("boosted_pairs",)  # has nothing to work with if they are removed
OF_ALL_FIELDS = ("bradley_terry_all", "boosted_pairs")  # by default only where no single field has the order
TITLES = {
    "order_accuracy": "accuracy",
    "both observed": "both seen",
    "narrowest": "narrowest",
    "auc": "AUC",
    "log_loss": "log loss",
    "nll": "calibrated",
    "tau": "tau",
    "ece": "ECE",
    "mrr": "MRR",
    "hits@1": "Hits@1",
    "held-out mrr": "unseen MRR",
    "held-out hits@1": "unseen Hits@1",
    "seconds": "s",
}
ON_SCREEN = ("order_accuracy", "log_loss", "tau", "mrr", "held-out mrr")
DIGITS = {"seconds": 0}
LEFT = {"left": "left", "left to 1": "left to 1"}

Key = tuple[str, str, str, str]  # data set, case, model, values


def measures_of(report: Mapping[str, Any]) -> dict[str, float | None]:
    """The numbers of one run by the keys of `TITLES`; None where a report has none."""
    order = report.get("order") or {}
    of_all, narrow = order.get("all") or {}, order.get("narrowest_quarter") or {}
    by_group = {row["pairs"]: row["model"] for row in report.get("order_accuracy") or []}
    calibration = (report.get("calibration") or {}).get("test") or {}
    held_out = report.get("inductive") or {}
    return {
        **{name: of_all.get(name) for name in ("order_accuracy", "auc", "log_loss", "tau")},
        "both observed": by_group.get("both values observed"),
        "narrowest": narrow.get("order_accuracy"),
        **{name: (calibration.get("after") or {}).get(name) for name in ("ece", "nll")},
        "mrr": report["test"]["mrr"],
        "hits@1": report["test"]["hits@1"],
        "held-out mrr": held_out.get("mrr"),
        "held-out hits@1": held_out.get("hits@1"),
        "seconds": report["seconds"],
    }


def models_of(text: str, case: str) -> list[str]:
    """The models of a case; "" gives the case's own.

    Raises:
      UserError: there is no such model.
    """
    if not text:
        extra = OF_ALL_FIELDS if importlib.util.find_spec("catboost") else OF_ALL_FIELDS[:1]
        return ["numeric", *REFERENCES, *(extra if case in ("hidden", "distance") else ())]
    return checked("models", text, MODELS)


def checked(flag: str, text: str, known: Iterable[str]) -> list[str]:
    """The names that a flag joins by commas; raises UserError for one that is not known."""
    for name in text.split(","):
        if name not in known:
            hint = did_you_mean(name, known) or f"; needs some of {','.join(known)}"
            raise UserError(f"--{flag}={printable(name)} is not a choice{hint}")
    return text.split(",")


def compared_names(data: DataSet, extra: Sequence[str], graphs: Data) -> tuple[str, ...]:
    """The fields that relations of the graph are named after.

    Raises:
      UserError: there are none, or only these: nothing would be left.
    """
    folder = [f"--config.data.path={data.folder}"] if data.folder else []
    graph = graphs.loaded(round_command([f"--config={data.config}", *folder, *extra]).config).graph
    found = {field_of_relation(graph, relation) for relation in range(graph.num_relations)} - {None}
    names = tuple(name for field, name in enumerate(graph.vocabulary.fields) if field in found)
    if not names or len(names) == graph.num_fields:
        raise UserError(
            f"--cases=hidden hides {len(names)} of the {graph.num_fields} fields of {data.name}: leave it out"
        )
    return names


def commands_of(
    options: argparse.Namespace, data_sets: Sequence[DataSet], extra: Sequence[str]
) -> dict[tuple[Key, int], Command]:
    """The command of every run; all flags are checked before the first run starts.

    Raises:
      UserError: a wrong flag, or an unknown model, control or case.
    """
    cases, controls = checked("cases", options.cases, CASES), checked("values", options.values, CONTROLS)
    commands, graphs = {}, Data()
    for data, case in itertools.product(data_sets, cases):
        of_case = dict(CASES[case])
        if case == "hidden":
            of_case["data.hide"] = compared_names(data, extra, graphs)
        wanted = itertools.product(models_of(options.models, case), controls, sweep.seeds_of(options.seeds))
        for model, control, seed in wanted:
            if model in NEEDS_VALUES and control == "removed":
                continue
            changes = {**MODELS[model].values, **of_case, "data.control": control, "data.seed": seed}
            commands[(data.name, case, model, control), seed] = round_command(
                sweep.flags_of(
                    f"{data.config}:{MODELS[model].preset}",
                    changes,
                    options.out / data.name / f"{case}-{model}-{control}-seed{seed}",
                    data=data.folder,
                    seed=seed,
                    epochs=options.epochs,
                    extra=extra,
                )
            )
    return commands


def rows_of(reports: Mapping[Key, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row per data set, case, model and values: measures as mean and deviation, and what is left."""
    rows: list[dict[str, Any]] = []
    for (data, case, model, control), of_key in reports.items():
        done = finished(of_key)
        found = [measures_of(report) for report in done]
        rows.append(
            {
                "data": data,
                "case": case,
                "model": model,
                "values": control,
                "seeds": [report["seed"] for report in done],
                "failed": failed_seeds(of_key),
                **{name: mean_and_deviation([one[name] for one in found]) for name in TITLES},
            }
        )
    for row in rows:
        row |= left_of(row, rows)
    return rows


def left_of(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """How far the order accuracy is from the posterior's, and from 1, in distances from the bounds to these.

    None without bounds and posterior for the same data, case and values, or if nothing is between them.
    """
    same = {
        other["model"]: other["order_accuracy"]["mean"]
        for other in rows
        if all(other[key] == row[key] for key in ("data", "case", "values"))
    }
    own, start = row["order_accuracy"]["mean"], same.get("bounds")
    found: dict[str, float | None] = {}
    for name, end in (("left", same.get("posterior")), ("left to 1", 1.0)):
        known = own is not None and start is not None and end is not None and end > start
        found[name] = (end - own) / (end - start) if known else None  # type: ignore[operator]
    return found


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The measures that any of the rows has, "seconds" last."""
    return [name for name in TITLES if any(row[name]["mean"] is not None for row in rows)]


def cells_of(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """The row as text: model, values, measures, what is left."""
    of_seeds = sweep.counted(len(row["seeds"]), len(row["failed"]))
    name = MODELS[row["model"]].name
    cells = [sweep.cell(row[column], digits=DIGITS.get(column, 4)) for column in columns]
    left = ["-" if row[key] is None else f"{round(row[key], 2) + 0.0:.2f}" for key in LEFT]  # not -0.00
    return [f"{name}, {of_seeds}" if of_seeds else name, row["values"], *cells, *left]


def groups_of(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rows by data set and case."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["case"]), []).append(row)
    return groups


def markdown_of(rows: Sequence[dict[str, Any]]) -> str:
    """One table per data set and case."""
    lines = []
    for (data, case), mine in groups_of(rows).items():
        columns = columns_of(mine)
        headings = ["model", "values", *(TITLES[column] for column in columns), *LEFT.values()]
        seeds = max((row["seeds"] for row in mine), key=len)
        lines += [f"## {data}, {case}; seeds {', '.join(map(str, seeds))}", ""]
        lines += [f"| {' | '.join(headings)} |", "|---|---|" + "---:|" * (len(headings) - 2)]
        lines += [f"| {' | '.join(cells_of(row, columns))} |" for row in mine]
        lines.append("")
    return "\n".join(lines)


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line per row, with means and deviations in columns of their own."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ("data", "case", "model", "values")
    parts = [(name, part) for name in TITLES for part in ("mean", "std")]
    writer.writerow([*names, "seeds", "failed", *(f"{name} {part}" for name, part in parts), *LEFT])
    for row in rows:
        seeds = [" ".join(map(str, row[key])) for key in ("seeds", "failed")]
        numbers = [*(row[name][part] for name, part in parts), *(row[key] for key in LEFT)]
        found = ["" if number is None else number for number in numbers]
        writer.writerow([*(row[name] for name in names), *seeds, *found])
    return text.getvalue()


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print one table per data set and case, at most 80 columns wide; the files have all measures."""
    console = rich.console.Console(width=80, markup=False, highlight=False)
    for (data, case), mine in groups_of(rows).items():
        columns = [column for column in columns_of(mine) if column in ON_SCREEN]
        caption = "test facts against their reverses; MRR: filtered, tails\nleft: see --help"
        table = Table(title=f"{data}, {case}", caption=caption)
        table.add_column("model", min_width=18)
        table.add_column("values", no_wrap=True)
        for heading in (*(TITLES[column] for column in columns), "left"):
            table.add_column(heading, justify="right")
        for row in mine:
            cells = cells_of(row, columns)[: 3 + len(columns)]
            table.add_row(*(cell.replace(" ± ", "\n±") for cell in cells))
        console.print(table)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(
        prog="python -m experiments.references",
        description=__doc__,
        epilog="Further --config.KEY=VALUE flags are given to every run.",
    )
    options.add_argument("--data", default="", help="CONFIG or CONFIG@DIR, joined by commas")
    options.add_argument("--cases", default="given", help=f"some of {','.join(CASES)} (default: %(default)s)")
    options.add_argument(
        "--models",
        default="",
        help=f"some of {','.join(MODELS)} (default: NumCoKE and the references; those that use all fields, "
        "only where the compared ones are hidden)",
    )
    options.add_argument("--values", default="true,removed,shuffled", help=f"some of {','.join(CONTROLS)}")
    options.add_argument("--seeds", default="0", help="each also data.seed (default: %(default)s)")
    options.add_argument("--epochs", type=int, default=0, help="most epochs per run; 0: no cap")
    options.add_argument("--quick", action="store_true", help="the cars table, which comes with a package")
    options.add_argument(
        "--out", type=home_path, default=Path("runs/references"), help="(default: %(default)s)"
    )
    return options


def _options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    options, extra = parser().parse_known_args(arguments)
    if options.quick:
        options.data = options.data or "configs/cars.py"
    if not options.data:
        raise UserError("give --data=configs/credit.py,... or --quick; see --help")
    return options, extra


def write(rows: Sequence[dict[str, Any]], out: Path, name: str) -> None:
    """Write NAME.json, .csv and .md."""
    write_json_atomically(out / f"{name}.json", rows)
    write_bytes_atomically(out / f"{name}.csv", csv_of(rows).encode())
    write_bytes_atomically(out / f"{name}.md", markdown_of(rows).encode())
    print(f"{name}.json, .csv and .md in {out} have all measures")


@command(RESUMES)
def main(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    options, extra = _options(arguments)
    commands = commands_of(options, data_sets_of(options.data), extra)
    numbers = itertools.count(1)

    def tell(which: tuple[Key, int], report: dict[str, Any]) -> None:
        accuracy = None if has_failed(report) else measures_of(report)["order_accuracy"]
        shown = "failed" if has_failed(report) else "done" if accuracy is None else f"{accuracy:.4f} in order"
        print(f"{next(numbers)}/{len(commands)} {' '.join(which[0])} seed {which[1]}: {shown}", flush=True)

    reports = run_rounds(commands, tell)
    rows = rows_of(sweep.by_key(reports))
    show(rows)
    write(rows, options.out, "references")
    raise_failed(commands, reports)
    return 0


if __name__ == "__main__":
    sweep.main_of(main)
