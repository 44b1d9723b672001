"""An RDF file (N-Triples or Turtle, also gzipped) -> a folder in text layout.

    python -m numcoke_jax.data.rdf FILE --out=DIR [--shorten=last] [--split=0.8,0.1,0.1] [--seed=0]

RDF has neither splits nor names as short as one would like to read, and parsing it takes longer than
reading text: convert once, then train with `--config.data.path=DIR`.  What becomes of a statement:

* its object is an IRI: a fact (subject, predicate, object);
* its object is a literal of a numeric XML Schema type (integer, decimal, double, float, the types derived
  from integer, gYear): a literal of the subject, field is the predicate, by the rules of
  `literal_values.py`, which refuse NaN, infinities and texts that are no number of their type;
* everything else is left out and counted by kind: texts (also those that look like numbers: they may be
  codes), booleans, dates, values with units of their own datatype, quoted triples, and statements with a
  blank node, which has no name outside its file.

Syntax errors end with file and line; what an IRI may hold is not checked, since IRIs are only names here.
"""

import argparse
import array
import collections
import contextlib
import dataclasses
import functools
import gzip
import importlib.util
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.commands import OneLineParser, run_command
from numcoke_jax.data.comparisons import split_counts, split_triples, stream
from numcoke_jax.data.encode import encode_graph
from numcoke_jax.data.folder import write_folder
from numcoke_jax.data.graph_checks import GraphReport, fact_keys, plural, printable
from numcoke_jax.data.literal_values import INTEGER, INTEGER_TYPES, PLAIN_NUMBER, REAL_TYPES, parse_values
from numcoke_jax.data.text_files import BYTE_ORDER_MARK, GZIP_MAGIC
from numcoke_jax.errors import UserError
from numcoke_jax.graph import HEAD, RELATION, SPLITS, TAIL, NumericGraph

FORMATS = {".nt": "N_TRIPLES", ".ntriples": "N_TRIPLES", ".ttl": "TURTLE", ".turtle": "TURTLE"}
SHORTEN = ("none", "last", "prefix")
SPLIT_BY = ("triple", "relation")
XSD = "http://www.w3.org/2001/XMLSchema#"
RDF_SPLIT_STREAM = 200  # apart from the streams of `comparisons` and `synthetic`
VALUES_AT_ONCE = 100_000
SHOWN_KINDS = 12  # in a notice
PLAIN = re.compile(PLAIN_NUMBER)

EPILOG = """\
Statements whose object is an IRI become facts, numeric typed literals become literals, the rest is
left out and counted.  Exit code 0 when the folder was written, 2 with one line on stderr otherwise.

examples:
  python -m numcoke_jax.data.rdf cities.nt.gz --out=graphs/cities --shorten=last
  python -m numcoke_jax.data.rdf cities.ttl --out=graphs/cities --shorten=prefix --split-by=relation
  python -m numcoke_jax.data.rdf cities.nt --out=DIR --shorten=prefix --prefix=ex=http://example.org/
"""


