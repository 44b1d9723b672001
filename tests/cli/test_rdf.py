"""RDF files to folders: which statements become what, short names, splits, faults, the command."""

import builtins
import collections
import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from numcoke_jax.cli.main import main
from numcoke_jax.cli.rdf import build_rdf_graph, split_by_relation
from numcoke_jax.data.files import rdf as rdf_statements
from numcoke_jax.data.files.folder import read_folder
from numcoke_jax.data.files.rdf import read_rdf
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.system.errors import UserError

needs_pyoxigraph = pytest.mark.skipif(
    importlib.util.find_spec("pyoxigraph") is None, reason="pyoxigraph, of the extra rdf, is not installed"
)

XSD = "http://www.w3.org/2001/XMLSchema#"
EX = "http://example.org/"


def statement(subject: str, predicate: str, value: str) -> str:
    return f"<{EX}{subject}> <{EX}{predicate}> {value} .\n"


def typed(text: str, name: str) -> str:
    return f'"{text}"^^<{XSD}{name}>'


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def facts_of(content) -> list[tuple[str, str, str]]:
    return [
        (content.entities[head], content.relations[relation], content.entities[tail])
        for head, relation, tail in content.facts.tolist()
    ]


def literals_of(content) -> list[tuple[str, str, float]]:
    columns = (content.literal_entities, content.literal_fields, content.literal_values)
    return [
        (content.entities[entity], content.fields[field], value)
        for entity, field, value in zip(*(column.tolist() for column in columns), strict=True)
    ]


@needs_pyoxigraph
def test_statements_of_n_triples(tmp_path):
    lines = [
        "# a comment\n\n",
        statement("a", "knows", f"<{EX}b>"),
        statement("b", "knows", f"<{EX}a>"),
        statement("a", "age", typed("41", "integer")),
        statement("b", "height", typed("1.5e0", "double")),
        statement("c", "since", typed("1960", "gYear")),
        statement("a", "name", '"Anna"'),
        statement("a", "name", '"Anna"@de'),
        statement("a", "code", '"41"'),  # a text that looks like a number stays a text
    ]
    content = read_rdf(write(tmp_path, "x.nt", "".join(lines)))
    a, b, c = EX + "a", EX + "b", EX + "c"
    assert facts_of(content) == [(a, EX + "knows", b), (b, EX + "knows", a)]
    assert literals_of(content) == [(a, EX + "age", 41.0), (b, EX + "height", 1.5), (c, EX + "since", 1960.0)]
    assert content.left_out == {"texts": 2, "texts with a language": 1}
    assert content.describe() == (
        "read 2 facts, 3 numeric values; left out 3 statements (texts: 2, texts with a language: 1)"
    )


TURTLE = f"""\
@prefix ex: <{EX}> .
@prefix xsd: <{XSD}> .
ex:a a ex:Person ; ex:knows ex:b , [ ex:age 7 ] ; ex:age 41 ; ex:height 1.5 ; ex:mass 7.1e1 ;
    ex:born "1960-01-01"^^xsd:date ; ex:alive true ; ex:speed "3"^^<http://example.org/kmh> ;
    ex:list ( 1 2 ) ; ex:code "1"^^xsd:hexBinary .
<< ex:a ex:knows ex:b >> ex:since 1990 .
ex:b ex:says <<( ex:a ex:knows ex:b )>> .
"""


@needs_pyoxigraph
def test_statements_of_turtle(tmp_path):
    content = read_rdf(write(tmp_path, "x.ttl", TURTLE))
    a, b = EX + "a", EX + "b"
    assert facts_of(content) == [
        (a, "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", EX + "Person"),
        (a, EX + "knows", b),
    ]
    assert literals_of(content) == [(a, EX + "age", 41.0), (a, EX + "height", 1.5), (a, EX + "mass", 71.0)]
    # With a blank node: two of [...], five of the list, and two of the triple that << >> names.
    assert content.left_out == {
        "with a blank node": 9,
        "xsd:date": 1,
        "xsd:boolean": 1,
        "<http://example.org/kmh>": 1,
        "xsd:hexBinary": 1,
        "quoted triples": 1,
    }
    assert content.prefixes == {"ex": EX, "xsd": XSD}


