r"""The paper's Table 2: models x data sets x seeds, every model under the same protocol, with a control.

    python -m experiments.table2 --data=configs/credit.py@DIR,configs/spotify.py@DIR --seeds=0,1,2
    python -m experiments.table2 --quick

A data set is a config file; @DIR names a folder in text layout to use in place of the config's table.  The
columns are the paper's: Hits@1, Hits@3, Hits@10, MR, MRR, filtered, tails, mean ± standard deviation over
the seeds.  The improvement is that of the NumCoKE with the highest MRR over the best other model of each
column, as a share of the other's figure.  The gap is the MRR on true values minus that on shuffled ones
(--values=true leaves the control out): a model without a gap does not reason with numbers.

Every run has a workdir of its own under --out.  Finished runs are read and stopped ones resume, so the same
command after a kill ends with the result of an uninterrupted one.  --epochs=N caps what each preset asks for,
and replaces a number that it leaves to the graph: one budget for all models.  --authors names data sets
(us_cities, spotify, credit) whose folders are the authors' own; the paper's printed figures are shown for
these and for configs/rakge_credit.py and rakge_spotify.py, whose training facts are the authors'.
--quick: the cars table, which comes with a package, small models, one seed, and programs that XLA optimises
little, since most of the time would go into compiling them.
"""

import argparse
import csv
import dataclasses
import io
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from experiments import figures, sweep
from experiments.commands import RESUMES, command
from experiments.paper_table2 import AUTHORS_GRAPHS, DATA_SETS, LOWER_IS_BETTER, METRICS, MODELS, PRINTED
from experiments.rounds import failed_seeds, finished, raise_failed, round_command, run_rounds, shown_mrr
from experiments.seeds import summary
from numcoke_jax.cli.command_line import Command
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.data.variants import CONTROLS
from numcoke_jax.runs.screen import METRIC_TITLES
from numcoke_jax.system.errors import UserError, did_you_mean, printable
from numcoke_jax.system.files import home_path, write_bytes_atomically, write_json_atomically

QUICK = {"model.dim": 36, "model.attribute_dim": 40, "query.filters": 8}
QUICK_EPOCHS = 40
QUICK_COMPILING = "--xla_backend_optimization_level=0"

Key = tuple[str, str, str]  # data set, model, values


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A column group: its name, its config file and the folder in place of the config's table, if any."""

    name: str
    config: str
    folder: str


def data_sets_of(text: str) -> list[DataSet]:
    """The data sets of "configs/credit.py@DIR,configs/spotify.py".

    Raises:
      UserError: two with the same name, or a missing config.
    """
    found = []
    for part in text.split(","):
        config, _, folder = part.partition("@")
        if not config:
            raise UserError(
                f"--data={printable(text)} must be config files joined by commas, such as "
                "configs/credit.py or configs/credit.py@DIR"
            )
        found.append(DataSet(Path(folder).name or Path(config).stem, config, folder))
    names = [data.name for data in found]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--data has two data sets named {name}: rename a folder")
    return found


def commands_of(
    options: argparse.Namespace, data_sets: Sequence[DataSet], extra: Sequence[str]
) -> dict[tuple[Key, int], Command]:
    """The command of every run, data set by data set; all flags are checked before the first run starts.

    Raises:
      UserError: an unknown model or control, or a wrong flag.
    """
    models, controls = options.models.split(","), options.values.split(",")
    for flag, names, known in (("models", models, MODELS), ("values", controls, CONTROLS)):
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known) or f"; needs some of {','.join(known)}"
                raise UserError(f"--{flag}={printable(name)} is not a choice{hint}")
    commands = {}
    for data in data_sets:
        for model in models:
            for control in controls:
                for seed in sweep.seeds_of(options.seeds):
                    row = MODELS[model]
                    values = {**(QUICK if options.quick else {}), **row.values, "data.control": control}
                    commands[(data.name, model, control), seed] = round_command(
                        sweep.flags_of(
                            f"{data.config}:{row.preset}",
                            values,
                            options.out / data.name / f"{model}-{control}-seed{seed}",
                            data=data.folder,
                            seed=seed,
                            epochs=options.epochs,
                            extra=extra,
                        )
                    )
    return commands


