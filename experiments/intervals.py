r"""Do intervals contain the value as often as they say, and are they no wider than need be?

    python -m experiments.intervals --table=cars.csv --name=Name,Year --relations=Weight_in_lbs,Horsepower \
        --rows=100 --seeds=0,1,2,3,4

The table is a csv file whose values are known; each seed takes --rows of it at random and deletes a fifth of
the cells (--missing).  What is asked:

* empty: the deleted cells, in a graph of the table with holes, so that no fact compares them;
* masked: the same cells, in a graph of the table before they were deleted, with facts about them;
* new: a fifth of the rows is in no graph; of each, the value of a compared field is asked, given its other
  values and 0, 1, 3, ... (--facts) comparisons of it with rows of the graph, drawn at random.

"covered" is the share of intervals that contain the value, "told" what `impute` says of cells of the same
kind, with or without facts, "width" the mean share of all ranks, and "posterior" that of the reference of
this name: quantiles of Gibbs draws, from facts and values of the field alone, rounded outwards to known
values as those of `impute` are.  Means over seeds with the deviation between these; intervals.json has each
seed's numbers.
"""

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rich.console
from rich.table import Table

from experiments import sweep
from experiments.commands import command
from experiments.new_entities import share
from experiments.references import checked
from experiments.seeds import mean_and_deviation
from numcoke_jax.cli.commands import OneLineParser, as_shares
from numcoke_jax.data.graph import LoadedGraph, NumericGraph
from numcoke_jax.data.literals import fit_normalizer
from numcoke_jax.data.numeric_kg import NumericKG
from numcoke_jax.inference.impute import impute
from numcoke_jax.inference.intervals import WITH, WITHOUT
from numcoke_jax.inference.places import places
from numcoke_jax.inference.trained import Trained
from numcoke_jax.models.references.compared import EXPLAINED, compared_fields, places_of
from numcoke_jax.models.references.comparisons import fact_nodes
from numcoke_jax.models.references.posterior import sampled_places
from numcoke_jax.runs.chosen import chosen_config
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.unseen import NewEntities
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path, write_json_atomically

