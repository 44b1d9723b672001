"""`numcoke train TABLE`: the graph that `data build` writes, trained on and kept; columns by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from numcoke_jax.cli.columns import split_names
from numcoke_jax.cli.command_line import parse_command_line
from numcoke_jax.cli.main import main
from numcoke_jax.config.schema import default_config
from numcoke_jax.data.files.lines import DataError
from numcoke_jax.data.graph import graph_hash
from numcoke_jax.data.load import load_folder
from numcoke_jax.data.numeric_kg import NumericKG
from numcoke_jax.runs.create import trained_on
from numcoke_jax.runs.file_names import LOCK_FILE
from numcoke_jax.runs.kept_graph import keep_graph, kept_graph
from numcoke_jax.runs.stored import write_vocabulary
from numcoke_jax.runs.workdir import exclusive, flat_config
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import write_json_atomically

RUN = Path("runs/towns.csv-seed0")
TRAIN = ["train", "towns.csv", "--name=town", "--relations=height"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table of 30 towns."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    heights = rng.permutation(30) * 10.5
    frame = pd.DataFrame({"town": [f"t{row}" for row in range(30)], "height": heights, "area": heights**2})
    frame.to_csv("towns.csv", index=False)
    return tmp_path


def test_a_table_is_trained_on_as_the_folder_that_is_built_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--data.group_size=12", "--data.missing_rate=0.1", "--data.seed=3"]
    build = ["--group-size=12", "--missing-rate=0.1", "--seed=3", "--out=built"]
    assert main(["data", "build", "--table=towns.csv", *TRAIN[2:], *build]) == 0
    assert main([*TRAIN, *asked]) == 0
    said = capsys.readouterr()
    assert "settings: preset numeric, eval.selection=reversed; 1 strict comparison, 2 fields" in said.out
    assert "no effect" not in said.out and said.err == ""
    kept = load_folder(str(RUN / "graph")).graph
    assert graph_hash(kept) == graph_hash(load_folder("built").graph)
    compared = json.loads((RUN / "comparisons.json").read_text())
    assert compared["relations"] == ["height"] and (compared["group_size"], compared["seed"]) == (12, 3)
    assert json.loads((RUN / "config.json").read_text())["data.path"] == str(RUN.resolve() / "graph")
    report = (RUN / "report.json").read_bytes()
    Path("towns.csv").rename("elsewhere.csv")
    assert main(["eval", f"--workdir={RUN}"]) == 0, "the run needs the table no more"
    Path("elsewhere.csv").rename("towns.csv")
    assert main([*TRAIN, *asked]) == 0
    assert "the run is complete at step 1: nothing to train" in capsys.readouterr().out
    assert json.loads(report)["test"] == json.loads((RUN / "report.json").read_text())["test"]
    with_other_facts = [*TRAIN, *asked[:2], "--data.seed=4"]
    assert main(with_other_facts) == 2
    line = f"error: workdir {RUN} belongs to another graph, the one in its folder graph: give that graph or"
    assert capsys.readouterr().err.startswith(line)
    assert main([*with_other_facts, "--overwrite"]) == 0
    assert (RUN.parent / f"{RUN.name}.old-1" / "report.json").exists()
    assert graph_hash(load_folder(str(RUN / "graph")).graph) != graph_hash(kept)


def test_a_start_that_fails_leaves_no_graph_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it wrote is gone, what was there stays; a graph that a kill left behind can be moved aside."""

    def fails(*args: Any, **kwargs: Any) -> None:
        assert (RUN / "graph").is_dir() and (RUN / "comparisons.json").exists()
        raise UserError("no run")

    monkeypatch.setattr("numcoke_jax.runs.loop.train_and_evaluate", fails)
    assert main(TRAIN) == 2
    assert [path.name for path in RUN.iterdir()] == [LOCK_FILE]
    assert main([*TRAIN, "--data.seed=4"]) == 2, "another graph"
    with exclusive(RUN):  # another process works there, and may have read what this one wrote
        assert main(TRAIN[:-1]) == 2
    kept = graph_hash(load_folder(str(RUN / "graph")).graph)
    assert main(TRAIN[:-1]) == 2
    assert graph_hash(load_folder(str(RUN / "graph")).graph) == kept
    assert main([*TRAIN, "--overwrite"]) == 2
    moved = RUN.parent / f"{RUN.name}.old-1"
    assert graph_hash(load_folder(str(moved / "graph")).graph) == kept and not (RUN / "graph").exists()


