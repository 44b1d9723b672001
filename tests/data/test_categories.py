"""Categorical columns become facts: which ones, what their values are called, and in which split they are."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from numcoke_jax import NumericKG
from numcoke_jax.cli.main import main
from numcoke_jax.data.files.folder import read_folder
from numcoke_jax.data.graph import SPLITS, NumericGraph
from numcoke_jax.system.errors import UserError

SONGS = pd.DataFrame(
    {
        "song": [f"song {row:02d}" for row in range(20)],
        "tempo": [90.0 + row for row in range(20)],
        "artist": ["Ann", "Bo", "Ann", " ", "NA"] * 4,
        "key": [row % 3 for row in range(20)],
        "mode": [row % 2 for row in range(20)],
        "sequel": [f"song {row - 1:02d}" if row else None for row in range(20)],
    }
)


def facts(graph: NumericGraph, relation: str, splits: Iterable[str] = SPLITS) -> list[tuple[str, str]]:
    """(head, tail) of a relation's facts, sorted."""
    names, number = graph.vocabulary.entities, graph.vocabulary.relations.index(relation)
    return sorted(
        (names[head], names[tail])
        for split in splits
        for head, relation_id, tail in graph.split(split).tolist()
        if relation_id == number
    )


def test_each_value_is_a_fact_and_an_empty_cell_is_none() -> None:
    kg = NumericKG.from_table(SONGS, name="song", relations="tempo", categories=["artist", "sequel"])
    expected = [(f"song {row:02d}", "Bo" if row % 5 == 1 else "Ann") for row in range(20) if row % 5 < 3]
    assert facts(kg.graph, "artist") == expected
    assert facts(kg.graph, "sequel") == [(f"song {row:02d}", f"song {row - 1:02d}") for row in range(1, 20)]
    assert len(facts(kg.graph, "tempo_comp")) == 190, "comparisons stay as they are"
    assert (
        "table: category 'artist': 12 facts about 2 values, such as Ann; 8 entities have none"
        in kg.loaded.notices
    )
    assert "table: category 'sequel': 19 facts about 19 values, of these entities; 1 entity has none" in (
        kg.loaded.notices
    )
    assert kg.graph.num_entities == 22, "20 songs and 2 artists"


def test_comparisons_are_split_as_without_categories_and_categories_by_the_same_shares() -> None:
    settings: dict[str, Any] = {"name": "song", "relations": "tempo", "split": (0.5, 0.25, 0.25), "seed": 3}
    plain, kg = (NumericKG.from_table(SONGS, **settings, **more) for more in ({}, {"categories": "artist"}))
    for split in SPLITS:
        assert facts(plain.graph, "tempo_comp", [split]) == facts(kg.graph, "tempo_comp", [split])
    assert [len(facts(kg.graph, "artist", [split])) for split in SPLITS] == [6, 3, 3]
    shuffled = NumericKG.from_table(SONGS[::-1], **settings, categories="artist")
    assert facts(shuffled.graph, "artist", ["test"]) == facts(kg.graph, "artist", ["test"])


def test_numbers_as_categories_are_told_apart_and_are_no_fields_any_more() -> None:
    kg = NumericKG.from_table(SONGS, name="song", relations="tempo", categories=["key", "mode"])
    assert {tail for _, tail in facts(kg.graph, "key")} == {"key: 0", "key: 1", "key: 2"}
    assert {tail for _, tail in facts(kg.graph, "mode")} == {"mode: 0", "mode: 1"}
    assert kg.graph.vocabulary.fields == ("tempo",)
    both = NumericKG.from_table(SONGS, name="song", relations="tempo", fields="key", categories="key")
    assert both.graph.vocabulary.fields == ("key", "tempo"), "a field, too, if it is asked for"


def test_values_that_would_be_mistaken_have_their_column_in_front() -> None:
    frame = SONGS.assign(artist=["song 03", "Bo"] * 10, label=["Bo", "Cy"] * 10)
    kg = NumericKG.from_table(frame, name="song", relations="tempo", categories=["artist", "label"])
    assert {tail for _, tail in facts(kg.graph, "artist")} == {"artist: song 03", "artist: Bo"}
    assert {tail for _, tail in facts(kg.graph, "label")} == {"label: Bo", "label: Cy"}


def test_the_flag_writes_them_for_own_and_known_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SONGS.to_csv(tmp_path / "songs.csv", index=False)
    options = [f"--table={tmp_path / 'songs.csv'}", "--name=song", "--relations=tempo"]
    assert main(["data", "build", *options, "--categories=artist,key", f"--out={tmp_path / 'g'}"]) == 0
    assert "songs.csv: category 'key': 20 facts about 3 values, such as key: 0" in capsys.readouterr().out
    graph, _ = read_folder(tmp_path / "g")
    assert len(facts(graph, "artist")) == 12 and len(facts(graph, "key")) == 20
    known = ["data", "build", "--table=cars", "--categories=Origin"]
    assert main([*known, f"--out={tmp_path / 'cars'}", "--group-size=0"]) == 0
    graph, _ = read_folder(tmp_path / "cars")
    assert {tail for _, tail in facts(graph, "Origin")} == {"Europe", "Japan", "USA"}
    assert len(facts(graph, "Origin")) == 403
    assert main([*known, f"--out={tmp_path / 'drawn'}"]) == 0
    graph, _ = read_folder(tmp_path / "drawn")
    assert len(facts(graph, "Origin")) == graph.num_entities - 3, "of the entities that were drawn"


def test_attributes_of_facts_have_categories_for_training() -> None:
    results = pd.DataFrame({"a": SONGS["song"][1:], "b": list(SONGS["song"][:-1])})
    options: dict[str, Any] = {"head": "a", "tail": "b", "relation": "beat", "name": "song"}
    kg = NumericKG.from_facts(results, SONGS, **options, categories=["artist", "sequel"])
    assert facts(kg.graph, "artist", ["train"]) == facts(kg.graph, "artist")
    assert len(facts(kg.graph, "artist")) == 12 and len(facts(kg.graph, "sequel")) == 19
    texts = NumericKG.from_facts(results, SONGS[["song", "artist"]], **options, categories="artist").graph
    assert len(facts(texts, "artist")) == 12 and texts.num_fields == 0
    with pytest.raises(UserError, match="'beat' is a relation of the facts, too"):
        NumericKG.from_facts(results, SONGS.rename(columns={"artist": "beat"}), **options, categories="beat")
    with pytest.raises(UserError, match="are columns of the attributes, of which none are given"):
        NumericKG.from_facts(results, **{**options, "name": ()}, categories="artist")


@pytest.mark.parametrize(
    ("frame", "column", "message"),
    [
        (SONGS, "artists", "no column 'artists'; did you mean 'artist'"),
        (SONGS.assign(artist=None), "artist", "column 'artist' is empty"),
        (
            SONGS.rename(columns={"artist": "tempo_comp"}),
            "tempo_comp",
            "is a relation of the comparisons, too",
        ),
        (
            SONGS.assign(song=["key: 0", *SONGS["song"][1:]]),
            "key",
            "key: 0 would be a value of 'key' and is an",
        ),
    ],
)
def test_mistakes(frame: pd.DataFrame, column: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        NumericKG.from_table(frame, name="song", relations="tempo", categories=column)
    assert message in str(caught.value)
