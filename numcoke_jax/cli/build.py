"""Builds a folder in text layout from a table of entities with numeric columns.

    numcoke data build --table=cars.csv --name=Name --relations=Weight,Power --out=DIR

The folder holds train.txt, valid.txt, test.txt, neg.txt and literals/numerical_literals.txt, and trains
with `--data.path=DIR`.  The same table, options and seed write the same bytes.  Unless told
otherwise, a table that the package knows is compared as the benchmark does, any other by `OWN_TABLE`.
"""

import argparse
import dataclasses
import os
from collections.abc import Collection

from numcoke_jax.cli.commands import OneLineParser, as_shares, as_typed
from numcoke_jax.config.schema import KEYS
from numcoke_jax.data.files.folder import write_folder
from numcoke_jax.data.load import build_graph
from numcoke_jax.data.public.sources import known_table
from numcoke_jax.data.tables.cells import read_table
from numcoke_jax.data.tables.comparisons import DIRECTIONS, GROUPS, OWN_TABLE, PROTOCOLS, ComparisonSettings
from numcoke_jax.data.tables.known import TABLES, EntityTable, TableSpec, entity_table
from numcoke_jax.data.tables.own import numeric_columns
from numcoke_jax.system.errors import UserError, suggestion
from numcoke_jax.system.files import home_path

KNOWN_TABLE = ComparisonSettings()
CHOICES = {"protocol": PROTOCOLS, "direction": DIRECTIONS, "groups": GROUPS}
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
"""


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of the command: where the table is, and the settings of its comparison."""
    parser.set_defaults(run=_run)
    parser.description = "Build a numeric knowledge graph, a folder in text layout, from a table."
    parser.epilog = EPILOG
    known = ", ".join(TABLES)
    for name, meaning in (
        ("name", "that name an entity, joined by ', '; known tables have their own"),
        ("relations", "with numbers that get a relation (default: all fields, or a known table's own)"),
        ("fields", "with numbers stored as literals, besides those of --relations (default: all)"),
    ):
        parser.add_argument(f"--{name}", metavar="COLUMN,...", help=f"the columns {meaning}")
    parser.add_argument(
        "--table",
        required=True,
        metavar="FILE|NAME",
        help=f"csv, tsv (or .gz, .zip), parquet, xlsx (first sheet), or a known table: {known}",
    )
    parser.add_argument("--dir", default="", help="folder in which a known table's file is looked for first")
    parser.add_argument("--out", required=True, type=home_path, metavar="DIR", help="folder; must not exist")
    settings = parser.add_argument_group("how values are compared")
    for field in dataclasses.fields(ComparisonSettings):
        settings.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=as_shares if field.name == "split" else type(field.default),
            choices=CHOICES.get(field.name),
            metavar=None if field.name in CHOICES else "A,B,C" if field.name == "split" else "N",
            help=f"{KEYS[f'data.{field.name}'].meaning} {_default(field.name)}".replace("%", "%%"),
        )


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
    if os.path.lexists(options.out):
        raise UserError(f"--out: {options.out} exists already; give another folder, nothing is overwritten")
    settings = chosen_settings(options)
    table, relations = chosen_table(options)
    loaded = build_graph(table, relations, settings)
    write_folder(loaded.graph, options.out)
    return loaded.notices


def chosen_settings(options: argparse.Namespace) -> ComparisonSettings:
    """How to compare the table: by the options, and by the defaults for known tables or for others.

    Raises:
      UserError: an option has a value that is not allowed, or no effect.
    """
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
        if options.name or options.fields:
            raise UserError(f"--name, --fields: table {options.table} has its own; leave them out")
        table = known_table(options.table, options.dir)
        if not options.relations:
            return table, TABLES[options.table].relations
        return table, split_names("--relations", options.relations, table.fields)
    path = str(home_path(options.table))
    if not os.path.exists(path) and not os.path.splitext(path)[1]:
        raise UserError(f"--table: no file and no known table {path!r}; {suggestion(path, TABLES)}")
    if options.dir:
        raise UserError("--dir: only known tables are looked for there; omit it, or write it into --table")
    file = read_table(path)
    if not options.name:
        raise UserError(f"--name: give the column that names an entity; {suggestion('', file.columns)}")
    names = split_names("--name", options.name, file.columns)
    compared = split_names("--relations", options.relations, file.columns) if options.relations else ()
    notices: list[str] = []
    if options.fields:
        stored = split_names("--fields", options.fields, file.columns)
    else:
        stored, notices = numeric_columns(file, (*names, *compared))
    fields = tuple(dict.fromkeys((*compared, *stored)))
    if not fields:
        why = "".join(f"; {notice}" for notice in notices)
        raise UserError(f"{file.where}: no column holds numbers only; name some with --relations{why}")
    title = os.path.basename(path)
    spec = TableSpec(
        name=title,
        files=(),
        source="",
        name_columns=names,
        name_format=", ".join(["{}"] * len(names)),
        fields=fields,
        relations=compared or fields,
    )
    table = entity_table(spec, file)
    notices.insert(0, f"{title}: fields {', '.join(fields)}")
    return dataclasses.replace(table, notices=(*notices, *table.notices)), spec.relations


def split_names(option: str, text: str, known: Collection[str]) -> tuple[str, ...]:
    """The column names in `text`, separated by commas; a column whose own name has a comma may stand alone.

    Raises:
      UserError: one of them is not `known`; the message has `option` and the closest known name.
    """
    text = as_typed(text)
    if text in known:
        return (text,)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not name or name not in known:
            raise UserError(f"{option}: no column {name!r}; {suggestion(name, known)}")
    return tuple(dict.fromkeys(names))


def _run(options: argparse.Namespace) -> int:
    for notice in build(options):
        print(notice)
    print(f"written: {options.out}")
    return 0