def rows_of(reports: dict[Key, list[dict[str, Any]]], authors: Sequence[str]) -> list[dict[str, Any]]:
    """One row per data set and model: test metrics, gap to shuffled values, the paper's figures or None."""
    rows = []
    for (data, model, control), of_key in reports.items():
        if control != "true":
            continue
        done = finished(of_key)
        test = summary(done)["test"]
        control_reports = reports.get((data, model, "shuffled"), [])
        shuffled = summary(finished(control_reports))["test"]["mrr"]
        column = data if data in authors else AUTHORS_GRAPHS.get(data, "")
        printed = PRINTED.get(model, {}).get(column)
        rows.append(
            {
                "data": data,
                "model": model,
                "name": MODELS[model].name,
                "group": MODELS[model].group,
                "seeds": [report["seed"] for report in done],
                "failed": failed_seeds(of_key),
                **{metric: test[metric] for metric in METRICS},
                "mrr on shuffled values": shuffled,
                "shuffled failed": failed_seeds(control_reports),
                "gap": sweep.gap_of(test["mrr"], shuffled),
                "paper": None if printed is None else dict(zip(METRICS, printed, strict=True)),
            }
        )
    return rows


def improvements(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By data set and metric: how much better NumCoKE is than the best other model, as a share of its figure.

    "model" names the variant of NumCoKE, the same for all metrics: the one with the highest MRR.  The other
    model is the best one of each metric; for MR lower is better.  None if one of them is missing or the
    other's figure is under `LEAST_BASE`: a share of next to nothing looks like much and says little.
    """
    found: dict[str, dict[str, Any]] = {}
    for data in dict.fromkeys(row["data"] for row in rows):
        known = [row for row in rows if row["data"] == data and row["mrr"]["mean"] is not None]
        ours = [row for row in known if MODELS[row["model"]].ours]
        best = max(ours, key=lambda row: row["mrr"]["mean"], default=None)
        found[data] = {"model": best["model"] if best else None}
        for metric in METRICS:
            others = [row[metric]["mean"] for row in known if not MODELS[row["model"]].ours]
            others = [figure for figure in others if figure is not None]
            own = best[metric]["mean"] if best else None
            share = None
            if own is not None and others and metric in LOWER_IS_BETTER:
                share = (min(others) - own) / min(others)
            elif own is not None and others and max(others) >= LEAST_BASE:
                share = (own - max(others)) / max(others)
            found[data][metric] = share
    return found


def cells_of(row: dict[str, Any]) -> list[str]:
    """The row as text, the paper's figure in brackets after ours."""
    of_seeds = sweep.counted(len(row["seeds"]), len(row["failed"]))
    cells = [row["group"], f"{row['name']}, {of_seeds}" if of_seeds else row["name"]]
    for metric in METRICS:
        text = sweep.cell(row[metric], digits=2 if metric == "mr" else 3) if row["seeds"] else "failed"
        cells.append(text if row["paper"] is None else f"{text} ({row['paper'][metric]:g})")
    gap = "-" if row["gap"] is None else f"{row['gap']:+.3f}"
    lost = len(row["shuffled failed"])
    of_control = sweep.counted(len(row["seeds"]) + len(row["failed"]) - lost, lost)
    return [*cells, f"{gap} ({of_control})" if of_control else gap]


def improvement_cells(shares: Mapping[str, Any]) -> list[str]:
    """The last line of a data set."""
    ours = MODELS[shares["model"]].name if shares["model"] else "NumCoKE"
    texts = ["-" if shares[metric] is None else f"{shares[metric]:+.1%}" for metric in METRICS]
    return ["improvement", f"{ours} over the best other model", *texts, ""]


LEAST_BASE = 0.05
HEADINGS = ("group", "model", *(METRIC_TITLES[metric] for metric in METRICS), "true - shuffled")


def markdown_of(rows: Sequence[dict[str, Any]], shares: Mapping[str, Mapping[str, Any]]) -> str:
    """One table per data set."""
    lines = []
    for data, of_data in shares.items():
        mine = [row for row in rows if row["data"] == data]
        lines += [
            f"## {data}",
            "",
            f"| {' | '.join(HEADINGS)} |",
            "|---|---|" + "---:|" * (len(HEADINGS) - 2),
        ]
        lines += [f"| {' | '.join(cells)} |" for cells in [*map(cells_of, mine), improvement_cells(of_data)]]
        lines.append("")
    return "\n".join(lines)


def csv_of(rows: Sequence[dict[str, Any]]) -> str:
    """One line per data set and model, with means and deviations in columns of their own."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    shown_metrics = (*METRICS, "mrr on shuffled values")
    metrics = [f"{metric} {part}" for metric in shown_metrics for part in ("mean", "std")]
    writer.writerow(["data", "group", "model", "seeds", "failed", *metrics, "gap"])
    for row in rows:
        numbers = [row[metric][part] for metric in shown_metrics for part in ("mean", "std")]
        seeds = [" ".join(map(str, row[name])) for name in ("seeds", "failed")]
        shown = ["" if number is None else number for number in [*numbers, row["gap"]]]
        writer.writerow([row["data"], row["group"], row["name"], *seeds, *shown])
    return text.getvalue()


def show(rows: Sequence[dict[str, Any]], shares: Mapping[str, Mapping[str, Any]]) -> None:
    """Print one table per data set, at most 80 columns wide: deviations and the paper's figures below."""
    console = rich.console.Console(width=80, markup=False, highlight=False)
    for data, of_data in shares.items():
        mine = [row for row in rows if row["data"] == data]
        caption = (
            "test, filtered, tails; gap: MRR on true minus that on shuffled values\n"
            "last line: NumCoKE by MRR, beside the best other model of each column"
        )
        if any(row["paper"] for row in mine):
            caption += "\nin brackets the paper's own figures"
        table = Table(title=data, caption=caption)
        table.add_column("model", min_width=len("NumCoKE, numeric"))
        for heading in (*HEADINGS[2:-1], "gap"):
            table.add_column(heading, justify="right")
        group = None
        for row in mine:
            if row["group"] != group:
                table.add_section()
                group = row["group"]
                table.add_row(group, style="italic")
            _, *cells = cells_of(row)
            table.add_row(*(cell.replace(" ± ", "\n±").replace(" (", "\n(") for cell in cells))
        table.add_section()
        _, comparison, *texts = improvement_cells(of_data)
        table.add_row(comparison, *texts)
        console.print(table)


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw test MRR on true and on shuffled values; one panel per data set, one pair of bars per model."""
    data_sets = list(dict.fromkeys(row["data"] for row in rows))
    most = max(sum(row["data"] == data for row in rows) for data in data_sets)
    figure, panels = figures.new_figure(
        4.6 * len(data_sets), 1.2 + 0.42 * most, panels=len(data_sets), columns=len(data_sets)
    )
    for panel, data in zip(panels, data_sets, strict=True):
        mine = [row for row in rows if row["data"] == data]
        series = {"true values": [sweep.point(row, "mrr") for row in mine]}
        if any(row["gap"] is not None for row in mine):
            series["shuffled values"] = [sweep.point(row, "mrr on shuffled values") for row in mine]
        figures.bars(panel, [row["name"] for row in mine], series, horizontal=True)
        panel.set_title(data, fontsize=10)
        panel.set_xlim(0.0, 1.12)
        panel.set_xlabel("test MRR, filtered, tails", fontsize=9)
    figures.legend_below(figure, panels[0])
    figures.save(figure, path)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(
        prog="python -m experiments.table2",
        description=__doc__,
        epilog="Further --config.KEY=VALUE flags are given to every run.",
    )
    options.add_argument("--data", default="", help="CONFIG or CONFIG@DIR, joined by commas")
    options.add_argument("--models", default=",".join(MODELS), help="(default: %(default)s)")
    options.add_argument("--seeds", default="", help="(default: 0,1,2,3,4; with --quick 0)")
    options.add_argument(
        "--values", default="true,shuffled", help=f"true, and others of {','.join(CONTROLS)}"
    )
    options.add_argument(
        "--epochs",
        type=int,
        help=f"most epochs per run; 0: each preset's own (default: 0; with --quick {QUICK_EPOCHS})",
    )
    options.add_argument(
        "--authors", default="", help=f"those of {','.join(DATA_SETS)} with the authors' folders"
    )
    options.add_argument("--quick", action="store_true", help="a small table of the cars data in minutes")
    options.add_argument("--out", type=home_path, default=Path("runs/table2"), help="(default: %(default)s)")
    return options


def _options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    options, extra = parser().parse_known_args(arguments)
    if options.quick:
        options.data = options.data or "configs/cars.py"
    if options.epochs is None:
        options.epochs = QUICK_EPOCHS if options.quick else 0
    options.seeds = options.seeds or ("0" if options.quick else "0,1,2,3,4")
    if not options.data:
        raise UserError("give --data=configs/credit.py,... or --quick; see --help")
    if "true" not in options.values.split(","):
        raise UserError(f"--values={printable(options.values)} must include true, which the table is about")
    return options, extra


def authors_of(text: str, data_sets: Sequence[DataSet]) -> list[str]:
    """The data sets of --authors.

    Raises:
      UserError: a name that the paper does not have, or that is not a folder of --data.
    """
    names = text.split(",") if text else []
    for name in names:
        if name not in DATA_SETS:
            raise UserError(
                f"--authors={printable(name)} is not in the paper: needs some of {','.join(DATA_SETS)}"
            )
        if not any(data.name == name and data.folder for data in data_sets):
            raise UserError(
                f"--authors={name}: --data has no folder of that name, such as CONFIG@PATH/{name}"
            )
    return names


@command(RESUMES)
def main(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    options, extra = _options(arguments)
    data_sets = data_sets_of(options.data)
    authors = authors_of(options.authors, data_sets)
    commands = commands_of(options, data_sets, extra)
    if options.quick:  # read when the first program is compiled; the user's own flags come later, and win
        os.environ["XLA_FLAGS"] = f"{QUICK_COMPILING} {os.environ.get('XLA_FLAGS', '')}".strip()
    print(f"{len(commands)} runs; a line follows each, the first when its model is compiled", flush=True)
    numbers = itertools.count(1)

    def tell(which: tuple[Key, int], report: dict[str, Any]) -> None:
        run = f"{next(numbers)}/{len(commands)} {' '.join(which[0])} seed {which[1]}"
        print(f"{run}: {shown_mrr(report)}", flush=True)

    reports = run_rounds(commands, tell)
    rows = rows_of(sweep.by_key(reports), authors)
    shares = improvements(rows)
    show(rows, shares)
    write_json_atomically(options.out / "table2.json", {"rows": rows, "improvement": shares})
    write_bytes_atomically(options.out / "table2.csv", csv_of(rows).encode())
    write_bytes_atomically(options.out / "table2.md", markdown_of(rows, shares).encode())
    draw(rows, options.out / "table2.png")
    print(f"table2.json, .csv, .md and .png in {options.out} have the same numbers")
    raise_failed(commands, reports)
    return 0


if __name__ == "__main__":
    sweep.main_of(main)
