"""Graphs written as folders: read back as they were, complete or absent."""

import os
import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numcoke_jax.data.files import folder as folder_module
from numcoke_jax.data.files.encode import encode_graph
from numcoke_jax.data.files.folder import read_folder, write_folder
from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.system.errors import UserError
from tests.graph_folders import assert_same_graph, make_folder

# Out and back in


def test_what_is_written_is_text_that_a_person_can_read(tmp_path: Path) -> None:
    graph, _ = read_folder(make_folder(tmp_path / "in"))
    write_folder(graph, tmp_path / "parent" / "out")
    out = tmp_path / "parent" / "out"
    written = {str(file.relative_to(out)): file.read_text() for file in out.rglob("*.txt")}
    assert written == {
        "train.txt": "kiln\tnear\tlamp\nlamp\tnear\toven\n",
        "valid.txt": "kiln\tnear\toven\n",
        "test.txt": "oven\tnear\tlamp\n",
        "neg.txt": "lamp\tnear\tkiln\n",
        "literals/numerical_literals.txt": "kiln\tmass\t900.0\nlamp\tmass\t2.0\n",
    }
    assert os.listdir(tmp_path / "parent") == ["out"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o755


@pytest.mark.parametrize("mask", [0o077, 0o002])
def test_who_may_read_a_written_folder_is_up_to_the_user(tmp_path: Path, mask: int) -> None:
    graph, _ = read_folder(make_folder(tmp_path / "in"))
    before = os.umask(mask)
    try:
        write_folder(graph, tmp_path / "out")
    finally:
        os.umask(before)
    for place in (tmp_path / "out", tmp_path / "out" / "literals"):
        assert stat.S_IMODE(place.stat().st_mode) == 0o777 & ~mask
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


def test_long_files_are_written_in_parts_without_seams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _ = read_folder(make_folder(tmp_path / "in"))
    monkeypatch.setattr(folder_module, "ROWS_WRITTEN_AT_ONCE", 1)
    write_folder(graph, tmp_path / "out")
    assert_same_graph(read_folder(tmp_path / "out")[0], graph)


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_nothing_is_overwritten(tmp_path: Path, kind: str) -> None:
    graph, _ = read_folder(make_folder(tmp_path / "in"))
    target = tmp_path / "out"
    if kind == "folder":
        target.mkdir()
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="exists already; give another folder, nothing is overwritten"):
        write_folder(graph, target)


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = read_folder(make_folder(tmp_path / "in"))

    def full_disk(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_module, "_write_rows", full_disk)
    with pytest.raises(UserError, match="out: cannot be written .No space left on device"):
        write_folder(graph, tmp_path / "out")
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize(
    "name", ["", " ", "\u00a0", "a\tb", "a\nb", "a\rb", "a\0b", "\ufeffa", "PK\x03\x04", "a\ud800"]
)
def test_names_that_cannot_be_stored_are_refused(tmp_path: Path, name: str) -> None:
    none = np.zeros((0, 3), np.int32)
    facts = np.array([[0, 0, 1]], np.int32)
    empty = (np.zeros((2, 0)), np.zeros((2, 0), bool))
    for entities, relations in (((name, "x"), ("r",)), (("x", "y"), (name,))):
        graph = NumericGraph(Vocabulary(entities, relations, ()), facts, none, none, none, *empty)
        with pytest.raises(UserError, match=r"name .* cannot be stored"):
            write_folder(graph, tmp_path / "out")
    assert os.listdir(tmp_path) == []


STORABLE = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0"), min_size=1, max_size=6)
    .filter(str.strip)
    .filter(lambda name: not name.startswith("\ufeff"))
)
HEADER_LIKE = st.sampled_from(["head", "relation", "tail", "h", "r", "t", "s", "p", "o", "nan", '"', "#"])
NAME = st.one_of(HEADER_LIKE, STORABLE)
FACTS = st.lists(st.tuples(NAME, NAME, NAME), max_size=5)


@settings(max_examples=60)
@given(
    train=FACTS.filter(bool),
    valid=FACTS,
    test=FACTS,
    negatives=FACTS,
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=6),
    fields=st.lists(NAME, min_size=6, max_size=6),
)
def test_any_names_and_floats_survive_the_way_out_and_back(
    tmp_path_factory: pytest.TempPathFactory,
    train: list[tuple[str, str, str]],
    valid: list[tuple[str, str, str]],
    test: list[tuple[str, str, str]],
    negatives: list[tuple[str, str, str]],
    values: list[float],
    fields: list[str],
) -> None:
    def table(facts: list[tuple[str, str, str]]) -> pa.Table:
        columns = [pa.array([fact[place] for fact in facts], pa.string()) for place in range(3)]
        return pa.table(columns, names=["head", "relation", "tail"])

    owners = [name for head, _, tail in train for name in (head, tail)]
    literals = pa.table(
        {
            "entity": pa.array([owners[row % len(owners)] for row in range(len(values))], pa.string()),
            "field": pa.array(fields[: len(values)], pa.string()),
            "value": pa.array(values, pa.float64()),
        }
    )
    # Negatives that name known things only, or they would be dropped before they are written.
    false_facts = [
        (a[0], b[1], c[2]) for a, b, c in zip(train, train[1:] + train[:1], train[::-1], strict=True)
    ]
    splits = {"train": table(train), "valid": table(valid), "test": table(test)}
    graph, _ = encode_graph(splits, table(false_facts + negatives), literals)
    out = tmp_path_factory.mktemp("round") / "out"
    write_folder(graph, out)
    again, report = read_folder(out)
    assert_same_graph(again, graph)
    assert report.errors == []
