"""Id files of other toolkits: the same graph as its folder of names, and one line for every mistake."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from numcoke_jax.cli.main import main
from numcoke_jax.data.files.folder import inspect_folder, read_folder
from numcoke_jax.data.files.ids import read_ids
from numcoke_jax.data.graph import graph_hash
from numcoke_jax.system.errors import UserError

# Ids are no positions in the sorted names, a name has spaces, one is a number, and "alone" is in no fact.
ENTITIES = {0: "New York", 1: "7", 2: "Äa", 3: "b", 4: "alone"}
RELATIONS = {0: "near", 1: "is in"}
FACTS = {"train": [(0, 1, 2), (3, 0, 1), (2, 0, 0), (3, 1, 0)], "valid": [(1, 0, 3)], "test": [(2, 1, 3)]}
LITERALS = "New York\tsize\t8\nb\tsize\t2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The graph by names."""
    (tmp_path / "names" / "literals").mkdir(parents=True)
    for split, facts in FACTS.items():
        rows = (f"{ENTITIES[h]}\t{RELATIONS[r]}\t{ENTITIES[t]}\n" for h, r, t in facts)
        (tmp_path / "names" / f"{split}.txt").write_text("".join(rows))
    (tmp_path / "names" / "literals" / "numerical_literals.txt").write_text(LITERALS)
    (tmp_path / "names" / "entities_without_facts.txt").write_text("alone\n")
    return tmp_path / "names"


def write(path: Path, rows: list[str], *, counted: bool = True) -> None:
    path.write_text("".join(f"{row}\n" for row in ([str(len(rows))] if counted else []) + rows))


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    """The same graph as OpenKE writes it."""
    path = tmp_path / "ids"
    (path / "literals").mkdir(parents=True)
    write(path / "entity2id.txt", [f"{name}\t{number}" for number, name in ENTITIES.items()])
    write(path / "relation2id.txt", [f"{name} {number}" for number, name in RELATIONS.items()])
    for split, facts in FACTS.items():
        write(path / f"{split}2id.txt", [f"{h} {t} {r}" for h, r, t in facts])
    (path / "literals" / "numerical_literals.txt").write_text(LITERALS)
    return path


def test_openke_files_become_the_folder_of_names(ids: Path, folder: Path, capsys) -> None:
    out = folder.parent / "out"
    assert main(["data", "convert", str(ids), f"--out={out}"]) == 0
    told = capsys.readouterr().out
    assert (
        "ids as OpenKE writes them, each fact read as head, tail, relation: 5 entities, 2 relations" in told
    )
    assert "4 train, 1 valid, 1 test" in told and f"written: {out}" in told
    expected, _ = read_folder(folder)
    assert graph_hash(read_folder(out)[0]) == graph_hash(expected)
    assert "alone" in expected.vocabulary.entities


def test_files_without_counts_with_crlf_and_in_an_archive(ids: Path, folder: Path) -> None:
    for path in ids.glob("*2id.txt"):
        lines = path.read_text().splitlines()[1:]
        path.write_bytes("\r\n".join(lines).encode())
    expected = graph_hash(read_folder(folder)[0])
    assert graph_hash(read_ids(ids)[0]) == expected
    archive = shutil.make_archive(str(ids.parent / "packed"), "zip", ids.parent, ids.name)
    assert graph_hash(read_ids(archive)[0]) == expected


