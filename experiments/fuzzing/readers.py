"""Every way in which files and words of a user come into the program."""

import gzip
import hashlib
import io
import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.fuzzing.watch import Reader
from numcoke_jax.cli.pairs import read_pairs
from numcoke_jax.cli.parser import parse, parse_arguments
from numcoke_jax.cli.query_files import read_queries
from numcoke_jax.config.files import stored_config
from numcoke_jax.config.schema import default_config
from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.data.literals import LiteralScale
from numcoke_jax.data.tables.cells import read_table
from numcoke_jax.inference.names import Names
from numcoke_jax.inference.new_entities import read_facts, read_new_entities
from numcoke_jax.runs.compare import read_runs
from numcoke_jax.runs.logs import RunLog
from numcoke_jax.runs.stored import read_vocabulary, write_vocabulary
from numcoke_jax.runs.workdir import check_config_of, check_vocabulary_of, flat_config
from numcoke_jax.system.files import MANIFEST, damage, seal, write_json_atomically

FACTS = b"kiln\tnear\tlamp\nlamp\theavier\toven\nn\xc3\xa9e\tnear\tkiln\n"
LITERALS = (
    b'kiln\tmass\t900\nlamp\tmass\t-2.5e3\noven\tmass\t"12"^^xsd:int\nlamp\tborn\t1960-01-31\n'
    b"kiln\tborn\t-0044-03-15T12:00:00Z\noven\tborn\t1970\n"
)
TABLE = (
    b'name,mass,born,kind\nkiln,900,1960-01-31,"big, hot"\nlamp,2.5,1961-02-01,small\noven,,1970-12-31,big\n'
)
RESULTS = b"winner,loser,day,split\nkiln,lamp,2001-01-01,train\nlamp,oven,2001-01-02,valid\noven,kiln,,test\n"
N_TRIPLES = (
    b"<http://a/kiln> <http://a/near> <http://a/lamp> .\n"
    b'<http://a/kiln> <http://a/mass> "900"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
    b'<http://a/lamp> <http://a/label> "Lampe"@de .\n_:b <http://a/near> <http://a/lamp> .\n'
)
TURTLE = (
    b"@prefix a: <http://a/> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    b'a:kiln a:near a:lamp, a:oven ; a:mass 900, 1.5e3 ; a:born "1960"^^xsd:gYear .\n'
)
PACKED = {  # what a file of facts may be, by the first byte of an input
    0: lambda data: data,
    1: gzip.compress,
    2: lambda data: zip_of({"facts.txt": data}),
    3: lambda data: zip_of({name_in(data): FACTS, "b": data}),
}
WORDS = (
    b"train\ncars\n--model.dim=200\n--seed=1\n",
    b"train\ncars:paper\n--config.train.epochs=5\n--no-train.mixed\n--data.split=0.8,0.1,0.1\n",
    b"eval\n--workdir=run\n--eval.calibration=relation\n",
    b"predict\n--workdir=run\n--head=kiln\n--relation=near\n--top=3\n--known=mark\n",
    b"impute\n--workdir=run\n--entity=kiln\n--coverage=0.9\n",
    b"data\nbuild\n--table=cars\n--out=made\n--split=order:day\n--group-size=150\n",
    b"--mode=predict\n--flagfile=flags.txt\n--model.name=rotate\n",
    b"compare\na\nb\n--json\n",
)
REPORT = {
    "seed": 0,
    "best_epoch": 3,
    "seconds": 1.5,
    "complete": True,
    **{
        split: {"mrr": 0.5, "hits@1": 0.25, "hits@3": 0.5, "hits@10": 1.0, "mr": 3.0, "count": 4}
        for split in ("valid", "test")
    },
    "environment": {"data_sha256": "ab", "versions": {"jax": "1"}},
    "relations": {"near": {"mrr": 0.5, "count": 2}},
    "order": None,
}
VOCABULARY = Vocabulary(("kiln", "lamp", "oven"), ("heavier", "near"), ("born", "mass"))


