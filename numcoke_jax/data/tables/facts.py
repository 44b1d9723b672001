"""Tables with a fact in each row -> names of heads, relations and tails, in splits.

A row says that its head stands in a relation to its tail: a winner and a loser, a citing and a cited paper.
Rows without a name are left out; a fact that a split has several times counts once.  Several tables are read
as one, each with a relation of its own or with the same column of relations.  The splits come

    (0.8, 0.1, 0.1)   at random, by shares of the different facts, whatever the order of the rows
    order:COLUMN      by a column of numbers or dates: the first 80 % of the rows train, the next 10 %
                      validate, the last 10 % test; equal ones stay together.  time:COLUMN is the same
    column:COLUMN     as given: its cells are train, valid or test
"""

import dataclasses
import datetime
import itertools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from numcoke_jax.data.files.encode import named_facts
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.data.tables.cells import TableFile, column_numbers
from numcoke_jax.data.tables.draws import SPLIT_STREAM, check_integer, check_shares, split_triples, stream
from numcoke_jax.data.tables.known import joined_names
from numcoke_jax.data.tail_index import distinct_facts
from numcoke_jax.system.errors import UserError, plural, plural_of, printable

DEFAULT_SHARES = (0.8, 0.1, 0.1)
BY_ORDER, BY_COLUMN = ("order", "time"), "column"
SPLIT_FORMS = "3 shares such as 0.8,0.1,0.1, order:COLUMN or column:COLUMN"
SHOWN_CELLS = 3  # wrong ones, in a message


@dataclasses.dataclass(frozen=True)
class FactChoice:
    """Which columns of tables say what; names of several columns are joined by ", ".

    Attributes:
      head, tail: columns of the facts, in every table.
      relations: the relation of all facts, or one for each table; (): `relation_column` names them.
      relation_column: the column that names each fact's relation, or "".
      name: the columns of the attributes that name an entity.
      fields: columns of the attributes that become literals; (): every one that holds numbers only.
      categories: columns of the attributes that become facts, for training.
      split: shares, "order:COLUMN" or "column:COLUMN"; see the top of this module.
      seed: of a split at random.
    """

    head: tuple[str, ...]
    tail: tuple[str, ...]
    relations: tuple[str, ...] = ()
    relation_column: str = ""
    name: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    split: tuple[float, ...] | str = DEFAULT_SHARES
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises UserError naming the setting, what it was and what it may be."""
        for setting in ("head", "tail"):
            if not getattr(self, setting):
                raise UserError(f"{setting}: give the column of the facts that names the {setting}")
        if self.head == self.tail:
            raise UserError(
                f"tail: {printable(', '.join(self.tail))} is the head's column too, so that every fact would "
                "link an entity to itself; name another"
            )
        named = bool(self.relations) and all(relation.strip() for relation in self.relations)
        if named == bool(self.relation_column):
            raise UserError(
                "relation: give either a name for the relation of all facts, such as beat, or as relation "
                "column the one that names each fact's"
            )
        if isinstance(self.split, str):
            self.split_column()
        else:
            check_integer("seed", self.seed, 0)
            check_shares(self.split)

    def split_column(self) -> tuple[str, str]:
        """("order" or "column", the column) of a split that is not at random; raises UserError."""
        kind, colon, column = str(self.split).partition(":")
        if not (colon and column) or kind not in (*BY_ORDER, BY_COLUMN):
            raise UserError(f"split: must be {SPLIT_FORMS}, got {printable(self.split)}")
        return ("column" if kind == BY_COLUMN else "order"), column


@dataclasses.dataclass(frozen=True)
class FactTable:
    """Facts by name.

    Attributes:
      where: the tables, for messages.
      entities, relations: names, sorted; each is in some fact.
      splits: int64 [n, 3] different facts (head, relation, tail) of train, valid and test, as positions in
        these names.
      notices: what a user should know, one line each.
    """

    where: str
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    splits: dict[str, np.ndarray]
    notices: tuple[str, ...]

    def tables(self) -> dict[str, pa.Table]:
        """The splits with names: columns head, relation, tail."""
        names = pa.array(self.entities, pa.string()), pa.array(self.relations, pa.string())
        return {split: named_facts(facts, *names) for split, facts in self.splits.items()}


def read_facts(tables: Sequence[TableFile], choice: FactChoice) -> FactTable:
    """The facts of one or several tables, one for each row with names.

    Raises:
      UserError: a column is missing from a table, no row has all names, the split's column has a cell of
        another kind, there is another number of relations than of tables, or no fact is left for training.
    """
    heads, tails = (_joined(tables, columns) for columns in (choice.head, choice.tail))
    relations = _relations(tables, choice)
    rows = np.flatnonzero([bool(h and r and t) for h, r, t in zip(heads, relations, tails, strict=True)])
    where = ", ".join(table.where for table in tables)
    if not len(rows):
        raise UserError(f"{where}: no row has a head, a relation and a tail; fill some in")
    entities, ids = _ids([*(heads[row] for row in rows), *(tails[row] for row in rows)])
    names, relation_ids = _ids([relations[row] for row in rows])
    facts = np.stack([ids[: len(rows)], relation_ids, ids[len(rows) :]], axis=1)
    splits, told = _split(tables, choice, rows, facts)
    distinct = {split: distinct_facts(part) for split, part in splits.items()}
    if not len(distinct["train"]):
        raise UserError(f"{where}: split: of {plural(len(rows), 'row')}, none is for training")
    left_out, repeated = len(heads) - len(rows), len(rows) - sum(map(len, distinct.values()))
    counts = ", ".join(f"{len(distinct[split]):,} {split}" for split in SPLITS)
    title = ", ".join(os.path.basename(table.where) for table in tables)
    notices = [
        f"{title}: {plural(sum(map(len, distinct.values())), 'fact')} about "
        f"{plural_of(len(entities), 'entity', 'entities')}, split {told}: {counts}"
    ]
    if left_out:
        notices.append(f"{title}: {plural(left_out, 'row')} left out without a head, relation or tail")
    if repeated:
        notices.append(f"{title}: {plural(repeated, 'row')} with a repeated fact, which counts once")
    return FactTable(where, entities, names, distinct, tuple(notices))


def _joined(tables: Sequence[TableFile], columns: Sequence[str]) -> list[str]:
    """The names in these columns of all tables, one after the other."""
    return list(itertools.chain.from_iterable(joined_names(table, columns) for table in tables))


def _relations(tables: Sequence[TableFile], choice: FactChoice) -> list[str]:
    """The relation of each row of all tables."""
    if choice.relation_column:
        return _joined(tables, [choice.relation_column])
    relations = choice.relations if len(choice.relations) > 1 else choice.relations * len(tables)
    if len(relations) != len(tables):
        raise UserError(
            f"relation: {len(relations)} names ({printable(', '.join(relations))}) for "
            f"{plural(len(tables), 'table')} of facts; give one for each table, or one for all"
        )
    return [name for name, table in zip(relations, tables, strict=True) for _ in range(table.num_rows)]


def _ids(names: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The different names, sorted by code point, and int64 [n] the place of each name among them."""
    known = sorted(set(names))
    places = {name: place for place, name in enumerate(known)}
    return tuple(known), np.array([places[name] for name in names], np.int64)


