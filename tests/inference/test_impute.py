"""Imputed values: coverage of cells whose truth is known, factors by hand, what may change an interval."""

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from numcoke_jax.api import Model, NumericKG
from numcoke_jax.cli import impute_view, use
from numcoke_jax.data.synthetic import SyntheticSettings, draw_values
from numcoke_jax.inference.impute import impute, masked_truth
from numcoke_jax.inference.intervals import (
    CELL_COLUMNS,
    KINDS,
    WITH,
    WITHOUT,
    field_scales,
    scores_of,
)
from numcoke_jax.inference.trained import Trained
from numcoke_jax.runs.create import create_run
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError
from tests.inference.conftest import Program
from tests.inference.imputed import Holes, covers, pooled, run_of, table_run, width
from tests.tiny_runs import config_of, write_folder


def compared(seed: int, *, count: int = 60, facts: int = 400) -> tuple[Holes, Trained]:
    """Field a has facts, of empty cells too, under a relation and its inverse; b and c have none."""
    holes = Holes.drawn(seed, count=count, fields=3)
    below = holes.pairs(0, facts // 2, seed + 100)[:, ::-1]
    return holes, run_of(holes.graph({"above": holes.pairs(0, facts, seed), "below": below}))


@functools.cache
def independent(seed: int) -> tuple[Holes, dict[str, Any]]:
    """A table of independent columns, and what is imputed in its graph."""
    table = Holes.drawn(seed)
    return table, impute(table_run(table))


def masked(direction: str = ">", seed: int = 0, entities: int = 60) -> tuple[Trained, np.ndarray]:
    """A synthetic graph whose values were masked after the comparison, and all values [N]."""
    config = config_of(Path(), data__path="", data__table="synthetic", data__direction=direction)
    config.data.synthetic_entities, config.data.synthetic_fields = entities, 1
    config.data.synthetic_relations, config.data.synthetic_triples = 1, 40 * entities
    config.data.synthetic_kinds = ("continuous",)
    config.data.missing_rate, config.data.seed = 0.4, seed
    settings = SyntheticSettings(seed=seed, entities=entities, fields=1, relations=1, kinds=("continuous",))
    return Trained(create_run(config), None), draw_values(settings)[:, 0]


# --- coverage of cells that were empty before the graph was made


def test_cells_of_independent_columns_are_covered_and_known_by_nothing() -> None:
    found = pooled(map(independent, range(6)))
    assert len(found) > 180 and 0.86 <= found["covered"].mean() <= 0.97
    assert found["width"].mean() > 0.85, "an honest interval is nearly the whole range"
    assert (found["known_by"] == "nothing").mean() > 0.8


def test_cells_of_correlated_columns_are_covered_by_narrower_intervals() -> None:
    tables = [Holes.drawn(seed, correlation=0.9) for seed in range(6)]
    found = pooled((table, impute(table_run(table))) for table in tables)
    assert len(found) > 180 and 0.85 <= found["covered"].mean() <= 0.97
    assert found["width"].mean() < 0.65
    assert set(found["known_by"]) <= {"values", "nothing"}  # nothing: rows without any value
    assert (found["known_by"] == "values").mean() > 0.7


def test_a_row_without_any_value_is_known_by_nothing_however_well_the_columns_agree() -> None:
    holes = Holes.drawn(0, fields=3, correlation=0.9)
    holes.observed[0] = False, False, True
    holes.observed[1] = False, False, False
    runs = run_of(holes.graph({"above": holes.pairs(2, 300)}))
    cells = {(cell["entity"], cell["field"]): cell for cell in impute(runs)["cells"]}
    for field in ("a", "b"):
        assert cells["e000", field]["known_by"] == "values"
        assert cells["e001", field]["known_by"] == "nothing"
        assert width(cells["e001", field]) > width(cells["e000", field]) + 0.2
    assert cells["e001", "c"]["known_by"] == "facts", "it is in the facts that compare c"


def test_cells_that_facts_compare_are_covered_by_narrow_intervals() -> None:
    found = pooled((holes, impute(run)) for holes, run in (compared(seed, facts=250) for seed in range(6)))
    facts = found[found["field"] == "a"]
    assert len(facts) > 70 and set(facts["known_by"]) == {"facts"}
    assert facts["covered"].mean() >= 0.87 and facts["width"].mean() < 0.2
    assert set(found.loc[found["field"] != "a", "known_by"]) <= {"values", "nothing"}


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_every_target_is_met_by_each_kind_of_cell(level: float) -> None:
    drawn = (compared(seed, facts=250) for seed in range(24))
    found = pooled((holes, impute(run, level=level)) for holes, run in drawn)
    for with_facts, part in found.groupby(found["known_by"] == "facts"):
        assert len(part) > 250
        assert level - 0.05 <= part["covered"].mean() <= min(level + 0.12, 1.0), with_facts


def test_the_coverage_that_is_told_is_the_one_of_the_empty_cells() -> None:
    """Not that of cells with facts: a table's empty cell is in no comparison."""
    told, true = [], []
    for seed in range(6):
        table, found = independent(seed)
        told.append(found["kinds"][WITHOUT]["covered"])
        true += [covers(cell, table.truth(cell)) for cell in found["cells"]]
        assert found["kinds"][WITHOUT]["mean_width"] == pytest.approx(
            np.mean([width(cell) for cell in found["cells"]]), abs=0.05
        )
    assert np.mean(told) == pytest.approx(np.mean(true), abs=0.06)


def test_the_case_of_a_table_with_empty_cells(cases_dir: Path) -> None:
    case = cases_dir / "G_impute_missing_cells"
    truth = pd.read_csv(case / "truth.csv").set_index(["name", "field"])["value"]
    frame = pd.read_csv(case / "table.csv")
    found = impute(run_of(NumericKG.from_table(frame, name="name").graph))
    covered = [covers(cell, truth[cell["entity"], cell["field"]]) for cell in found["cells"]]
    assert len(covered) == len(truth), "also those of rows without any value"
    assert 0.8 <= np.mean(covered) <= 1.0
    assert np.mean([width(cell) for cell in found["cells"]]) > 0.85
    assert {cell["known_by"] for cell in found["cells"]} == {"nothing"}


# --- what an interval depends on


@pytest.mark.parametrize("with_facts", [True, False])
def test_the_interval_of_a_field_does_not_depend_on_the_fields_that_are_asked(with_facts: bool) -> None:
    run = compared(1, count=40)[1] if with_facts else table_run(Holes.drawn(1, count=40, fields=3))
    whole = impute(run)
    for asked in ([1], [2, 0]):
        some, names = impute(run, asked), ["abc"[number] for number in asked]
        assert some["cells"] == [cell for cell in whole["cells"] if cell["field"] in names]
        assert list(some["fields"].items()) == [(name, whole["fields"][name]) for name in names]
        assert some["factors"] == whole["factors"]
        assert some["coverage"]["cells"] == sum(whole["fields"][name]["cells"] for name in names)


def test_the_same_run_gives_the_same_result_twice() -> None:
    first, second = compared(2, count=30)[1], compared(2, count=30)[1]
    assert impute(first) == impute(first) == impute(second)


def test_whatever_model_was_trained_the_intervals_are_those_of_an_order_core() -> None:
    holes = Holes.drawn(3, count=40)
    graph = holes.graph({"above": holes.pairs(0, 200)})
    decided = run_of(graph, model__name="numcoke", score__order_core=True)
    assert impute(decided) == impute(run_of(graph))


def test_a_relation_and_its_inverse_share_the_scale_of_a_field() -> None:
    holes, run = compared(4)
    graph = run.run.graph
    scale = field_scales(graph, (), scores_of(graph, graph.observed))[0]
    assert scale.relations == ("above", "below")
    assert (holes.values[scale.upper, 0] > holes.values[scale.lower, 0]).all()
    assert len(scale.upper) == len(graph.train)
    found = impute(run)
    assert found["fields"]["a"]["relations"] == ["above", "below"] and found["fields"]["b"]["relations"] == []
    alone = run_of(holes.graph({"above": holes.pairs(0, 400, 4)}))
    one = [width(cell) for cell in impute(alone)["cells"] if cell["field"] == "a"]
    assert np.mean([width(cell) for cell in found["cells"] if cell["field"] == "a"]) < np.mean(one)


def test_turned_signs_give_the_mirrored_ranks() -> None:
    holes = Holes.drawn(5, count=40)
    pairs = holes.pairs(0, 250)
    mirror = Holes(-holes.values, holes.observed)
    up, down = (
        [cell for cell in impute(run_of(one.graph({"r": facts})))["cells"] if cell["known_by"] == "facts"]
        for one, facts in ((holes, pairs), (mirror, pairs))
    )
    assert len(up) == len(down) > 3
    for one, other in zip(up, down, strict=True):
        assert one["rank"] == pytest.approx(one["of"] + 1 - other["rank"], abs=1.0)


def test_masked_values_are_the_truth_that_coverage_is_measured_on() -> None:
    told = []
    for seed in range(6):
        trained, values = masked(seed=seed)
        observed = trained.run.graph.observed[:, 0]
        truth = masked_truth(trained.run)
        assert truth is not None
        np.testing.assert_array_equal(truth.values[:, 0], values)
        found = impute(trained)
        assert found["tested_on"] == "masked" and len(found["cells"]) == (~observed).sum() == 24
        assert found["coverage"]["cells"] == 24 and found["kinds"][WITH]["cells"] == 24
        inside = [
            covers(cell, values[entity])
            for cell, entity in zip(found["cells"], np.flatnonzero(~observed), strict=True)
        ]
        assert found["coverage"]["covered"] == np.mean(inside), "of the intervals as they are shown"
        assert found["coverage"]["mean_width"] == pytest.approx(np.mean([width(c) for c in found["cells"]]))
        told.append(found["coverage"]["covered"])
    assert 0.84 <= np.mean(told) <= 0.96


@pytest.mark.parametrize("direction", [">", "<"])
def test_ranks_and_values_say_the_same(direction: str) -> None:
    trained, _ = masked(direction, entities=40)
    graph = trained.run.graph
    shown = np.sort(graph.values[graph.observed[:, 0], 0])
    for cell in impute(trained)["cells"]:
        assert 1 <= cell["low_rank"] <= cell["rank"] <= cell["high_rank"] <= cell["of"] == len(shown) + 1
        low, high = cell["low_value"], cell["high_value"]
        assert cell["low_rank"] == 1 + (0 if low is None else int((shown <= low).sum()))
        assert cell["high_rank"] == (len(shown) + 1 if high is None else 1 + int((shown < high).sum()))


def test_where_no_truth_is_known_observed_values_are_hidden(tmp_path: Path) -> None:
    trained = run_in(write_folder(tmp_path / "graph", entities=30))
    assert masked_truth(trained.run) is None
    found = impute(trained)
    assert found["tested_on"] == "hidden" and set(found["fields"]) == {"size", "noise"}
    assert found["fields"]["size"]["cells"] == 2 * 29, "once with and once without the facts"
    assert found["fields"]["noise"]["cells"] == 29
    assert [cell["entity"] for cell in found["cells"]] == ["e4", "e4"]
    assert {cell["field"]: cell["known_by"] for cell in found["cells"]}["size"] == "facts"


# --- small and broken graphs


def run_in(folder: Path, **changes: Any) -> Trained:
    return Trained(create_run(config_of(folder, **changes)), None)


def small_folder(place: Path, train: str, literals: str) -> Path:
    (place / "literals").mkdir(parents=True)
    (place / "train.txt").write_text(train)
    (place / "valid.txt").write_text("a\tr\tb\n")
    (place / "test.txt").write_text("")
    (place / "literals" / "numerical_literals.txt").write_text(literals)
    return place


@pytest.mark.parametrize("core", [True, False])
@pytest.mark.parametrize(
    ("train", "literals", "missing"),
    [
        ("a\tr\tb\n", "a\tx\t1\nb\tx\t2\n", 0),
        ("a\tr\tb\n", "a\tx\t1\n", 1),
        ("a\tr\tb\nb\tr\tc\n", "a\tx\t1\nb\tx\t1\n", 1),
        ("a\tr\ta\n", "a\tx\t1\n", 1),
        ("a\tr\tb\nb\tr\ta\n", "a\tx\t1\na\ty\t1\nb\ty\t-1e300\n", 1),
    ],
    ids=["all observed", "one value", "level values", "a loop", "both ways"],
)
def test_small_graphs_have_the_whole_range(
    train: str, literals: str, missing: int, core: bool, tmp_path: Path
) -> None:
    run = run_in(small_folder(tmp_path / "graph", train, literals), score__order_core=core)
    found = impute(run)
    assert len(found["cells"]) == missing and found["factors"] == dict.fromkeys(KINDS)
    for cell in found["cells"]:
        assert (cell["low_rank"], cell["high_rank"]) == (1, cell["of"])
        assert cell["low_value"] is None and cell["high_value"] is None
    json.dumps(found, allow_nan=False)
    impute_view.show(found, 5, Console())


def test_a_field_without_observed_values_is_one_line(tmp_path: Path) -> None:
    trained = run_in(write_folder(tmp_path / "graph"))
    graph = trained.run.graph
    observed = graph.observed & (np.arange(2) == 1)
    emptied = run_of(dataclasses.replace(graph, observed=observed, values=graph.values * observed))
    name = graph.vocabulary.fields[0]
    with pytest.raises(UserError, match=rf"^the field '{name}' has no observed value, so it has no scale$"):
        impute(emptied, [0])
    assert list(impute(emptied)["fields"]) == [graph.vocabulary.fields[1]]
    nothing = run_of(dataclasses.replace(graph, observed=observed & False, values=graph.values * 0))
    with pytest.raises(UserError, match=r"^the graph has no field with an observed value: there is nothing"):
        impute(nothing)


# --- the command


@pytest.fixture(scope="module")
def known() -> Trained:
    return masked(entities=40)[0]


@pytest.fixture
def command(known: Trained, monkeypatch: pytest.MonkeyPatch, program: Program) -> Program:
    """Runs --mode=impute on the model."""
    monkeypatch.setattr(use, "load_trained", lambda workdir, warn: known)
    return functools.partial(program, "--mode=impute", "--workdir=runs/x")


def test_tables_and_files(command: Program, tmp_path: Path) -> None:
    files = {name: tmp_path / f"cells.{name}" for name in ("csv", "json", "parquet")}
    for path in files.values():
        code, out, err = command(f"--out={path}", "--top=3")
        assert (code, err) == (0, "") and "3 of 16, narrowest first" in out
        assert max(map(len, out.partition("written to")[0].splitlines())) <= 80
    assert "target 99.9%" in command("--level=0.999")[1], "not 100%"
    assert "target 29%" in command("--level=0.29")[1]
    whole: dict[str, Any] = json.loads(files["json"].read_text())
    csv, parquet = pd.read_csv(files["csv"]), pd.read_parquet(files["parquet"])
    assert len(whole["cells"]) == len(csv) == len(parquet) == 16
    pd.testing.assert_frame_equal(csv, parquet)
    assert csv["high_rank"].tolist() == [cell["high_rank"] for cell in whole["cells"]]
    name = whole["cells"][0]["entity"]
    assert "1 of 1, narrowest first" in command(f"--entity={name}")[1]
    with_facts, without = (line for line in out.splitlines() if line.lstrip().startswith("with"))
    assert with_facts.split()[:3] == ["with", "facts", "16"] and without.split()[:3] == [
        "without",
        "facts",
        "0",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in files.values())


@pytest.mark.parametrize("ends", [[], [(None, None)], [(None, 2.0), (1.0, None)]])
def test_columns_have_one_type_however_many_ends_are_open(ends: list[Any], tmp_path: Path) -> None:
    """Files of several runs are to be read as one table."""
    cells = [
        {"entity": "e", "field": "f", "low_rank": 1, "rank": 2.0, "high_rank": 3, "of": 4,
         "low_value": low, "high_value": high, "known_by": "nothing"}
        for low, high in ends
    ]  # fmt: skip
    impute_view.write({"cells": cells}, tmp_path / "cells.parquet")
    types = {field.name: str(field.type) for field in pq.read_schema(tmp_path / "cells.parquet")}
    assert types == dict.fromkeys(("low_rank", "high_rank", "of"), "int64") | dict.fromkeys(
        ("rank", "low_value", "high_value"), "double"
    ) | dict.fromkeys(("entity", "field", "known_by"), "string")
    assert len(cells) == len(pd.read_parquet(tmp_path / "cells.parquet"))


def test_python_gives_the_same_rows(known: Trained) -> None:
    model = object.__new__(Model)
    model.trained = known
    frame, found = model.impute(level=0.8), impute(known, level=0.8)
    assert list(frame.columns) == list(CELL_COLUMNS) and frame.attrs["coverage"] == found["coverage"]
    assert frame["low_rank"].tolist() == [cell["low_rank"] for cell in found["cells"]]
    (field,) = found["fields"]
    assert len(model.impute([field], level=0.8)) == len(frame)
    with pytest.raises(use.UserError, match=r"^impute: level must be between 0 and 1, got 90$"):
        model.impute(level=90)
    with pytest.raises(use.UserError, match="there is no field 'field'"):
        model.impute(["field"])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--field=field_1", "--field: there is no field 'field_1'"),
        ("--entity=e99", "--entity: there is no entity 'e99'"),
        ("--level=1", "--level: needs a number between 0 and 1, got 1"),
        ("--level=high", "--level: needs a number between 0 and 1, got high"),
        ("--out=cells.txt", "--out=cells.txt: the name must end in one of .csv, .json, .parquet"),
        ("--head=e1", "--head=e1 is not a flag of numcoke impute"),
    ],
)
def test_mistakes_are_one_line(command: Program, argument: str, message: str) -> None:
    code, out, err = command(argument)
    assert (code, out) == (2, "") and err.startswith(f"error: {message}") and err.count("\n") == 1


