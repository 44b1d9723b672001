"""Folders and zip archives: what is read, what is missing, headers, and the way out and back in."""

import gzip
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from numcoke_jax.data.files.folder import inspect_folder, read_folder
from numcoke_jax.data.files.lines import DataError
from numcoke_jax.data.graph import Vocabulary
from numcoke_jax.system.errors import UserError
from tests.graph_folders import GOOD, assert_same_graph, make_folder


def test_literals_are_read_where_litwd_has_them(tmp_path: Path) -> None:
    """In its own place a file of literals comes first."""
    make_folder(tmp_path, literals=None)
    (tmp_path / "numeric_literals.txt").write_text("kiln\tbuilt\t1970\n")
    graph, report = read_folder(str(tmp_path))
    assert graph.vocabulary.fields == ("built",) and graph.values[0, 0] == 1970
    assert not any("not read" in note for note in report.notices())
    make_folder(tmp_path)
    assert read_folder(str(tmp_path))[0].vocabulary.fields == ("mass",)


def test_a_folder_reads_to_sorted_names_and_arrays(tmp_path: Path) -> None:
    graph, report = read_folder(make_folder(tmp_path))
    assert graph.vocabulary == Vocabulary(("kiln", "lamp", "oven"), ("near",), ("mass",))
    np.testing.assert_array_equal(graph.train, [[0, 0, 1], [1, 0, 2]])
    np.testing.assert_array_equal(graph.valid, [[0, 0, 2]])
    np.testing.assert_array_equal(graph.test, [[2, 0, 1]])
    np.testing.assert_array_equal(graph.negatives, [[1, 0, 0]])
    np.testing.assert_array_equal(graph.values, [[900], [2], [0]])
    np.testing.assert_array_equal(graph.observed, [[True], [True], [False]])
    assert report.errors == []


def test_gz_and_zip_read_like_the_folder(tmp_path: Path) -> None:
    plain = make_folder(tmp_path / "plain")
    packed = tmp_path / "packed"
    for name, content in GOOD.items():
        (packed / name).parent.mkdir(parents=True, exist_ok=True)
        (packed / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    archives = {"": "root.zip", "some/where/": "deep.zip"}
    for start, archive_name in archives.items():
        with zipfile.ZipFile(tmp_path / archive_name, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in GOOD.items():
                archive.writestr(start + name, content)
            archive.writestr(f"__MACOSX/{start}._train.txt", "resource fork")
            archive.writestr("readme.md", "other files do not matter")
    expected, _ = read_folder(plain)
    for other in (packed, *(tmp_path / name for name in archives.values())):
        assert_same_graph(read_folder(other)[0], expected)


def test_a_plain_file_wins_over_its_gz_with_a_note(tmp_path: Path) -> None:
    make_folder(tmp_path)
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(b"x\ty\tz\n"))
    graph, report = read_folder(tmp_path)
    assert len(graph.train) == 2
    assert report.notices()[0] == "train.txt and train.txt.gz both exist: train.txt is read"


def test_optional_files_may_be_absent_or_empty(tmp_path: Path) -> None:
    make_folder(tmp_path / "absent", neg=None, literals=None)
    graph, report = read_folder(tmp_path / "absent")
    assert (graph.negatives.shape, graph.values.shape) == ((0, 3), (3, 0))
    assert report.source_notes == [
        "no neg.txt: no negatives are given",
        "no literals/numerical_literals.txt: the graph has no numeric fields",
    ]
    make_folder(tmp_path / "empty", neg="", literals="", valid="", test="\n")
    graph, report = read_folder(tmp_path / "empty")
    assert (graph.negatives.shape, graph.values.shape, graph.valid.shape) == ((0, 3), (2 + 1, 0), (0, 3))
    assert report.source_notes == [
        "valid.txt holds no facts: early stopping has nothing to go by",
        "test.txt holds no facts: nothing to rank",
        "literals/numerical_literals.txt holds no values: the graph has no numeric fields",
    ]


def test_every_missing_file_is_named_in_one_error(tmp_path: Path) -> None:
    make_folder(tmp_path, valid=None, test=None)
    with pytest.raises(
        DataError, match=r"missing valid\.txt, test\.txt: each is needed, as NAME, NAME\.gz or NAME\.zip"
    ):
        read_folder(tmp_path)


def test_files_under_other_names_are_pointed_out(tmp_path: Path) -> None:
    make_folder(tmp_path, valid=None, literals=None)
    (tmp_path / "dev.txt").write_text(GOOD["valid.txt"])
    with pytest.raises(DataError, match=r"the folder holds dev\.txt, neg\.txt, test\.txt, train\.txt"):
        read_folder(tmp_path)
    (tmp_path / "dev.txt").rename(tmp_path / "valid.txt")
    (tmp_path / "numerical_literals.txt").write_text("kiln\tmass\t1\n")
    _, report = read_folder(tmp_path)
    assert report.source_notes[1] == (
        "numerical_literals.txt is not read: literals belong in literals/numerical_literals.txt"
    )


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("train.txt", "valid.txt", "test.txt"):
            archive.writestr(name, "a\tr\tb\n")
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag in the header of train.txt,
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match=r"train\.txt: cannot be read \(.*encrypted, password required"):
        read_folder(path)