@pytest.mark.parametrize("begun", ["config.json", "checkpoints"])
def test_a_run_that_began_keeps_its_graph(begun: str) -> None:
    kg = NumericKG.from_table("towns.csv", name="town")
    with pytest.raises(UserError, match="^disk full$"), kept_graph(kg, RUN):
        (RUN / begun).mkdir()
        raise UserError("disk full")
    assert (RUN / "graph").is_dir() and (RUN / "comparisons.json").exists()
    with pytest.raises(KeyboardInterrupt), kept_graph(kg, Path("other")), exclusive(Path("other")):
        raise KeyboardInterrupt
    assert not Path("other/graph").exists()


def test_presets_and_keys_are_those_of_a_folder() -> None:
    command = parse_command_line(["train", "towns.csv:paper", "--name=town", "--model.dim=8"])
    assert command.workdir == Path("runs/towns.csv-paper-seed0")
    assert command.config.model.dim == 8 and not command.config.score.order_core
    assert command.config.eval.selection == "reversed" and command.kg is not None
    assert command.kg.graph.num_relations == 2 and command.kg.graph.num_fields == 2


MISTAKES = [
    (["train", "towns.csv"], "--name: give the column that names an entity, or --name=index"),
    (["train", "towns.csv", "--name=twon"], "--name: no column 'twon'; did you mean 'town'?"),
    (["train", "towns.csv:papr", "--name=town"], "--config: there is no preset 'papr'; did you mean paper?"),
    (
        [*TRAIN, "--data.table=cars"],
        "--data.table has no meaning with a table of one's own, which has --name",
    ),
    ([*TRAIN, "--data.path=x"], "--data.path has no meaning with a table of one's own"),
    ([*TRAIN, "--data.group_size=x"], "data.group_size=x has the wrong type: needs an integer"),
    ([*TRAIN, "--data.group_size=1"], "data.group_size=1 is out of range"),
    ([*TRAIN, "--data.hide=town"], "data.hide: column 'town' holds text (30 different, such as 't0')"),
    ([*TRAIN, "--processes=2", "--process=0"], "towns.csv: of several processes, each reads a graph that is"),
    (["train", "town.csv", "--name=town"], "--name is about the columns of a table, and there is no file"),
    (
        ["train", "cars", "--dates=year"],
        "--dates is about the columns of a table, and cars is none: give one",
    ),
    (["train", "--name=town"], "--name is about the columns of a table, and none is given: give one, as in"),
    (["eval", "towns.csv"], "towns.csv: eval ranks the facts of a run: give its --workdir alone"),
    (["train", "graph/train.txt"], "graph/train.txt is one file of a graph: give its folder, graph"),
]


@pytest.mark.parametrize(("words", "line"), MISTAKES, ids=[line[:40] for _, line in MISTAKES])
def test_a_mistake_is_one_line_and_writes_nothing(words: list[str], line: str) -> None:
    Path("graph").mkdir()
    Path("graph/train.txt").write_text("a\tr\tb\n")
    with pytest.raises(UserError) as refused:
        parse_command_line(words)
    assert str(refused.value).startswith(line) and "\n" not in str(refused.value)
    assert sorted(path.name for path in Path().iterdir()) == ["graph", "towns.csv"]