CASES = ("empty", "masked", "new")
NEW_SHARE = 0.2  # of the rows
DRAWS = 1024
NAME = "name"
COLUMNS = ("covered", "told", "width", "posterior")


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One seed's rows.

    Attributes:
      frame: all values, and the column `NAME`.
      deleted: bool, which cells are deleted, by name and field.
      fields: the M columns.
      relations: those that are compared.
      split: of the facts.
      rng: what is drawn from here on.
    """

    frame: pd.DataFrame
    deleted: pd.DataFrame
    fields: tuple[str, ...]
    relations: tuple[str, ...]
    split: tuple[float, ...]
    rng: np.random.Generator

    @property
    def with_holes(self) -> pd.DataFrame:
        """The table without the deleted cells."""
        return self.frame.assign(
            **{field: self.frame[field].mask(self.deleted[field].to_numpy()) for field in self.fields}
        )

    def graph(self, frame: pd.DataFrame) -> NumericGraph:
        """The comparisons of some rows, all of whose fields are stored."""
        made = NumericKG.from_table(
            frame, name=NAME, relations=self.relations, fields=self.fields, split=self.split
        )
        return made.graph


def drawn(options: argparse.Namespace, seed: int) -> Drawn:
    """The rows of a seed; raises UserError if the table lacks a column."""
    frame = pd.read_csv(options.table)
    names, relations = options.name.split(","), tuple(options.relations.split(","))
    for column in (*names, *relations):
        checked("name" if column in names else "relations", column, frame.columns)
    frame[NAME] = frame[names].astype(str).agg(", ".join, axis=1)
    frame = frame.drop_duplicates(NAME)
    numbers = frame.drop(columns=[NAME, *names]).select_dtypes("number").astype(float)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(frame))[: options.rows or len(frame)]
    numbers = numbers.iloc[rows].reset_index(drop=True)
    chosen = frame[NAME].to_numpy()[rows]
    deleted = pd.DataFrame(rng.random(numbers.shape) < options.missing, chosen, numbers.columns)
    whole = numbers.assign(**{NAME: chosen})
    return Drawn(whole, deleted, tuple(numbers.columns), relations, options.split, rng)


def run_on(graph: NumericGraph) -> Trained:
    """A run whose graph matters, and nothing else."""
    return Trained(create_run(chosen_config(graph)[0], LoadedGraph(graph, [], "memory")), None)


def of_cells(rows: Drawn, case: str, level: float) -> dict[str, Any]:
    """Coverage and widths of the deleted cells whose value is known to have been there."""
    graph = rows.graph(rows.frame if case == "masked" else rows.with_holes)
    names = graph.vocabulary
    table = rows.frame.set_index(NAME).loc[list(names.entities), list(names.fields)]
    values = table.to_numpy()
    observed = graph.observed & ~rows.deleted.loc[table.index, table.columns].to_numpy()
    graph = dataclasses.replace(graph, values=np.where(observed, graph.values, 0.0), observed=observed)
    found = impute(run_on(graph), level=level)
    posterior = posterior_widths(graph, level)
    covered, told, widths, references = [], [], [], []
    for cell in found["cells"]:
        place = names.entities.index(cell["entity"]), names.fields.index(cell["field"])
        if not np.isnan(values[place]):
            covered.append(contains(cell, values[place]))
            told.append(found["kinds"][WITH if cell["known_by"] == "facts" else WITHOUT]["covered"])
            widths.append(width(cell))
            references.append(posterior[place])
    means = {"told": float(np.mean(told)), "posterior": float(np.mean(references))}
    return {**measured(covered, widths), **means}


def of_new_rows(rows: Drawn, count: int, level: float) -> dict[str, Any]:
    """Coverage and widths of one value of each new row, given `count` facts about it."""
    order = rows.rng.permutation(len(rows.frame))
    first = round(NEW_SHARE * len(rows.frame))
    graph = rows.graph(rows.with_holes.iloc[order[first:]])
    new, truth = new_rows(rows, order[:first], graph, count)
    asked = {name: f"{field}_comp" for name, (field, _) in truth.items()}
    found = [cell for cell in places(run_on(graph), new, level) if cell["relation"] == asked[cell["entity"]]]
    covered = [contains(cell, truth[cell["entity"]][1]) for cell in found]
    return measured(covered, [width(cell) for cell in found])


def new_rows(
    rows: Drawn, chosen: np.ndarray, graph: NumericGraph, count: int
) -> tuple[NewEntities, dict[str, tuple[str, float]]]:
    """Rows as new entities with facts about one field each, and by name this field and its value.

    Rows without a value of this field are left out.
    """
    fields, relations = graph.vocabulary.fields, graph.vocabulary.relations
    asked = [(place, rows.relations[turn % len(rows.relations)]) for turn, place in enumerate(chosen)]
    asked = [(place, field) for place, field in asked if not np.isnan(rows.frame[field][place])]
    shown = rows.with_holes[list(fields)].to_numpy()[[place for place, _ in asked]]
    facts, truth = [], {}
    for row, (place, field) in enumerate(asked):
        value, column = float(rows.frame[field][place]), fields.index(field)
        truth[str(rows.frame[NAME][place])] = field, value
        shown[row, column] = np.nan
        others = np.flatnonzero(graph.observed[:, column] & (graph.values[:, column] != value))
        for other in rows.rng.permutation(others)[:count].tolist():
            ends = (graph.num_entities + row, other)
            head, tail = ends if value > graph.values[other, column] else ends[::-1]
            facts.append((head, relations.index(f"{field}_comp"), tail))
    known = ~np.isnan(shown)
    triples = np.array(facts, np.int32).reshape(-1, 3)
    return NewEntities(tuple(truth), np.where(known, shown, 0.0), known, triples), truth


def posterior_widths(graph: NumericGraph, level: float) -> np.ndarray:
    """Float64 [N, M]: the share of all ranks that the interval of a missing cell has, by Gibbs draws.

    A field that no relation compares is drawn evenly.
    """
    normal = fit_normalizer(graph.values, graph.observed, "quantile").apply(graph.values, graph.observed)
    positions = np.where(graph.observed, normal, np.nan)
    weight = compared_fields(graph, positions, least=EXPLAINED)
    nodes = places_of(positions, weight).T
    rng = np.random.default_rng(0)
    draws = sampled_places(nodes.ravel(), *fact_nodes(graph), draws=DRAWS, rng=rng)
    draws = draws.reshape(*nodes.shape, DRAWS).astype(float)
    shares = (1.0 - level) / 2.0, (1.0 + level) / 2.0
    found = np.empty(positions.shape)
    for field in range(graph.num_fields):
        known = np.sort(positions[graph.observed[:, field], field])
        comparing = np.flatnonzero(weight[:, field])
        low, high = np.full(len(positions), shares[0]), np.full(len(positions), shares[1])
        if len(comparing):
            of_field = draws[comparing[0]]
            turned = of_field if weight[comparing[0], field] > 0 else 1.0 - of_field
            low, high = np.quantile(turned, shares, axis=1)
        ranks = np.searchsorted(known, high, "right") - np.searchsorted(known, low, "left") + 1
        found[:, field] = ranks / (len(known) + 1)
    return found


def contains(cell: Mapping[str, Any], value: float) -> bool:
    """Whether an interval contains a value."""
    low, high = cell["low_value"], cell["high_value"]
    return (low is None or low <= value) and (high is None or value <= high)


def width(cell: Mapping[str, Any]) -> float:
    """The share of all ranks that an interval has."""
    return float((cell["high_rank"] - cell["low_rank"] + 1) / cell["of"])


def measured(covered: Sequence[bool], widths: Sequence[float]) -> dict[str, Any]:
    """Shares over the cells of one seed."""
    return {"cells": len(covered), "covered": float(np.mean(covered)), "width": float(np.mean(widths))}


def rows_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row per case, number of facts, level and seed."""
    cases = checked("cases", options.cases, CASES)
    found = []
    for seed in sweep.seeds_of(options.seeds):
        for level in options.levels:
            for case in cases:
                for count in options.facts if case == "new" else (None,):
                    rows = drawn(options, seed)  # the same for all
                    of_case = (
                        of_cells(rows, case, level) if count is None else of_new_rows(rows, count, level)
                    )
                    found.append({"case": case, "facts": count, "level": level, "seed": seed, **of_case})
                    print(f"seed {seed}, {case}, {count or 0} facts: done", flush=True)
    return found


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Means over seeds."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["case"], row["facts"], row["level"]), []).append(row)
    return [
        {
            **dict(zip(("case", "facts", "level"), key, strict=True)),
            "cells": sum(row["cells"] for row in mine),
            **{name: mean_and_deviation([row.get(name) for row in mine]) for name in COLUMNS},
        }
        for key, mine in groups.items()
    ]


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the summary, at most 80 columns wide."""
    table = Table(caption="means over seeds ± deviation between them; see --help")
    for heading in ("case", "facts", "level", "cells", *COLUMNS):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for row in rows:
        cells = [sweep.cell(row[name], digits=3).replace(" ± ", "\n±") for name in COLUMNS]
        facts = "-" if row["facts"] is None else str(row["facts"])
        table.add_row(row["case"], facts, str(row["level"]), str(row["cells"]), *cells)
    rich.console.Console(width=80, markup=False, highlight=False).print(table)


def _count(text: str) -> int:
    """An integer of 0 or more, as the type of an argparse option."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer of 0 or more, got {text!r}")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(_count, text.split(",")))


