"""What names the rows of a table: names that repeat are refused with columns that do not."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from numcoke_jax import NumericKG
from numcoke_jax.cli.main import main
from numcoke_jax.data.files.folder import read_folder
from numcoke_jax.data.public.tables import packaged_cars
from numcoke_jax.system.errors import UserError

CARS = pd.DataFrame(packaged_cars().columns)


def test_a_name_that_repeats_in_many_rows_is_refused_with_the_columns_that_are_unique() -> None:
    """Of 406 cars 311 have names of their own: 95 rows would vanish."""
    with pytest.raises(UserError) as caught:
        NumericKG.from_table(CARS, name="Name", relations="Horsepower")
    said = str(caught.value)
    assert "column 'Name' names 311 things in 406 rows, such as 'ford pinto' in several; unique are " in said
    assert "'Name' with 'Year'" in said and "but for 3 rows" in said and 'or name="index"' in said
    kg = NumericKG.from_table(CARS, name=["Name", "Year"], relations="Horsepower")
    assert kg.graph.num_entities == 403
    assert "table: 3 rows left out that repeat a name" in kg.loaded.notices
    exact = CARS.assign(plate=[f"plate {row}" for row in range(406)])
    with pytest.raises(UserError, match="unique are 'plate'; or name"):
        NumericKG.from_table(exact, name="Name", relations="Horsepower")


def test_texts_are_proposed_as_names_before_numbers_and_dates() -> None:
    rows = [(f"song {i % 4}", f"artist {i // 4}", f"2001-01-{1 + i:02d}", 1000 + i) for i in range(12)]
    songs = pd.DataFrame(rows, columns=["song", "artist", "released", "streams"])
    with pytest.raises(UserError, match="several; unique are 'song' with 'artist'; or name"):
        NumericKG.from_table(songs, name="song")
    numbered = songs.drop(columns="artist")
    with pytest.raises(UserError, match="several; unique are 'released', 'streams'; or name"):
        NumericKG.from_table(numbered, name="song")


@pytest.mark.parametrize(
    ("rows", "repeats", "refused"),
    [(5, 1, False), (5, 2, True), (30, 3, False), (30, 4, True), (600, 6, False), (600, 7, True)],
)
def test_a_few_rows_may_repeat_a_name(rows: int, repeats: int, refused: bool) -> None:
    """One, or three if these are few among all, or one in a hundred."""
    names = [f"n{row}" for row in range(rows - repeats)] + ["n0"] * repeats
    frame = pd.DataFrame({"name": names, "x": [float(row) for row in range(rows)]})
    settings: dict[str, Any] = {"protocol": "nearest", "neighbours": 1}
    if refused:
        with pytest.raises(UserError, match=f"names {rows - repeats} things in {rows} rows"):
            NumericKG.from_table(frame, name="name", **settings)
    else:
        assert NumericKG.from_table(frame, name="name", **settings).graph.num_entities == rows - repeats


def test_rows_are_named_by_their_number_or_label(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [3.0, 1.0, 2.0]})
    numbered = NumericKG.from_table(frame, name="index", split=(1, 0, 0)).graph
    assert numbered.vocabulary.entities == ("row 1", "row 2", "row 3")
    assert numbered.values[:, 0].tolist() == [3, 1, 2] and numbered.vocabulary.fields == ("x",)
    labelled = NumericKG.from_table(frame.set_axis(["c", "a", "b"]), name="index", split=(1, 0, 0)).graph
    assert labelled.vocabulary.entities == ("a", "b", "c") and labelled.values[:, 0].tolist() == [1, 2, 3]
    column = NumericKG.from_table(frame.assign(index=["u", "v", "w"]), name="index", split=(1, 0, 0)).graph
    assert column.vocabulary.entities == ("u", "v", "w"), "a column of that name comes first"
    kept = NumericKG.from_table(
        frame.set_axis([5, 7, 9]).assign(n=["a", "b", "c"]), name="n", split=(1, 0, 0)
    )
    assert kept.graph.vocabulary.fields == ("x",), "labels of rows are no field"
    frame.to_csv(tmp_path / "t.csv", index=False)
    build = ["data", "build", f"--table={tmp_path / 't.csv'}", "--name=index", "--split=1,0,0"]
    assert main([*build, f"--out={tmp_path / 'g'}"]) == 0
    assert read_folder(tmp_path / "g")[0].vocabulary.entities == ("row 1", "row 2", "row 3")


def test_labels_name_the_attributes_of_facts() -> None:
    facts = pd.DataFrame({"a": ["x", "y", "z"], "b": ["y", "z", "x"]})
    players = pd.DataFrame({"height": [1.0, 2.0, 3.0]}, index=["x", "y", "z"])
    kg = NumericKG.from_facts(facts, players, head="a", tail="b", relation="beat", name="index")
    assert kg.graph.values[:, 0].tolist() == [1, 2, 3]


def test_three_columns_that_are_unique_together_are_named() -> None:
    rows = [(p, q, s) for p in "ab" for q in "cd" for s in "ef"]
    frame = pd.DataFrame(rows, columns=["p", "q", "s"]).assign(x=[0.5 + row for row in range(8)])
    with pytest.raises(UserError, match="unique are 'p' with 'q' with 's'; or name"):
        NumericKG.from_table(frame, name="p")


def test_fields_with_two_values_are_compared_only_if_they_are_named() -> None:
    frame = pd.DataFrame({"town": list("abcd"), "height": [3.0, 1.0, 2.0, 5.0], "coastal": [1, 0, np.nan, 1]})
    by_default = NumericKG.from_table(frame, name="town")
    assert by_default.graph.vocabulary.relations == ("height_comp",)
    assert by_default.graph.vocabulary.fields == ("coastal", "height")
    said = "not compared, as there are two values only: coastal; relations=COLUMN,... compares what it names"
    assert sum(said in notice for notice in by_default.loaded.notices) == 1
    named = NumericKG.from_table(frame, name="town", relations=["coastal", "height"])
    assert named.graph.vocabulary.relations == ("coastal_comp", "height_comp")
    only = NumericKG.from_table(frame[["town", "coastal"]], name="town")
    assert only.graph.vocabulary.relations == ("coastal_comp",)
    assert not any("two values" in notice for notice in (*named.loaded.notices, *only.loaded.notices))


def test_hidden_fields_are_for_measures_alone() -> None:
    facts = pd.DataFrame({"taller": ["a", "b", "c"], "smaller": ["b", "c", "d"]})
    people = pd.DataFrame({"name": list("abcd"), "height": [4.0, 3.0, 2.0, 1.0], "age": [1.0, 5.0, 3.0, 2.0]})
    ends: dict[str, Any] = {"head": "taller", "tail": "smaller", "relation": "above", "name": "name"}
    hidden = NumericKG.from_facts(facts, people, hide="height", **ends).loaded
    assert hidden.graph.vocabulary.fields == ("age",)
    assert hidden.truth is not None and hidden.truth.vocabulary.fields == ("age", "height")
    with pytest.raises(UserError, match=r"^hide: the graph has no field 'hieght'; did you mean height\?"):
        NumericKG.from_facts(facts, people, hide=["hieght"], **ends)
    texts = people.assign(team=["red", "blue", "red", None], empty=None)
    for column, why in (
        ("team", r"holds text \(2 different, such as 'red'\) and is no field"),
        ("empty", "holds no value"),
        ("age", r"is not among the fields, which fields=COLUMN,\.\.\. may name"),
    ):
        with pytest.raises(
            UserError, match=f"^hide: column '{column}' {why}; no model is given it anyway: leave"
        ):
            NumericKG.from_facts(facts, texts, fields="height", hide=["height", column], **ends)
