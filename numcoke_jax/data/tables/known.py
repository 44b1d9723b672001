"""Raw tables -> entities with numeric values: which columns name an entity and which are its fields.

An entity has one name and one row.  If rows share a name, the one kept does not depend on the order
of the rows: the largest value of the spec's `keep_largest`, or the smallest of `keep_smallest`, then the
smallest values of the fields in turn, a missing one last.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from numcoke_jax.data.files.dates import DESCRIBED
from numcoke_jax.data.files.numbers import A_DATE, EXACT_INTEGERS, NEARLY_NUMBERS, NO_DATE_READ, is_rounded
from numcoke_jax.data.tables.cells import Numbers, TableFile, column_numbers, describe_cells
from numcoke_jax.system.errors import UserError, plural, suggestion

RELATION_SUFFIX = "_comp"  # the relation that compares field "tempo" is called "tempo_comp"


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """A raw table that the package knows.

    Attributes:
      name: its name in `config.data.table`.
      files: file names under which it is looked for, in this order; empty if a package ships it.
      source: where it can be had, for messages.
      name_columns: the columns that make an entity's name.
      name_format: how, such as "{}, {}" for "Chicago, IL".
      fields: columns with the numeric values.
      relations: the fields that get a comparative relation.
      keep_smallest, keep_largest: a column that decides which of several rows with one name is kept; if
        it is None, or a copy of the table lacks it, the fields decide.
    """

    name: str
    files: tuple[str, ...]
    source: str
    name_columns: tuple[str, ...]
    name_format: str
    fields: tuple[str, ...]
    relations: tuple[str, ...]
    keep_smallest: str | None = None
    keep_largest: str | None = None


CARS = TableSpec(
    name="cars",
    files=(),
    source="the PyPI package vega_datasets",
    name_columns=("Name", "Year"),
    name_format="{} ({})",
    fields=(
        "Acceleration",
        "Cylinders",
        "Displacement",
        "Horsepower",
        "Miles_per_Gallon",
        "Weight_in_lbs",
        "Year",
    ),
    relations=("Acceleration", "Displacement", "Horsepower", "Miles_per_Gallon", "Weight_in_lbs"),
)

SPOTIFY = TableSpec(
    name="spotify",
    files=("spotify.csv", "data.csv"),
    source="Kaggle geomack/spotifyclassification (https://www.kaggle.com/datasets/geomack/spotifyclassification)",
    name_columns=("song_title", "artist"),
    name_format="{} — {}",
    fields=(
        "acousticness",
        "danceability",
        "duration_ms",
        "energy",
        "instrumentalness",
        "key",
        "liveness",
        "loudness",
        "mode",
        "speechiness",
        "tempo",
        "time_signature",
        "valence",
    ),
    relations=(
        "acousticness",
        "danceability",
        "duration_ms",
        "energy",
        "liveness",
        "loudness",
        "speechiness",
        "tempo",
        "valence",
    ),
    keep_smallest="",  # the unnamed first column, a running number
)

CREDIT = TableSpec(
    name="credit",
    files=("credit.csv", "UCI_Credit_Card.csv"),
    source=(
        "Kaggle uciml/default-of-credit-card-clients-dataset "
        "(https://www.kaggle.com/datasets/uciml/default-of-credit-card-clients-dataset)"
    ),
    name_columns=("ID",),
    name_format="client_{}",
    fields=(
        "LIMIT_BAL",
        "AGE",
        *(f"PAY_{month}" for month in (0, 2, 3, 4, 5, 6)),
        *(f"BILL_AMT{month}" for month in range(1, 7)),
        *(f"PAY_AMT{month}" for month in range(1, 7)),
    ),
    relations=(
        "LIMIT_BAL",
        "AGE",
        *(f"BILL_AMT{month}" for month in (1, 3, 6)),
        *(f"PAY_AMT{month}" for month in (1, 3, 6)),
    ),
)

US_CITIES = TableSpec(
    name="us_cities",
    files=("us_cities.csv", "uscities.csv"),
    source="simplemaps basic US cities (https://simplemaps.com/data/us-cities)",
    name_columns=("city", "state_id"),
    name_format="{}, {}",
    fields=("density", "lat", "lng", "population", "ranking"),
    relations=("density", "lat", "lng", "population"),
    keep_largest="population",
)

TABLES = {spec.name: spec for spec in (CARS, SPOTIFY, CREDIT, US_CITIES)}


def table_spec(name: str) -> TableSpec:
    """The spec called `name`; raises UserError naming the closest one otherwise."""
    if name not in TABLES:
        raise UserError(f"data.table: no table {name!r}; {suggestion(name, TABLES)}")
    return TABLES[name]


@dataclasses.dataclass(frozen=True)
class EntityTable:
    """N entities with M numeric fields, sorted by name (code points).

    Attributes:
      name: what to call the table in notices.
      entities: N different names, sorted.
      fields: M different names, in the order of the columns below.
      values: float64 [N, M] in their own units; 0 where not observed.
      observed: bool [N, M].
      notices: what was left out on the way, one line each.
      rows: the row of each entity in its file; () if there is none.
      categories: facts (entity, column, value) of categorical columns, by name.
    """

    name: str
    entities: tuple[str, ...]
    fields: tuple[str, ...]
    values: np.ndarray
    observed: np.ndarray
    notices: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    categories: tuple[tuple[str, str, str], ...] = ()


def entity_table(spec: TableSpec, table: TableFile) -> EntityTable:
    """Names and numbers of a table, by its spec.

    Raises:
      UserError: a column is missing, a field's cell is not a number, or no row has a name.
    """
    fields = sorted(spec.fields)
    columns = [field_column(table, field) for field in fields]
    names = entity_names(spec, table)
    named = np.flatnonzero([name != "" for name in names])
    if not named.size:
        raise UserError(f"{table.where}: no row has a name in {', '.join(map(repr, spec.name_columns))}")
    order = [np.where(column.observed, column.values, np.inf) for column in columns]
    for title, sign in ((spec.keep_smallest, 1.0), (spec.keep_largest, -1.0)):
        if title is not None and title in table.columns:
            found = field_column(table, title)
            order.insert(0, np.where(found.observed, sign * found.values, np.inf))
    kept = first_rows(names, named, np.stack(order, axis=1) if order else np.zeros((len(names), 0)))
    values, observed = np.zeros((len(kept), len(fields))), np.zeros((len(kept), len(fields)), bool)
    notices = []
    for place, (field, found) in enumerate(zip(fields, columns, strict=True)):
        values[:, place], observed[:, place] = found.values[kept], found.observed[kept]
        where = f"{spec.name}: column {field!r}"
        notices += conversions(where, found)
        if rounded := count_rounded(table.column(field), found.values):
            notices.append(f"{where}: {plural(rounded, 'integer')} beyond 2^53 rounded to float64")
    if len(named) < len(names):
        notices.append(f"{spec.name}: {plural(len(names) - len(named), 'row')} without a name left out")
    if len(kept) < len(named):
        left_out = len(named) - len(kept)
        verb = "repeats" if left_out == 1 else "repeat"
        notices.append(f"{spec.name}: {plural(left_out, 'row')} left out that {verb} a name")
    return EntityTable(
        name=spec.name,
        entities=tuple(names[row] for row in kept),
        fields=tuple(fields),
        values=values,
        observed=observed,
        notices=tuple(notices),
        rows=tuple(kept.tolist()),
    )


def joined_names(table: TableFile, columns: Sequence[str]) -> list[str]:
    """A name per row, of one column or of several joined by ", "; "" if all are empty."""
    cells = [table.names(column) for column in columns]
    return [", ".join(row) if any(row) else "" for row in zip(*cells, strict=True)]


def entity_names(spec: TableSpec, table: TableFile) -> list[str]:
    """One name per row; "" if every column that makes it is empty."""
    cells = [table.names(column) for column in spec.name_columns]
    return [spec.name_format.format(*row) if any(row) else "" for row in zip(*cells, strict=True)]


def first_rows(names: Sequence[str], rows: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The row of each different name, sorted by name: the one of `rows` whose `order` comes first.

    Args:
      names: n names.
      rows: int [m], the rows to choose from.
      order: float64 [n, c], compared column by column.

    Returns:
      int64 [different names].
    """
    _, ids = np.unique(np.array([names[row] for row in rows], dtype=object), return_inverse=True)
    by_name = rows[np.lexsort((*order[rows].T[::-1], ids))]
    is_first = [i == 0 or names[row] != names[by_name[i - 1]] for i, row in enumerate(by_name)]
    return by_name[np.array(is_first)]


