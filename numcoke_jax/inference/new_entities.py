"""Entities that a model has never seen, from their attributes alone.

They come after the graph's own entities.  Their embedding is the learned "unknown" vector of
`train.entity_dropout`; a model without it gets the mean of its entity embeddings, which it was never
trained to work with.  The numeric order term reads a missing value's position off an embedding: there the
mean stands for an unknown entity in both cases, since entities keep their own embedding in that term while
training.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.tables.cells import SAVED_INDEX, TableFile, column_numbers, describe_cells
from numcoke_jax.inference.names import NameIndex
from numcoke_jax.runs.unseen import NewEntities, has_vectors, knows_unknown
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError


def read_new_entities(
    table: TableFile, graph: NumericGraph, name_column: str = ""
) -> tuple[NewEntities, list[str]]:
    """The rows of a table as entities, and a notice about what was left out.

    Args:
      table: a column of names, and columns named like the graph's fields, in any order.
      graph: what the model was trained on.
      name_column: the column of names; "": the first, which must have a title.

    Raises:
      UserError: the first column is a field and no other is named, no column is a field, a cell is not a
        number, or a name is empty, repeated or already known; or names are looked for in an index that pandas
        saved.
    """
    column = name_column or next(iter(table.columns))
    if not name_column and _is_index(column):
        title = f"is called {column!r}" if column else "has no title"
        raise UserError(
            f"{table.where}: the first column must name the entities but {title}, like the row numbers that "
            "pandas saves; write the table without them (to_csv(..., index=False)), put the column of names "
            "first, or give it with --name"
        )
    fields = NameIndex("field", graph.vocabulary.fields)
    if not name_column and column in fields:
        raise UserError(
            f"{table.where}: the first column must name the entities but is {column!r}, a field of "
            "the graph; put the column of names first, or give it with --name"
        )
    names = table.names(column)
    known, seen = NameIndex("entity", graph.vocabulary.entities), set()
    for row, name in enumerate(names, 1):
        problem = "has no name" if not name else "repeats a name" if name in seen else ""
        problem = "is in the graph already" if name in known else problem
        if problem:
            where = f"{table.where}: data row {row} ({name!r})"
            raise UserError(f"{where} {problem}; every new entity needs a name of its own")
        seen.add(name)
    values = np.zeros((len(names), graph.num_fields))
    observed = np.zeros(values.shape, bool)
    others = []
    for title, cells in table.columns.items():
        if title == column:
            continue
        if title not in fields:
            if not _is_index(title):
                others.append(title)
            continue
        field = fields.id(title)
        values[:, field], observed[:, field], wrong = column_numbers(cells)
        if wrong:
            raise UserError(
                f"{table.where}: column {title!r} must hold plain numbers or empty cells, "
                f"got {describe_cells(cells, wrong)}"
            )
    if not observed.any():
        listed = ", ".join(map(repr, graph.vocabulary.fields[:20]))
        raise UserError(f"{table.where}: no value of a field of the graph; its fields are {listed}")
    notices = [f"columns that are not fields of the graph: {', '.join(others)}"] if others else []
    return NewEntities(tuple(names), values, observed), notices


def _is_index(title: str) -> bool:
    """Whether the title of a column is that of an index that pandas saved; in csv it has none."""
    return not title or SAVED_INDEX.fullmatch(title) is not None


def tell(notices: Sequence[str], params: Any, console: Console) -> None:
    """Reports what was left out of a table of new entities, and how far to trust the model with them."""
    for notice in notices:
        console.note(notice)
    if has_vectors(params) and not knows_unknown(params):
        console.warn(
            "the model was trained without train.entity_dropout: the mean entity stands for a new one"
        )