@pytest.mark.parametrize("train", ["", "\n \n", "head\trelation\ttail\n"])
def test_training_needs_facts(tmp_path: Path, train: str) -> None:
    with pytest.raises(DataError, match=r"train\.txt holds no facts: training needs at least one"):
        read_folder(make_folder(tmp_path, train=train))


def test_faults_of_all_files_come_in_one_error(tmp_path: Path) -> None:
    make_folder(tmp_path, train="a b c\n", valid=b"\xff\n", test=None, literals="kiln\tmass\theavy\n")
    with pytest.raises(DataError) as raised:
        read_folder(tmp_path)
    assert len(raised.value.problems) == 4
    for part in (f"{tmp_path}: ", "missing test.txt", "train.txt:1: expected 3", "valid.txt:1: byte 0xff"):
        assert part in str(raised.value)
    assert "literals/numerical_literals.txt:1:heavy: not a number" in str(raised.value)
    graph, report = inspect_folder(tmp_path)
    assert graph is None
    assert len(report.errors) == 4


def test_paths_that_hold_no_graph(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="no such folder; expected one with train.txt, valid.txt and test.txt"
    ):
        read_folder(tmp_path / "absent")
    with pytest.raises(UserError, match="no graph here, train.txt, valid.txt and test.txt are all missing"):
        read_folder(tmp_path)
    make_folder(tmp_path / "inner")
    with pytest.raises(UserError, match="did you mean .*inner"):
        read_folder(tmp_path)
    (tmp_path / "note").write_text("text")
    with pytest.raises(UserError, match="expected a folder or a zip archive of one"):
        read_folder(tmp_path / "note")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("one/train.txt", "a\tr\tb\n")
        archive.writestr("two/train.txt", "a\tr\tb\n")
    with pytest.raises(UserError, match=r"holds several graphs \('one', 'two'\)"):
        read_folder(tmp_path / "two.zip")


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    make_folder(tmp_path, train=None)
    (tmp_path / "train.txt").mkdir()
    with pytest.raises(UserError, match=r": train\.txt: is a folder; put a text file in its place"):
        read_folder(tmp_path)


