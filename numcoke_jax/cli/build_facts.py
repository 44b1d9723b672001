"""`numcoke data build --facts=...`: tables of facts, and one of attributes, to a graph."""

import argparse
import dataclasses
import os
from collections.abc import Sequence

from numcoke_jax.cli.columns import split_names
from numcoke_jax.cli.commands import Once, OneLineParser
from numcoke_jax.data.files.numbers import Reading
from numcoke_jax.data.graph import LoadedGraph
from numcoke_jax.data.load import build_facts
from numcoke_jax.data.tables.cells import TableFile, read_table
from numcoke_jax.data.tables.facts import DEFAULT_SHARES, FactChoice
from numcoke_jax.data.tables.own import INDEX
from numcoke_jax.system.errors import UserError, suggestion
from numcoke_jax.system.files import home_path

OWN_OPTIONS = ("head", "tail", "relation", "relation_column", "attributes")
ABOUT_ATTRIBUTES = ("name", "fields", "categories", "hide", "dates", "parse")
NO_OPTIONS = ("command", "run", "checked")  # what every command's options have besides its flags
SHARED_OPTIONS = ("facts", "split", "seed", "out", *ABOUT_ATTRIBUTES, *OWN_OPTIONS)


def add_fact_options(parser: OneLineParser) -> None:
    """The options of a table with a fact in each row."""
    options = parser.add_argument_group("a table of facts, instead of one whose values are compared")
    kinds = "a fact in each row; csv, tsv, parquet or xlsx; give it again for each further file"
    options.add_argument("--facts", action="append", metavar="FILE", help=kinds)
    for end, example in (("head", "winner"), ("tail", "loser")):
        options.add_argument(f"--{end}", metavar="COLUMN,...", help=f"names the {end}, such as the {example}")
    relation = "the relation of all facts, such as beat; or, as NAME,NAME, of each of several files"
    options.add_argument("--relation", metavar="NAME", help=relation)
    options.add_argument("--relation-column", metavar="COLUMN", help="or: names each fact's relation")
    attributes = "a row per entity, with columns of numbers; --name names it, --fields are kept (all)"
    options.add_argument("--attributes", action=Once, metavar="FILE", help=attributes)


def build_from_facts(options: argparse.Namespace) -> LoadedGraph:
    """The graph of the tables that the options name.

    Raises:
      UserError: an option is missing or has no meaning here, or a table is not what it should be.
    """
    for option, value in vars(options).items():
        if value not in (None, "") and option not in SHARED_OPTIONS and option not in NO_OPTIONS:
            flag = f"--{option.replace('_', '-')}"
            raise UserError(
                f"{flag} has no meaning with --facts, whose facts are there already: leave it out"
            )
    tables = [_table("--facts", path) for path in options.facts]
    attributes = None
    if options.attributes:
        reading = Reading(options.dates, options.parse)
        attributes = dataclasses.replace(_table("--attributes", options.attributes), reading=reading)
    for option in ABOUT_ATTRIBUTES:
        if getattr(options, option) and attributes is None:
            raise UserError(f"--{option} is about columns of --attributes=FILE, which is missing")
    ends = {end: _columns(f"--{end}", getattr(options, end), tables) for end in ("head", "tail")}
    if bool(options.relation) == bool(options.relation_column):
        raise UserError(
            "give either --relation=NAME, such as --relation=beat, or --relation-column=COLUMN, which names "
            "each fact's relation"
        )
    column = options.relation_column
    chosen = {
        option: _columns(f"--{option}", getattr(options, option), [attributes])
        for option in ("name", "fields", "categories")
        if attributes and getattr(options, option)
    }
    choice = FactChoice(
        **ends,
        relations=tuple(map(str.strip, options.relation.split(","))) if options.relation else (),
        relation_column=_columns("--relation-column", column, tables)[0] if column else "",
        **chosen,
        split=options.split or DEFAULT_SHARES,
        seed=options.seed or 0,
    )
    return build_facts(tables, attributes, choice)


def _table(option: str, path: str) -> TableFile:
    path = str(home_path(path))
    if not os.path.exists(path):
        raise UserError(f"{option}: there is no file {path}")
    return read_table(path)


def _columns(option: str, text: str | None, tables: Sequence[TableFile]) -> tuple[str, ...]:
    if not text:
        raise UserError(
            f"{option} is missing: give a column of {tables[0].where}; {suggestion('', tables[0].columns)}"
        )
    for table in tables:
        several = f" (of {table.where})" if len(tables) > 1 else ""
        names = split_names(
            f"{option}{several}", text, (*table.columns, *([INDEX] if option == "--name" else []))
        )
    return names
