"""Python's way in: tables as pandas has them, one graph a workdir, arguments that mean nothing."""

import functools
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from ml_collections import ConfigDict

from numcoke_jax.api import Model, NumericKG, train
from numcoke_jax.data.files.folder import write_folder as write_graph
from numcoke_jax.data.graph import graph_hash
from numcoke_jax.runs.screen import Screen
from numcoke_jax.system.errors import UserError
from tests.tiny_runs import REPOSITORY, compiled_fast, config_of, numcoke, untrained, write_folder

TABLE = pd.DataFrame(
    {
        "name": [f"e{row}" for row in range(6)],
        "size": [3.5, 1.0, 2.25, None, 0.0, 7.0],
        "load": [1, 2, 3, 4, 5, 6],
    }
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = write_folder(tmp_path_factory.mktemp("api") / "graph")
    return Model(untrained(numcoke(config_of(folder))))


# --- tables


def test_a_missing_value_of_any_pandas_type_is_missing() -> None:
    """NaN, None and NA, which the columns with a type of pandas have in their place."""
    expected = graph_hash(NumericKG.from_table(TABLE, name="name").graph)
    for frame in (
        TABLE.convert_dtypes(),
        TABLE.astype(object),
        TABLE.convert_dtypes(dtype_backend="pyarrow"),
    ):
        assert graph_hash(NumericKG.from_table(frame, name="name").graph) == expected
    unnamed = TABLE.convert_dtypes()
    unnamed.loc[5, "name"] = pd.NA
    graph = NumericKG.from_table(unnamed, name="name").graph
    assert "e4" in graph.vocabulary.entities and not {"<NA>", "e5"} & set(graph.vocabulary.entities)


def test_one_name_needs_no_list() -> None:
    one = NumericKG.from_table(TABLE, name="name", relations="load", fields="size").graph
    assert one.vocabulary.relations == ("load_comp",) and one.vocabulary.fields == ("load", "size")
    numbered = NumericKG.from_table(TABLE.set_axis([0, 1, 2], axis="columns"), name="0", relations="2").graph
    assert numbered.vocabulary.relations == ("2_comp",)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            TABLE.set_axis(["name", "size", "size"], axis="columns"),
            "two columns are called 'size'; rename one",
        ),
        (TABLE.iloc[:, :0], "table: has no columns"),
        (TABLE.iloc[:0], "table: has column names but no rows"),
        (
            TABLE.assign(name=pd.Series(["\ud800"] * 6, dtype=object)),
            "table: column 'name': the name '.ud800' is not valid Unicode; fix it",
        ),
    ],
)
def test_tables_that_cannot_be_read(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(UserError, match=message):
        NumericKG.from_table(frame, name="name")


def test_a_folder_gives_the_graph_that_was_written(tmp_path: Path) -> None:
    kg = NumericKG.from_table(TABLE, name="name")
    write_graph(kg.graph, tmp_path / "graph")
    assert graph_hash(NumericKG.from_folder(tmp_path / "graph").graph) == graph_hash(kg.graph)
    with pytest.raises(UserError, match="no such folder; expected one with train.txt"):
        NumericKG.from_folder(tmp_path / "graf")


# --- training


def test_a_workdir_is_of_one_graph(tmp_path: Path) -> None:
    kg = NumericKG.from_table(TABLE, name="name")
    config = config_of(tmp_path, train__epochs=1)
    workdir, screen = tmp_path / "run", io.StringIO()
    with compiled_fast():
        first = train(kg, config, workdir=workdir, console=Screen(screen))
        again = train(kg, config, workdir=workdir, console=Screen(screen))
    assert "nothing to train" in screen.getvalue() and again.report == first.report
    stored = json.loads((workdir / "comparisons.json").read_text())
    assert stored["relations"] == ["load", "size"] and stored["split"] == [0.8, 0.1, 0.1]
    assert stored["missing_rate"] == 0.0 and stored["groups"] == "common"
    built = "built from the table (6 of 6 entities, "
    assert built in " ".join(screen.getvalue().split()) and built in (workdir / "report.html").read_text()
    assert graph_hash(first.trained.run.graph) == graph_hash(kg.graph)
    other = NumericKG.from_table(TABLE.assign(load=-TABLE["load"]), name="name")
    with pytest.raises(
        UserError, match="^workdir .*run belongs to another graph, the one in its folder graph: give"
    ):
        train(other, config, workdir=workdir)


def test_a_run_that_did_not_begin_here_is_left_as_it_is(tmp_path: Path) -> None:
    """`load_trained` would take a graph in its workdir for the run's own."""
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(
        UserError, match="^workdir .* belongs to a run that was not started from a table: resume it"
    ):
        train(NumericKG.from_table(TABLE, name="name"), workdir=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


# --- questions


def test_heads_come_as_a_name_a_list_or_a_column(model: Model) -> None:
    names = ["e5", "e1"]
    with compiled_fast():
        expected = pd.concat([model.predict(name, "higher", top=2) for name in names], ignore_index=True)
        for heads in (names, tuple(names), iter(names), np.array(names), pd.Series(names, index=[3, 9])):
            pd.testing.assert_frame_equal(model.predict(heads, "higher", top=2), expected)
        one = model.predict("e5", "higher", candidates="e2", known="mark")
    assert one["tail"].tolist() == ["e2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"known": "hide"}, "predict: known must be one of exclude, mark, got 'hide'"),
        ({"top": 0}, "predict: top must be an integer of 1 or more, got 0"),
        ({"head": None}, "predict: give a head, a tail, or new_entities"),
        ({"head": iter([3])}, "a name must be text, got 3: give '3' if that is the name"),
        ({"relation": ""}, "the relation is missing; give one of 1: 'higher'"),
        ({"new_entities": pd.DataFrame()}, "new_entities: has no columns"),
    ],
)
def test_questions_without_a_meaning_are_one_line(
    model: Model, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        model.predict(**{"head": "e5", "relation": "higher", **arguments})


def test_what_is_left_out_of_new_entities_is_told(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt field, and a model that never learned to rank unknown entities."""
    config = numcoke(config_of(write_folder(tmp_path / "graph")))
    config.train.entity_dropout = 0.0
    without = Model(untrained(config))
    new = pd.DataFrame({"name": ["mine"], "size": [3.5], "nois": [1]})
    with compiled_fast():
        model.predict(None, "higher", new_entities=new, top=1)
        told = capsys.readouterr().out
        without.predict(None, "higher", new_entities=new, top=1)
    assert told == "columns that are not fields of the graph: nois (did you mean noise?)\n"
    assert "warning: the model was trained without train.entity_dropout" in capsys.readouterr().out


def test_new_entities_may_be_named_by_several_columns_wherever_they_stand(model: Model) -> None:
    new = pd.DataFrame({"size": [3.5, 9.0], "maker": ["ford", "ford"], "year": ["1970", "1971"]})
    with compiled_fast():
        for name in (["maker", "year"], np.array(["maker", "year"])):
            named = model.predict(relation="higher", new_entities=new, name=name, top=1)
            assert list(named["head"]) == ["ford, 1970", "ford, 1971"]


@pytest.mark.parametrize("title", ["SIZE", "Sizes", "siz"])
def test_a_table_whose_columns_are_all_misspelt_says_what_is_near(model: Model, title: str) -> None:
    new = pd.DataFrame({"name": ["mine"], title: [3.5]})
    with pytest.raises(UserError, match=rf"no value of a field .*: {title} \(did you mean size\?\)$"):
        model.predict(relation="higher", new_entities=new)


def test_an_order_core_needs_no_vector_of_the_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it decides every relation there is no mean entity to stand for a new one."""
    config = numcoke(config_of(write_folder(tmp_path / "graph", entities=12)))
    config.score.order_core = True
    core = Model(untrained(config))
    with compiled_fast():
        core.predict(None, "higher", new_entities=pd.DataFrame({"name": ["mine"], "size": [3.5]}), top=1)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_a_value_to_try_is_a_finite_number_or_missing(model: Model, value: float) -> None:
    with pytest.raises(
        UserError, match=f"^explain: the value {value!r} of 'size' is .*; needs a plain number"
    ):
        model.explain("e5", "higher", "e2", head_values={"size": value})


def test_nan_is_a_missing_value_to_try(model: Model) -> None:
    with compiled_fast():
        nan, none = (
            model.explain("e5", "higher", "e2", head_values={"size": value})["what_if"]
            for value in (float("nan"), None)
        )
    assert nan == none and nan["changes"] == [{"side": "head", "field": "size", "value": None}]


# --- arguments of a wrong type, which the types checked in tests would refuse before the program does


def said(call: Callable[[], Any]) -> str:
    """The one line of a call that must be refused."""
    with pytest.raises(UserError) as refused:
        call()
    return str(refused.value)


def lines_about_tables() -> None:
    """Runs in a process of its own."""
    kg, config = NumericKG.from_table(TABLE, name="name"), ConfigDict({"seed": 1})
    graph: Any = functools.partial(NumericKG.from_table, TABLE)
    table: Any = {"name": ["a"]}
    begin: Any = train
    assert said(lambda: NumericKG.from_table(table, name="name")) == (
        "table: needs a pandas DataFrame or a path, got a dict"
    )
    assert said(lambda: graph(name=7.0)) == "a name must be text, got 7.0: give '7' if that is the name"
    assert said(lambda: graph(name=0)) == "a name must be text, got 0: give '0' if that is the name"
    assert said(lambda: graph(name=())).startswith("from_table: name: give the column, or columns, that name")
    assert said(lambda: graph(name="name", relations=None)).startswith("a name must be text, got None")
    facts: Any = functools.partial(NumericKG.from_facts, head="h", tail="t", relation="r")
    for given in (None, 3, {"r": TABLE}):
        needs = f"facts: needs a table, or a list of tables, got a {type(given).__name__}"
        assert said(functools.partial(facts, given)) == needs
    assert said(lambda: facts([])) == "facts: an empty list; give a table, or several"
    assert said(lambda: facts(TABLE, split=3)).startswith("split: must be 3 shares for train, valid, test")
    for setting, value, needs in (
        ("group_size", "5", "an integer"),
        ("entities", 3.0, "an integer"),
        ("seed", True, "an integer"),
        ("missing_rate", "0.2", "in [0, 1]"),
        ("split", 0.8, "3 shares for train, valid, test, train above 0, that sum to 1"),
        ("split", "0.8,0.1,0.1", "3 shares for train, valid, test, train above 0, that sum to 1"),
    ):
        wrong = functools.partial(graph, name="name", **{setting: value})
        assert said(wrong) == f"{setting}: must be {needs}, got {value!r}"
    graph(name="name", seed=np.int64(3), missing_rate=np.float32(0.5))
    assert said(lambda: begin(TABLE, workdir="run")).startswith("train: needs a NumericKG, got a DataFrame")
    assert said(lambda: begin(kg, {"seed": 1}, workdir="run")).startswith("the config is of type dict")
    assert said(lambda: begin(kg, config, workdir="run")).startswith("model.name is missing")
    assert not Path("run").exists()


def lines_about_questions() -> None:
    """Runs in a process of its own."""
    model: Any = Model(untrained(numcoke(config_of(write_folder(Path("graph"))))))
    for call, line in (
        (lambda: model.predict("e5", None), "a name must be text, got None: give 'None' if that is the name"),
        (lambda: model.predict("e5", ["higher"]), "a name must be text, got ['higher']: give"),
        (lambda: model.predict(3, "higher"), "a name must be text, got 3"),
        (lambda: model.predict("e5", "higher", candidates=3), "a name must be text, got 3"),
        (lambda: model.predict(None, "higher", new_entities="a"), "a: a table's name ends in .csv, .tsv"),
        (lambda: model.predict(None, "higher", new_entities=3), "new_entities: needs a pandas DataFrame or"),
        (lambda: model.explain(5, "higher", "e2"), "a name must be text, got 5"),
        (
            lambda: model.explain("e5", "higher", "e2", head_values=[1]),
            "explain: head_values needs a mapping",
        ),
        (lambda: model.impute(3), "a name must be text, got 3"),
        (lambda: model.impute([]), "impute: fields is empty; name some"),
        (lambda: model.impute(level="0.9"), "impute: level must be between 0 and 1, got '0.9'"),
    ):
        assert said(call).startswith(line)


@pytest.mark.parametrize("check", [lines_about_tables, lines_about_questions])
def test_arguments_of_a_wrong_type_are_one_line(check: Callable[[], None], tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"from tests import test_api; test_api.{check.__name__}()"]
    settings = {**os.environ, "PYTHONPATH": str(REPOSITORY), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