def test_long_names_and_open_ends_fit_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    holes = Holes.drawn(0)
    run = table_run(holes)
    graph = run.run.graph
    names = graph.vocabulary
    long = dataclasses.replace(
        names,
        entities=tuple(f"{'the longest name of an entity ' * 3}{name}" for name in names.entities),
        relations=tuple(f"{name} {'of some length ' * 4}" for name in names.relations),
    )
    found = impute(run_of(dataclasses.replace(graph, vocabulary=long)))
    impute_view.show(found, 20, Console())
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "unknown: " in shown, "a cell of which nothing is known says so"


def test_too_few_hidden_cells_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    impute_view.show(impute(table_run(Holes.drawn(0, count=8)), level=0.99), 5, Console())
    told = "".join(capsys.readouterr())
    assert "too few observed cells without facts to cover 99% of them: their" in told
    assert "cells with facts to cover" not in told, "no missing cell has one"


def test_a_field_that_no_relation_compares_is_imputed_from_other_fields() -> None:
    trained = table_run(Holes.drawn(1, fields=3, correlation=0.9), relations=["a"])
    found = impute(trained)
    assert list(found["fields"]) == ["a", "b", "c"] and found["fields"]["c"]["relations"] == []
    assert "values" in {cell["known_by"] for cell in found["cells"] if cell["field"] == "c"}
