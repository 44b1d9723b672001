"""Builds a folder in text layout from a table of entities with numeric columns.

    python -m numcoke_jax.data.build --table=cars.csv --name=Name --relations=Weight,Power --out=DIR

The folder holds train.txt, valid.txt, test.txt, neg.txt and literals/numerical_literals.txt, and trains
with `--config.data.path=DIR`.  The same table, options and seed write the same bytes.
"""

import argparse
import dataclasses
import functools
import os
import sys
from collections.abc import Collection, Sequence

from numcoke_jax.commands import OneLineParser, as_typed, run_command
from numcoke_jax.config_checks import home_path
from numcoke_jax.data.comparisons import DIRECTIONS, GROUPS, PROTOCOLS, ComparisonSettings
from numcoke_jax.data.folder import write_folder
from numcoke_jax.data.literal_values import NEARLY_NUMBERS
from numcoke_jax.data.load import build_graph
from numcoke_jax.data.sources import known_table
from numcoke_jax.data.table_files import (
    SAVED_INDEX,
    TableFile,
    column_numbers,
    describe_cells,
    read_table,
    suggestion,
)
from numcoke_jax.data.tables import TABLES, EntityTable, TableSpec, entity_table
from numcoke_jax.errors import UserError

SHOWN_COLUMNS = 8  # in the notice of columns without a number

EPILOG = """\
A fact (h, "Weight_comp", t) says that h's Weight is above t's; equal or missing values make no fact.
neg.txt holds, for each (h, r), the nearest t with (t, r, h) among the training facts.
Exit code 0 when the folder was written, 2 with one line on stderr otherwise.

examples:
  python -m numcoke_jax.data.build --table=cars.csv --name=Name --relations=Weight,Power --out=graphs/cars
  python -m numcoke_jax.data.build --table=cities.tsv --name=city,state --out=graphs/cities --protocol=nearest
  python -m numcoke_jax.data.build --table=cars --out=graphs/cars --groups=common --group-size=150
"""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = OneLineParser(
        prog="python -m numcoke_jax.data.build",
        description="Build a numeric knowledge graph, a folder in text layout, from a table.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    default = ComparisonSettings()
    _table_options(options.add_argument_group("table"), default)
    _comparison_options(options.add_argument_group("comparisons"), default)
    _random_options(options.add_argument_group("split, mask and seed"), default)
    return options


def _table_options(options: argparse._ArgumentGroup, default: ComparisonSettings) -> None:
    options.add_argument(
        "--table",
        required=True,
        metavar="FILE|NAME",
        help=f"csv, tsv (or .gz, .zip), parquet, xlsx (first sheet), or a known table: {', '.join(TABLES)}",
    )
    options.add_argument(
        "--name",
        metavar="COLUMN,...",
        help="the column that names an entity, or several, joined by ', '; known tables have their own",
    )
    options.add_argument(
        "--relations",
        metavar="COLUMN,...",
        help="numeric columns that get a comparative relation (default: all fields, or a known table's own)",
    )
    options.add_argument(
        "--fields",
        metavar="COLUMN,...",
        help="numeric columns stored as literals beside those of --relations (default: every numeric one)",
    )
    options.add_argument("--dir", default="", help="folder searched first for a known table's file")
    options.add_argument(
        "--entities", type=int, default=default.entities, metavar="N", help="keep a sample; 0: all"
    )
    options.add_argument(
        "--out", required=True, type=home_path, metavar="DIR", help="folder to write; must not exist"
    )


def _comparison_options(options: argparse._ArgumentGroup, default: ComparisonSettings) -> None:
    options.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default=default.protocol,
        help="compare every pair of a group, or each head with its nearest tails only (default: %(default)s)",
    )
    options.add_argument(
        "--neighbours",
        type=int,
        metavar="K",
        help=f"tails a head in protocol nearest (default: {default.neighbours})",
    )
    options.add_argument(
        "--direction",
        choices=DIRECTIONS,
        default=default.direction,
        help="a fact says head > tail or head < tail; quote it in a shell (default: '%(default)s')",
    )
    options.add_argument(
        "--groups",
        choices=GROUPS,
        default=default.groups,
        help="a random group of entities a relation, or one for all (default: %(default)s)",
    )
    options.add_argument(
        "--group-size",
        type=int,
        default=default.group_size,
        metavar="G",
        help="entities in a group; 0: all (default: %(default)s)",
    )
    options.add_argument(
        "--negatives-per-pair",
        type=int,
        default=default.negatives_per_pair,
        metavar="K",
        help="known-false tails a (head, relation) in neg.txt; 0: none (default: %(default)s)",
    )


