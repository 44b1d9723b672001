"""The places of new rows: exact where a value is known, honest where it is not."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from numcoke_jax.api import Model
from numcoke_jax.cli import use
from numcoke_jax.cli.parser import parse_arguments
from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.inference.frames import cell_frame
from numcoke_jax.inference.places import PLACE_COLUMNS, places
from numcoke_jax.inference.trained import Trained
from numcoke_jax.runs.unseen import NewEntities
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError
from tests.inference.imputed import Holes, covers, run_of, width


def table(holes: Holes, count: int) -> Trained:
    """A run whose only relation, "above", compares field a of the first entities by some of their pairs."""
    known = Holes(holes.values[:count], holes.observed[:count])
    return run_of(known.graph({"above": known.pairs(0, 4 * count)}))


def new_rows(holes: Holes, first: int, observed: np.ndarray, facts: np.ndarray | None = None) -> NewEntities:
    names = tuple(f"e{row:03d}" for row in range(first, len(holes.values)))
    values = np.where(observed, holes.values[first:], 0.0)
    return NewEntities(names, values, observed, np.zeros((0, 3), np.int32) if facts is None else facts)


def test_a_known_value_has_its_rank_among_those_of_the_graph() -> None:
    holes = Holes.drawn(1, count=60)
    run = table(holes, 60)
    seen = np.sort(holes.values[holes.observed[:, 0], 0])
    values = np.array([[seen[0] - 1, 0], [seen[4], 0], [(seen[9] + seen[10]) / 2, 0], [seen[-1] + 1, 0]])
    new = NewEntities(("w", "x", "y", "z"), values, np.array([[True, False]] * 4))
    found = places(run, new)
    assert [(cell["low_rank"], cell["high_rank"]) for cell in found] == [
        (1, 1),
        (5, 6),  # it ties with the fifth lowest
        (11, 11),
        (len(seen) + 1, len(seen) + 1),
    ]
    assert {cell["known_by"] for cell in found} == {"value"} and {cell["of"] for cell in found} == {
        len(seen) + 1
    }
    assert [cell["entity"] for cell in found] == ["w", "x", "y", "z"]
    assert all(cell["low_value"] == cell["high_value"] for cell in found)
    assert found[0]["relation"] == "above" and found[0]["field"] == "a"


def test_of_a_row_without_any_value_nothing_is_claimed() -> None:
    """However well the fields agree, and so however narrow the intervals of other rows are."""
    holes = Holes.drawn(2, count=90, fields=3, correlation=0.95)
    run = table(holes, 80)
    nothing, known = (
        new_rows(holes, 80, np.tile(seen, (10, 1))) for seen in ([[False] * 3], [[False, True, True]])
    )
    for cell in places(run, nothing):
        assert cell["known_by"] == "nothing" and width(cell) > 0.85
    values = places(run, known)
    assert {cell["known_by"] for cell in values} == {"values"}
    assert np.mean([width(cell) for cell in values]) < 0.5


def deciding_facts(holes: Holes, new: range, old: range, count: int, seed: int) -> np.ndarray:
    """For each new row its comparisons of field a with so many rows of the graph, int32 [n, 3]."""
    rng = np.random.default_rng(seed)
    pairs = [(row, other) for row in new for other in rng.choice(old, count, replace=False).tolist()]
    above = [(i, 0, j) if holes.values[i, 0] > holes.values[j, 0] else (j, 0, i) for i, j in pairs]
    return np.array(above, np.int32)


def test_intervals_of_missing_values_cover_as_often_as_they_say_and_facts_narrow_them() -> None:
    covered: list[bool] = []
    widths: dict[str, list[float]] = {"values": [], "facts": []}
    for seed in range(4):
        holes = Holes.drawn(seed, count=140, correlation=0.7)
        facts = deciding_facts(holes, range(110, 140), range(80), 6, seed)
        hidden = np.tile([False, True], (60, 1))
        cells = places(table(holes, 80), new_rows(holes, 80, hidden, facts))
        assert [cell["known_by"] for cell in cells] == ["values"] * 30 + ["facts"] * 30
        for cell in cells:
            covered.append(covers(cell, holes.truth(cell)))
            widths[cell["known_by"]].append(width(cell))
    assert 0.84 < np.mean(covered) < 0.97  # 240 cells, of 4 calibrations
    assert np.mean(widths["facts"]) < 0.75 * np.mean(widths["values"])


COUNTS = (1, 3, 10)


def rows_with_facts(seed: int) -> tuple[Holes, dict[int, list[dict[str, Any]]]]:
    """The places of 30 rows with each of `COUNTS` facts; the 60 of the graph have far more."""
    holes = Holes.drawn(seed, count=150)
    known = Holes(holes.values[:60], holes.observed[:60])
    run = run_of(known.graph({"above": known.pairs(0, 2500)}))
    groups = [range(60 + 30 * part, 90 + 30 * part) for part in range(3)]
    facts = [
        deciding_facts(holes, rows, range(60), count, seed)
        for rows, count in zip(groups, COUNTS, strict=True)
    ]
    cells = places(run, new_rows(holes, 60, np.tile([False, True], (90, 1)), np.concatenate(facts)))
    assert {cell["known_by"] for cell in cells} == {"facts"} and len(cells) == 90
    return holes, {count: cells[30 * part : 30 * part + 30] for part, count in enumerate(COUNTS)}


def test_a_few_facts_about_a_new_row_do_not_pass_for_the_many_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each value of the graph is bracketed by 60 facts, so nearly all of its hidden cells need no width.

    If no hidden cell were like a row with ten facts, its position would be taken for normal, though it lies
    between two neighbours: nearly all are covered then.
    """
    drawn = [rows_with_facts(seed) for seed in range(3)]
    for count in COUNTS:
        covered = [covers(cell, holes.truth(cell)) for holes, cells in drawn for cell in cells[count]]
        assert np.mean(covered) > 0.8, count
    monkeypatch.setattr("numcoke_jax.inference.places.lacking", lambda *_: [])
    narrow, wide = (
        np.mean([width(cell) for cell in cells[10]]) for _, cells in (drawn[0], rows_with_facts(0))
    )
    assert narrow < 0.85 * wide


