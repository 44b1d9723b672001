"""The authors' graphs by name, on tiny folders of the same layout: what is taken over, what is rebuilt."""

import csv
from pathlib import Path

import numpy as np
import pytest

from numcoke_jax.config.schema import default_config
from numcoke_jax.data.graph import HEAD, RELATION, TAIL
from numcoke_jax.data.load import load_graph
from numcoke_jax.data.public.rakge import AUTHORS_GRAPHS, RAKGE_CREDIT, RAKGE_SPOTIFY
from numcoke_jax.system.errors import UserError

LIMITS = {3: 500, 7: 100, 12: 300, 20: 100, 21: 900}  # LIMIT_BAL by client; two are equal
FACTS = [
    ("ID7", "SEX", "female"),
    ("ID21", "LIMIT_BAL_comp", "ID7"),
    ("ID3", "LIMIT_BAL_comp", "ID20"),
    ("ID12", "TOTAL_PAY_comp", "ID3"),
    ("ID21", "TOTAL_PAY_comp", "ID12"),
]


def write_facts(path: Path, facts: list[tuple[str, str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")


def write_credit(path: Path, changed: dict[str, str] | None = None) -> None:
    """Six clients: TOTAL_PAY is 6 n + 15, TOTAL_BILL 15 n; one of them is in no fact."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = None
        for number, limit in {**LIMITS, 99: 1}.items():
            row: dict[str, int | str] = {"ID": number, "LIMIT_BAL": limit, "AGE": 20 + number, "SEX": 2}
            row |= {f"PAY_{month}": month - number for month in (0, 2, 3, 4, 5, 6)}
            row |= {f"BILL_AMT{month}": number * (month - 1) for month in range(1, 7)}
            row |= {f"PAY_AMT{month}": number + month - 1 for month in range(1, 7)}
            row |= (changed or {}) if number == 3 else {}
            writer = writer or csv.DictWriter(file, list(row))
            if number == 3:
                writer.writeheader()
            writer.writerow(row)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with the Credit graph; no other place has any."""
    monkeypatch.setenv("NUMCOKE_DATA", str(tmp_path / "variable"))
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    given = tmp_path / "given"
    write_facts(given / "rakge" / "credit" / "train.txt", FACTS)
    write_facts(given / "rakge" / "credit" / "neg.txt", [fact[::-1] for fact in FACTS])
    write_credit(given / "raw" / "credit.csv")
    return given


def load(folder, table="rakge_credit", **changes):
    config = default_config().data
    config.update({"table": table, "dir": str(folder), "missing_rate": 0.0, **changes})
    return load_graph(config)


def named(graph, facts):
    names = graph.vocabulary
    return [(names.entities[h], names.relations[r], names.entities[t]) for h, r, t in facts.tolist()]


def test_training_facts_are_the_authors_and_the_others_are_held_out(folder):
    loaded = load(folder)
    graph = loaded.graph
    assert loaded.name == "rakge_credit"
    assert sorted(named(graph, graph.train)) == sorted(FACTS)
    assert sorted(named(graph, graph.negatives)) == sorted(fact[::-1] for fact in FACTS)
    pay = {number: 6 * number + 15 for number in LIMITS}
    every = {
        (f"ID{h}", f"{field}_comp", f"ID{t}")
        for field, values in (("LIMIT_BAL", LIMITS), ("TOTAL_PAY", pay))
        for h in LIMITS
        for t in LIMITS
        if values[h] > values[t]
    }
    assert len(every) == 9 + 10  # two limits are equal
    held_out = named(graph, np.concatenate([graph.valid, graph.test]))
    assert sorted(held_out) == sorted(every - set(FACTS))
    assert (len(graph.valid), len(graph.test)) == (7, 8)


def test_literals_are_the_raw_values_and_their_sums(folder):
    graph = load(folder).graph
    assert graph.vocabulary.fields == ("AGE", "LIMIT_BAL", "TOTAL_BILL", "TOTAL_DELAY", "TOTAL_PAY")
    rows = [graph.vocabulary.entities.index(f"ID{number}") for number in LIMITS]
    assert "ID99" not in graph.vocabulary.entities  # in no fact
    expected = [[20 + n, limit, 15 * n, 20 - 6 * n, 6 * n + 15] for n, limit in LIMITS.items()]
    np.testing.assert_array_equal(graph.values[rows], expected)
    assert graph.observed[rows].all()
    assert not graph.observed[graph.vocabulary.entities.index("female")].any()


def test_seed_decides_halves_and_mask_and_nothing_else(folder):
    one, same, other = (load(folder, seed=seed, missing_rate=0.4).graph for seed in (1, 1, 2))
    for name in ("train", "valid", "test", "negatives", "values", "observed"):
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name), err_msg=name)
    np.testing.assert_array_equal(one.train, other.train)
    assert sorted(map(tuple, np.concatenate([one.valid, one.test]))) == sorted(
        map(tuple, np.concatenate([other.valid, other.test]))
    )
    assert not np.array_equal(one.valid, other.valid)
    assert not np.array_equal(one.observed, other.observed)
    # The halves do not change with the mask: the permutation is drawn first.
    np.testing.assert_array_equal(load(folder, seed=1).graph.valid, one.valid)


def test_notices_say_what_is_the_authors_and_what_is_not(folder):
    first, *others = load(folder, seed=3, missing_rate=1.0).notices
    raw, own = folder / "raw" / "credit.csv", folder / "rakge" / "credit"
    assert first == (
        f"rakge_credit: train.txt and neg.txt of the authors ({own}), Apache-2.0, as its repository states, "
        f"https://github.com/22zwChen/KADGN; rebuilt from {raw}: the 15 other pairs of 5 entities in two "
        "halves, 25 of 25 values masked, seed 3"
    )
    versions = [line for line in others if "is another version than the known one" in line]
    assert [line.split()[0] for line in versions] == [str(own / "train.txt"), str(own / "neg.txt")]


def test_negatives_are_optional_and_the_published_folder_name_is_known(folder):
    (folder / "rakge" / "credit" / "neg.txt").unlink()
    (folder / "rakge" / "credit").rename(folder / "rakge" / "Credit")
    (folder / "raw" / "credit.csv").rename(folder / "UCI_Credit_Card.csv")  # as the source calls it
    loaded = load(folder)
    assert not len(loaded.graph.negatives)
    assert "no neg.txt: no negatives are given" in loaded.notices


def test_songs_are_known_by_their_running_number(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMCOKE_DATA", str(tmp_path))
    facts = [("id2", "tempo_comp", "id0"), ("id0", "artist", "Drake")]
    write_facts(tmp_path / "rakge" / "spotify" / "train.txt", facts)
    fields = list(RAKGE_SPOTIFY.fields)
    lines = [",".join(["", *fields])]
    for number in (2, 0, 1):
        lines.append(",".join(str(cell) for cell in [number, *(10 * number + place for place in range(10))]))
    text = "\n".join(lines)
    (tmp_path / "spotify.csv").write_text(text + "\n", encoding="utf-8")
    graph = load("", table="rakge_spotify").graph
    assert graph.vocabulary.entities == ("Drake", "id0", "id2")  # id1 is in no fact
    assert graph.vocabulary.fields == tuple(fields)
    np.testing.assert_array_equal(graph.values[1:], [np.arange(10), 20 + np.arange(10)])
    assert not len(graph.valid) and not len(graph.test)  # the only pair is known


def test_missing_files_are_named_with_their_source(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMCOKE_DATA", str(tmp_path / "variable"))
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache")
    (tmp_path / "given").mkdir()
    with pytest.raises(UserError) as caught:
        load(tmp_path / "given")
    given, variable, cache = (tmp_path / name for name in ("given", "variable", "cache"))
    assert str(caught.value) == (
        f"rakge_credit: no rakge/credit/train.txt in {given}, {variable}, {cache}, and it cannot be "
        "downloaded by itself: get train.txt and neg.txt from https://github.com/22zwChen/KADGN (Apache-2.0, "
        f"as its repository states), save them in {variable}/rakge/credit, or set $NUMCOKE_DATA to a folder "
        "that has it"
    )


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(
        UserError, match=r"^data\.dir: '.*/absent' is not a folder; give the folder of rakge/"
    ):
        load(tmp_path / "absent")


def test_another_raw_table_is_noticed(folder):
    write_credit(folder / "raw" / "credit.csv", {"LIMIT_BAL": "5", "PAY_AMT1": "1000"})
    train = folder / "rakge" / "credit" / "train.txt"
    with pytest.raises(UserError) as caught:
        load(folder)
    assert str(caught.value) == (
        f"{train}: 1 fact of LIMIT_BAL_comp, such as ID3 above ID20, contradict the raw table: one of the "
        "two files is another version"
    )


def test_a_missing_cell_of_a_compared_value_is_noticed(folder):
    write_credit(folder / "raw" / "credit.csv", {"LIMIT_BAL": ""})
    with pytest.raises(UserError, match="1 fact of LIMIT_BAL_comp, such as ID3 above ID20, contradict"):
        load(folder)


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        (("ID8", "AGE_comp", "ID3"), r"'ID8' is no row of .*credit\.csv \(nor are 0 others\): ID<n> must be"),
        (("ID7", "HEIGHT_comp", "ID3"), "HEIGHT_comp compares no field of AGE, LIMIT_BAL, TOTAL_BILL"),
    ],
)
def test_facts_about_something_else_are_noticed(folder, fact, message):
    write_facts(folder / "rakge" / "credit" / "train.txt", [*FACTS, fact])
    with pytest.raises(UserError, match=message):
        load(folder)


def test_a_train_file_without_comparisons_is_noticed(folder):
    write_facts(folder / "rakge" / "credit" / "train.txt", FACTS[:1])
    with pytest.raises(UserError, match="no relation ends in _comp; give the train.txt of https://github"):
        load(folder)


@pytest.mark.parametrize(("name", "sizes"), [("rakge_credit", (1790, 6)), ("rakge_spotify", (3374, 6))])
def test_published_files(shared_dir, name, sizes):
    """The published facts: every comparison agrees with the raw table, and 99 % of the pairs are held out."""
    loaded = load(shared_dir / "data", table=name, missing_rate=0.2)
    graph = loaded.graph
    assert (graph.num_entities, graph.num_relations) == sizes
    assert not any("another version" in notice for notice in loaded.notices)
    assert {"rakge_credit": 52_419, "rakge_spotify": 30_255}[name] == len(graph.train) == len(graph.negatives)
    compared = [n.endswith("_comp") for n in graph.vocabulary.relations]
    known = np.isin(graph.train[:, RELATION], np.flatnonzero(compared)).sum()
    held_out = np.concatenate([graph.valid, graph.test])
    assert known / (known + len(held_out)) == pytest.approx(0.01 if "credit" in name else 0.004, abs=1e-3)
    for relation in np.flatnonzero(compared):
        field = graph.vocabulary.fields.index(graph.vocabulary.relations[relation].removesuffix("_comp"))
        facts = held_out[held_out[:, RELATION] == relation]
        both = graph.observed[facts[:, HEAD], field] & graph.observed[facts[:, TAIL], field]
        assert (graph.values[facts[both, HEAD], field] > graph.values[facts[both, TAIL], field]).all()


def test_names_agree():
    assert set(AUTHORS_GRAPHS) == {RAKGE_CREDIT.name, RAKGE_SPOTIFY.name}
