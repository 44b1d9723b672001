"""Faults of many kinds in a folder: it loads to the right arrays, or one line says what is wrong."""

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path

import numpy as np
import pytest

from numcoke_jax.cli.main import main
from numcoke_jax.data.files.findings import GraphReport
from numcoke_jax.data.files.folder import read_folder
from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.system.errors import UserError

LITERALS = "literals/numerical_literals.txt"
TRAIN = "kiln\theavier\tlamp\nlamp\theavier\tmast\nmast\theavier\tnail\nkiln\tnear\tnail\n"
FILES = {
    "train.txt": TRAIN.encode(),
    "valid.txt": b"kiln\theavier\tmast\n",
    "test.txt": b"lamp\theavier\tnail\n",
    "neg.txt": b"nail\theavier\tkiln\n",
    LITERALS: b"kiln\tmass\t9\nlamp\tmass\t5\nmast\tmass\t2\nnail\tmass\t0\n",
}


def make_folder(path: Path, changes: dict[str, bytes | None]) -> Path:
    (path / "literals").mkdir(parents=True)
    for name, content in (FILES | changes).items():
        if content is not None:
            (path / name).write_bytes(content)
    return path


def loaded(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[NumericGraph, GraphReport]:
    """The graph, after the check command has agreed that there is no error."""
    assert main(["data", "check", str(path), "--json"]) == 0
    assert capsys.readouterr().err == ""
    return read_folder(path)


def refusal(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a refused folder, after the check command has refused it too and in one line."""
    code = main(["data", "check", str(path)])
    captured = capsys.readouterr()
    assert (code, captured.err) == (1, "") or (code == 2 and captured.err.count("\n") == 1)
    with pytest.raises(UserError) as raised:
        read_folder(path)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def zip_of(members: list[tuple[str, bytes]]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return packed.getvalue()


# The same four training facts, whatever the line ends, marks and packing.


@pytest.mark.parametrize(
    "train",
    [
        TRAIN.replace("\n", "\r"),
        TRAIN.replace("\n", "\r\r\n"),
        TRAIN.replace("\n", "\r\n", 1).replace("mast\n", "mast\r", 1).rstrip("\n"),
        "\ufeff\n\n" + TRAIN.replace("\n", "\n\ufeff"),
        TRAIN + "\n \t\t\n\u00a0\n",
        gzip.compress(TRAIN.encode()),
        gzip.compress(TRAIN[:30].encode()) + gzip.compress(TRAIN[30:].encode()),
        zip_of([("any name", TRAIN.encode()), ("__MACOSX/._any name", b"\0")]),
        "head\trelation\ttail\n" + TRAIN,
        "\n\ufeffSubject ID\tPredicate\tObject ID\n" + TRAIN,
        ":START_ID\t:TYPE\t:END_ID\n" + TRAIN,
        "subjectLabel\tpredicateLabel\tobjectLabel\n" + TRAIN,
        "?s\t?p\t?o\n" + TRAIN,
        "node_1\tedge\tnode_2\n" + TRAIN,
        "entity\trelation\tentity\n" + TRAIN,
        "head\trelation\ttail\n" + TRAIN + "head\trelation\ttail\n" + TRAIN.splitlines()[0],
    ],
)
def test_forms_of_one_file(train: str | bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, _ = read_folder(make_folder(tmp_path / "plain", {}))
    content = train if isinstance(train, bytes) else train.encode()
    graph, _ = loaded(make_folder(tmp_path / "changed", {"train.txt": content}), capsys)
    assert graph.vocabulary == plain.vocabulary
    np.testing.assert_array_equal(graph.train, plain.train)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (
            TRAIN.encode("utf-16"),
            "train.txt: is UTF-16, expected UTF-8; convert it: iconv -f UTF-16 -t UTF-8",
        ),
        (
            TRAIN.encode("utf-32"),
            "train.txt: is UTF-32, expected UTF-8; convert it: iconv -f UTF-32 -t UTF-8",
        ),
        (TRAIN.encode("utf-16-le"), "train.txt:1: holds a NUL character"),
        ("a\tr\tlämp\n".encode("latin-1"), "train.txt:1: byte 0xe4 at byte 6 is not UTF-8; save the file"),
        (b"a\tr\tb\nc\tr\td\xc3", "train.txt:2: byte 0xc3 at byte 6 is not UTF-8"),
        (b"a\tr\tb\nc\tr\t\xed\xa0\x80\n", "train.txt:2: byte 0xed at byte 5 is not UTF-8"),
        (
            b"a\tr\tb\t\nc\tr\td\n",
            "train.txt:1: expected 3 tab-separated fields, found 4; some lines end in an e",
        ),
        (
            b"a\t\tr\t\tb\n",
            "train.txt:1: expected 3 tab-separated fields, found 5; some fields are empty or se",
        ),
        (
            b"\ta\tr\tb\n",
            "train.txt:1: expected 3 tab-separated fields, found 4; some fields are empty or se",
        ),
        (b"a\tr\tb\t0.7\n", "found 4; each line needs head <tab> relation <tab> tail and nothing else"),
        (
            b"a\tr\n",
            "train.txt:1: expected 3 tab-separated fields, found 2; each line needs head <tab> relatio",
        ),
        (b"a;r;b\n", "separated by another character; separate them by single tabs"),
        (b"a\\tr\\tb\n", "separated by another character; separate them by single tabs"),
        (b"<a> <r> <b> .\n", "separated by spaces; separate them by single tabs"),
        (
            b"2\n0 1 0\n1 0 0\n",
            "a line with the number of lines is not read; remove it; the fields seem to be se",
        ),
        (
            b"# facts\na\tr\tb\n",
            "train.txt:1: expected 3 tab-separated fields, found 1; comments are not read",
        ),
        (b"a\tr\tb\n\x1a", "train.txt:2: expected 3 tab-separated fields, found 1"),
        (b"", "train.txt holds no facts: training needs at least one"),
        (b"s\tp\to\n", "train.txt holds no facts: training needs at least one"),
        (
            b"from\tto\ttype\na\tb\tr\n",
            "its header names the columns from, to, type; write them as head, relati",
        ),
        (gzip.compress(b"a\tr\tb\n")[:-4], "train.txt: the compressed data are damaged or cut short"),
        (gzip.compress(gzip.compress(b"a\tr\tb\n")), "train.txt: is packed twice; unpack it once"),
        (bz2.compress(b"a\tr\tb\n"), "train.txt: is packed by bzip2, which is not read; unpack it"),
        (lzma.compress(b"a\tr\tb\n"), "train.txt: is packed by xz, which is not read; unpack it"),
        (
            zip_of([("a", b"a\tr\tb\n"), ("b", b"")]),
            "train.txt: is a zip archive of 2 files, must be of 1; unpa",
        ),
        (
            zip_of([("a", b"a\tr\tb\n")])[:-9],
            "train.txt: the compressed data are damaged or cut short (File is",
        ),
    ],
)
def test_refused_files(
    train: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(make_folder(tmp_path / "graph", {"train.txt": train}), capsys)
    assert line.startswith(f"{tmp_path}/graph: train.txt")
    assert message in line


def test_what_may_be_a_header_but_need_not_be_stays_with_a_notice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, report = loaded(
        make_folder(tmp_path / "first", {"train.txt": b"kopf\tkante\tende\n" + TRAIN.encode()}), capsys
    )
    assert len(graph.train) == 5
    expected = "train.txt: no name of its first row (kopf, kante, ende) is used elsewhere; remove the row if"
    assert any(note.startswith(expected) for note in report.source_notes)
    graph, report = loaded(
        make_folder(tmp_path / "inside", {"train.txt": TRAIN.encode() + b"\nHead\tRelation\tTail\n"}), capsys
    )
    assert len(graph.train) == 5
    expected = "train.txt:6: looks like a header, kept as a fact; remove the line if it is one"
    assert expected in report.source_notes


def test_a_header_that_joined_files_repeat_is_skipped_and_counted(tmp_path: Path) -> None:
    once = "h\tr\tt\n" + TRAIN
    _, report = read_folder(make_folder(tmp_path / "graph", {"train.txt": (once * 3).encode()}))
    assert "header row skipped in train.txt" in report.source_notes
    assert "train.txt: 2 rows further down skipped: the header again" in report.source_notes


def test_names_that_one_split_quotes_and_another_does_not_are_told(tmp_path: Path) -> None:
    quoted = "".join('"' + line.replace("\t", '"\t"') + '"\n' for line in TRAIN.splitlines())
    _, report = read_folder(make_folder(tmp_path / "graph", {"train.txt": quoted.encode()}))
    expected = "4 names would be known but for quotes, brackets, case or underscores: 'kiln' / '\"kiln\"'"
    assert any(warning.startswith(expected) for warning in report.warnings())


# Literals: one value of four, in forms that mean a number or none.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("１２．５", 12.5),  # full-width point, as a Japanese keyboard writes it
        ("－５", -5.0),
        ("٣٫٥", 3.5),  # Arabic-Indic digits with their decimal point
        ("+5", 5.0),
        (" 5\u00a0", 5.0),
        ("5^^xsd:integer", 5.0),
        ("'5'^^xs:decimal", 5.0),
        ("5.5^^<http://www.w3.org/2001/XMLSchema#double>", 5.5),
    ],
)
def test_forms_of_numbers(
    text: str, value: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, _ = loaded(make_folder(tmp_path / "graph", {LITERALS: f"lamp\tmass\t{text}\n".encode()}), capsys)
    assert graph.values[graph.vocabulary.entities.index("lamp"), 0] == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'': empty"),
        ("\u00a0", "empty"),
        ("0x10", "0x10: a hexadecimal number"),
        ("--5", "--5: not a number"),
        ("5 kg", "5 kg: a number with a unit"),
        ("12/31/2020", "12/31/2020: a date"),
        ("12:30", "12:30: a time"),
        ("1,234", "1,234: a number with thousands separators"),
        ("1.234,5", "1.234,5: a number with thousands separators"),
        ("1٬234", "thousands separators"),
        ("1e400", "1e400: beyond the range of float64"),
        ('"5"^^<http://dbpedia.org/datatype/kilogram>', "type kilogram is not numeric"),
        ("5^^xsd:date", "type date is not numeric"),
        ("value", "value: not a number"),
    ],
)
def test_refused_values_name_the_line_and_can_be_left_out(
    text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = f"kiln\tmass\t9\n\nlamp\tmass\t{text}\n".encode()
    folder = make_folder(tmp_path / "graph", {LITERALS: content})
    line = refusal(folder, capsys)
    assert f"{LITERALS}:3:" in line
    assert reason in line
    assert "--data.bad_values=missing" in line
    graph, report = read_folder(folder, bad_values="missing")
    assert (int(graph.observed.sum()), report.literals_bad) == (1, 1)


@pytest.mark.parametrize("content", [b"kiln\t9\n", b"kiln\tmass\t9\tkg\n", b"kiln\tmass\t9\t.\n"])
def test_literals_of_two_or_four_columns(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(make_folder(tmp_path / "graph", {LITERALS: content}), capsys)
    assert f"{LITERALS}:1: expected 3 tab-separated fields, found " in line
    assert "each line needs entity <tab> field <tab> value and nothing else" in line


# Files and archives.


def test_literals_in_a_wrong_place_are_pointed_out(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "graph", {LITERALS: None})
    (folder / "literals").rename(folder / "Literals")
    _, report = read_folder(folder)
    assert f"Literals is not read: literals belong in {LITERALS}" in report.source_notes
    (folder / "Literals").rmdir()
    (folder / "literals").write_text("")
    _, report = read_folder(folder)
    assert f"literals is not read: literals belong in {LITERALS}" in report.source_notes


def test_links_are_followed_and_broken_ones_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_folder(tmp_path / "graph", {})
    (folder / "train.txt").rename(tmp_path / "elsewhere")
    (folder / "train.txt").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(folder)
    assert len(loaded(tmp_path / "link", capsys)[0].train) == 4
    (tmp_path / "elsewhere").unlink()
    assert "train.txt: cannot be read (No such file or directory)" in refusal(folder, capsys)


def test_paths_that_the_system_refuses_end_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "cannot be read (File name too long)" in refusal(tmp_path / ("a" * 5000), capsys)
    assert "no such folder" in refusal(Path("a\0b"), capsys)
    folder = make_folder(tmp_path / "graph", {name: None for name in ("train.txt", "valid.txt", "test.txt")})
    (folder / "Train.TXT").write_bytes(FILES["train.txt"])
    assert f"all missing; it holds Train.TXT, {LITERALS}, neg.txt" in refusal(folder, capsys)


MEMBERS = list(FILES.items())


@pytest.mark.parametrize(
    "members",
    [
        [(f"a/b/{name}", content) for name, content in MEMBERS],
        [("g\\" + name.replace("/", "\\"), content) for name, content in MEMBERS],
        [(f"g/{name}", content) for name, content in MEMBERS]
        + [("g/__MACOSX/train.txt", b"\0"), ("__MACOSX/g/._train.txt", b"\0"), ("g/junk", bytes(1 << 20))],
        [*MEMBERS, ("Train.txt", b"no graph"), ("TEST.TXT", b"\xff")],
        [*MEMBERS[1:], ("train.txt.gz", gzip.compress(MEMBERS[0][1]))],
        [*MEMBERS[1:], ("train.txt.zip", zip_of(MEMBERS[:1]))],
    ],
)
def test_archives_in_many_shapes(
    members: list[tuple[str, bytes]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "graph.zip").write_bytes(zip_of(members))
    graph, _ = loaded(tmp_path / "graph.zip", capsys)
    assert (len(graph.train), len(graph.valid), int(graph.observed.sum())) == (4, 1, 4)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_a_file_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graph.zip").write_bytes(zip_of([*MEMBERS, ("train.txt", b"x\ty\tz\n")]))
    assert "holds 'train.txt' twice; unpack it and give the folder" in refusal(tmp_path / "graph.zip", capsys)


def test_a_line_without_end_stops_the_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numcoke_jax.data.files.lines.BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr("numcoke_jax.data.files.lines.LONGEST_LINE_BYTES", 1 << 12)
    line = refusal(make_folder(tmp_path / "graph", {"train.txt": b"x" * (1 << 14)}), capsys)
    assert "train.txt: has a line of over 4,096 bytes: it is not a text file" in line