def duels(
    seed: int, known: int = 40, new: int = 12, games: int = 12
) -> tuple[np.ndarray, Trained, NewEntities]:
    """Strengths, and a run on who beat whom by them (a Bradley-Terry model), without any field."""
    rng = np.random.default_rng(seed)
    strengths = 2.0 * rng.standard_normal(known + new)

    def beaten(pairs: np.ndarray) -> np.ndarray:
        wins = rng.random(len(pairs)) < 1.0 / (1.0 + np.exp(strengths[pairs[:, 1]] - strengths[pairs[:, 0]]))
        ordered = np.where(wins[:, None], pairs, pairs[:, ::-1])
        return np.unique(np.insert(ordered, 1, 0, axis=1), axis=0).astype(np.int32)

    old = rng.integers(known, size=(known * games, 2))
    fresh = np.stack(
        [np.repeat(np.arange(known, known + new), games), rng.integers(known, size=new * games)], 1
    )
    names = Vocabulary(tuple(f"p{row:03d}" for row in range(known)), ("beat",), ())
    train, values = beaten(old[old[:, 0] != old[:, 1]]), np.zeros((known, 0))
    graph = NumericGraph(names, train, train[:2], train[:0], train[:0], values, values.astype(bool))
    entities = NewEntities(
        tuple(f"p{row:03d}" for row in range(known, known + new)),
        np.zeros((new, 0)),
        np.zeros((new, 0), bool),
        beaten(fresh),
    )
    return strengths, run_of(graph), entities


