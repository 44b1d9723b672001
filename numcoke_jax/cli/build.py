"""Builds a folder in text layout from a table of entities with numeric columns, or from a table of facts.

    numcoke data build --table=cars.csv --name=Name --relations=Weight,Power --out=DIR
    numcoke data build --facts=results.csv --head=winner --tail=loser --relation=beat --out=DIR

The folder holds train.txt, valid.txt, test.txt, neg.txt and literals/numerical_literals.txt, and trains
with `--data.path=DIR`.  The same table, options and seed write the same bytes.  Unless told
otherwise, a table that the package knows is compared as the benchmark does, any other by `OWN_TABLE`.
"""

import argparse
import dataclasses
import os
from collections.abc import Sequence

from numcoke_jax.cli.build_facts import OWN_OPTIONS, add_fact_options, build_from_facts
from numcoke_jax.cli.columns import add_table_options, split_names
from numcoke_jax.cli.commands import Once, OneLineParser, as_shares, as_typed, refuse_existing, tell_written
from numcoke_jax.config.schema import KEYS
from numcoke_jax.data.files.folder import write_folder
from numcoke_jax.data.files.numbers import Reading
from numcoke_jax.data.load import build_graph
from numcoke_jax.data.public.tables import known_table
from numcoke_jax.data.tables.cells import TableFile, read_table
from numcoke_jax.data.tables.comparisons import DIRECTIONS, GROUPS, OWN_TABLE, PROTOCOLS, ComparisonSettings
from numcoke_jax.data.tables.facts import BY_COLUMN, BY_ORDER
from numcoke_jax.data.tables.known import TABLES, EntityTable
from numcoke_jax.data.tables.own import INDEX, compared_fields, own_table, refuse_hidden
from numcoke_jax.system.errors import UserError, suggestion
from numcoke_jax.system.files import home_path

KNOWN_TABLE = ComparisonSettings()
CHOICES = {"protocol": PROTOCOLS, "direction": DIRECTIONS, "groups": GROUPS}
MORE = {"split": "; of facts also order:COLUMN (earlier rows train) or column:COLUMN (train, valid, test)"}
EPILOG = """\
A fact (h, "Weight_comp", t) says that h's Weight is above t's; equal or missing
values make no fact.  neg.txt holds, for each (h, r), the nearest t with
(t, r, h) among the training facts.  The defaults for known tables are those of
the benchmark.  By default, all entities of your own table are compared, no
value is masked and most facts are for training.  Quote < and > in a shell.
Exit code 0 when the folder was written, 2 with one line on stderr otherwise.

examples:
  numcoke data build --table=cars.csv --name=Name --relations=Weight,Power \\
      --out=graphs/cars
  numcoke data build --table=cities.tsv --name=city,state --out=graphs/cities \\
      --protocol=nearest
  numcoke data build --table=cars --out=graphs/cars --group-size=150
  numcoke data build --table=mine.csv --name=Name --out=mine --missing-rate=0.2
  numcoke data build --facts=results.csv --head=winner --tail=loser \\
      --relation=beat --attributes=players.csv --name=player \\
      --split=order:date --out=graphs/matches
"""


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of the command: where the table is, and the settings of its comparison."""
    parser.set_defaults(run=_run)
    parser.description = "Build a numeric knowledge graph, a folder in text layout, from tables."
    parser.epilog = EPILOG
    add_table_options(parser)
    known = ", ".join(TABLES)
    parser.add_argument(
        "--table",
        action=Once,
        metavar="FILE|NAME",
        help=f"csv, tsv (or .gz, .zip), parquet, xlsx (first sheet), or a known table: {known}",
    )
    parser.add_argument("--dir", default="", help="folder in which a known table's file is looked for first")
    parser.add_argument("--out", required=True, type=home_path, metavar="DIR", help="folder; must not exist")
    add_fact_options(parser)
    hidden = "the columns whose numbers no model is given: facts may compare them, measures look at them"
    parser.add_argument("--hide", metavar="COLUMN,...", help=hidden)
    settings = parser.add_argument_group("how values are compared")
    for field in dataclasses.fields(ComparisonSettings):
        meaning = f"{KEYS[f'data.{field.name}'].meaning} {_default(field.name)}{MORE.get(field.name, '')}"
        settings.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=as_split if field.name == "split" else type(field.default),
            choices=CHOICES.get(field.name),
            metavar=None if field.name in CHOICES else "A,B,C" if field.name == "split" else "N",
            help=meaning.replace("%", "%%"),
        )


def as_split(text: str) -> tuple[float, ...] | str:
    """Shares, or order:COLUMN and the like, as the type of an argparse option."""
    if text.partition(":")[0] in (*BY_ORDER, BY_COLUMN):
        return as_typed(text)
    try:
        return as_shares(text)
    except argparse.ArgumentTypeError as error:
        more = ", or order:COLUMN or column:COLUMN with --facts" if "3 numbers" in str(error) else ""
        raise argparse.ArgumentTypeError(f"{error}{more}") from None


def _default(setting: str) -> str:
    """The default of a setting for `--help`; both if it differs for a user's own table."""
    known, own = (getattr(settings, setting) for settings in (KNOWN_TABLE, OWN_TABLE))
    known, own = (",".join(map(str, value)) if isinstance(value, tuple) else value for value in (known, own))
    return f"(default: {known})" if known == own else f"(default: {known} for known tables, else {own})"


