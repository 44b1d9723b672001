"""`numcoke data build --facts=...`: two tables, facts and attributes, to a graph."""

import argparse
import dataclasses
import os

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
ABOUT_ATTRIBUTES = ("name", "fields", "categories", "dates", "parse")
NO_OPTIONS = ("command", "run", "checked")  # what every command's options have besides its flags
SHARED_OPTIONS = ("facts", "split", "seed", "out", *ABOUT_ATTRIBUTES, *OWN_OPTIONS)


def add_fact_options(parser: OneLineParser) -> None:
    """The options of a table with a fact in each row."""
    options = parser.add_argument_group("a table of facts, instead of one whose values are compared")
    options.add_argument(
        "--facts", action=Once, metavar="FILE", help="a fact in each row; csv, tsv, parquet or xlsx"
    )
    for end, example in (("head", "winner"), ("tail", "loser")):
        options.add_argument(f"--{end}", metavar="COLUMN,...", help=f"names the {end}, such as the {example}")
    options.add_argument("--relation", metavar="NAME", help="the relation of all facts, such as beat")
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
    facts = _table("--facts", options.facts)
    attributes = None
    if options.attributes:
        reading = Reading(options.dates, options.parse)
        attributes = dataclasses.replace(_table("--attributes", options.attributes), reading=reading)
    for option in ABOUT_ATTRIBUTES:
        if getattr(options, option) and attributes is None:
            raise UserError(f"--{option} is about columns of --attributes=FILE, which is missing")
    ends = {end: _columns(f"--{end}", getattr(options, end), facts) for end in ("head", "tail")}
    if bool(options.relation) == bool(options.relation_column):
        raise UserError(
            "give either --relation=NAME, such as --relation=beat, or --relation-column=COLUMN, which names "
            "each fact's relation"
        )
    column = options.relation_column
    chosen = {
        option: _columns(f"--{option}", getattr(options, option), attributes)
        for option in ("name", "fields", "categories")
        if attributes and getattr(options, option)
    }
    choice = FactChoice(
        **ends,
        relation=options.relation or "",
        relation_column=_columns("--relation-column", column, facts)[0] if column else "",
        **chosen,
        split=options.split or DEFAULT_SHARES,
        seed=options.seed or 0,
    )
    return build_facts(facts, attributes, choice)


def _table(option: str, path: str) -> TableFile:
    path = str(home_path(path))
    if not os.path.exists(path):
        raise UserError(f"{option}: there is no file {path}")
    return read_table(path)


def _columns(option: str, text: str | None, table: TableFile) -> tuple[str, ...]:
    if not text:
        raise UserError(
            f"{option} is missing: give a column of {table.where}; {suggestion('', table.columns)}"
        )
    return split_names(option, text, (*table.columns, *([INDEX] if option == "--name" else [])))