def test_ranks_under_a_relation_without_a_field_contain_the_true_ones() -> None:
    covered, widths = [], []
    for seed in range(4):
        strengths, run, new = duels(seed)
        found = places(run, new)
        assert {(cell["field"], cell["known_by"], cell["of"]) for cell in found} == {("", "facts", 41)}
        for cell in found:
            rank = 1 + int((strengths[:40] < strengths[int(cell["entity"][1:])]).sum())
            covered.append(cell["low_rank"] <= rank <= cell["high_rank"])
            widths.append(width(cell))
            assert cell["low_rank"] <= cell["rank"] <= cell["high_rank"]
            assert cell["low_value"] is None and cell["high_value"] is None
    assert 0.78 < np.mean(covered) <= 1.0  # 48 ranks
    assert np.mean(widths) < 0.7, "facts say something"
    bare = places(run, NewEntities(("q",), np.zeros((1, 0)), np.zeros((1, 0), bool)))
    assert bare[0]["known_by"] == "nothing" and width(bare[0]) > 0.8


def test_a_graph_without_relations_that_compare_has_no_places() -> None:
    holes = Holes.drawn(1, count=30)
    both = holes.pairs(0, 60)
    run = run_of(holes.graph({"near": np.concatenate([both, both[:, ::-1]])}))
    with pytest.raises(UserError, match="no relation of the graph compares entities"):
        places(run, NewEntities(("x",), np.zeros((1, 2)), np.zeros((1, 2), bool)))


def test_the_command_and_python_show_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    holes = Holes.drawn(3, count=60)
    run = table(holes, 60)
    monkeypatch.setattr(use, "load_trained", lambda *_: run)
    new = pd.DataFrame({"name": ["mine", "yours"], "a": [0.25, None], "b": [None, 0.5]})
    new.assign(a=["$0.25", None]).to_csv(tmp_path / "new.csv", index=False)
    words = ["predict", f"--workdir={tmp_path}", f"--entities={tmp_path / 'new.csv'}", "--level=0.8"]
    words += ["--parse=numbers"]
    for ending in ("csv", "parquet", "json"):
        options: Any = parse_arguments([*words, f"--out={tmp_path / f'places.{ending}'}"])
        use.predict(options, Console())
    told = capsys.readouterr().out
    assert "Places  80% intervals; rank 1 is the lowest" in told and "= 0.25" in told
    model = Model.__new__(Model)
    model.trained = run
    frame = model.place(new, level=0.8)
    assert tuple(frame.columns) == PLACE_COLUMNS and frame["entity"].tolist() == ["mine", "yours"]
    for read, ending in ((pd.read_csv, "csv"), (pd.read_parquet, "parquet"), (pd.read_json, "json")):
        written = read(tmp_path / f"places.{ending}")
        pd.testing.assert_frame_equal(written, frame, check_dtype=ending == "parquet")
    assert cell_frame([], PLACE_COLUMNS).empty
    with pytest.raises(UserError, match="place: level must be between 0 and 1, got 2"):
        model.place(new, level=2)


def test_a_mix_is_known_by_the_facts_that_place_its_fields() -> None:
    """One relation compares a, the other the sum of a and b; of two new rows without values one has facts."""
    holes = Holes.drawn(3, count=90, correlation=0.0)
    total = Holes(holes.values.sum(axis=1, keepdims=True), np.ones((90, 1), bool))
    run = run_of(holes.graph({"above": holes.pairs(0, 1200), "total": total.pairs(0, 1200)}))
    facts = np.array([(90, 0, other) for other in range(20)], np.int32)
    new = NewEntities(("with", "without"), np.zeros((2, 2)), np.zeros((2, 2), bool), facts)
    found = {(cell["entity"], cell["relation"]): cell["known_by"] for cell in places(run, new)}
    assert found["with", "above"] == "facts" and found["without", "above"] == "nothing"
    assert found["with", "total"] == "values" and found["without", "total"] == "nothing"