INTEGER_LIKE = ("integer", "int", "long", "short", "byte", "nonNegativeInteger", "unsignedLong", "gYear")


@needs_pyoxigraph
@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        *((" 12 ", name, 12.0) for name in INTEGER_LIKE),
        ("-5", "negativeInteger", -5.0),
        ("+007", "integer", 7.0),
        ("12345678901234567890123", "integer", 12345678901234567890123.0),
        ("0.1", "decimal", 0.1),
        (".5", "decimal", 0.5),
        ("-0.0", "double", 0.0),
        ("1E-3", "float", 0.001),
        ("1.0", "integer", "xsd:integer (not of type integer)"),
        ("-128", "byte", -128.0),
        ("128", "byte", "xsd:byte (outside the range of byte)"),
        ("255", "unsignedByte", 255.0),
        ("-1", "unsignedInt", "xsd:unsignedInt (outside the range of unsignedInt)"),
        ("9223372036854775808", "long", "xsd:long (outside the range of long)"),
        ("0", "positiveInteger", "xsd:positiveInteger (outside the range of positiveInteger)"),
        ("-1", "nonNegativeInteger", "xsd:nonNegativeInteger (outside the range of nonNegativeInteger)"),
        ("1", "nonPositiveInteger", "xsd:nonPositiveInteger (outside the range of nonPositiveInteger)"),
        ("9" * 5000, "byte", "xsd:byte (outside the range of byte)"),
        ("9" * 5000, "positiveInteger", "xsd:positiveInteger (beyond the range of float64)"),
        ("3e38", "float", 3e38),
        ("-1e39", "float", "xsd:float (outside the range of float)"),
        ("1960Z", "gYear", 1960.0),
        ("-0044+01:00", "gYear", -44.0),
        ("1960Z", "integer", "xsd:integer (not of type integer)"),
        ("1960+1", "gYear", "xsd:gYear (not of type gYear)"),
        ("twelve", "integer", "xsd:integer (not of type integer)"),
        ("", "decimal", "xsd:decimal (empty)"),
        ("NaN", "double", "xsd:double (not finite)"),
        ("-INF", "float", "xsd:float (not finite)"),
        ("1e400", "double", "xsd:double (beyond the range of float64)"),
        ("1e-400", "double", "xsd:double (not zero, but too small for float64)"),
        ("1,5", "decimal", "xsd:decimal (a decimal comma)"),
        ("true", "boolean", "xsd:boolean"),
        ("1", "boolean", "xsd:boolean"),
        ("2020-01-01T00:00:00Z", "dateTime", "xsd:dateTime"),
        ("P1D", "duration", "xsd:duration"),
        ("5", "string", "texts"),
    ],
)
def test_each_type_has_one_policy(tmp_path, text, name, value):
    content = read_rdf(write(tmp_path, "x.nt", statement("a", "p", typed(text, name))))
    if isinstance(value, str):
        assert (literals_of(content), content.left_out) == ([], {value: 1})
    else:
        assert (literals_of(content), content.left_out) == ([(EX + "a", EX + "p", value)], {})
        assert not np.signbit(content.literal_values[0]) or value < 0