def _levels(text: str) -> tuple[float, ...]:
    """Shares between 0 and 1, as the type of an argparse option."""
    levels = tuple(map(share, text.split(",")))
    if not all(0.0 < level < 1.0 for level in levels):
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, got {text!r}")
    return levels


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.intervals", description=__doc__)
    options.add_argument("--table", required=True, type=home_path, help="csv file")
    options.add_argument("--name", required=True, help="columns that name a row, joined by commas")
    options.add_argument("--relations", required=True, help="columns that are compared, joined by commas")
    options.add_argument("--rows", type=_count, default=0, help="how many; 0: all (default: %(default)s)")
    options.add_argument("--missing", type=share, default=0.2, help="share of cells (default: %(default)s)")
    options.add_argument("--split", type=as_shares, default="0.8,0.1,0.1", help="(default: %(default)s)")
    options.add_argument("--cases", default=",".join(CASES), help="(default: %(default)s)")
    options.add_argument("--facts", type=_counts, default="0,1,3,10,30", help="(default: %(default)s)")
    options.add_argument("--levels", type=_levels, default="0.9", help="asked (default: %(default)s)")
    options.add_argument("--seeds", default="0,1,2,3,4", help="(default: %(default)s)")
    options.add_argument(
        "--out", type=home_path, default=Path("runs/intervals"), help="(default: %(default)s)"
    )
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    options = parser().parse_args(arguments)
    if not options.table.is_file():
        raise UserError(f"--table={options.table}: there is no such file")
    options.out.mkdir(parents=True, exist_ok=True)
    rows = rows_of(options)
    show(summary(rows))
    write_json_atomically(options.out / "intervals.json", rows)
    print(f"intervals.json in {options.out} has the numbers of each seed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