def _split(
    tables: Sequence[TableFile], choice: FactChoice, rows: np.ndarray, facts: np.ndarray
) -> tuple[dict[str, np.ndarray], str]:
    """The facts of each split, those of some rows of the tables, and in words how they were split."""
    if not isinstance(choice.split, str):
        shares = "/".join(f"{share:g}" for share in choice.split)
        parts = split_triples(distinct_facts(facts), choice.split, stream(choice.seed, SPLIT_STREAM))
        return parts, f"at random {shares}, seed {choice.seed}"
    kind, column = choice.split_column()
    every = list(itertools.chain.from_iterable(table.column(column, "split: ") for table in tables))
    cells = _Cells(column, tables, rows, [every[row] for row in rows])
    place = _as_given(cells) if kind == "column" else _by_order(cells)
    told = f"by column {column!r}" if kind == "column" else f"by the order of {column!r}"
    return {split: facts[place == number] for number, split in enumerate(SPLITS)}, told


class _Cells(NamedTuple):
    """The cells of a column that splits the facts: of which rows, counted through all tables."""

    column: str
    tables: Sequence[TableFile]
    rows: np.ndarray
    values: Sequence[Any]

    def refused(self, needed: str, wrong: Sequence[int]) -> UserError:
        """The error about cells that are not what is needed: where, what was found, in which rows."""
        files = ", ".join(table.where for table in self.tables)
        listed = [
            f"{printable(repr(self.values[place]))} in {self._row(int(self.rows[place]))}"
            for place in wrong[:SHOWN_CELLS]
        ]
        more = f" and {len(wrong) - SHOWN_CELLS} more" if len(wrong) > SHOWN_CELLS else ""
        return UserError(f"{files}: column {self.column!r} {needed}, got {', '.join(listed)}{more}")

    def _row(self, row: int) -> str:
        for table in self.tables:
            if row < table.num_rows:
                break
            row -= table.num_rows
        return f"data row {row + 1}{f' of {table.where}' if len(self.tables) > 1 else ''}"


def _as_given(cells: _Cells) -> np.ndarray:
    """int [n] the place in `SPLITS` of each cell; raises UserError for others."""
    texts = [str(cell).strip().lower() for cell in cells.values]
    wrong = [place for place, text in enumerate(texts) if text not in SPLITS]
    if wrong:
        raise cells.refused(f"must say {', '.join(SPLITS)} in each row", wrong)
    return np.array([SPLITS.index(text) for text in texts])


def _by_order(cells: _Cells) -> np.ndarray:
    """int [n] the place in `SPLITS` by the order of the cells; equal ones stay together."""
    values = _ordered_values(cells)
    ordered = np.sort(values)
    first = np.searchsorted(ordered, values)  # how many are earlier
    bounds = np.cumsum(DEFAULT_SHARES)[:-1] * len(values)
    return np.searchsorted(bounds, first, side="right")


def _ordered_values(cells: _Cells) -> np.ndarray:
    """float64 [n]: numbers as they are, dates as seconds; raises UserError unless all are of one kind."""
    numbers = column_numbers(cells.values)
    if numbers.observed.all():
        return numbers.values
    seconds = [_seconds(cell) for cell in cells.values]
    wrong = [place for place, found in enumerate(seconds) if found is None]
    if wrong:
        raise cells.refused("must hold a number in each row, or a date such as 2024-03-31", wrong)
    return np.array(seconds, np.float64)


def _seconds(cell: Any) -> float | None:
    """A date, with or without a time, or its text, in seconds since 1970 (UTC unless it says so)."""
    try:
        if isinstance(cell, str):
            cell = datetime.datetime.fromisoformat(cell.strip())
        elif isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
            cell = datetime.datetime(cell.year, cell.month, cell.day)
        zone = cell.tzinfo or datetime.UTC
        return (cell.replace(tzinfo=zone) - datetime.datetime.fromtimestamp(0, datetime.UTC)).total_seconds()
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None
