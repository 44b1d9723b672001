"""A table with a fact in each row -> names of heads, relations and tails, in splits.

A row says that its head stands in a relation to its tail: a winner and a loser, a citing and a cited paper.
Rows without a name are left out; a fact that a split has several times counts once.  The splits come

    (0.8, 0.1, 0.1)   at random, by shares of the different facts, whatever the order of the rows
    order:COLUMN      by a column of numbers or dates: the first 80 % of the rows train, the next 10 %
                      validate, the last 10 % test; equal ones stay together.  time:COLUMN is the same
    column:COLUMN     as given: its cells are train, valid or test
"""

import dataclasses
import datetime
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from numcoke_jax.data.graph import RELATION, SPLITS
from numcoke_jax.data.tables.cells import TableFile, column_numbers
from numcoke_jax.data.tables.draws import SPLIT_STREAM, check_integer, check_shares, split_triples, stream
from numcoke_jax.data.tables.known import joined_names
from numcoke_jax.system.errors import UserError, plural, plural_of, printable, suggestion

DEFAULT_SHARES = (0.8, 0.1, 0.1)
BY_ORDER, BY_COLUMN = ("order", "time"), "column"
SPLIT_FORMS = "3 shares such as 0.8,0.1,0.1, order:COLUMN or column:COLUMN"
SHOWN_CELLS = 3  # wrong ones, in a message


@dataclasses.dataclass(frozen=True)
class FactChoice:
    """Which columns of two tables say what; names of several columns are joined by ", ".

    Attributes:
      head, tail: columns of the facts.
      relation: the relation of all facts, or "".
      relation_column: the column that names each fact's relation, or "".
      name: the columns of the attributes that name an entity.
      fields: columns of the attributes that become literals; (): every one that holds numbers only.
      categories: columns of the attributes that become facts, for training.
      split: shares, "order:COLUMN" or "column:COLUMN"; see the top of this module.
      seed: of a split at random.
    """

    head: tuple[str, ...]
    tail: tuple[str, ...]
    relation: str = ""
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
        if bool(self.relation.strip()) == bool(self.relation_column):
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
      where: the table, for messages.
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
        entities, relations = pa.array(self.entities, pa.string()), pa.array(self.relations, pa.string())
        return {
            split: pa.table(
                {
                    "head": entities.take(pa.array(facts[:, 0])),
                    "relation": relations.take(pa.array(facts[:, 1])),
                    "tail": entities.take(pa.array(facts[:, 2])),
                }
            )
            for split, facts in self.splits.items()
        }


def read_facts(table: TableFile, choice: FactChoice) -> FactTable:
    """The facts of a table, one for each row with names.

    Raises:
      UserError: a column is missing, no row has all names, the split's column has a cell of another kind, or
        no fact is left for training.
    """
    heads, tails = (joined_names(table, columns) for columns in (choice.head, choice.tail))
    if choice.relation_column:
        relations = table.names(choice.relation_column)
    else:
        relations = [choice.relation] * table.num_rows
    rows = np.flatnonzero([bool(h and r and t) for h, r, t in zip(heads, relations, tails, strict=True)])
    if not len(rows):
        raise UserError(f"{table.where}: no row has a head, a relation and a tail; fill some in")
    entities, ids = _ids([*(heads[row] for row in rows), *(tails[row] for row in rows)])
    names, relation_ids = _ids([relations[row] for row in rows])
    facts = np.stack([ids[: len(rows)], relation_ids, ids[len(rows) :]], axis=1)
    splits, told = _split(table, choice, rows, facts)
    distinct = {split: _distinct(part) for split, part in splits.items()}
    if not len(distinct["train"]):
        raise UserError(f"{table.where}: split: of {plural(len(rows), 'row')}, none is for training")
    left_out, repeated = table.num_rows - len(rows), len(rows) - sum(map(len, distinct.values()))
    counts = ", ".join(f"{len(distinct[split]):,} {split}" for split in SPLITS)
    title = os.path.basename(table.where)
    notices = [
        f"{title}: {plural(sum(map(len, distinct.values())), 'fact')} about "
        f"{plural_of(len(entities), 'entity', 'entities')}, split {told}: {counts}"
    ]
    if left_out:
        notices.append(f"{title}: {plural(left_out, 'row')} left out without a head, relation or tail")
    if repeated:
        notices.append(f"{title}: {plural(repeated, 'row')} with a repeated fact, which counts once")
    return FactTable(table.where, entities, names, distinct, tuple(notices))