@needs_pyoxigraph
@pytest.mark.parametrize("name", ["x.nt", "X.NT", "x.ntriples", "x.nt.gz", "packed_without_saying.nt"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_packed_or_not_any_line_end_with_or_without_a_mark(tmp_path, name, end, mark):
    text = mark + statement("a", "r", f"<{EX}ü>").rstrip() + end + statement("ü", "r", f"<{EX}a>").rstrip()
    data = text.encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if "gz" in name or "packed" in name else data)
    assert facts_of(read_rdf(path)) == [(EX + "a", EX + "r", EX + "ü"), (EX + "ü", EX + "r", EX + "a")]


@needs_pyoxigraph
def test_zones_of_years_and_empty_splits_are_told(tmp_path):
    lines = [statement("a", "knows", f"<{EX}b>"), statement("a", "born", typed("1960Z", "gYear"))]
    _, report = build_rdf_graph(read_rdf(write(tmp_path, "x.nt", "".join(lines))), split=(1.0, 0.0, 0.0))
    notices = report.notices()
    assert "literals: 1 value converted (years with a time zone, which is left out)" in notices
    assert notices[:2] == [
        "valid.txt holds no facts: early stopping has nothing to go by",
        "test.txt holds no facts: nothing to rank",
    ]


@needs_pyoxigraph
@pytest.mark.parametrize(("dates", "born"), [("year", [1960.0, 1961.0]), ("days", [-3653.0 + 30, 1961.0])])
def test_dates_are_read_as_asked_and_days_beside_years_are_told(tmp_path, dates, born):
    lines = [
        statement("a", "born", typed("1960-01-31", "date")),
        statement("b", "born", typed("1961", "gYear")),
    ]
    lines += [statement("a", "knows", f"<{EX}b>"), statement("b", "seen", typed("31.1.1960", "date"))]
    lines += [statement("b", "seen", typed(text, "date")) for text in ("20000101", "1970")]  # no dates of XSD
    content = read_rdf(write(tmp_path, "x.nt", "".join(lines)), dates)
    assert [value for _, _, value in literals_of(content)] == born
    assert content.left_out.pop("xsd:date (a date, but not year, month, day as 1970-01-31 is)") == 1
    assert sum(content.left_out.values()) == 2
    notices = build_rdf_graph(content, split=(1.0, 0.0, 0.0))[1].notices()
    mixed = f"field {EX}born has dates, read as days, beside other numbers; --dates=year suits both"
    assert (mixed in notices) == (dates == "days")
    assert any(f"1 value converted (dates read as {dates}" in notice for notice in notices)


@needs_pyoxigraph
def test_integers_that_float64_lacks_are_counted(tmp_path):
    """Rounded, two of them may look like one value that is stated twice."""
    lines = [statement("a", "knows", f"<{EX}b>")]
    lines += [statement("a", "code", typed(str(2**53 + more), "integer")) for more in (0, 1)]
    graph, report = build_rdf_graph(read_rdf(write(tmp_path, "x.nt", "".join(lines))), split=(1.0, 0.0, 0.0))
    assert graph.values.max() == 2.0**53
    assert "literals: 1 integer beyond 2^53 rounded to float64" in report.notices()


@needs_pyoxigraph
def test_more_values_than_are_parsed_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(rdf_statements, "VALUES_AT_ONCE", 3)
    lines = [statement(f"e{i}", f"p{i % 2}", typed(str(i) if i % 5 else "x", "int")) for i in range(8)]
    content = read_rdf(write(tmp_path, "x.nt", "".join(lines)))
    expected = [(f"{EX}e{i}", f"{EX}p{i % 2}", float(i)) for i in range(8) if i % 5]
    assert literals_of(content) == expected
    assert content.left_out == {"xsd:int (not of type int)": 2}


# Faults


@needs_pyoxigraph
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.nt", statement("a", "r", f"<{EX}b>") + "<a> oops .\n", "x.nt:2: .*predicate of a triple must be"),
        ("x.nt", statement("a", "r", f"<{EX}b>") + f"<{EX}a> <{EX}r", "x.nt:2: .*Unexpected end of file"),
        ("x.ttl", "\nex:a ex:b ex:c .\n", "x.ttl:2: .*The prefix ex: has not been declared; fix the line"),
        ("x.csv", "", r"x.csv: an RDF file's name ends in .nt, .ntriples, .ttl, .turtle, also with .gz"),
    ],
)
def test_wrong_syntax_names_file_and_line(tmp_path, name, text, message):
    with pytest.raises(UserError, match=message):
        read_rdf(write(tmp_path, name, text))


@needs_pyoxigraph
def test_wrong_bytes_name_file_and_line(tmp_path):
    path = tmp_path / "x.nt"
    path.write_bytes(statement("a", "r", f"<{EX}b>").encode() + b'<a> <b> "\xff" .\n')
    with pytest.raises(UserError, match="x.nt:2: .*Invalid UTF-8"):
        read_rdf(path)