def test_libkge_files(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "libkge"
    (path / "literals").mkdir(parents=True)
    write(path / "entity_ids.del", [f"{i}\t{name}" for i, name in ENTITIES.items()], counted=False)
    write(path / "relation_ids.del", [f"{i}\t{name}" for i, name in RELATIONS.items()], counted=False)
    for split, facts in FACTS.items():
        write(path / f"{split}.del", ["\t".join(map(str, fact)) for fact in facts], counted=False)
    (path / "literals" / "numerical_literals.txt").write_text(LITERALS)
    assert graph_hash(read_ids(path)[0]) == graph_hash(read_folder(folder)[0])


def test_names_in_another_order(folder: Path) -> None:
    expected = graph_hash(read_folder(folder)[0])
    (folder / "entities_without_facts.txt").unlink()
    without = graph_hash(read_folder(folder)[0])
    assert without != expected
    for split in FACTS:
        rows = [line.split("\t") for line in (folder / f"{split}.txt").read_text().splitlines()]
        (folder / f"{split}.txt").write_text("".join(f"{h}\t{t}\t{r}\n" for h, r, t in rows))
    with pytest.raises(UserError, match="the facts are names, not ids: .* --order=head,tail,relation"):
        read_ids(folder)
    assert graph_hash(read_ids(folder, ("head", "tail", "relation"))[0]) == without


def test_the_other_order_of_ids_is_named(ids: Path, folder: Path) -> None:
    for split, facts in FACTS.items():
        write(ids / f"{split}2id.txt", [f"{h} {r} {t}" for h, r, t in facts])
    with pytest.raises(UserError) as caught:
        read_ids(ids)
    assert "train2id.txt:2: relation 2 (column 3) is none of the 2 ids of relations" in str(caught.value)
    assert "--order=head,relation,tail fits all rows" in str(caught.value)
    graph, _ = read_ids(ids, ("head", "relation", "tail"))
    assert graph_hash(graph) == graph_hash(read_folder(folder)[0])


def test_ids_in_train_txt_become_names_and_are_told_apart(ids: Path, folder: Path, capsys) -> None:
    """As forks of OpenKE write them; a folder of such files trains only where tabs separate them."""
    for split, facts in FACTS.items():
        (ids / f"{split}2id.txt").unlink()
        write(ids / f"{split}.txt", [f"{h} {r} {t}" for h, r, t in facts], counted=split == "test")
    assert graph_hash(read_ids(ids)[0]) == graph_hash(read_folder(folder)[0])
    said = f"the facts are ids: numcoke data convert {ids} --out=DIR writes them with their names"
    with pytest.raises(UserError) as caught:
        read_folder(ids)
    assert str(caught.value) == f"{ids}: {said}"
    for split, facts in FACTS.items():
        write(ids / f"{split}.txt", ["\t".join(map(str, fact)) for fact in facts], counted=False)
    assert read_folder(ids)[1].source_notes.count(said) == 1
    assert graph_hash(read_ids(ids)[0]) == graph_hash(read_folder(folder)[0])
    (ids / "relation2id.txt").unlink()
    with pytest.raises(
        UserError, match="relation2id.txt is missing: the facts are ids, and it has the name of"
    ):
        read_ids(ids)
    shutil.copy(folder / "train.txt", ids / "train.txt")
    assert said not in inspect_folder(ids)[1].source_notes[:1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train2id.txt", b"5\n0 2 1\n3 1 0\n", "train2id.txt: its first line counts 5 rows, it has 2"),
        ("train2id.txt", b"2\n0 2 1\n3 1\n", "train2id.txt:3: needs three ids, found 3 1"),
        ("train2id.txt", b"2\n0 2 1\n3 b 0\n", "train2id.txt:3: needs three ids, found 3 b 0"),
        ("train2id.txt", b"1\n9 2 1\n", "train2id.txt:2: head 9 (column 1) is none of the 5 ids of entities"),
        ("train2id.txt", b"1\n-1 2 1\n", "train2id.txt:2: head -1"),
        ("train2id.txt", b"99999999999999999999 1 0\n", "train2id.txt:1: needs three ids"),
        ("train2id.txt", b"0\n", "train2id.txt holds no facts: training needs at least one"),
        (
            "valid2id.txt",
            None,
            "valid2id.txt is missing, it is needed, and may be empty; there are entity2id.txt",
        ),
        ("relation2id.txt", None, "relation2id.txt is missing"),
        ("entity2id.txt", b"a\t0\nb\n", "entity2id.txt:2: needs a name and an id, found b"),
        ("entity2id.txt", b"a\t0\nb\t0\n", "entity2id.txt:2: the id 0 is there already"),
        ("entity2id.txt", b"a\t0\na\t1\n", "entity2id.txt:2: the name a is there already"),
        ("entity2id.txt", b"a\t0\n\xe9\t1\n", "entity2id.txt:2: byte 0xe9 is not UTF-8"),
        ("literals/numerical_literals.txt", b"b\tsize\tbig\n", "numerical_literals.txt:1:big: not a number"),
    ],
)
def test_mistakes_are_one_line_with_their_place(
    ids: Path, name: str, content: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (ids / name).unlink() if content is None else (ids / name).write_bytes(content)
    out = ids.parent / "out"
    assert main(["data", "convert", str(ids), f"--out={out}"]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not out.exists()


def test_nothing_is_overwritten_and_nothing_half_written(ids: Path, capsys) -> None:
    out = ids.parent / "out"
    out.mkdir()
    assert main(["data", "convert", str(ids), f"--out={out}"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert list(out.iterdir()) == []


def test_training_names_the_command_that_converts(ids: Path, capsys) -> None:
    assert main(["data", "check", str(ids)]) == 2
    assert f"numcoke data convert {ids} --out=DIR writes them with their names" in capsys.readouterr().err
    empty = ids.parent / "empty"
    empty.mkdir()
    assert main(["data", "convert", str(empty), f"--out={ids.parent / 'x'}"]) == 2
    assert (
        "no graph here, train2id.txt and train.del and train.txt are all missing" in capsys.readouterr().err
    )
    assert main(["data", "convert", str(ids.parent / "absent"), f"--out={ids.parent / 'x'}"]) == 2
    assert "expected one with train2id.txt or train.del or train.txt" in capsys.readouterr().err


def test_ids_may_have_gaps(ids: Path) -> None:
    write(ids / "entity2id.txt", [f"{name}\t{10 * number}" for number, name in ENTITIES.items()])
    for split, facts in FACTS.items():
        write(ids / f"{split}2id.txt", [f"{10 * h} {10 * t} {r}" for h, r, t in facts])
    graph, _ = read_ids(ids)
    heads = np.array(graph.vocabulary.entities)[graph.split("test")[:, 0]]
    assert heads.tolist() == ["Äa"]
