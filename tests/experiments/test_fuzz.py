"""Changed inputs for every reader: a small part of what `python -m experiments.fuzz` tries."""

import gzip
import hashlib
import json
import os
import random
import re
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.fuzzing.mutation import mutated
from experiments.fuzzing.readers import N_TRIPLES, READERS, SHEET, parquet_of, xlsx_of, zip_of
from experiments.fuzzing.watch import Finding, Reader, check
from numcoke_jax.cli.commands import run_command
from numcoke_jax.cli.main import main
from numcoke_jax.config.files import stored_config
from numcoke_jax.data.files import packed
from numcoke_jax.data.files.folder import inspect_folder, read_folder
from numcoke_jax.data.files.ids import read_ids
from numcoke_jax.data.files.rdf import read_rdf
from numcoke_jax.data.tables.cells import read_table
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import MANIFEST, damage, read_json, seal
from tests.graph_folders import make_folder

INPUTS = 12  # for each reader
SMALL = 1 << 20  # bytes that are read however far they unpack, in these tests
BOMB = "it unpacks to over 100 times its size"


@pytest.mark.parametrize("name", READERS)
def test_no_reader_answers_a_changed_input_with_more_than_a_line(name: str, tmp_path: Path) -> None:
    reader, draw = READERS[name], random.Random(name)
    inputs = [*reader.seeds, *(mutated(reader.seeds, draw) for _ in range(INPUTS))]
    found = {data: finding for data in inputs if (finding := check(reader, data, tmp_path / "case"))}
    assert not found


# The harness notices what it is for.


def _raises(folder: Path, data: bytes) -> int:
    raise KeyError(data.decode())


def _warns(folder: Path, data: bytes) -> int:
    warnings.warn("odd", UserWarning, stacklevel=1)
    return 0


def _leaves_a_file(folder: Path, data: bytes) -> int:
    (folder.parent / "left").write_bytes(data)
    return 0


def _links(folder: Path, data: bytes) -> int:
    os.symlink(folder, folder.parent / "link")
    return 0


def _says_no_place(folder: Path, data: bytes) -> int:
    raise UserError("it is wrong")


def _fills_memory(folder: Path, data: bytes) -> int:
    return len(b"x" * (200 << 20)) and 0


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (_raises, "KeyError at "),
        (_warns, "UserWarning at "),
        (_leaves_a_file, "written outside"),
        (_links, "written outside"),
        (_says_no_place, "no place: error: it is wrong"),
        (_fills_memory, "memory"),
        (lambda folder, data: 3, "exit code 3"),
    ],
)
def test_the_harness_finds(action, kind: str, tmp_path: Path) -> None:
    finding = check(Reader("x", (b"",), action, "table"), b"odd", tmp_path / "case")
    assert isinstance(finding, Finding) and re.match(kind, finding.kind)
    assert check(Reader("x", (b"",), lambda folder, data: 0), b"", tmp_path / "case") is None


