"""An RDF file (N-Triples or Turtle, also gzipped) -> a folder in text layout.

    numcoke data rdf FILE --out=DIR [--shorten=last] [--split=0.8,0.1,0.1] [--seed=0]

RDF has neither splits nor short, readable names, and parsing it takes longer than
reading text: convert once, then train with `--data.path=DIR`.  `data/files/rdf.py` says which
statements become facts and literals, and which are left out and counted.
"""

import argparse
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.cli.commands import OneLineParser, as_shares, refuse_existing, tell_written
from numcoke_jax.data.files.dates import UNITS
from numcoke_jax.data.files.encode import encode_graph, named_facts
from numcoke_jax.data.files.findings import GraphReport, empty_splits
from numcoke_jax.data.files.folder import write_folder
from numcoke_jax.data.files.rdf import FORMATS, RdfContent, read_rdf
from numcoke_jax.data.graph import RELATION, SPLITS, NumericGraph, fact_keys
from numcoke_jax.data.tables.draws import split_counts, split_triples, stream
from numcoke_jax.system.errors import UserError, plural, shown_name
from numcoke_jax.system.files import home_path

SHORTEN = ("none", "last", "prefix")
SPLIT_BY = ("triple", "relation")
RDF_SPLIT_STREAM = 200  # apart from the streams of `draws` and `synthetic`
EPILOG = """\
Statements whose object is an IRI become facts, numeric typed literals and, with
--dates, dates become literals, the rest is left out and counted.  Exit code 0
when the folder was written, 2 with one line on stderr otherwise.

examples:
  numcoke data rdf cities.nt.gz --out=graphs/cities --shorten=last
  numcoke data rdf cities.ttl --out=DIR --shorten=prefix --split-by=relation
  numcoke data rdf cities.nt --out=DIR --shorten=prefix \\
      --prefix=ex=http://example.org/
"""


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
            f"such as {shown_name(name)} for <{first}> and <{second}>; shorten otherwise, or --shorten=none"
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
      shares: one per split; see `draws.split_counts` for the exact counts of a relation.
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
    """The graph of the statements; their order does not matter.

    Args:
      content: what `read_rdf` read.
      shorten: see `shorten_iris`.
      prefixes: name -> IRI, in addition to those of the file, which they override.
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
        names[what], new_ids[what] = _sorted_names(shorten_iris(iris, shorten, prefixes, what))
    entity_ids, relation_ids = new_ids["entities"], new_ids["relations"]
    heads, relations, tails = content.facts.T
    facts = np.column_stack([entity_ids[heads], relation_ids[relations], entity_ids[tails]])
    (keys,) = fact_keys([facts], len(names["entities"]), len(names["relations"]))
    facts = facts[np.unique(keys, return_index=True)[1]]
    if not len(facts):
        raise UserError("no statement links two IRIs: there is no fact to train on")
    splitter = split_by_relation if split_by == "relation" else split_triples
    splits = splitter(facts, split, stream(seed, RDF_SPLIT_STREAM))
    named = {name: named_facts(rows, names["entities"], names["relations"]) for name, rows in splits.items()}
    literal_entities = entity_ids[content.literal_entities]
    literal_fields = new_ids["fields"][content.literal_fields]
    literals = pa.table(
        {
            "entity": pa.DictionaryArray.from_arrays(literal_entities, names["entities"]),
            "field": pa.DictionaryArray.from_arrays(literal_fields, names["fields"]),
            "value": pa.array(content.literal_values),
        }
    )
    graph, report = encode_graph(named, None, literals)
    report.literals_rounded = content.rounded
    report.literals_converted.update(content.converted)
    report.source_notes += [
        f"field {shown_name(field)} has dates, read as days, beside other numbers; --dates=year suits both"
        for field in content.mixed
    ]
    report.source_notes += empty_splits(graph)
    return graph, report


def _sorted_names(names: Sequence[str]) -> tuple[pa.StringArray, np.ndarray]:
    """The names in order, and the place of each of `names` in it, int32."""
    unsorted = pa.array(names, pa.string())
    order = pc.sort_indices(unsorted)
    places = np.empty(len(names), np.int32)
    places[order.to_numpy()] = np.arange(len(names), dtype=np.int32)
    return unsorted.take(order), places


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of the command."""
    parser.set_defaults(run=_run)
    parser.description = "Write an RDF file as a numeric knowledge graph, a folder in text layout."
    parser.epilog = EPILOG
    parser.add_argument("file", metavar="FILE", help=f"its name ends in {', '.join(FORMATS)}, also with .gz")
    parser.add_argument(
        "--out", required=True, type=home_path, metavar="DIR", help="folder to write; must not exist"
    )
    parser.add_argument(
        "--shorten",
        choices=SHORTEN,
        default="none",
        help="names: whole IRIs, their last segments, or PREFIX:REST (default: %(default)s)",
    )
    parser.add_argument(
        "--prefix",
        type=_prefix,
        action="append",
        default=[],
        metavar="NAME=IRI",
        help="for --shorten=prefix, besides those that a Turtle file declares; may be given several times",
    )
    parser.add_argument(
        "--dates", choices=UNITS, default="", help="read dates as their year, or as days since 1970-01-01"
    )
    parser.add_argument(
        "--split",
        type=as_shares,
        default=(0.8, 0.1, 0.1),
        metavar="A,B,C",
        help="shares of train, valid, test (default: 0.8,0.1,0.1)",
    )
    parser.add_argument(
        "--split-by",
        choices=SPLIT_BY,
        default="triple",
        help="take the shares of all facts, or of each relation's (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the split (default: %(default)s)")


def _prefix(text: str) -> tuple[str, str]:
    name, equals, iri = text.partition("=")
    if not equals or not iri:
        raise argparse.ArgumentTypeError(f"must be NAME=IRI such as ex=http://example.org/, got {text!r}")
    return name, iri


def convert(options: argparse.Namespace) -> list[str]:
    """Writes the folder that the options describe and returns what to tell the user.

    Raises:
      UserError: the file cannot be read, names collide, or the folder exists.
    """
    refuse_existing(options.out)
    if options.seed < 0:
        raise UserError(f"--seed: must be at least 0, got {options.seed}")
    content = read_rdf(options.file, options.dates)
    try:
        graph, report = build_rdf_graph(
            content,
            shorten=options.shorten,
            prefixes=dict(options.prefix),
            split=options.split,
            split_by=options.split_by,
            seed=options.seed,
        )
        write_folder(graph, options.out)
    except UserError as error:
        raise UserError(f"{options.file}: {error}") from error
    return [content.describe(), *report.notices()]


def _run(options: argparse.Namespace) -> int:
    return tell_written(convert(options), options.out)
