r"""Entities that come after training, with facts of their own: which facts among them hold?

    python -m experiments.new_entities --data=configs/credit.py@DIR/NAME --epochs=20

The layout is that of RRNE's data (PAKDD 2025): NAME has train.txt and valid.txt over one half of the
entities, NAME_ind train.txt and test.txt over the other half; both have literals.  A model is fitted to
NAME; the facts in train.txt of NAME_ind are given to it with the question, and nothing is trained again.
Asked are the facts of test.txt against their reverses: the AUC, and the other order measures.

--missing=0.2 hides a fifth of the values of both halves, others for each seed: where values alone do not
decide, models that are fitted to the facts of both halves at once (the references, the order core) are on
equal terms.

Facts "none" shows the same entities with their values alone.  What the first half is good for is the field
that a relation compares, and the noise; positions of new entities come from their own values and facts.
NAME lacks test.txt, so that a copy with an empty one is made under --out; the runs are beside it.
"""

import argparse
import contextlib
import dataclasses
import functools
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rich.console
from rich.table import Table

from experiments import sweep
from experiments.commands import RESUMES, command
from experiments.references import MODELS, NEEDS_VALUES, REFERENCES, checked
from experiments.rounds import has_failed, raise_failed, round_command, run_rounds
from experiments.seeds import mean_and_deviation
from experiments.table2 import DataSet, data_sets_of
from numcoke_jax.cli.command_line import Command
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.data.files.folder import inspect_folder
from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.data.variants import CONTROLS, controlled_values
from numcoke_jax.evaluation.order_measures import order_measures
from numcoke_jax.evaluation.orders import pair_orders
from numcoke_jax.inference.trained import Trained, load_trained
from numcoke_jax.runs.unseen import NewEntities, extended
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path, write_json_atomically

FACTS = ("given", "none")
SPLITS = ("train", "valid", "test")
SHARED = ("data", "model", "values", "facts")  # what the rows of all seeds share
TITLES = {"auc": "AUC", "order_accuracy": "accuracy", "log_loss": "log loss", "tau": "tau"}

Key = tuple[str, str, str]  # data set, model, values


def graph_of(folder: Path, scratch: Path, missing: float = 0.0, seed: int = 0) -> NumericGraph:
    """The graph of a folder that may lack splits: those that it lacks are empty.

    Args:
      folder: train.txt, perhaps valid.txt and test.txt, literals.
      scratch: where a complete copy is kept.
      missing: share of the literals that the copy lacks.
      seed: of which these are.

    Raises:
      UserError: the folder or a file is missing or malformed.
    """
    if not (folder / "train.txt").is_file():
        raise UserError(f"{folder}: there is no train.txt, which --data needs there")
    scratch.mkdir(parents=True, exist_ok=True)
    for name in SPLITS:
        found = folder / f"{name}.txt"
        (scratch / f"{name}.txt").write_bytes(found.read_bytes() if found.is_file() else b"")
    literals = "literals/numerical_literals.txt"
    if (folder / literals).is_file():
        (scratch / literals).parent.mkdir(exist_ok=True)
        lines = (folder / literals).read_bytes().splitlines(keepends=True)
        kept = np.random.default_rng(seed).random(len(lines)) >= missing
        (scratch / literals).write_bytes(b"".join(itertools.compress(lines, kept)))
    graph, report = inspect_folder(scratch)
    if graph is None or report.errors:
        raise UserError(f"{folder}: {report.errors[0]}")
    return graph


def new_ones(known: NumericGraph, asked: NumericGraph) -> tuple[NewEntities, np.ndarray]:
    """The entities of `asked` as new ones of `known`, with its training facts; and its test facts so named.

    Fields and relations that `known` lacks are left out.

    Raises:
      UserError: both name an entity.
    """
    names = asked.vocabulary
    if both := set(names.entities) & set(known.vocabulary.entities):
        raise UserError(f"{min(both)!r} is in both folders: the entities of NAME_ind must be new")
    fields = {name: place for place, name in enumerate(names.fields)}
    values = np.zeros((asked.num_entities, known.num_fields))
    observed = np.zeros(values.shape, bool)
    for place, name in enumerate(known.vocabulary.fields):
        if name in fields:
            values[:, place], observed[:, place] = (
                asked.values[:, fields[name]],
                asked.observed[:, fields[name]],
            )
    relations = {name: place for place, name in enumerate(known.vocabulary.relations)}
    ids = np.array([relations.get(name, -1) for name in names.relations], np.int32)

    def renamed(facts: np.ndarray) -> np.ndarray:
        facts = facts[ids[facts[:, RELATION]] >= 0].copy()
        facts[:, RELATION] = ids[facts[:, RELATION]]
        facts[:, [HEAD, TAIL]] += known.num_entities
        return facts

    return NewEntities(names.entities, values, observed, renamed(asked.train)), renamed(asked.test)


def asked_of(trained: Trained, asked: NumericGraph, *, with_facts: bool) -> dict[str, Any]:
    """The order measures of the test facts of `asked`."""
    run = trained.run
    new, facts = new_ones(run.graph, asked)
    if not with_facts:
        new = dataclasses.replace(new, facts=new.facts[:0])
    graph, scorer, params = extended(run, trained.params, new)
    orders = pair_orders(
        graph,
        facts,
        run.scale.positions.apply(graph.values, graph.observed),
        functools.partial(scorer.scored_heads, params),
    )
    return order_measures(graph, facts, orders)["all"]