def build(options: argparse.Namespace) -> list[str]:
    """Writes the folder that the options describe and returns what to tell the user.

    Raises:
      UserError: an option is wrong, the table cannot be read, or the folder exists.
    """
    refuse_existing(options.out)
    if bool(options.table) == bool(options.facts):
        raise UserError(
            "--table and --facts: give only one of them"
            if options.table
            else "missing: --table=FILE, whose values are compared, or --facts=FILE, with a fact in each row"
        )
    if options.facts:
        loaded = build_from_facts(options)
    else:
        settings = chosen_settings(options)
        loaded = build_graph(*chosen_table(options), settings)
    fields = loaded.graph.vocabulary.fields
    hidden = _hidden(options, fields) if options.hide else ()
    source = options.table or ", ".join(options.facts)
    write_folder(loaded.graph, options.out, hidden, source=source)
    return loaded.notices


def _hidden(options: argparse.Namespace, fields: Sequence[str]) -> tuple[str, ...]:
    """The fields of --hide.

    Raises:
      UserError: one of them is no field; the message says why the column of that name is none.
    """
    try:
        return split_names("--hide", options.hide, fields)
    except UserError:
        path = options.attributes or options.table
        if not path or path in TABLES:
            raise
    file = dataclasses.replace(read_table(home_path(path)), reading=Reading(options.dates, options.parse))
    names = split_names("--hide", options.hide, {**dict.fromkeys(fields), **file.columns})
    refuse_hidden(file, names, fields, "--hide")
    return names


def chosen_settings(options: argparse.Namespace) -> ComparisonSettings:
    """How to compare the table: by the options, and by the defaults for known tables or for others.

    Raises:
      UserError: an option has a value that is not allowed, or no effect.
    """
    for option in OWN_OPTIONS:
        if getattr(options, option):
            raise UserError(f"--{option.replace('_', '-')} has no meaning without --facts=FILE")
    if isinstance(options.split, str):
        raise UserError(
            f"--split={options.split} has no meaning with --table: give 3 shares such as 0.8,0.1,0.1"
        )
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(ComparisonSettings)}
    given = {name: value for name, value in given.items() if value is not None}
    settings = dataclasses.replace(KNOWN_TABLE if options.table in TABLES else OWN_TABLE, **given)
    if options.neighbours is not None and settings.protocol != "nearest":
        raise UserError(
            f"--neighbours={options.neighbours} has no effect with --protocol={settings.protocol}: leave it "
            "out, or give --protocol=nearest"
        )
    return settings


def chosen_table(options: argparse.Namespace) -> tuple[EntityTable, tuple[str, ...]]:
    """The table of `--table`, and the fields that get a relation."""
    if options.table in TABLES:
        if options.name or options.fields or options.dates or options.parse:
            known = "--name, --fields, --dates, --parse"
            raise UserError(f"{known}: table {options.table} has its own; leave them out")
        categories = (
            tuple(name.strip() for name in options.categories.split(",")) if options.categories else ()
        )
        table = known_table(options.table, options.dir, categories)
        if not options.relations:
            return table, TABLES[options.table].relations
        return table, split_names("--relations", options.relations, table.fields)
    path = str(home_path(options.table))
    if not os.path.exists(path) and not os.path.splitext(path)[1]:
        raise UserError(f"--table: no file and no known table {path!r}; {suggestion(path, TABLES)}")
    if options.dir:
        raise UserError("--dir: only known tables are looked for there; omit it, or write it into --table")
    return own_entities(options, read_table(path))


def own_entities(options: argparse.Namespace, file: TableFile) -> tuple[EntityTable, tuple[str, ...]]:
    """The entities of a user's own table, by `add_table_options`, and the fields that get a relation."""
    file = dataclasses.replace(file, reading=Reading(options.dates, options.parse))
    if not options.name:
        raise UserError(
            f"--name: give the column that names an entity, or --name={INDEX} for the number of the row; "
            f"{suggestion('', file.columns)}; if a row is a fact, numcoke data build --facts takes the table"
        )
    names = split_names("--name", options.name, (*file.columns, INDEX))
    compared, stored, categories = (
        split_names(f"--{option}", given, file.columns) if (given := getattr(options, option)) else ()
        for option in ("relations", "fields", "categories")
    )
    return compared_fields(own_table(file, names, compared, stored, categories), compared)


def _run(options: argparse.Namespace) -> int:
    return tell_written(build(options), options.out)
