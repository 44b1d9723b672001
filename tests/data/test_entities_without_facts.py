"""Entities that no fact mentions stay in a graph that is built from a table, and in its folder."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from numcoke_jax.cli.main import main
from numcoke_jax.data.files.folder import WITHOUT_FACTS, inspect_folder, read_folder, write_folder
from numcoke_jax.data.graph import entities_without_facts, graph_hash
from numcoke_jax.data.tables.comparisons import OWN_TABLE, compare
from numcoke_jax.data.tables.known import EntityTable
from numcoke_jax.system.errors import UserError

TABLE = "name,price,size\n" + "".join(f"p{i},{i},{10 - i}\n" for i in range(6)) + "free,,7\nbare,,\nñ,,1\n"


def build(folder: Path) -> Path:
    (folder / "t.csv").write_text(TABLE, encoding="utf-8")
    options = ("--name=name", "--relations=price", f"--out={folder / 'graph'}")
    assert main(["data", "build", f"--table={folder / 't.csv'}", *options]) == 0
    return folder / "graph"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    return build(tmp_path)


def test_a_table_loses_no_entity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three of nine rows have no price: all of them stay, with the sizes that two of them have."""
    built = build(tmp_path)
    said = capsys.readouterr().out
    assert "(9 of 9 entities" in said
    assert "in no fact: 3 entities (bare; free; ñ); they are kept, and ranked like any other" in said
    assert (built / WITHOUT_FACTS).read_text(encoding="utf-8") == "bare\nfree\nñ\n"
    graph, report = read_folder(built)
    assert graph.vocabulary.entities == ("bare", "free", *(f"p{i}" for i in range(6)), "ñ")
    size = graph.vocabulary.fields.index("size")
    assert graph.values[[1, 8], size].tolist() == [7.0, 1.0] and not graph.observed[0].any()
    assert entities_without_facts(graph).tolist() == [0, 1, 8]
    assert report.entities_without_facts == ("bare", "free", "ñ")
    assert not report.unseen_entities and not report.literals_unknown


def test_the_folder_is_read_back_as_it_was_written(built: Path, tmp_path: Path) -> None:
    graph, _ = read_folder(built)
    write_folder(graph, tmp_path / "again")
    assert graph_hash(read_folder(tmp_path / "again")[0]) == graph_hash(graph)
    (built / WITHOUT_FACTS).unlink()
    without, report = read_folder(built)  # as any folder whose literals name entities that are in no fact
    assert without.num_entities == 6 and report.unknown_literal_entities == ("free", "ñ")


def test_names_that_have_facts_may_be_listed_too(built: Path) -> None:
    before, _ = read_folder(built)
    (built / WITHOUT_FACTS).write_text("ñ\r\n\n free2\nfree\nbare\np1\np1\n", encoding="utf-8")
    graph, report = read_folder(built)
    assert set(graph.vocabulary.entities) - set(before.vocabulary.entities) == {" free2"}
    assert report.entities_without_facts == (" free2", "bare", "free", "ñ")
    assert report.padded_names == (" free2",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"free\nbare\tp1\n", "entities_without_facts.txt:2: needs one name, without tabs"),
        (b"free\n\xff\n", "entities_without_facts.txt:2: is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_malformed_line_is_named(built: Path, content: bytes, said: str) -> None:
    (built / WITHOUT_FACTS).write_bytes(content)
    assert said in inspect_folder(built)[1].errors[0]
    with pytest.raises(UserError, match="entities_without_facts.txt:2"):
        read_folder(built)


def test_a_name_that_differs_in_case_alone_is_told(built: Path) -> None:
    (built / WITHOUT_FACTS).write_text("P1\n", encoding="utf-8")
    assert read_folder(built)[1].near_misses == (("P1", "p1"),)


@pytest.mark.parametrize(("size", "kept"), [(0, 9), (9, 9), (20, 9), (4, 4)])
def test_what_a_drawn_group_leaves_out_stays_out(size: int, kept: int) -> None:
    """A group of 4 is a choice of entities; all of them are no choice."""
    names = tuple(f"e{i}" for i in range(9))
    values = np.arange(9.0)[:, None]
    table = EntityTable("t", names, ("x",), values, np.arange(9)[:, None] < 6)
    settings = dataclasses.replace(OWN_TABLE, groups="relation", group_size=size)
    assert compare(table, ("x",), settings).kept.sum() == kept