def zip_of(members: dict[str, bytes]) -> bytes:
    """A zip archive, made at a fixed time."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name twice: from a NUL on it is cut off
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def name_in(data: bytes) -> str:
    """A name of a member of an archive that the first line of an input gives."""
    return data.split(b"\n", 1)[0].decode("latin-1")[:200] or "a"


def parquet_of(columns: dict[str, Any]) -> bytes:
    """A parquet file."""
    packed = io.BytesIO()
    pq.write_table(pa.table(columns), packed)
    return packed.getvalue()


def xlsx_of(sheet: bytes) -> bytes:
    """A workbook whose one sheet is this XML."""
    kind = b"http://schemas.openxmlformats.org"
    office, package = kind + b"/officeDocument/2006/relationships", kind + b"/package/2006/relationships"
    declaration = b'<?xml version="1.0"?>'
    spread = b"application/vnd.openxmlformats-officedocument.spreadsheetml."
    return zip_of(
        {
            "[Content_Types].xml": declaration
            + b'<Types xmlns="'
            + kind
            + b'/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxml'
            b'formats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="'
            + spread
            + b'sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="'
            + spread
            + b'worksheet+xml"/></Types>',
            "_rels/.rels": declaration
            + b'<Relationships xmlns="'
            + package
            + b'"><Relationship Id="r" Type="'
            + office
            + b'/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/_rels/workbook.xml.rels": declaration
            + b'<Relationships xmlns="'
            + package
            + b'"><Relationship Id="s" Type="'
            + office
            + b'/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
            "xl/workbook.xml": declaration
            + b'<workbook xmlns="'
            + kind
            + b'/spreadsheetml/2006/main" xmlns:r="'
            + office
            + b'"><sheets><sheet name="a" sheetId="1" r:id="s"/></sheets></workbook>',
            "xl/worksheets/sheet1.xml": sheet,
        }
    )


SHEET = (
    b'<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    b'<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>name</t></is></c><c r="B1" t="inlineStr"><is><t>'
    b'mass</t></is></c></row><row r="2"><c r="A2" t="inlineStr"><is><t>kiln</t></is></c><c r="B2"><v>900</v>'
    b'</c></row><row r="3"><c r="A3" t="inlineStr"><is><t>lamp</t></is></c><c r="B3" t="n"><v>2.5</v></c>'
    b"</row></sheetData></worksheet>"
)


def _command(*words: str | Path) -> int:
    """What a command answers that is asked in these words."""
    options = parse([str(word) for word in words])
    return options.run(options.checked(options))


def _written(folder: Path, **files: bytes) -> Path:
    """A folder with the good files of a graph, and these."""
    graph = folder / "graph"
    good = {
        "train.txt": FACTS,
        "valid.txt": b"",
        "test.txt": b"",
        "literals/numerical_literals.txt": LITERALS,
    }
    for name, content in (good | files).items():
        (graph / name).parent.mkdir(parents=True, exist_ok=True)
        (graph / name).write_bytes(content)
    return graph


def _check_triples(folder: Path, data: bytes) -> int:
    return _command("data", "check", _written(folder, **{"train.txt": data}), *_switch(data, "--json"))


def _check_literals(folder: Path, data: bytes) -> int:
    graph = _written(folder, **{"literals/numerical_literals.txt": data, "train.txt": FACTS})
    return _command("data", "check", graph, *_switch(data, "--dates=days"), "--bad-values=missing")


def _check_names(folder: Path, data: bytes) -> int:
    return _command("data", "check", _written(folder, **{"entities_without_facts.txt": data}))


def _check_packed(folder: Path, data: bytes) -> int:
    graph = _written(folder, **{"valid.txt.zip": PACKED[data[0] % len(PACKED) if data else 0](data[1:])})
    (graph / "valid.txt").unlink()
    return _command("data", "check", graph)


def _check_archive(folder: Path, data: bytes) -> int:
    """A zip archive of a graph: the input as it is, or names of members with their content behind =."""
    archive = folder / "graph.zip"
    if data.startswith(b"PK"):
        archive.write_bytes(data)
    else:
        rows = [line.partition(b"=") for line in data.split(b"\n\n") if line]
        archive.write_bytes(zip_of({name.decode("latin-1")[:200]: content for name, _, content in rows}))
    return _command("data", "check", archive)


def _switch(data: bytes, *flags: str) -> tuple[str, ...]:
    """The flags for half of the inputs."""
    return flags if sum(data[:64]) % 2 else ()


def _build(suffix: str, made: Callable[[bytes], bytes] = bytes) -> Callable[[Path, bytes], int]:
    def action(folder: Path, data: bytes) -> int:
        table = folder / f"table{suffix}"
        table.write_bytes(made(data))
        name = "index" if sum(data[:64]) % 3 else "name"
        flags = _switch(data, "--dates=days", "--parse=numbers", "--categories=kind")
        out = f"--out={folder / 'made'}"
        return _command("data", "build", f"--table={table}", f"--name={name}", out, *flags)

    return action


def _xlsx(data: bytes) -> bytes:
    return data if data.startswith(b"PK") else xlsx_of(data)


def _build_facts(folder: Path, data: bytes) -> int:
    facts, attributes = folder / "facts.csv", folder / "attributes.tsv"
    first, _, second = data.partition(b"\n\n")
    facts.write_bytes(first)
    attributes.write_bytes(second)
    ways = ("--split=order:day", "--split=column:split", "--split=0.5,0.25,0.25")
    flags = ["--head=winner", "--tail=loser", ways[sum(data[:64]) % 3], f"--out={folder / 'made'}"]
    flags += ["--relation-column=split"] if len(data) % 4 == 0 else ["--relation=beat"]
    if second:
        flags += [f"--attributes={attributes}", "--name=name", *_switch(data, "--parse=numbers")]
    return _command("data", "build", f"--facts={facts}", *flags)


def _rdf(folder: Path, data: bytes) -> int:
    suffix = ".nt" if data.startswith(b"<") else ".ttl.gz" if data.startswith(b"\x1f") else ".ttl"
    path = folder / f"graph{suffix}"
    path.write_bytes(data)
    flags = _switch(data, "--shorten=prefix", "--split-by=entity") if b"@" in data[:1] else ()
    return _command("data", "rdf", path, f"--out={folder / 'made'}", *flags[:1])


def _convert(folder: Path, data: bytes) -> int:
    """Names and ids of the files of other toolkits, one after the other, apart from empty lines."""
    ids = folder / "ids"
    ids.mkdir()
    entities, relations, train = (*data.split(b"\n\n"), b"", b"")[:3]
    names = ("entity2id.txt", "relation2id.txt", "{}2id.txt")
    if len(data) % 2:
        names = ("entity_ids.del", "relation_ids.del", "{}.del")
    for name, content in zip(names, (entities, relations, train), strict=True):
        (ids / name.format("train")).write_bytes(content)
    for split in ("valid", "test"):
        (ids / names[2].format(split)).write_bytes(b"0\n" if len(data) % 2 == 0 else b"")
    return _command("data", "convert", ids, f"--out={folder / 'made'}")


def _queries(folder: Path, data: bytes) -> int:
    path, names = folder / "queries.tsv", Names(VOCABULARY)
    path.write_bytes(data)
    for block in read_queries(path, names.entities, names.relations):
        assert block.shape[1] == 2 and block.max() < 3
    return 0


def _pairs(folder: Path, data: bytes) -> int:
    path = folder / ("pairs.csv" if b"," in data[:20] else "pairs.tsv")
    path.write_bytes(data)
    assert read_pairs(path, Names(VOCABULARY), "near" if len(data) % 2 else None).shape[1] == 3
    return 0


def _graph() -> NumericGraph:
    train = np.array([[0, 1, 1], [1, 0, 2]], np.int32)
    values, nothing = np.arange(6.0).reshape(3, 2), train[:0]
    return NumericGraph(VOCABULARY, train, nothing, nothing, nothing, values, np.ones((3, 2), bool))


def _scale() -> LiteralScale:
    return LiteralScale.fit(_graph(), "minmax")


def _new_entities(folder: Path, data: bytes) -> int:
    table, facts = folder / "new.csv", folder / "new.txt"
    first, _, second = data.partition(b"\n\n")
    table.write_bytes(first)
    facts.write_bytes(second)
    new, _ = read_new_entities(read_table(table), _graph(), "", read_facts(facts) if second else ())
    assert np.isfinite(new.values).all() and new.values.shape == new.observed.shape
    return 0


def _words(folder: Path, data: bytes) -> int:
    """Words of a command line, one on each line; those of paths that are not in the folder are left out."""
    text = data.decode("utf-8", "surrogateescape").replace("\0", "")
    words = [word for word in text.split("\n") if word and not word.startswith(("/", "~"))]
    (folder / "flags.txt").write_bytes(data[::2])
    before = os.getcwd()
    os.chdir(folder)
    try:
        parse_arguments(words)
    except SystemExit:  # --help
        return 0
    finally:
        os.chdir(before)
    return 0


def _finished_run(folder: Path, **files: bytes) -> Path:
    workdir = folder / "run"
    workdir.mkdir()
    write_json_atomically(workdir / "report.json", REPORT)
    write_json_atomically(workdir / "config.json", flat_config(default_config()))
    for name, content in files.items():
        (workdir / name).write_bytes(content)
    return workdir


def _report(folder: Path, data: bytes) -> int:
    workdir = _finished_run(folder, **{"report.json": data})
    read_runs([workdir])
    return _command("compare", workdir, *_switch(data, "--json"))


def _config(folder: Path, data: bytes) -> int:
    workdir = _finished_run(folder, **{"config.json": data})
    config = stored_config(workdir / "config.json", lambda text: None)
    check_config_of(workdir, config)
    return _command("compare", workdir)


def _vocabulary(folder: Path, data: bytes) -> int:
    path = folder / "vocabulary.json"
    path.write_bytes(data)
    vocabulary, _ = read_vocabulary(path)
    scale = _scale()
    check_vocabulary_of(folder, vocabulary, scale)
    return 0


def _log(folder: Path, data: bytes) -> int:
    (folder / "metrics.jsonl").write_bytes(data)
    log = RunLog(folder)
    log.truncate_after(5)
    log.close()
    return 0


def _sealed(folder: Path, data: bytes) -> int:
    """A sealed folder in which one file was changed: the manifest, or a file that it lists."""
    (folder / "state").mkdir()
    for name in ("run.json", "state/a"):
        (folder / name).write_bytes(name.encode())
    seal(folder)
    name = ("manifest.sha256", "run.json", "state/a")[len(data) % 3]
    good = (folder / name).read_bytes() == data
    (folder / name).write_bytes(data)
    if name == "manifest.sha256" and data.count(b"\n") > 2:  # one whose own checksum is right
        body = data.rsplit(b"\n", 2)[0] + b"\n"
        last = f"{hashlib.sha256(body).hexdigest()}  {MANIFEST}\n".encode()
        (folder / name).write_bytes(body + last)
        good = True
    assert good or damage(folder) is not None
    damage(folder)
    return 0


def _as_json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _vocabulary_seed() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.json"
        scale = _scale()
        write_vocabulary(path, VOCABULARY, scale.to_json())
        return path.read_bytes()


CELLS = {"name": ["kiln", "lamp", None], "mass": [900.0, 2.5, None], "born": pa.array([1, 2, 3], pa.date32())}
MEMBERS = b"train.txt=a\tr\tb\n\nvalid.txt=\n\ntest.txt=a\tr\tc\n\nliterals/numerical_literals.txt=a\tf\t1\n"
READERS = {
    reader.name: reader
    for reader in (
        Reader("triples", (FACTS, b"a,b,c\n", FACTS[:7]), _check_triples),
        Reader("literals", (LITERALS,), _check_literals),
        Reader("names", (b"kiln\nlamp\n", b"new one\n"), _check_names),
        Reader("packed", tuple(bytes([i]) + FACTS for i in range(4)), _check_packed),
        Reader(
            "archive",
            (MEMBERS, MEMBERS.replace(b"\n\n", b"\n\ndir/"), zip_of({"train.txt": FACTS})),
            _check_archive,
        ),
        Reader("csv", (TABLE, TABLE.replace(b",", b";")), _build(".csv"), "table.csv|--"),
        Reader("tsv", (TABLE.replace(b",", b"\t"),), _build(".tsv.gz"), "table.tsv|--"),
        Reader("xlsx", (SHEET, xlsx_of(SHEET)), _build(".xlsx", _xlsx), "table.xlsx|--"),
        Reader("parquet", (parquet_of(CELLS),), _build(".parquet"), "table.parquet|--"),
        Reader(
            "facts",
            (RESULTS, RESULTS + b"\n" + TABLE.replace(b",", b"\t")),
            _build_facts,
            "facts.csv|attributes.tsv|--",
        ),
        Reader("rdf", (N_TRIPLES, TURTLE, gzip.compress(TURTLE, mtime=0)), _rdf, "graph."),
        Reader(
            "ids",
            (b"2\nkiln 0\nlamp 1\n\n1\nnear 0\n\n1\n0 1 0\n", b"0\tkiln\n1\tlamp\n\n0\tnear\n\n0\t0\t1\n"),
            _convert,
            "2id|.del|/ids: ",
        ),
        Reader("queries", (b"kiln\tnear\nlamp\theavier\n",), _queries, "queries.tsv"),
        Reader("pairs", (b"kiln\tlamp\n", b"head,relation,tail\nkiln,near,lamp\n"), _pairs, "pairs"),
        Reader(
            "new", (b"name,mass\nnew,3\n\nnew\tnear\tkiln\n", b"name,born\nother,1e3\n"), _new_entities, "new"
        ),
        Reader("words", WORDS, _words),
        Reader("report", (_as_json(REPORT),), _report, "run"),
        Reader("config", (_as_json(flat_config(default_config())),), _config, "config.json|run"),
        Reader("vocabulary", (_vocabulary_seed(),), _vocabulary, "vocabulary.json"),
        Reader(
            "log",
            (b'{"step": 3, "epoch": 1, "kind": "train"}\n{"step": 9, "epoch": 2, "kind": "valid"}\n',),
            _log,
        ),
        Reader(
            "sealed",
            (b"run.json", b"state/a", b"0" * 64 + b"  run.json\n" + b"1" * 64 + b"  ../x\n\n"),
            _sealed,
        ),
    )
}
