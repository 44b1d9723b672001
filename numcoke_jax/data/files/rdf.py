"""The bytes of an RDF file (N-Triples or Turtle, also gzipped) -> ids of IRIs and numbers.

What becomes of a statement:

* its object is an IRI: a fact (subject, predicate, object);
* its object is a literal of a numeric XML Schema type (integer, decimal, double, float, the types derived
  from integer, gYear): a literal of the subject, field is the predicate, by the rules of
  `data/files/numbers.py`, which refuse NaN, infinities and texts that are no numbers of their type;
* or of a type of dates, if they are asked for: a literal, its year or its days since 1970-01-01;
* everything else is left out and counted by kind: texts (also those that look like numbers: they may be
  codes), booleans, other dates, values with units of their own datatype, quoted triples, and statements with
  a blank node, which has no name outside its file.

Syntax errors are reported with file and line.  What an IRI may hold is not checked, since IRIs are only
names here.
"""

import array
import collections
import contextlib
import dataclasses
import gzip
import importlib.util
import io
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from numcoke_jax.data.files.lines import BYTE_ORDER_MARK
from numcoke_jax.data.files.numbers import (
    DATE_TYPES,
    INTEGER,
    INTEGER_TYPES,
    PLAIN_NUMBER,
    RANGES,
    REAL_TYPES,
    Reading,
    parse_values,
)
from numcoke_jax.data.files.packed import GZIP_MAGIC, gunzipped
from numcoke_jax.system.errors import UserError, plural

FORMATS = {".nt": "N_TRIPLES", ".ntriples": "N_TRIPLES", ".ttl": "TURTLE", ".turtle": "TURTLE"}
XSD = "http://www.w3.org/2001/XMLSchema#"
VALUES_AT_ONCE = 100_000
SHOWN_KINDS = 12  # in a notice
PLAIN = re.compile(PLAIN_NUMBER)
LIMITED = RANGES.keys() | {"float"}  # types that do not have every number


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
      rounded: number of integers beyond 2^53 that float64 cannot hold.
      converted: what was rewritten to be a number, in words -> number of values.
      mixed: fields with dates, read as days, beside other numbers.
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
    rounded: int
    converted: dict[str, int]
    mixed: list[str]

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


def read_rdf(path: str | os.PathLike, dates: str = "") -> RdfContent:
    """Reads a file statement by statement; only the names and ids are kept in memory, not the file.

    Args:
      path: the file.
      dates: "year" or "days" reads dates as such; "" leaves them out.

    Raises:
      UserError: pyoxigraph is not installed, the file cannot be read, its name says neither N-Triples nor
        Turtle, or its syntax is wrong.
    """
    if importlib.util.find_spec("pyoxigraph") is None:
        raise UserError(f"{path}: RDF needs pyoxigraph: pip install pyoxigraph")
    import pyoxigraph

    if not is_rdf_name(path):
        raise UserError(f"{path}: an RDF file's name ends in {', '.join(FORMATS)}, also with .gz")
    collector = _Collector(Reading(dates))
    try:
        with _open_text(path) as text:
            statements = pyoxigraph.parse(
                input=text, format=getattr(pyoxigraph.RdfFormat, FORMATS[_suffix(path)]), lenient=True
            )
            collector.collect(statements, pyoxigraph)
            prefixes = dict(statements.prefixes)
    except SyntaxError as error:
        message = re.sub(r"^Parser error at line \d+ ", "", error.msg)
        raise UserError(f"{path}:{error.lineno}: {message}; fix the line") from error
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
            text = stack.enter_context(gunzipped(text))
        if cast(io.BufferedReader, text).peek(3)[:3] == BYTE_ORDER_MARK:
            text.read(3)
        yield text


class _Collector:
    """Statements, one after the other, into columns of ids."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.types = INTEGER_TYPES | REAL_TYPES | (DATE_TYPES if reading.dates else frozenset())
        self.entities: dict[str, int] = {}
        self.relations: dict[str, int] = {}
        self.fields: dict[str, int] = {}
        self.facts = array.array("i")
        self.literals = array.array("i")  # entity and field in turn
        self.values: list[np.ndarray] = []
        self.left_out: collections.Counter[str] = collections.Counter()
        self.rounded = 0
        self.converted: collections.Counter[str] = collections.Counter()
        self.dated: list[np.ndarray] = []  # beside `values`: which were dates
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
            elif (name := _xsd_name(value.datatype.value)) in self.types:
                self.literals.append(entities.setdefault(subject.value, len(entities)))
                self.literals.append(fields.setdefault(predicate.value, len(fields)))
                self._texts.append(_as_number_text(value.value, name))
                self._types.append(name)
                if len(self._texts) == VALUES_AT_ONCE:
                    self._parse_values()
            else:
                left_out[_kind_of_literal(value)] += 1

    def _parse_values(self) -> None:
        """Turns the waiting texts into numbers, or into counts of why they are not numbers."""
        parsed = parse_values(pa.chunked_array([pa.array(self._texts, pa.string())]), self.reading)
        self.rounded += parsed.rounded
        self.converted.update(parsed.converted)
        values = parsed.values.copy()
        dated = np.zeros(len(values), bool)
        dated[[*parsed.dates]] = True
        self.dated.append(dated)
        for row, why in parsed.bad.items():
            self.left_out[f"xsd:{self._types[row]} ({why})"] += 1
            values[row] = np.nan  # a mark: a number that was read is finite
        self.values.append(values)
        self._texts.clear()
        self._types.clear()

    def content(self, prefixes: dict[str, str]) -> RdfContent:
        """What was collected."""
        self._parse_values()
        values, dated = np.concatenate(self.values), np.concatenate(self.dated)
        good = np.isfinite(values)
        literals = np.frombuffer(self.literals, np.int32).reshape(-1, 2)
        fields, mixed = list(self.fields), np.empty(0, int)
        if self.reading.dates == "days":
            mixed = np.intersect1d(literals[good & dated, 1], literals[good & ~dated, 1])
        literals = literals[good]
        return RdfContent(
            entities=list(self.entities),
            relations=list(self.relations),
            fields=fields,
            facts=np.frombuffer(self.facts, np.int32).reshape(-1, 3),
            literal_entities=literals[:, 0],
            literal_fields=literals[:, 1],
            literal_values=values[good],
            left_out=dict(self.left_out),
            prefixes=prefixes,
            rounded=self.rounded,
            converted=dict(self.converted),
            mixed=[fields[field] for field in mixed.tolist()],
        )


def _xsd_name(datatype: str) -> str:
    """The local name of a type of XML Schema, such as "integer"; "" for any other datatype."""
    name = datatype.removeprefix(XSD)
    return name if len(name) < len(datatype) else ""


def _as_number_text(text: str, name: str) -> str:
    """What `parse_values` is given: a plain number as it is, else the typed literal, to be judged by type."""
    if name in LIMITED or name in DATE_TYPES:
        return f'"{text}"^^xsd:{name}'
    plain = INTEGER.match(text) if name in INTEGER_TYPES else PLAIN.match(text)
    return text if plain else f'"{text}"^^xsd:{name}'


def _kind_of_literal(literal: Any) -> str:
    if literal.language is not None:
        return "texts with a language"
    datatype = literal.datatype.value
    if datatype == f"{XSD}string":
        return "texts"
    return f"xsd:{datatype.removeprefix(XSD)}" if datatype.startswith(XSD) else f"<{datatype}>"
