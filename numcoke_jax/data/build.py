"""Builds a folder in text layout from a table of entities with numeric columns.

    python -m numcoke_jax.data.build --table=cars.csv --name=Name --relations=Weight,Power --out=DIR

The folder holds train.txt, valid.txt, test.txt, neg.txt and literals/numerical_literals.txt, and trains
with `--config.data.path=DIR`.  The same table, options and seed write the same bytes.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from numcoke_jax.data.comparisons import DIRECTIONS, GROUPS, PROTOCOLS, ComparisonSettings
from numcoke_jax.data.folder import write_folder
from numcoke_jax.data.load import build_graph
from numcoke_jax.data.sources import known_table
from numcoke_jax.data.table_files import TableFile, column_numbers, read_table, suggestion
from numcoke_jax.data.tables import TABLES, EntityTable, TableSpec, entity_table
from numcoke_jax.errors import UserError

EPILOG = """\
A fact (h, "Weight_comp", t) says that h's Weight is above t's; equal or missing values make no fact.
neg.txt holds, for each (h, r), the nearest t with (t, r, h) among the training facts.
Exit code 0 when the folder was written, 2 with one line on stderr otherwise.

examples:
  python -m numcoke_jax.data.build --table=cars.csv --name=Name --relations=Weight,Power --out=graphs/cars
  python -m numcoke_jax.data.build --table=cities.tsv --name=city,state --out=graphs/cities --protocol=nearest
  python -m numcoke_jax.data.build --table=cars --out=graphs/cars --groups=common --group-size=150
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line, with the closest option."""

    def error(self, message: str) -> NoReturn:
        known = [option for action in self._actions for option in action.option_strings]
        if message.startswith("unrecognized arguments: "):
            option = message.removeprefix("unrecognized arguments: ").split()[0].split("=")[0]
            message = f"no option {option!r}; {suggestion(option, known)}"
        raise UserError(f"{message}; see --help")


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    default = ComparisonSettings()
    options = _Parser(
        prog="python -m numcoke_jax.data.build",
        description="Build a numeric knowledge graph, a folder in text layout, from a table.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    source = options.add_argument_group("table")
    source.add_argument(
        "--table",
        required=True,
        metavar="FILE|NAME",
        help=f"csv, tsv (also .gz or .zip), parquet or xlsx, or a known table: {', '.join(TABLES)}",
    )
    source.add_argument(
        "--name",
        metavar="COLUMN,...",
        help="the column that names an entity, or several, joined by ', '; known tables have their own",
    )
    source.add_argument(
        "--relations",
        metavar="COLUMN,...",
        help="numeric columns that get a comparative relation (default: all fields, or a known table's own)",
    )
    source.add_argument(
        "--fields",
        metavar="COLUMN,...",
        help="numeric columns stored as literals beside those of --relations (default: every numeric one)",
    )
    source.add_argument("--dir", default="", help="folder searched first for a known table's file")
    source.add_argument(
        "--entities", type=int, default=default.entities, metavar="N", help="keep a sample; 0: all"
    )
    source.add_argument("--out", required=True, metavar="DIR", help="folder to write; must not exist")

    comparing = options.add_argument_group("comparisons")
    comparing.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default=default.protocol,
        help="compare every pair of a group, or each head with its nearest tails only (default: %(default)s)",
    )
    comparing.add_argument(
        "--neighbours",
        type=int,
        default=default.neighbours,
        metavar="K",
        help="tails a head in protocol nearest (default: %(default)s)",
    )
    comparing.add_argument(
        "--direction",
        choices=DIRECTIONS,
        default=default.direction,
        help="a fact says head > tail or head < tail; quote it in a shell (default: '%(default)s')",
    )
    comparing.add_argument(
        "--groups",
        choices=GROUPS,
        default=default.groups,
        help="a random group of entities a relation, or one for all (default: %(default)s)",
    )
    comparing.add_argument(
        "--group-size",
        type=int,
        default=default.group_size,
        metavar="G",
        help="entities in a group; 0: all (default: %(default)s)",
    )
    comparing.add_argument(
        "--negatives-per-pair",
        type=int,
        default=default.negatives_per_pair,
        metavar="K",
        help="known-false tails a (head, relation) in neg.txt; 0: none (default: %(default)s)",
    )

    randomness = options.add_argument_group("split, mask and seed")
    randomness.add_argument(
        "--split",
        type=_shares,
        default=default.split,
        metavar="A,B,C",
        help="shares of train, valid, test (default: 0.1,0.1,0.8)",
    )
    randomness.add_argument(
        "--missing-rate",
        type=float,
        default=default.missing_rate,
        metavar="P",
        help="share of the literals left out (default: %(default)s)",
    )
    randomness.add_argument(
        "--seed", type=int, default=default.seed, help="of all draws (default: %(default)s)"
    )
    return options


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(share) for share in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be 3 numbers such as 0.8,0.1,0.1, got {text!r}") from None


def build(arguments: argparse.Namespace) -> list[str]:
    """Writes the folder that the options describe and returns what to tell the user.

    Raises:
      UserError: an option is wrong, the table cannot be read, or the folder exists.
    """
    out = Path(arguments.out)
    if out.exists() or out.is_symlink():
        raise UserError(f"--out: {out} exists already; give another folder, nothing is overwritten")
    settings = ComparisonSettings(
        protocol=arguments.protocol,
        neighbours=arguments.neighbours,
        direction=arguments.direction,
        groups=arguments.groups,
        group_size=arguments.group_size,
        entities=arguments.entities,
        split=arguments.split,
        missing_rate=arguments.missing_rate,
        negatives_per_pair=arguments.negatives_per_pair,
        seed=arguments.seed,
    )
    table, relations = chosen_table(arguments)
    loaded = build_graph(table, relations, settings)
    write_folder(loaded.graph, out)
    return loaded.notices


def chosen_table(arguments: argparse.Namespace) -> tuple[EntityTable, tuple[str, ...]]:
    """The table of `--table` with the fields that get a relation."""
    if arguments.table in TABLES:
        if arguments.name or arguments.fields:
            raise UserError(f"--name, --fields: table {arguments.table} has its own; leave them out")
        table = known_table(arguments.table, arguments.dir)
        chosen = arguments.relations
        relations = split_names(chosen, table.fields) if chosen else TABLES[arguments.table].relations
        return table, relations
    file = read_table(_table_path(arguments.table))
    if not arguments.name:
        raise UserError(f"--name: give the column that names an entity; {suggestion('', file.columns)}")
    spec = file_spec(file, Path(arguments.table).name, arguments.name, arguments.relations, arguments.fields)
    return entity_table(spec, file), spec.relations


def _table_path(text: str) -> Path:
    """The path of a table file; raises UserError for a word that looks like a known table's name."""
    path = Path(text).expanduser()
    if not path.exists() and not path.suffix:
        raise UserError(f"--table: no file and no known table {text!r}; {suggestion(text, TABLES)}")
    return path