def _random_options(options: argparse._ArgumentGroup, default: ComparisonSettings) -> None:
    options.add_argument(
        "--split",
        type=_shares,
        default=default.split,
        metavar="A,B,C",
        help="shares of train, valid, test (default: 0.1,0.1,0.8)",
    )
    options.add_argument(
        "--missing-rate",
        type=float,
        default=default.missing_rate,
        metavar="P",
        help="share of the literals left out (default: %(default)s)",
    )
    options.add_argument("--seed", type=int, default=default.seed, help="of all draws (default: %(default)s)")


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(share) for share in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be 3 numbers such as 0.8,0.1,0.1, got {text!r}") from None


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options given; raises UserError for a wrong one, with the closest option for an unknown one."""
    options = parser()
    known = [option for action in options._actions for option in action.option_strings]
    for argument in arguments:
        option = argument.split("=", 1)[0]
        if option.startswith("--") and option not in known:
            raise UserError(f"no option {option!r}; {suggestion(option, known)}")
    return options.parse_args(arguments)


def build(options: argparse.Namespace) -> list[str]:
    """Writes the folder that the options describe and returns what to tell the user.

    Raises:
      UserError: an option is wrong, the table cannot be read, or the folder exists.
    """
    if os.path.lexists(options.out):
        raise UserError(f"--out: {options.out} exists already; give another folder, nothing is overwritten")
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(ComparisonSettings)}
    if options.neighbours is None:
        given.pop("neighbours")
    elif options.protocol != "nearest":
        raise UserError(
            f"--neighbours={options.neighbours} has no effect with --protocol={options.protocol}: leave it "
            "out, or give --protocol=nearest"
        )
    settings = ComparisonSettings(**given)
    table, relations = chosen_table(options)
    loaded = build_graph(table, relations, settings)
    write_folder(loaded.graph, options.out)
    return loaded.notices


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
        raise UserError("--dir: is searched for known tables only; leave it out, or write it into --table")
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


def numeric_columns(file: TableFile, taken: Collection[str]) -> tuple[tuple[str, ...], list[str]]:
    """The columns that hold numbers and missing cells only, and notices of those left out.

    Columns in `taken` and those without a name are passed over.  A column with some numbers and some other
    cells, with nothing but numbers in another notation, or with an index that pandas saved has a notice of
    its own; columns of text, dates or truth values share one.
    """
    found, notices, text = [], [], []
    for column, cells in file.columns.items():
        if column in taken or not column:
            continue
        if SAVED_INDEX.fullmatch(column):
            notices.append(
                f"column {column!r} left out: an index that pandas saved; ask for it by name if it is a field"
            )
            continue
        _, observed, wrong = column_numbers(cells)
        if wrong and (observed.any() or NEARLY_NUMBERS.issuperset(wrong.values())):
            notices.append(
                f"column {column!r} left out: not only numbers, {describe_cells(cells, wrong, most=1)}"
            )
        elif observed.any():
            found.append(column)
        elif wrong:
            text.append(repr(column))
    if text:
        more = f" and {len(text) - SHOWN_COLUMNS} more" if len(text) > SHOWN_COLUMNS else ""
        notices.append(f"left out, without any number: {', '.join(text[:SHOWN_COLUMNS])}{more}")
    return tuple(found), notices


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code is 0, or 2 after one line on stderr."""
    return run_command(functools.partial(_run, sys.argv[1:] if arguments is None else arguments))


def _run(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    for notice in build(options):
        print(notice)
    print(f"written: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