def _ids(names: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The different names, sorted by code point, and int64 [n] the place of each name among them."""
    known = sorted(set(names))
    places = {name: place for place, name in enumerate(known)}
    return tuple(known), np.array([places[name] for name in names], np.int64)


def _distinct(facts: np.ndarray) -> np.ndarray:
    """Different facts int64 [n, 3], sorted by (relation, head, tail)."""
    return np.unique(facts[:, [RELATION, 0, 2]], axis=0)[:, [1, 0, 2]]


def _split(
    table: TableFile, choice: FactChoice, rows: np.ndarray, facts: np.ndarray
) -> tuple[dict[str, np.ndarray], str]:
    """The facts of each split, those of some rows of the table, and in words how they were split."""
    if not isinstance(choice.split, str):
        shares = "/".join(f"{share:g}" for share in choice.split)
        parts = split_triples(_distinct(facts), choice.split, stream(choice.seed, SPLIT_STREAM))
        return parts, f"at random {shares}, seed {choice.seed}"
    kind, column = choice.split_column()
    if column not in table.columns:
        raise UserError(f"{table.where}: split: no column {column!r}; {suggestion(column, table.columns)}")
    where, cells = f"{table.where}: column {column!r}", [table.columns[column][row] for row in rows]
    place = _as_given(where, cells, rows) if kind == "column" else _by_order(where, cells, rows)
    told = f"by column {column!r}" if kind == "column" else f"by the order of {column!r}"
    return {split: facts[place == number] for number, split in enumerate(SPLITS)}, told


def _as_given(where: str, cells: Sequence[Any], rows: np.ndarray) -> np.ndarray:
    """int [n] the place in `SPLITS` of each cell; raises UserError for others."""
    texts = [str(cell).strip().lower() for cell in cells]
    wrong = [place for place, text in enumerate(texts) if text not in SPLITS]
    if wrong:
        raise UserError(f"{where} must say {', '.join(SPLITS)} in each row, got {_shown(cells, rows, wrong)}")
    return np.array([SPLITS.index(text) for text in texts])


def _by_order(where: str, cells: Sequence[Any], rows: np.ndarray) -> np.ndarray:
    """int [n] the place in `SPLITS` by the order of the cells; equal ones stay together."""
    values = _ordered_values(where, cells, rows)
    ordered = np.sort(values)
    first = np.searchsorted(ordered, values)  # how many are earlier
    bounds = np.cumsum(DEFAULT_SHARES)[:-1] * len(values)
    return np.searchsorted(bounds, first, side="right")


def _ordered_values(where: str, cells: Sequence[Any], rows: np.ndarray) -> np.ndarray:
    """float64 [n]: numbers as they are, dates as seconds; raises UserError unless all are of one kind."""
    numbers = column_numbers(cells)
    if numbers.observed.all():
        return numbers.values
    seconds = [_seconds(cell) for cell in cells]
    wrong = [place for place, found in enumerate(seconds) if found is None]
    if wrong:
        raise UserError(
            f"{where} must hold a number in each row, or a date such as 2024-03-31, got "
            f"{_shown(cells, rows, wrong)}"
        )
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


def _shown(cells: Sequence[Any], rows: np.ndarray, wrong: Sequence[int]) -> str:
    listed = [
        f"{printable(repr(cells[place]))} in data row {rows[place] + 1}" for place in wrong[:SHOWN_CELLS]
    ]
    more = f" and {len(wrong) - SHOWN_CELLS} more" if len(wrong) > SHOWN_CELLS else ""
    return ", ".join(listed) + more