def test_categories_are_chosen_among_all_tails_and_comparisons_stay_strict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The reverse of (town, region, north) is no candidate: against it every epoch has an MRR of 1."""
    frame = pd.read_csv("towns.csv").assign(region=["north", "south", "west"] * 10)
    frame.to_csv("towns.csv", index=False)
    command = parse_command_line([*TRAIN, "--categories=region"])
    assert "eval.selection=seen; 1 strict comparison, 1 relation of another kind" in command.chosen
    assert parse_command_line(TRAIN).config.eval.selection == "reversed"


def test_columns_with_commas_are_named_beside_others() -> None:
    known = ["a, b", "a", "c", " d"]
    assert split_names("--fields", "a, b,c", known) == ("a, b", "c")
    assert split_names("--fields", "a,c, d", known) == ("a", "c", " d")
    assert split_names("--fields", "c, a, b", known) == ("c", "a, b")
    with pytest.raises(UserError, match="^--fields: no column 'b'; did you mean 'a, b'"):
        split_names("--fields", "a,b", known)


def test_a_hidden_column_is_compared_and_is_no_literal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"c{row},{row},{row % 7},{row % 5}\n" for row in range(20))
    (tmp_path / "t.csv").write_text(f"name,a,b,c\n{rows}")
    words = [f"--table={tmp_path / 't.csv'}", "--name=name", "--relations=a,b"]
    assert main(["data", "build", *words, "--hide=a,c", f"--out={tmp_path / 'hidden'}"]) == 0
    assert main(["data", "build", *words, f"--out={tmp_path / 'shown'}"]) == 0
    by_folder, shown = (load_folder(str(tmp_path / name)) for name in ("hidden", "shown"))
    hidden = by_folder.graph
    assert hidden.vocabulary.fields == ("b",) and hidden.vocabulary.relations == ("a_comp", "b_comp")
    assert "hidden_fields.txt: no model is given a, c" in by_folder.notices
    # ... which is what `data.hide` does with the same folder, whose measures look at the values, too.
    config = default_config()
    trained, _ = trained_on(config, by_folder)
    config.data.hide = ("a", "c")
    by_key, _ = trained_on(config, shown)
    assert trained.truth is not None and by_key.truth is not None
    assert graph_hash(trained.graph) == graph_hash(by_key.graph) == graph_hash(hidden)
    assert graph_hash(trained.truth) == graph_hash(by_key.truth) == graph_hash(shown.graph)
    keep_graph(NumericKG(by_folder), tmp_path)
    again = load_folder(str(tmp_path / "graph"))
    assert again.truth is not None and graph_hash(again.truth) == graph_hash(shown.graph)
    assert graph_hash(again.graph) == graph_hash(hidden)
    assert main(["data", "build", *words, "--hide=x", f"--out={tmp_path / 'wrong'}"]) == 2
    assert "--hide: no column 'x'; there is 'a', 'b', 'c'" in capsys.readouterr().err
    (tmp_path / "t.csv").write_text(f"name,a,b,c,d,e\n{rows.replace(chr(10), ',red,3 %' + chr(10))}")
    for given, said in (
        ("--hide=d", "--hide: column 'd' holds text (1 different, such as 'red') and is no field; no model"),
        (
            "--hide=a,e",
            "--hide: column 'e' does not hold numbers only, '3 %' in data row 1 (a number with a unit)",
        ),
        (
            "--hide=b,c",
            "--hide: column 'c' is not among the fields, which fields=COLUMN,... may name; no model is given",
        ),
    ):
        assert main(["data", "build", *words, "--fields=a", given, f"--out={tmp_path / 'wrong'}"]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "wrong").exists()
    # A question about such a field says what hides it, before the run is loaded.
    config.data.hide, config.data.path, run = ("c",), str(tmp_path / "hidden"), tmp_path / "run"
    run.mkdir()
    write_json_atomically(run / "config.json", flat_config(config))
    write_vocabulary(run / "vocabulary.json", hidden.vocabulary, {})
    for field, said in (
        (
            "a",
            f"is hidden from the model, by hidden_fields.txt of {tmp_path / 'hidden'}; a run that is trained",
        ),
        ("c", "is hidden from the model, by data.hide; a run that is trained without that knows it"),
    ):
        assert main(["impute", f"--workdir={run}", f"--field={field}"]) == 2
        assert f"--field: the field '{field}' {said}" in capsys.readouterr().err
    (tmp_path / "hidden" / "hidden_fields.txt").write_text("a\nbb\n")
    with pytest.raises(DataError, match=r"hidden_fields\.txt:2: the graph has no field bb; did you mean 'b'"):
        load_folder(str(tmp_path / "hidden"))