def field_column(table: TableFile, field: str) -> Numbers:
    """The numbers of a column; raises UserError listing any cells that are neither numbers nor missing."""
    found = table.numbers(field)
    if found.wrong:
        raise UserError(
            f"{table.where}: column {field!r} must hold plain numbers or empty cells, "
            f"got {describe_cells(table.column(field), found.wrong)}{parse_hint(table, field)}"
        )
    return found


def count_rounded(cells: Sequence[Any], values: np.ndarray) -> int:
    """How many cells are integers that float64 cannot hold; `column_numbers` rounds them in `values`."""
    large = np.flatnonzero(np.abs(values) >= EXACT_INTEGERS).tolist()
    return sum(is_rounded(str(cells[row]), float(values[row])) for row in large)


def parse_hint(table: TableFile, column: str) -> str:
    """How a column whose cells are not all numbers would be one, if they are meant to be."""
    for way, asked in {
        "parse=numbers reads": {"parse": "numbers"},
        "dates=year or dates=days read": {"dates": "year"},
    }.items():
        if not column_numbers(table.columns[column], dataclasses.replace(table.reading, **asked)).wrong:
            return f"; {way} them"
    found = table.numbers(column)
    if NEARLY_NUMBERS.intersection(found.wrong.values()):
        return "; write plain numbers, as 1065.5"
    if {A_DATE, NO_DATE_READ}.intersection(found.wrong.values()):
        return "; write dates as 1970-01-31, which dates=year and dates=days read"
    return "; empty these cells if their numbers are missing" if found.observed.any() else ""


def conversions(where: str, column: Numbers) -> list[str]:
    """What was rewritten in a column, with its count, and what should not be mixed."""
    days, numbers = column.converted.get(DESCRIBED["days"], 0), int(column.observed.sum())
    notices = [
        f"{where}: {f'{count:,} of ' if count < numbers else ''}{plural(numbers, 'value')} converted ({how})"
        for how, count in column.converted.items()
    ]
    if 0 < days < numbers:
        notices.append(
            f"{where}: dates, read as days, beside other numbers; dates=year suits dates and years"
        )
    return notices