def commands_of(
    options: argparse.Namespace, data_sets: Sequence[DataSet], extra: Sequence[str]
) -> tuple[dict[tuple[Key, int], Command], dict[tuple[str, int], NumericGraph]]:
    """The command of every run, and by data set and seed the graph that is asked.

    Folders are copied under --out.

    Raises:
      UserError: a wrong flag, model, control or folder.
    """
    commands, asked = {}, {}
    models, controls = checked("models", options.models, MODELS), checked("values", options.values, CONTROLS)
    for data in data_sets:
        if not data.folder:
            raise UserError(
                f"--data={data.config} needs a folder: CONFIG@DIR/NAME, with DIR/NAME_ind beside it"
            )
        folder, out = home_path(data.folder), options.out / data.name
        new = folder.with_name(f"{folder.name}_ind")
        for seed in sweep.seeds_of(options.seeds):
            copy = out / f"graph-seed{seed}"
            known = graph_of(folder, copy, options.missing, seed)
            asked[data.name, seed] = graph_of(new, out / f"asked-seed{seed}", options.missing, seed)
            new_ones(known, asked[data.name, seed])
            for model, control in itertools.product(models, controls):
                if model in NEEDS_VALUES and control == "removed":
                    continue
                changes = {**MODELS[model].values, "data.control": control, "data.seed": seed}
                workdir = out / f"{model}-{control}-seed{seed}"
                config = f"{data.config}:{MODELS[model].preset}"
                flags = sweep.flags_of(
                    config, changes, workdir, data=str(copy), seed=seed, epochs=options.epochs, extra=extra
                )
                commands[(data.name, model, control), seed] = round_command(flags)
    return commands, asked


def rows_of(
    commands: Mapping[tuple[Key, int], Command],
    reports: Mapping[tuple[Key, int], Mapping[str, Any]],
    asked: Mapping[tuple[str, int], NumericGraph],
) -> list[dict[str, Any]]:
    """One row per data set, model, values, seed, and with the new entities' facts or without."""
    rows = []
    for which, report in reports.items():
        (data, model, control), seed = which
        if has_failed(report):
            continue
        graph = controlled_values(asked[data, seed], control, seed=seed)
        trained = load_trained(commands[which].workdir, lambda _: None)
        for facts in FACTS:
            found = asked_of(trained, graph, with_facts=facts == "given")
            row = {"data": data, "model": model, "values": control, "seed": seed, "facts": facts}
            rows.append({**row, **{name: found[name] for name in ("count", *TITLES)}})
    return rows


def markdown_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """One table: mean and deviation over the seeds."""
    headings = ["graph", "model", "values", "facts", *TITLES.values()]
    lines = [f"| {' | '.join(headings)} |", "|---|---|---|---|" + "---:|" * len(TITLES)]
    lines += [f"| {' | '.join(cells)} |".replace("\n", " ") for cells in cells_of(rows)]
    return "\n".join([*lines, ""])


def cells_of(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A line of text for what the seeds share, the deviation in a line of its own."""
    lines = []
    for which in dict.fromkeys(tuple(row[name] for name in SHARED) for row in rows):
        same = [row for row in rows if tuple(row[name] for name in SHARED) == which]
        data, model, values, facts = which
        cells = [data, MODELS[model].name, values, facts]
        for name in TITLES:
            mean, deviation = mean_and_deviation([row[name] for row in same]).values()
            spread = "" if deviation is None else f"\n±{deviation:.4f}"
            cells.append("-" if mean is None else f"{mean:.4f}{spread}")
        lines.append(cells)
    return lines


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one table per data set, at most 80 columns wide."""
    for data in dict.fromkeys(row["data"] for row in rows):
        table = Table(title=data, caption="test facts among new entities against their reverses")
        for heading in ("model", "values", "facts", *TITLES.values()):
            table.add_column(heading, justify="right" if heading in TITLES.values() else "left")
        for cells in cells_of([row for row in rows if row["data"] == data]):
            table.add_row(*cells[1:])
        rich.console.Console(width=80, markup=False, highlight=False).print(table)


def share(text: str) -> float:
    """A number from 0 to 1, without 1, as the type of an argparse option."""
    with contextlib.suppress(ValueError):
        if 0.0 <= float(text) < 1.0:
            return float(text)
    raise argparse.ArgumentTypeError(f"needs a number >= 0 and < 1, got {text!r}")


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(
        prog="python -m experiments.new_entities",
        description=__doc__,
        epilog="Further --config.KEY=VALUE flags are given to every run.",
    )
    options.add_argument("--data", required=True, help="CONFIG@DIR/NAME, joined by commas")
    options.add_argument(
        "--models", default=",".join(["numeric", *REFERENCES]), help="(default: %(default)s)"
    )
    options.add_argument("--values", default="true,removed,shuffled", help=f"some of {','.join(CONTROLS)}")
    options.add_argument("--seeds", default="0", help="(default: %(default)s)")
    options.add_argument(
        "--missing", type=share, default=0.0, help="share of the values that is hidden (default: %(default)s)"
    )
    options.add_argument("--epochs", type=int, default=0, help="most epochs per run; 0: no cap")
    options.add_argument(
        "--out", type=home_path, default=Path("runs/new_entities"), help="(default: %(default)s)"
    )
    return options


@command(RESUMES)
def main(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    options, extra = parser().parse_known_args(arguments)
    commands, asked = commands_of(options, data_sets_of(options.data), extra)

    def tell(which: tuple[Key, int], report: dict[str, Any]) -> None:
        print(
            f"{' '.join(which[0])} seed {which[1]}: {'failed' if has_failed(report) else 'done'}", flush=True
        )

    reports = run_rounds(commands, tell)
    rows = rows_of(commands, reports, asked)
    show(rows)
    write_json_atomically(options.out / "new_entities.json", rows)
    (options.out / "new_entities.md").write_text(markdown_of(rows), encoding="utf-8")
    print(f"new_entities.json and .md in {options.out} have the same numbers")
    raise_failed(commands, reports)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
