"""Tables of facts and of attributes: splits, names, and one line for whatever is wrong with them."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.api import NumericKG
from numcoke_jax.cli.main import main
from numcoke_jax.data.files.folder import read_folder
from numcoke_jax.data.graph import SPLITS, graph_hash
from numcoke_jax.data.tables.facts import FactChoice, FactTable, read_facts
from numcoke_jax.data.tables.frames import frame_table
from numcoke_jax.system.errors import UserError

ROWS = [(f"p{i}", f"p{j}") for i in range(8) for j in range(i)] + [("p0", "p7"), ("p3", "p1"), ("p3", "p1")]
PLAYERS = pd.DataFrame(
    {
        "player": [f"p{i}" for i in range(8)] + ["new", "bare"],
        "height": [180.0 + i for i in range(8)] + [200.0, np.nan],
        "country": ["ch", "es"] * 5,
        "id": range(10),
    }
)


def results() -> pd.DataFrame:
    """28 matches of an order, one upset, one played three times in all."""
    frame = pd.DataFrame(ROWS, columns=["winner", "loser"])
    frame["date"] = [f"2020-{1 + row // 28:02d}-{1 + row % 28:02d}" for row in range(len(frame))]
    frame["split"] = ["train"] * 20 + ["valid"] * 5 + ["test"] * 6
    return frame


def named(kg: NumericKG, split: str) -> set[tuple[str, str, str]]:
    names = kg.graph.vocabulary
    return {(names.entities[h], names.relations[r], names.entities[t]) for h, r, t in kg.graph.split(split)}


def from_facts(frame: pd.DataFrame, attributes: pd.DataFrame | None = None, **settings: Any) -> NumericKG:
    given: dict[str, Any] = {"head": "winner", "tail": "loser", "relation": "beat", **settings}
    return NumericKG.from_facts(frame, attributes, **given)


def test_a_graph_of_two_tables_has_every_entity_and_counts_what_repeats() -> None:
    kg = from_facts(results(), PLAYERS, name="player", fields="height")
    graph = kg.graph
    assert graph.vocabulary.entities == ("bare", "new", *(f"p{i}" for i in range(8)))
    assert graph.vocabulary.fields == ("height",) and graph.vocabulary.relations == ("beat",)
    assert graph.values[1:, 0].tolist() == [200.0, *(180.0 + i for i in range(8))]
    assert graph.observed[:, 0].tolist() == [False] + [True] * 9
    assert set.union(*(named(kg, split) for split in SPLITS)) == {(h, "beat", t) for h, t in ROWS}
    said = "\n".join(kg.loaded.notices)
    for part in (
        "facts: 29 facts about 8 entities, split at random 0.8/0.1/0.1, seed 0: 25 train, 2 valid, 2 test",
        "facts: 2 rows with a repeated fact, which counts once",
        "attributes: fields height; 8 entities of the facts have a row, 0 not",
        "in no fact: 2 entities (bare; new); they are kept",
        "facts in both directions, (h, r, t) and (t, r, h): 1 pair",
        "1 entity (bare) without any value",
    ):
        assert part in said, said


def test_numeric_columns_are_fields_and_others_are_named() -> None:
    kg = from_facts(results(), PLAYERS, name="player")
    assert kg.graph.vocabulary.fields == ("height", "id")
    assert "left out, without any number: 'country'" in kg.loaded.notices
    assert from_facts(results()).graph.num_fields == 0
    unknown = PLAYERS[PLAYERS["player"] != "p3"]
    kg = from_facts(results(), unknown, name="player")
    assert "p3" in kg.graph.vocabulary.entities, "an entity without attributes stays"
    assert "7 entities of the facts have a row, 1 not" in "\n".join(kg.loaded.notices)


def test_relations_of_a_column() -> None:
    frame = results().assign(kind=["beat", "outran"] * 15 + [None])
    kg = from_facts(frame, relation="", relation_column="kind")
    assert kg.graph.vocabulary.relations == ("beat", "outran")
    assert "facts: 1 row left out without a head, relation or tail" in kg.loaded.notices


def test_a_split_at_random_is_seeded_and_forgets_the_order_of_rows() -> None:
    one, other = from_facts(results(), seed=1), from_facts(results()[::-1], seed=1)
    assert graph_hash(one.graph) == graph_hash(other.graph)
    assert graph_hash(one.graph) != graph_hash(from_facts(results(), seed=2).graph)
    sets = [named(one, split) for split in SPLITS]
    assert sum(map(len, sets)) == len(set.union(*sets)) == 29, "no fact is in two splits"


def test_a_split_as_given() -> None:
    kg = from_facts(results(), split="column:split")
    frame = results()
    for split in SPLITS:
        rows = frame[frame["split"] == split]
        facts = {(h, "beat", t) for h, t in zip(rows["winner"], rows["loser"], strict=True)}
        assert named(kg, split) == facts


@pytest.mark.parametrize("kind", ["text", "date", "datetime", "number", "pandas"])
def test_a_split_by_the_order_of_a_column(kind: str) -> None:
    frame = results().sample(frac=1.0, random_state=3)  # rows in any order
    dates = [datetime.date.fromisoformat(text) for text in frame["date"]]
    frame["date"] = {
        "text": [date.isoformat() for date in dates],
        "date": dates,
        "datetime": [f"{date.isoformat()}T12:00:00+02:00" for date in dates],
        "number": [date.toordinal() / 7 for date in dates],
        "pandas": pd.to_datetime([date.isoformat() for date in dates]),
    }[kind]
    kg, sooner = from_facts(frame, split="order:date"), results()
    for split, rows in (("train", sooner[:25]), ("valid", sooner[25:28]), ("test", sooner[28:])):
        facts = {(h, "beat", t) for h, t in zip(rows["winner"], rows["loser"], strict=True)}
        assert named(kg, split) == facts, split
    assert graph_hash(from_facts(frame, split="time:date").graph) == graph_hash(kg.graph)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_nothing_that_tests_is_earlier_than_what_trains(times: list[int]) -> None:
    """Equal times stay together, and a split begins where its share of the rows does or after it."""
    frame = pd.DataFrame({"h": [f"h{i}" for i in range(len(times))], "t": "t", "when": times})
    table = read_facts([frame_table("x", frame)], FactChoice(("h",), ("t",), ("r",), split="order:when"))
    place = {
        int(table.entities[fact[0]][1:]): split for split, facts in table.splits.items() for fact in facts
    }
    found: dict[str, list[int]] = {split: [] for split in SPLITS}
    for row, time in enumerate(times):
        found[place[row]].append(time)
    for early, late in (("train", "valid"), ("train", "test"), ("valid", "test")):
        if found[early] and found[late]:
            assert max(found[early]) < min(found[late])
    assert len(found["test"]) <= 0.1 * len(times) + max(times.count(time) for time in times)


def test_files_of_every_kind_give_the_graph_of_the_frames(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = from_facts(results(), PLAYERS, name="player", split="column:split")
    results().to_csv(tmp_path / "r.csv", index=False)
    results().to_csv(tmp_path / "r.tsv", index=False, sep="\t")
    results().to_parquet(tmp_path / "r.parquet")
    PLAYERS.to_csv(tmp_path / "p.csv", index=False)
    for suffix in ("csv", "tsv", "parquet"):
        out = tmp_path / suffix
        facts = (f"--facts={tmp_path / f'r.{suffix}'}", "--head=winner", "--tail=loser", "--relation=beat")
        attributes = (f"--attributes={tmp_path / 'p.csv'}", "--name=player", "--split=column:split")
        assert main(["data", "build", *facts, *attributes, f"--out={out}"]) == 0
        assert graph_hash(read_folder(out)[0]) == graph_hash(expected.graph)
        assert f"r.{suffix}: 30 facts about 8 entities, split by column 'split'" in capsys.readouterr().out


def broken(**columns: Any) -> pd.DataFrame:
    return results().assign(**columns)


MISTAKES: list[tuple[pd.DataFrame, pd.DataFrame | None, dict[str, Any], str]] = [
    (results(), None, {"head": "winer"}, "facts: no column 'winer'; did you mean 'winner'?"),
    (results(), None, {"tail": ("winner",)}, "tail: winner is the head's column too, so that every fact"),
    (results(), None, {"head": ()}, "head: give the column of the facts that names the head"),
    (results(), None, {"relation": ""}, "relation: give either a name for the relation of all facts"),
    (results(), None, {"relation_column": "split"}, "relation: give either a name"),
    (results(), None, {"split": "date"}, "split: must be 3 shares such as 0.8,0.1,0.1, order:COLUMN or"),
    (results(), None, {"split": "order:dat"}, "facts: split: no column 'dat'; did you mean 'date'?"),
    (results(), None, {"split": (0.5, 0.5)}, "split: must be 3 shares for train, valid, test"),
    (results(), None, {"seed": -1}, "seed: must be at least 0, got -1"),
    (
        broken(split=["train"] * 29 + ["dev", None]),
        None,
        {"split": "column:split"},
        "facts: column 'split' must say train, valid, test in each row, got 'dev' in data row 30, ",
    ),
    (
        broken(date=["3/4/2020"] + ["2020-01-01"] * 30),
        None,
        {"split": "order:date"},
        "a number in each row, or a date such as 2024-03-31, got '3/4/2020' in data row 1",
    ),
    (broken(split="test"), None, {"split": "column:split"}, "split: of 31 rows, none is for training"),
    (broken(loser=None), None, {}, "facts: no row has a head, a relation and a tail; fill some in"),
    (
        results(),
        None,
        {"name": "player"},
        "name, fields, categories: are columns of the attributes, of which none are",
    ),
    (
        results(),
        PLAYERS,
        {},
        "name: give the column of attributes with the names; column 'player' has 8 of the 8 heads and tails",
    ),
    (results(), PLAYERS, {"name": "plyer"}, "attributes: no column 'plyer'; did you mean 'player'?"),
    (
        results(),
        PLAYERS,
        {"name": "country"},
        "none of the names in column 'country', such as 'ch', is a head or tail in facts, such as 'p0'; "
        "column 'player' has 8 of the 8 heads and tails",
    ),
    (
        results(),
        PLAYERS,
        {"name": "id"},
        "none of the names in column 'id', such as '0', is a head or tail in facts, such as 'p0'; "
        "column 'player' has 8 of the 8 heads and tails",
    ),
    (
        results(),
        PLAYERS[["player", "country"]],
        {"name": "player"},
        "attributes: no column holds numbers only; name columns of texts as categories, or leave the",
    ),
    (
        results(),
        PLAYERS.assign(height="tall"),
        {"name": "player", "fields": "height"},
        "column 'height' must hold plain numbers or empty cells, got 'tall' in data row 1",
    ),
]


@pytest.mark.parametrize(
    ("facts", "attributes", "settings", "said"), MISTAKES, ids=[said[:50] for *_, said in MISTAKES]
)
def test_mistakes_are_one_line(
    facts: pd.DataFrame, attributes: pd.DataFrame | None, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError) as raised:
        from_facts(facts, attributes, **settings)
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_pairs_of_columns_that_are_unique_are_named_and_a_few_repeats_are_not_refused() -> None:
    seasons = pd.concat([PLAYERS.assign(season=year) for year in (2020, 2021)]).drop(columns="id")
    with pytest.raises(UserError, match="names 10 things in 20 rows.*unique are 'player' with 'season'; or"):
        from_facts(results(), seasons, name="player")
    same = seasons.assign(season=2020)
    with pytest.raises(UserError, match="no three columns together are unique: merge the rows"):
        from_facts(results(), same, name="player")
    few = from_facts(results(), pd.concat([PLAYERS, PLAYERS[:1]]), name="player")
    assert "attributes: 1 row left out that repeats a name" in few.loaded.notices


def test_several_tables_are_one_with_a_relation_each_or_the_same(tmp_path: Path) -> None:
    """As the table that has the rows of both and a column with the relation; named where a row is wrong."""
    won, drawn = results()[:20], results()[20:]
    both = pd.concat([won.assign(kind="beat"), drawn.assign(kind="drew")])
    won.to_csv(tmp_path / "won.csv", index=False)
    drawn[["split", "loser", "winner", "date"]].to_parquet(tmp_path / "drawn.parquet")
    files = [tmp_path / "won.csv", str(tmp_path / "drawn.parquet")]
    for split in ("order:date", "column:split", (0.6, 0.2, 0.2)):
        expected = from_facts(both, relation="", relation_column="kind", split=split)
        one_each = from_facts(files, relation=["beat", "drew"], split=split)
        assert graph_hash(one_each.graph) == graph_hash(expected.graph)
    assert graph_hash(from_facts(files).graph) == graph_hash(from_facts(results()).graph)
    assert from_facts(files).loaded.notices[0].startswith("won.csv, drawn.parquet: 29 facts about 8 entities")
    with pytest.raises(UserError, match=r"^relation: 3 names \(a, b, c\) for 2 tables of facts; give one"):
        from_facts(files, relation=["a", "b", "c"])
    with pytest.raises(UserError, match="^facts 2: no column 'winner'"):
        from_facts([won, drawn.drop(columns="winner")])
    wrong = drawn.assign(split=["train"] * 2 + ["tset"] * 9)
    with pytest.raises(
        UserError, match=r"^facts 1, facts 2: column 'split' must say.*'tset' in data row 3 of facts 2"
    ):
        from_facts([won, wrong], split="column:split")


def test_integers_that_a_program_wrote_as_decimals_are_the_same_names(tmp_path: Path) -> None:
    """pandas writes 1.0, 2.0, ... of a column of integers with a missing cell."""
    (tmp_path / "results.csv").write_text("winner,loser\n1.0,2\n2.0,3\n,1\n3.0,4\n")
    (tmp_path / "players.csv").write_text("id,height\n1.0,180\n2.0,190\n3.0,170\n4.0,200\n")
    graph = from_facts(tmp_path / "results.csv", tmp_path / "players.csv", name="id").graph
    assert graph.vocabulary.entities == ("1", "2", "3", "4") and graph.observed.all()


def test_tables_may_be_given_as_paths(tmp_path: Path) -> None:
    results().to_csv(tmp_path / "results.tsv", sep="\t", index=False)
    PLAYERS.to_csv(tmp_path / "players.csv", index=False)
    read = from_facts(tmp_path / "results.tsv", str(tmp_path / "players.csv"), name="player", fields="height")
    expected = from_facts(results(), PLAYERS, name="player", fields="height")
    assert graph_hash(read.graph) == graph_hash(expected.graph)
    table = {"name": "player", "relations": "height"}
    of_file = NumericKG.from_table(tmp_path / "players.csv", **table)
    assert graph_hash(of_file.graph) == graph_hash(NumericKG.from_table(PLAYERS, **table).graph)
    with pytest.raises(UserError, match="^nowhere.csv: no such file; give the path of a table$"):
        NumericKG.from_table("nowhere.csv", **table)
    assert repr(expected) == "<NumericKG facts: 10 entities, 1 relation, 1 field, 29 facts>"


COMMANDS = [
    (
        ["--facts=R", "--tail=loser", "--relation=beat"],
        "--head is missing: give a column of R; there is 'winner'",
    ),
    (["--facts=R", "--head=winer", "--tail=loser"], "--head: no column 'winer'; did you mean 'winner'?"),
    (
        ["--facts=R", "--head=winner", "--tail=loser"],
        "give either --relation=NAME, such as --relation=beat, or",
    ),
    (["--facts=X", "--head=a", "--tail=b"], "--facts: there is no file X"),
    (["--facts=R", "--table=cars"], "--table and --facts: give only one of them"),
    (["--facts=R", "--group-size=3"], "--group-size has no meaning with --facts"),
    (["--facts=R", "--relations=date"], "--relations has no meaning with --facts"),
    (["--facts=R", "--name=x"], "--name is about columns of --attributes=FILE, which is missing"),
    (
        ["--facts=R", "--head=winner", "--tail=loser", "--relation=b", "--split=order:x"],
        "split: no column 'x'",
    ),
    (
        ["--facts=R", "--split=date"],
        "--split: must be 3 numbers such as 0.8,0.1,0.1, got 'date', or order:COLUMN",
    ),
    (
        ["--facts=R", "--facts=R", "--head=winner", "--tail=loser", "--relation=beat,drew,lost"],
        "relation: 3 names (beat, drew, lost) for 2 tables of facts; give one for each table, or one for all",
    ),
    (
        ["--facts=R", "--head=winner", "--tail=loser", "--relation=beat,drew"],
        "relation: 2 names (beat, drew) for 1 table of facts; give one for each table, or one for all",
    ),
    (["--table=cars", "--head=x"], "--head has no meaning without --facts=FILE"),
    (["--table=cars", "--split=order:x"], "--split=order:x has no meaning with --table"),
    ([], "missing: --table=FILE, whose values are compared, or --facts=FILE, with a fact in each row"),
]


@pytest.mark.parametrize(("options", "said"), COMMANDS, ids=[said[:40] for _, said in COMMANDS])
def test_mistakes_of_the_command_write_nothing(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "R.csv"
    results().to_csv(path, index=False)
    filled = [option.replace("=R", f"={path}") if option.endswith("=R") else option for option in options]
    assert main(["data", "build", f"--out={tmp_path / 'out'}", *filled]) == 2
    err = capsys.readouterr().err
    assert said.replace(" R;", f" {path};") in err and err.count("\n") == 1, err
    assert not (tmp_path / "out").exists()


def test_the_command_takes_a_file_of_facts_for_each_relation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A split without facts is said, as it is of a table that is compared."""
    names = {"won.csv": results()[:20], "drawn.csv": results()[20:]}
    for name, frame in names.items():
        frame.to_csv(tmp_path / name, index=False)
    given = [f"--facts={tmp_path / name}" for name in names]
    columns = ["--head=winner", "--tail=loser", f"--out={tmp_path / 'out'}"]
    assert main(["data", "build", *given, *columns, "--relation=beat, drew", "--split=0.5,0,0.5"]) == 0
    assert "valid.txt holds no facts: " in capsys.readouterr().out
    expected = from_facts(list(names.values()), relation=["beat", "drew"], split=(0.5, 0, 0.5))
    assert graph_hash(read_folder(str(tmp_path / "out"))[0]) == graph_hash(expected.graph)
    given.append(f"--facts={tmp_path / 'players.csv'}")
    PLAYERS.to_csv(tmp_path / "players.csv", index=False)
    assert main(["data", "build", *given, "--head=winner", "--tail=loser", "--out=x", "--relation=r"]) == 2
    said = f"error: --head (of {tmp_path / 'players.csv'}): no column 'winner'; there is 'player'"
    assert said in capsys.readouterr().err


def test_a_fact_table_says_what_it_holds() -> None:
    table = read_facts([frame_table("x", results())], FactChoice(("winner",), ("loser",), ("beat",)))
    assert isinstance(table, FactTable) and table.tables()["train"].column_names == [
        "head",
        "relation",
        "tail",
    ]