@dataclasses.dataclass(frozen=True)
class RdfContent:
    """The statements of an RDF file that a numeric graph can hold.

    Attributes:
      entities, relations, fields: IRIs, in the order of their first statement; entities are subjects and
        objects of facts and subjects of literals.
      facts: int32 [n, 3] of indices into them; repeats are kept.
      literal_entities, literal_fields: int32 [k] indices; literal_values: float64 [k].
      left_out: kind of statement -> how many were left out.
      prefixes: those that a Turtle file declares, name -> IRI.
    """

    entities: list[str]
    relations: list[str]
    fields: list[str]
    facts: np.ndarray
    literal_entities: np.ndarray
    literal_fields: np.ndarray
    literal_values: np.ndarray
    left_out: dict[str, int]
    prefixes: dict[str, str]

    def describe(self) -> str:
        """What was read and what was left out, in one line."""
        read = f"{plural(len(self.facts), 'fact')}, {plural(len(self.literal_values), 'numeric value')}"
        if not self.left_out:
            return f"read {read}; nothing left out"
        kinds = sorted(self.left_out.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{kind}: {count:,}" for kind, count in kinds[:SHOWN_KINDS])
        if len(kinds) > SHOWN_KINDS:
            listed += f" and {len(kinds) - SHOWN_KINDS} more kinds"
        return f"read {read}; left out {plural(sum(self.left_out.values()), 'statement')} ({listed})"


def is_rdf_name(path: str | os.PathLike) -> bool:
    """Whether a path ends as RDF files do, such as .nt, .ttl or .ttl.gz."""
    return _suffix(path) in FORMATS


def _suffix(path: str | os.PathLike) -> str:
    return Path(os.fspath(path).lower().removesuffix(".gz")).suffix


def read_rdf(path: str | os.PathLike) -> RdfContent:
    """Reads a file statement by statement; memory is for the names and ids kept, not for the file.

    Raises:
      UserError: pyoxigraph is not installed, the file cannot be read, its name says neither N-Triples nor
        Turtle, or its syntax is wrong.
    """
    if importlib.util.find_spec("pyoxigraph") is None:
        raise UserError(f"{path}: RDF needs pyoxigraph: pip install 'numcoke-jax[rdf]'")
    import pyoxigraph

    if not is_rdf_name(path):
        raise UserError(f"{path}: an RDF file's name ends in {', '.join(FORMATS)}, also with .gz")
    collector = _Collector()
    try:
        with _open_text(path) as text:
            statements = pyoxigraph.parse(
                input=text, format=getattr(pyoxigraph.RdfFormat, FORMATS[_suffix(path)]), lenient=True
            )
            collector.collect(statements, pyoxigraph)
            prefixes = dict(statements.prefixes)
    except SyntaxError as error:
        message = re.sub(r"^Parser error at line \d+ ", "", error.msg)
        raise UserError(f"{path}:{error.lineno}: {message}; mend the line") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: the compressed data are damaged or cut short ({error})") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    return collector.content(prefixes)


@contextlib.contextmanager
def _open_text(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """The bytes of the file, unpacked when they start like gzip, without a byte-order mark."""
    with contextlib.ExitStack() as stack:
        text: IO[bytes] = stack.enter_context(open(path, "rb"))
        if cast(io.BufferedReader, text).peek(2)[:2] == GZIP_MAGIC:
            text = stack.enter_context(cast(IO[bytes], gzip.GzipFile(fileobj=text)))
        if cast(io.BufferedReader, text).peek(3)[:3] == BYTE_ORDER_MARK:
            text.read(3)
        yield text


class _Collector:
    """Statements, one after the other, into columns of ids."""

    def __init__(self) -> None:
        self.entities: dict[str, int] = {}
        self.relations: dict[str, int] = {}
        self.fields: dict[str, int] = {}
        self.facts = array.array("i")
        self.literals = array.array("i")  # entity and field in turn
        self.values: list[np.ndarray] = []
        self.left_out: collections.Counter[str] = collections.Counter()
        self._texts: list[str] = []  # of the literals whose values are not parsed yet
        self._types: list[str] = []

    def collect(self, statements: Any, pyoxigraph: Any) -> None:
        """Goes through the statements of a parser."""
        entities, relations, fields = self.entities, self.relations, self.fields
        facts, left_out = self.facts, self.left_out
        iri, blank_node, literal = pyoxigraph.NamedNode, pyoxigraph.BlankNode, pyoxigraph.Literal
        for subject, predicate, value, _ in statements:
            kind = type(value)
            if type(subject) is blank_node or kind is blank_node:
                left_out["with a blank node"] += 1
            elif kind is iri:
                facts.append(entities.setdefault(subject.value, len(entities)))
                facts.append(relations.setdefault(predicate.value, len(relations)))
                facts.append(entities.setdefault(value.value, len(entities)))
            elif kind is not literal:
                left_out["quoted triples"] += 1
            elif name := _numeric_type(value.datatype.value):
                self.literals.append(entities.setdefault(subject.value, len(entities)))
                self.literals.append(fields.setdefault(predicate.value, len(fields)))
                self._texts.append(_as_number_text(value.value, name))
                self._types.append(name)
                if len(self._texts) == VALUES_AT_ONCE:
                    self._parse_values()
            else:
                left_out[_kind_of_literal(value)] += 1

    def _parse_values(self) -> None:
        """Turns the waiting texts into numbers, or into counts of why they are none."""
        parsed = parse_values(pa.chunked_array([pa.array(self._texts, pa.string())]))
        values = parsed.values.copy()
        for row, why in parsed.bad.items():
            self.left_out[f"xsd:{self._types[row]} ({why})"] += 1
            values[row] = np.nan  # a mark: a number that was read is finite
        self.values.append(values)
        self._texts.clear()
        self._types.clear()

    def content(self, prefixes: dict[str, str]) -> RdfContent:
        """What was collected."""
        self._parse_values()
        values = np.concatenate(self.values)
        good = np.isfinite(values)
        literals = np.frombuffer(self.literals, np.int32).reshape(-1, 2)[good]
        return RdfContent(
            entities=list(self.entities),
            relations=list(self.relations),
            fields=list(self.fields),
            facts=np.frombuffer(self.facts, np.int32).reshape(-1, 3),
            literal_entities=literals[:, 0],
            literal_fields=literals[:, 1],
            literal_values=values[good],
            left_out=dict(self.left_out),
            prefixes=prefixes,
        )


def _numeric_type(datatype: str) -> str:
    """The local name of a numeric XML Schema type, such as "integer"; "" for any other datatype."""
    name = datatype.removeprefix(XSD)
    return name if len(name) < len(datatype) and (name in INTEGER_TYPES or name in REAL_TYPES) else ""


def _as_number_text(text: str, name: str) -> str:
    """What `parse_values` is given: a plain number as it is, else the typed literal, to be judged by type."""
    plain = INTEGER.match(text) if name in INTEGER_TYPES else PLAIN.match(text)
    return text if plain else f'"{text}"^^xsd:{name}'


def _kind_of_literal(literal: Any) -> str:
    if literal.language is not None:
        return "texts with a language"
    datatype = literal.datatype.value
    if datatype == f"{XSD}string":
        return "texts"
    return f"xsd:{datatype.removeprefix(XSD)}" if datatype.startswith(XSD) else f"<{datatype}>"


def shorten_iris(iris: Sequence[str], how: str, prefixes: Mapping[str, str], what: str) -> list[str]:
    """Names for IRIs.

    Args:
      iris: different IRIs.
      how: "none" keeps them; "last" takes what follows the last "/" or "#" that something follows;
        "prefix" writes the longest of the prefixes that fits as NAME:.  An IRI that does not fit stays.
      prefixes: name -> IRI.
      what: "entities" and so on, for the message.

    Raises:
      UserError: two IRIs would get one name.
    """
    if how == "none":
        return list(iris)
    if how == "last":
        names = [_last_segment(iri) for iri in iris]
    else:
        by_length = sorted(prefixes.items(), key=lambda item: (-len(item[1]), item))
        names = [_with_prefix(iri, by_length) for iri in iris]
    owner: dict[str, str] = {}
    collisions = [
        (name, first, iri)
        for name, iri in zip(names, iris, strict=True)
        if (first := owner.setdefault(name, iri)) != iri
    ]
    if collisions:
        name, first, second = min(collisions)
        raise UserError(
            f"--shorten={how}: {plural(len(collisions), 'name')} of {what} would stand for several IRIs, "
            f"such as {printable(name)} for <{first}> and <{second}>; shorten otherwise, or --shorten=none"
        )
    return names


def _last_segment(iri: str) -> str:
    found = re.search(r"[/#]([^/#]+)[/#]*$", iri)
    return found[1] if found else iri


def _with_prefix(iri: str, by_length: Sequence[tuple[str, str]]) -> str:
    for name, start in by_length:
        if iri.startswith(start) and len(iri) > len(start):
            return f"{name}:{iri[len(start) :]}"
    return iri


def split_by_relation(
    facts: np.ndarray, shares: Sequence[float], generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Shuffles the facts of each relation over train, valid and test by the same shares.

    Args:
      facts: int32 [n, 3], sorted by relation.
      shares: one a split; see `comparisons.split_counts` for the exact counts of a relation.
      generator: decides the shuffles.
    """
    assigned = np.empty(len(facts), np.int8)
    _, starts, sizes = np.unique(facts[:, RELATION], return_index=True, return_counts=True)
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        order = start + generator.permutation(size)
        assigned[order] = np.repeat(np.arange(len(SPLITS)), split_counts(size, shares))
    return {name: facts[assigned == split] for split, name in enumerate(SPLITS)}


def build_rdf_graph(
    content: RdfContent,
    *,
    shorten: str = "none",
    prefixes: Mapping[str, str] | None = None,
    split: Sequence[float] = (0.8, 0.1, 0.1),
    split_by: str = "triple",
    seed: int = 0,
) -> tuple[NumericGraph, GraphReport]:
    """The graph of the statements; the order in which they stood does not matter.

    Args:
      content: what `read_rdf` read.
      shorten: see `shorten_iris`.
      prefixes: besides those of the file, name -> IRI; they win over the file's.
      split: shares of train, valid and test.
      split_by: "triple": over all facts; "relation": of each relation's facts.
      seed: of the split.

    Raises:
      UserError: short names collide, or there are no facts.
    """
    prefixes = {**content.prefixes, **(prefixes or {})}
    if shorten == "prefix" and not prefixes:
        raise UserError(
            "--shorten=prefix: the file declares no prefixes; give some: --prefix=ex=http://example.org/"
        )
    columns = {"entities": content.entities, "relations": content.relations, "fields": content.fields}
    names, new_ids = {}, {}
    for what, iris in columns.items():
        unsorted = pa.array(shorten_iris(iris, shorten, prefixes, what), pa.string())
        order = pc.sort_indices(unsorted)
        names[what] = unsorted.take(order)
        new_ids[what] = np.empty(len(iris), np.int32)
        new_ids[what][order.to_numpy()] = np.arange(len(iris), dtype=np.int32)
    facts = np.empty_like(content.facts)
    facts[:, HEAD] = new_ids["entities"][content.facts[:, HEAD]]
    facts[:, RELATION] = new_ids["relations"][content.facts[:, RELATION]]
    facts[:, TAIL] = new_ids["entities"][content.facts[:, TAIL]]
    (keys,) = fact_keys([facts], len(names["entities"]), len(names["relations"]))
    facts = facts[np.unique(keys, return_index=True)[1]]
    if not len(facts):
        raise UserError("no statement links two IRIs: there is no fact to train on")
    generator = stream(seed, RDF_SPLIT_STREAM)
    splitter = split_by_relation if split_by == "relation" else split_triples
    named = {
        name: pa.table(
            {
                "head": pa.DictionaryArray.from_arrays(rows[:, HEAD], names["entities"]),
                "relation": pa.DictionaryArray.from_arrays(rows[:, RELATION], names["relations"]),
                "tail": pa.DictionaryArray.from_arrays(rows[:, TAIL], names["entities"]),
            }
        )
        for name, rows in splitter(facts, split, generator).items()
    }
    literal_entities = new_ids["entities"][content.literal_entities]
    literal_fields = new_ids["fields"][content.literal_fields]
    literals = pa.table(
        {
            "entity": pa.DictionaryArray.from_arrays(literal_entities, names["entities"]),
            "field": pa.DictionaryArray.from_arrays(literal_fields, names["fields"]),
            "value": pa.array(content.literal_values),
        }
    )
    return encode_graph(named, None, literals)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = OneLineParser(
        prog="python -m numcoke_jax.data.rdf",
        description="Write an RDF file as a numeric knowledge graph, a folder in text layout.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("file", metavar="FILE", help=f"its name ends in {', '.join(FORMATS)}, also with .gz")
    options.add_argument("--out", required=True, metavar="DIR", help="folder to write; must not exist")
    options.add_argument(
        "--shorten",
        choices=SHORTEN,
        default="none",
        help="names: whole IRIs, their last segments, or PREFIX:REST (default: %(default)s)",
    )
    options.add_argument(
        "--prefix",
        type=_prefix,
        action="append",
        default=[],
        metavar="NAME=IRI",
        help="for --shorten=prefix, besides those that a Turtle file declares; may be given several times",
    )
    options.add_argument(
        "--split",
        type=_shares,
        default=(0.8, 0.1, 0.1),
        metavar="A,B,C",
        help="shares of train, valid, test (default: 0.8,0.1,0.1)",
    )
    options.add_argument(
        "--split-by",
        choices=SPLIT_BY,
        default="triple",
        help="take the shares of all facts, or of each relation's (default: %(default)s)",
    )
    options.add_argument("--seed", type=int, default=0, help="of the split (default: %(default)s)")
    return options


def _prefix(text: str) -> tuple[str, str]:
    name, equals, iri = text.partition("=")
    if not equals or not iri:
        raise argparse.ArgumentTypeError(f"must be NAME=IRI such as ex=http://example.org/, got {text!r}")
    return name, iri


def _shares(text: str) -> tuple[float, ...]:
    try:
        shares = tuple(float(share) for share in text.split(","))
    except ValueError:
        shares = ()
    if len(shares) != len(SPLITS) or not all(0 <= share <= 1 for share in shares) or shares[0] == 0:
        raise argparse.ArgumentTypeError(f"must be 3 numbers such as 0.8,0.1,0.1, got {text!r}")
    if abs(sum(shares) - 1) > 1e-6:
        raise argparse.ArgumentTypeError(f"must sum to 1, got {text!r}")
    return shares


def convert(options: argparse.Namespace) -> list[str]:
    """Writes the folder that the options describe and returns what to tell the user.

    Raises:
      UserError: the file cannot be read, names collide, or the folder exists.
    """
    if os.path.lexists(options.out):
        raise UserError(f"--out: {options.out} exists already; give another folder, nothing is overwritten")
    if options.seed < 0:
        raise UserError(f"--seed: must be at least 0, got {options.seed}")
    content = read_rdf(options.file)
    graph, report = build_rdf_graph(
        content,
        shorten=options.shorten,
        prefixes=dict(options.prefix),
        split=options.split,
        split_by=options.split_by,
        seed=options.seed,
    )
    write_folder(graph, options.out)
    return [content.describe(), *report.notices()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code is 0, or 2 after one line on stderr."""
    for terminal in (sys.stdout, sys.stderr):
        if isinstance(terminal, io.TextIOWrapper):  # names in any script, on a terminal of any encoding
            terminal.reconfigure(errors="backslashreplace")
    return run_command(functools.partial(_run, sys.argv[1:] if arguments is None else arguments))


def _run(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    for notice in convert(options):
        print(notice)
    print(f"written: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