def test_a_literals_folder_that_cannot_be_read_is_no_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph without numbers would train, and nothing would say why it ranks badly."""
    literals = make_folder(tmp_path) / "literals"
    if os.geteuid():
        literals.chmod(0)
    else:  # whom permissions do not keep out

        def listed(folder: Path, entries: Callable[[Path], Iterator[Path]] = Path.iterdir) -> Iterator[Path]:
            if folder == literals:
                raise PermissionError(13, "Permission denied")
            return entries(folder)

        monkeypatch.setattr(Path, "iterdir", listed)
    try:
        with pytest.raises(UserError, match=r"literals: cannot be read \(Permission denied\)$"):
            read_folder(tmp_path)
    finally:
        literals.chmod(0o700)


def test_a_link_to_no_literals_is_an_error_and_one_to_some_is_followed(tmp_path: Path) -> None:
    make_folder(tmp_path / "other")
    graph = make_folder(tmp_path / "graph", literals=None)
    (graph / "literals").symlink_to(tmp_path / "other" / "literals")
    assert read_folder(graph)[0].vocabulary.fields == ("mass",)
    (graph / "literals").unlink()
    (graph / "literals").symlink_to("gone")
    with pytest.raises(UserError, match="literals: is a link to gone, which does not exist; fix or remove"):
        read_folder(graph)
    (graph / "literals").unlink()
    (graph / "literals").symlink_to("literals")
    with pytest.raises(UserError, match="literals: cannot be read"):
        read_folder(graph)
    (graph / "literals").unlink()
    (graph / "literals").write_text("")
    assert read_folder(graph)[0].vocabulary.fields == ()


def test_a_damaged_member_of_an_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "graph.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("train.txt", "valid.txt", "test.txt"):
            archive.writestr(name, "".join(f"a{number}\tr\tb\n" for number in range(200)))
    content = bytearray(path.read_bytes())
    content[60:70] = bytes(10)
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"train\.txt: the compressed data are damaged or cut short"):
        read_folder(path)


# Headers


@pytest.mark.parametrize(
    "header",
    [
        "head\trelation\ttail",
        "Head\tRelation\tTail",
        "subject\tpredicate\tobject",
        "h\tr\tt",
        "s\tp\to",
        "source\tedge_type\ttarget",
        '"head"\t"relation"\t"tail"',
        "#head\trelation\ttail",
        "# subject\tpredicate\tobject ",
        "head_id\trelation id\ttail-id",
        "from\tlabel\tto",
    ],
)
def test_headers_are_skipped_with_a_note(tmp_path: Path, header: str) -> None:
    plain, _ = read_folder(make_folder(tmp_path / "plain"))
    names = ("train.txt", "valid.txt", "test.txt", "neg.txt")
    for files in (names, names[:1], names[3:]):
        path = tmp_path / "_".join(files)
        make_folder(path, **{name.removesuffix(".txt"): f"{header}\n{GOOD[name]}" for name in files})
        graph, report = read_folder(path)
        assert_same_graph(graph, plain)
        assert report.notices()[0] == f"header row skipped in {', '.join(sorted(files))}"


def test_a_header_in_words_that_nobody_knows_is_told_by_being_first_everywhere(tmp_path: Path) -> None:
    header = "kopf\tbeziehung\tschwanz\n"
    changes = {name: header + GOOD[f"{name}.txt"] for name in ("train", "valid", "test")}
    graph, report = read_folder(make_folder(tmp_path / "all", **changes))
    assert graph.vocabulary.entities == ("kiln", "lamp", "oven")
    assert report.notices()[0] == "header row skipped in test.txt, train.txt, valid.txt"
    graph, _ = read_folder(make_folder(tmp_path / "two", **(changes | {"valid": GOOD["valid.txt"]})))
    assert "kopf" in graph.vocabulary.entities  # two files in three could share a fact


@pytest.mark.parametrize(
    ("train", "valid"),
    [
        ("head\trelation\ttail\narm\trelation\thand\n", "arm\trelation\ttail\n"),  # its relation is used
        ("h\tr\tt\nt\ts\th\n", "h\ts\tt\n"),  # its entities are used
        ("a\tr\tb\n", "h\tr\tt\n"),  # a first row of valid whose relation train uses
    ],
)
def test_a_fact_that_looks_like_a_header_is_kept_with_a_note(tmp_path: Path, train: str, valid: str) -> None:
    path = make_folder(tmp_path, train=train, valid=valid, test="", neg=None, literals=None)
    graph, report = read_folder(path)
    assert len(graph.train) + len(graph.valid) == (train + valid).count("\n")
    text = "looks like a header, but other rows use its names: kept as a fact"
    assert any(text in notice for notice in report.notices())


def test_a_header_only_counts_in_the_first_row(tmp_path: Path) -> None:
    graph, _ = read_folder(make_folder(tmp_path, train=GOOD["train.txt"] + "head\trelation\ttail\n"))
    assert "head" in graph.vocabulary.entities


@pytest.mark.parametrize("header", ["head\ttail\trelation", "relation\thead\ttail", "s\to\tp"])
def test_a_header_in_another_order_is_an_error(tmp_path: Path, header: str) -> None:
    make_folder(tmp_path, train=f"{header}\n{GOOD['train.txt']}")
    names = header.replace("\t", ", ")
    with pytest.raises(
        DataError, match=f"train.txt: its header names the columns {names}; write them as head"
    ):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    "header", ["entity\tattribute\tvalue", "Entity\tField\tNumber", "id\tproperty\tval", "name\tmass\tvalue"]
)
def test_a_header_of_literals_is_skipped(tmp_path: Path, header: str) -> None:
    plain, _ = read_folder(make_folder(tmp_path / "plain"))
    literals = f"{header}\n{GOOD['literals/numerical_literals.txt']}"
    graph, report = read_folder(make_folder(tmp_path / "headed", literals=literals))
    assert_same_graph(graph, plain)
    assert report.source_notes == ["header row skipped in literals/numerical_literals.txt"]


def test_a_first_literal_that_is_no_number_and_no_header_is_an_error(tmp_path: Path) -> None:
    make_folder(tmp_path, literals="kiln\tmass\tunknown\nlamp\tmass\t2\n")
    with pytest.raises(DataError, match=r"literals/numerical_literals\.txt:1:unknown: not a number"):
        read_folder(tmp_path)


# Literals


def test_bad_values_are_listed_by_line_or_left_out_on_request(tmp_path: Path) -> None:
    make_folder(tmp_path, literals="\nkiln\tmass\t12 kg\n\nlamp\tmass\t2\noven\tmass\tnan\n")
    with pytest.raises(DataError) as raised:
        read_folder(tmp_path)
    assert str(raised.value) == (
        f"{tmp_path}: literals/numerical_literals.txt:2:12 kg: a number with a unit; "
        "literals/numerical_literals.txt:5:nan: not finite; "
        "write plain decimal numbers, or have these rows left out: "
        "--data.bad_values=missing (--bad-values=missing of numcoke data check)"
    )
    graph, report = read_folder(tmp_path, bad_values="missing")
    np.testing.assert_array_equal(graph.observed, [[False], [True], [False]])
    assert report.literals_bad == 2
    assert "literals: 2 values left out as missing: literals/numerical" in "\n".join(report.notices())
    with pytest.raises(ValueError, match="bad_values must be one of"):
        read_folder(tmp_path, bad_values="ignore")


def test_many_bad_values_are_counted(tmp_path: Path) -> None:
    make_folder(tmp_path, literals="".join(f"e{number}\tmass\tx\n" for number in range(1000)))
    with pytest.raises(
        DataError, match=r"numerical_literals\.txt:20:x: .*; \.\.\. \(1,000 bad values in all\)"
    ):
        read_folder(tmp_path)
