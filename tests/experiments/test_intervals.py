"""Coverage and widths of intervals: who is asked, with which facts, and what the posterior's width is."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments import intervals
from numcoke_jax.system.errors import UserError
from tests.inference.imputed import Holes


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two normal columns of 30 rows, one name of which repeats."""
    values = np.random.default_rng(0).standard_normal((30, 2))
    frame = pd.DataFrame(values, columns=["a", "b"])
    frame.insert(0, "name", [f"e{row:02d}" for row in range(29)] + ["e00"])
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def options_of(table: Path, *more: str) -> argparse.Namespace:
    return intervals.parser().parse_args(
        [f"--table={table}", "--name=name", "--relations=a,b", "--seeds=0", *more]
    )


def test_a_new_row_has_true_facts_about_the_field_that_is_asked_and_no_value_of_it(table: Path) -> None:
    rows = intervals.drawn(options_of(table), 0)
    graph = rows.graph(rows.with_holes.iloc[:20])
    new, truth = intervals.new_rows(rows, np.arange(20, 29), graph, 3)
    assert new.names == tuple(rows.frame["name"][20:]) == tuple(truth)
    full = rows.frame.set_index("name")
    names = (*graph.vocabulary.entities, *new.names)
    assert len(new.facts) == 27
    for row, (name, (field, value)) in enumerate(truth.items()):
        column = graph.vocabulary.fields.index(field)
        assert value == full[field][name] and field == "ab"[row % 2]
        assert not new.observed[row, column] and new.values[row, column] == 0
        mine = new.facts[(new.facts[:, [0, 2]] == graph.num_entities + row).any(axis=1)]
        assert len(mine) == 3 and {graph.vocabulary.relations[r] for r in mine[:, 1]} == {f"{field}_comp"}
        for head, _, tail in mine:
            assert full[field][names[head]] > full[field][names[tail]]


def test_the_cells_of_both_cases_are_the_deleted_ones(table: Path) -> None:
    rows = intervals.drawn(options_of(table), 0)
    deleted = int(rows.deleted.to_numpy().sum())
    assert len(rows.frame) == 29 and 5 < deleted < 20
    empty, masked = (intervals.of_cells(rows, case, 0.9) for case in ("empty", "masked"))
    assert empty["cells"] == masked["cells"] == deleted
    assert empty["width"] > 0.7 > 0.3 > masked["width"], "facts about the masked ones say where they are"
    assert empty["posterior"] > 0.7 > 0.3 > masked["posterior"]


def test_the_posterior_of_a_cell_between_two_values_has_the_width_of_that_gap() -> None:
    """One entity without a value, whose facts put it between two neighbours of ten; another without facts."""
    values = np.append(np.arange(10.0), [4.5, 0.0])[:, None]
    observed = np.arange(12)[:, None] < 10
    holes = Holes(values, observed)
    pairs = [(high, low) for high in range(10) for low in range(high)]
    pairs += [(10, low) for low in range(5)] + [(high, 10) for high in range(5, 10)]
    graph = holes.graph({"above": np.array(pairs[2:] + pairs[:2], np.int32)})
    found = intervals.posterior_widths(graph, 0.8)[:, 0]
    assert found[10] == pytest.approx(1 / 11)
    assert found[11] == pytest.approx(9 / 11), "anywhere: one rank less at either end"


def test_the_table_has_means_over_seeds(table: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    arguments = ["--cases=empty,new", "--facts=2", "--seeds=0,1", f"--out={out}"]
    code = intervals.main([f"--table={table}", "--name=name", "--relations=a", *arguments])
    told = capsys.readouterr().out
    assert code == 0 and "empty" in told and "new" in told
    rows = json.loads((out / "intervals.json").read_text())
    assert [(row["case"], row["facts"], row["seed"]) for row in rows] == [
        ("empty", None, 0), ("new", 2, 0), ("empty", None, 1), ("new", 2, 1)
    ]  # fmt: skip
    mean = intervals.summary(rows)[0]["covered"]["mean"]
    assert mean == pytest.approx(np.mean([row["covered"] for row in rows if row["case"] == "empty"]))


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--relations=c", "--relations=c is not a choice"),
        ("--table=none.csv", "none.csv: there is no such file"),
        ("--cases=old", "--cases=old is not a choice"),
    ],
)
def test_wrong_flags_are_one_line(table: Path, tmp_path: Path, flag: str, told: str, capsys: Any) -> None:
    arguments = [f"--table={table}", "--name=name", "--relations=a", f"--out={tmp_path}", flag]
    assert intervals.main(arguments) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("--levels=x", "--levels: "),
        ("--levels=0.9,0", "--levels: must be between 0 and 1, got '0.9,0'"),
        ("--split=a", "--split: must be 3 numbers such as 0.8,0.1,0.1, got 'a'"),
        ("--facts=1,x", "--facts: must be an integer of 0 or more, got 'x'"),
        ("--rows=-3", "--rows: must be an integer of 0 or more, got '-3'"),
    ],
)
def test_a_wrong_number_is_one_line(flag: str, line: str) -> None:
    with pytest.raises(UserError) as refused:
        intervals.parser().parse_args(["--table=t.csv", "--name=a", "--relations=b", flag])
    assert str(refused.value).startswith(line) and "\n" not in str(refused.value)