@needs_pyoxigraph
def test_a_cut_gzip_file_is_named(tmp_path):
    packed = gzip.compress("".join(statement(f"e{i}", "r", f"<{EX}b>") for i in range(999)).encode())
    path = tmp_path / "x.nt.gz"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(UserError, match=r"x.nt.gz: the compressed data are damaged or cut short"):
        read_rdf(path)
    with pytest.raises(UserError, match=r"none.nt: cannot be read \(No such file"):
        read_rdf(tmp_path / "none.nt")


def test_without_pyoxigraph_the_install_command_is_given(tmp_path, monkeypatch):
    find, load = importlib.util.find_spec, builtins.__import__

    def no_import(name, *arguments, **options):
        assert name != "pyoxigraph"
        return load(name, *arguments, **options)

    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyoxigraph" else find(name)
    )
    monkeypatch.setattr(builtins, "__import__", no_import)
    with pytest.raises(UserError, match=r"x.nt: RDF needs pyoxigraph: pip install pyoxigraph"):
        read_rdf(write(tmp_path, "x.nt", ""))


# Graphs


def example(num_facts: int = 200) -> str:
    rng = np.random.default_rng(0)
    lines = [
        statement(f"e{rng.integers(30)}", f"r{rng.integers(3)}", f"<{EX}e{rng.integers(30)}>")
        for _ in range(num_facts)
    ]
    lines += [statement(f"e{i}", "size", typed(repr(rng.normal()), "double")) for i in range(25)]
    return "".join(lines)