def file_spec(file: TableFile, title: str, name: str, relations: str | None, fields: str | None) -> TableSpec:
    """The spec of a user's table.

    Args:
      file: its columns.
      title: what to call it in notices.
      name: the column or columns of an entity's name, separated by commas.
      relations: columns to compare, separated by commas; None compares every field.
      fields: further columns to store; None stores every column that holds numbers only.
    """
    name_columns = split_names(name, file.columns)
    compared = split_names(relations, file.columns) if relations else ()
    if fields:
        stored = split_names(fields, file.columns)
    else:
        stored = tuple(
            column for column in file.columns if column not in name_columns and is_numeric(file, column)
        )
    all_fields = tuple(dict.fromkeys((*stored, *compared)))
    if not all_fields:
        raise UserError(f"{file.where}: no column holds numbers only; name some with --relations")
    return TableSpec(
        name=title,
        files=(),
        source="",
        name_columns=name_columns,
        name_format=", ".join(["{}"] * len(name_columns)),
        fields=all_fields,
        relations=compared or all_fields,
    )


def split_names(text: str, known: Sequence[str] | dict[str, list]) -> tuple[str, ...]:
    """The column names in `text`, separated by commas; a column whose own name has a comma may stand alone.

    Raises:
      UserError: one of them is not `known`; the message has the closest one.
    """
    if text in known:
        return (text,)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in known:
            raise UserError(f"no column {name!r}; {suggestion(name, known)}")
    return tuple(dict.fromkeys(names))


def is_numeric(file: TableFile, column: str) -> bool:
    """Whether a column holds numbers and missing cells only, and at least one number."""
    _, observed, wrong = column_numbers(file.columns[column])
    return bool(observed.any()) and not wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code is 0, or 2 after one line on stderr."""
    try:
        options = parser().parse_args(arguments)
        notices = build(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for notice in notices:
        print(notice)
    print(f"written: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