# What it has found.


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if only `SMALL` bytes were always unpacked, which are made sooner than the real number."""
    monkeypatch.setattr(packed, "ALWAYS_UNPACKED", SMALL)


def bomb(name: str) -> bytes:
    """Some kilobytes that stand for more than a machine should read."""
    rows = b"name,mass\n" + b"a,1\n" * (SMALL // 3)
    if name.endswith(".gz"):
        return gzip.compress(rows, 1)
    if name.endswith(".zip"):
        return zip_of({"a.csv": rows})
    if name.endswith(".parquet"):
        return parquet_of({"name": pa.nulls(SMALL // 8 + 1, pa.string())})
    if name == "far.xlsx":  # one cell, at the end of the last row
        far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
        return xlsx_of(SHEET.replace(b"</sheetData>", far))
    return xlsx_of(SHEET.replace(b"</sheetData>", b"<row/>" * (SMALL // 5) + b"</sheetData>"))


@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize("name", ["a.csv.gz", "a.zip", "a.parquet", "far.xlsx", "long.xlsx"])
def test_a_table_made_to_fill_the_memory_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(bomb(name))
    with pytest.raises(UserError, match=f"{name}: .*{BOMB}.*if it is yours, unpack it"):
        read_table(tmp_path / name)


@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize("packing", ["gz", "zip"])
def test_facts_made_to_fill_the_memory_are_refused(packing: str, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "graph", test=None)
    blank = b"\n" * (SMALL + 1)
    (folder / f"test.txt.{packing}").write_bytes(
        gzip.compress(blank, 1) if packing == "gz" else zip_of({"test.txt": blank})
    )
    with pytest.raises(UserError, match=f"test.txt.{packing}: cannot be read .{BOMB}"):
        read_folder(folder)


@pytest.mark.usefixtures("few_bytes")
def test_an_archive_of_a_graph_made_to_fill_the_memory_is_refused(tmp_path: Path) -> None:
    members = {f"{split}.txt": b"" for split in ("train", "valid", "test")}
    members["train.txt"] = b"\n" * (SMALL + 1)
    (tmp_path / "graph.zip").write_bytes(zip_of(members))
    with pytest.raises(UserError, match=f"graph.zip: train.txt: cannot be read .{BOMB}"):
        read_folder(tmp_path / "graph.zip")


@pytest.mark.usefixtures("few_bytes")
def test_a_statement_made_to_fill_the_memory_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph", reason="the optional reader of RDF is not installed")
    path = tmp_path / "a.nt.gz"
    path.write_bytes(gzip.compress(N_TRIPLES + b"\n" * (SMALL + 1), 1))
    with pytest.raises(UserError, match=f"a.nt.gz: cannot be read .{BOMB}"):
        read_rdf(path)


def test_a_text_of_a_parquet_file_is_kept_once(tmp_path: Path) -> None:
    long = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int32()), pa.array(["x" * 99, "y"]))
    pq.write_table(pa.table({"name": long, "mass": [1, 2, 3, 4]}), tmp_path / "a.parquet")
    names = read_table(tmp_path / "a.parquet").columns["name"]
    assert names == ["x" * 99, "y", None, "x" * 99] and names[0] is names[3]


@pytest.mark.parametrize("dates", ["days", "year"])
def test_literals_without_a_date_may_be_read_as_if_they_had_some(dates: str, tmp_path: Path) -> None:
    graph, report = read_folder(make_folder(tmp_path / "graph"), dates=dates)
    assert graph.observed.sum() == 2 and not report.literals_converted


def id_folder(folder: Path, entities: str, facts: str) -> Path:
    folder.mkdir()
    (folder / "entity2id.txt").write_text(entities)
    (folder / "relation2id.txt").write_text("near 0\n")
    for split in ("train", "valid", "test"):
        (folder / f"{split}2id.txt").write_text(facts if split == "train" else "")
    return folder


@pytest.mark.parametrize(
    ("entities", "facts", "said"),
    [
        (f"a {'1' * 5000}\nb 1\n", "0 1 0\n", "entity2id.txt:1: needs a name and an id"),
        ("a 9223372036854775808\nb 1\n", "0 1 0\n", "entity2id.txt:1: needs a name and an id"),
        ("a 0\nb\tc\t1\n", "0 1 0\n", "entity2id.txt:2: needs a name and an id"),
        ("a 0\nb 1\n", "0 1 0\n1\n", "train2id.txt:2: needs three ids, found 1"),  # was read as 1 1 1
        ("a 0\nb 1\n", "0 1 0\n0 +1 0\n", r"train2id.txt:2: needs three ids, found 0 \+1 0"),
        ("a 0\nb 1\n", "0 1 0\n0 1_0 0\n", "train2id.txt:2: needs three ids, found 0 1_0 0"),
        ("a 0\nb 1\n", f"{'1' * 5000}\n0 1 0\n", "train2id.txt:1: needs three ids, found 1111"),
    ],
)
def test_an_id_is_a_few_digits(entities: str, facts: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        read_ids(id_folder(tmp_path / "ids", entities, facts))


@pytest.mark.parametrize(
    ("listed", "wrong"),
    [
        (b"\xef" * 64 + b"  a", "a is damaged: its bytes are not those that were written"),
        (b"0" * 64 + b"  a\0b", r"a\x00b is missing"),
    ],
)
def test_a_manifest_may_hold_any_bytes(listed: bytes, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    seal(tmp_path)
    assert damage(tmp_path) is None
    body = listed + b"\n"
    last = f"{hashlib.sha256(body).hexdigest()}  {MANIFEST}\n".encode()
    (tmp_path / MANIFEST).write_bytes(body + last)
    assert damage(tmp_path) == wrong


@pytest.mark.parametrize("name", ["", "\0a.txt"])
def test_a_member_without_a_name_is_none(name: str, tmp_path: Path) -> None:
    """Python's own `ZipInfo.is_dir` fails at one."""
    with pytest.raises(UserError, match="valid.txt.zip: is a zip archive of 0 files, must be of 1"):
        folder = make_folder(tmp_path / "graph", valid=None)
        (folder / "valid.txt.zip").write_bytes(zip_of({name: b"a\tnear\tb\n"}))
        read_folder(folder)
    (tmp_path / "graph.zip").write_bytes(zip_of({name: b"", "train.txt": b"a\tnear\tb\n"}))
    graph, _ = inspect_folder(tmp_path / "graph.zip")
    assert graph is None


def test_a_name_that_no_file_can_hold_is_answered_with_the_table_it_is_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "rocks.csv"
    table.write_text('name,mass,kind\nkiln,9,"PK\x03\x04; hot"\nlamp,2,small\noven,5,big\n')
    words = ["data", "build", f"--table={table}", "--name=name", "--categories=kind"]
    assert main([*words, f"--out={tmp_path / 'made'}"]) == 2
    assert f"error: {table}: entity name " in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000])
def test_thousands_of_brackets_are_no_json(content: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(UserError, match="report.json is damaged: "):
        read_json(tmp_path / "report.json")


@pytest.mark.parametrize("key", ["a.b.c", "eval.sel.x", "train.epochs.", ".", ""])
def test_a_stored_key_with_any_dots_is_named(key: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"seed": 0, key: 1}))
    with pytest.raises(
        UserError, match=r"config\.json: .*is not a config key|config\.json: .*no such key|config\.json"
    ):
        stored_config(tmp_path / "config.json", lambda text: None)


def test_a_lack_of_memory_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> int:
        raise MemoryError("Unable to allocate 9 GiB")

    assert run_command(action) == 2
    assert capsys.readouterr().err == (
        "error: there is not enough memory (Unable to allocate 9 GiB); give it less to read\n"
    )