@needs_pyoxigraph
def test_the_order_of_the_statements_does_not_matter(tmp_path):
    lines = example().splitlines(keepends=True)
    shuffled = [lines[i] for i in np.random.default_rng(1).permutation(len(lines))] + lines[:7]  # repeats
    graphs = [
        build_rdf_graph(read_rdf(write(tmp_path, name, "".join(rows))), shorten="last", seed=3)[0]
        for name, rows in (("a.nt", lines), ("b.nt", shuffled))
    ]
    assert graphs[0].vocabulary == graphs[1].vocabulary
    for name in (*SPLITS, "values", "observed"):
        np.testing.assert_array_equal(getattr(graphs[0], name), getattr(graphs[1], name))
    distinct = len({line for line in lines if "XMLSchema" not in line})
    assert [len(graphs[0].split(split)) for split in SPLITS] == [
        distinct - 2 * (distinct // 10),
        distinct // 10,
        distinct // 10,
    ]


@needs_pyoxigraph
def test_a_seed_decides_the_split(tmp_path):
    content = read_rdf(write(tmp_path, "a.nt", example()))
    first, again, other = (build_rdf_graph(content, seed=seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.train, again.train)
    assert not np.array_equal(first.train, other.train)
    facts = [np.concatenate([graph.split(split) for split in SPLITS]) for graph in (first, other)]
    np.testing.assert_array_equal(np.unique(facts[0], axis=0), np.unique(facts[1], axis=0))


@needs_pyoxigraph
def test_relation_wise_splits_keep_the_shares_of_each_relation(tmp_path):
    content = read_rdf(write(tmp_path, "a.nt", example()))
    graph, _ = build_rdf_graph(content, split=(0.5, 0.25, 0.25), split_by="relation")
    counts = {split: collections.Counter(graph.split(split)[:, 1].tolist()) for split in SPLITS}
    for relation in range(3):
        total = sum(counts[split][relation] for split in SPLITS)
        assert counts["valid"][relation] == counts["test"][relation] == total // 4


def test_relation_wise_split_by_hand():
    """Shares 1/2, 1/4, 1/4 of 4 facts: 2, 1, 1; of 3: rounded down 1, 0, 0, the rest to the largest."""
    facts = np.array(
        [[i, relation, 9] for relation, count in ((2, 4), (5, 3)) for i in range(count)], np.int32
    )
    parts = split_by_relation(facts, (0.5, 0.25, 0.25), np.random.default_rng(0))
    assert np.concatenate(list(parts.values())).shape == (7, 3)
    np.testing.assert_array_equal(
        np.unique(np.concatenate(list(parts.values())), axis=0), np.unique(facts, axis=0)
    )
    assert [np.bincount(parts[split][:, 1], minlength=6)[[2, 5]].tolist() for split in SPLITS] == [
        [2, 3],
        [1, 0],
        [1, 0],
    ]
    for part in parts.values():
        np.testing.assert_array_equal(part, part[np.lexsort((part[:, 0], part[:, 1]))])  # each stays sorted


@needs_pyoxigraph
def test_no_facts_and_no_prefixes_are_said(tmp_path):
    content = read_rdf(write(tmp_path, "a.nt", statement("a", "p", typed("1", "int"))))
    with pytest.raises(UserError, match="no statement links two IRIs: there is no fact to train on"):
        build_rdf_graph(content)
    with pytest.raises(
        UserError, match="--shorten=prefix: the file declares no prefixes; give some: --prefix="
    ):
        build_rdf_graph(content, shorten="prefix")


# The command


@needs_pyoxigraph
def test_the_command_writes_a_folder_that_is_read_again(tmp_path, capsys):
    source = tmp_path / "x.nt.gz"
    source.write_bytes(gzip.compress((example() + statement("e1", "label", '"one"')).encode()))
    out = tmp_path / "deep" / "out"
    arguments = [str(source), f"--out={out}", "--shorten=last", "--split=0.5,0.2,0.3", "--seed=4"]
    assert main(["data", "rdf", *arguments]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "read 200 facts, 25 numeric values; left out 1 statement (texts: 1)"
    assert said[-1] == f"written: {out}"
    graph, report = read_folder(out)
    expected, _ = build_rdf_graph(read_rdf(source), shorten="last", split=(0.5, 0.2, 0.3), seed=4)
    assert graph.vocabulary == expected.vocabulary
    for name in (*SPLITS, "negatives", "values", "observed"):
        np.testing.assert_array_equal(getattr(graph, name), getattr(expected, name))
    before = {path: path.read_bytes() for path in out.rglob("*.txt")}
    assert main(["data", "rdf", *arguments]) == 2  # never overwrites
    assert capsys.readouterr().err == (
        f"error: --out: {out} exists already; give another folder, nothing is overwritten\n"
    )
    assert {path: path.read_bytes() for path in out.rglob("*.txt")} == before


@needs_pyoxigraph
def test_the_command_takes_prefixes(tmp_path, capsys):
    source = write(tmp_path, "x.ttl", TURTLE)
    arguments = [str(source), f"--out={tmp_path / 'out'}", "--shorten=prefix", "--split=1,0,0"]
    assert main(["data", "rdf", *arguments, "--prefix=w=http://www.w3.org/1999/02/22-rdf-syntax-ns#"]) == 0
    graph, _ = read_folder(tmp_path / "out")
    assert graph.vocabulary.entities == ("ex:Person", "ex:a", "ex:b")
    assert graph.vocabulary.relations == ("ex:knows", "w:type")
    assert graph.vocabulary.fields == ("ex:age", "ex:height", "ex:mass")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing: FILE, --out; see numcoke data rdf --help"),
        (["x.nt", "--out=y", "--shorten=some"], "--shorten: invalid choice: 'some'"),
        (["x.nt", "--out=y", "--split=0.5,0.5"], "--split: must be 3 numbers such as 0.8,0.1,0.1"),
        (["x.nt", "--out=y", "--split=0,0.5,0.5"], "--split: must be 3 numbers such as 0.8,0.1,0.1"),
        (["x.nt", "--out=y", "--split=0.5,0.4,0.3"], "--split: must sum to 1, got '0.5,0.4,0.3'"),
        (["x.nt", "--out=y", "--prefix=ex"], "--prefix: must be NAME=IRI such as ex=http"),
        (["x.nt", "--out=y", "--seed=-1"], "--seed: must be at least 0, got -1"),
        (
            ["x.nt", "--out=y", "--shrten=last"],
            "--shrten=last is not a flag of numcoke data rdf; did you mean --shorten?",
        ),
    ],
)
def test_wrong_options_are_one_line(arguments, message, capsys):
    assert main(["data", "rdf", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1
