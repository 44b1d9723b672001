"""Entities that a model has never seen, from their attributes and from facts about them.

They come after the graph's own entities.  Their embedding is the learned "unknown" vector of
`train.entity_dropout`; a model without it gets the mean of its entity embeddings, which it was never
trained to work with.  An order core places new entities by their values and by the facts, head or tail, as it
places the others; other models are not trained again and only leave these facts out of the answers.
"""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from numcoke_jax.data.files.lines import FACT_COLUMNS, TextFile, line_numbers, plain_file, read_triples
from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.tables.cells import SAVED_INDEX, TableFile
from numcoke_jax.data.tables.known import conversions, field_column, joined_names
from numcoke_jax.inference.names import NameIndex
from numcoke_jax.runs.unseen import NewEntities, has_vectors, knows_unknown
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError, printable, shown_path

NEAR = 0.85  # similarity of a column's title and a field's name from which the field is proposed
NamedFact = tuple[str, tuple[str, str, str]]  # where it was found; head, relation and tail


def read_facts(path: Path) -> list[NamedFact]:
    """The facts of a file, head <tab> relation <tab> tail on each line, as in a graph's files.

    Raises:
      UserError: the file cannot be read, or a line does not have three fields.
    """
    shown = shown_path(path)
    file = TextFile(shown, plain_file(path).open)
    table = read_triples(file, FACT_COLUMNS)
    facts = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    lines = line_numbers(file, range(len(facts)))
    return [(f"{shown}:{lines[row]}", fact) for row, fact in enumerate(facts)]


def read_new_entities(
    table: TableFile,
    graph: NumericGraph,
    name: Sequence[str] = (),
    facts: Sequence[NamedFact] = (),
    hidden: Mapping[str, str] | None = None,
) -> tuple[NewEntities, list[str]]:
    """The rows of a table as entities, and notices about what was converted or left out.

    Args:
      table: a column of names, and columns named like the graph's fields, in any order; its `reading` says
        which cells are numbers.
      graph: what the model was trained on.
      name: the columns that name an entity, joined by ", "; none: the first, which must have a title.
      facts: about the new entities, each of which may be head or tail; with some, no value is needed.
      hidden: fields that the model is not given -> what hides them.

    Raises:
      UserError: the first column is a field and no other is named, no column is a field, a cell is not a
        number, or a name is empty, repeated or already known; names are looked for in an index that pandas
        saved; or a fact has an unknown name or no new entity.
    """
    hidden = hidden or {}
    name = tuple(name) or (_first_column(table, (*graph.vocabulary.fields, *hidden)),)
    names = _new_names(table, name, graph)
    values, observed, others, notices = _values(table, name, len(names), graph)
    relations = [title for title in others if title in graph.vocabulary.relations]
    kept_from_it = [f"{title} (by {hidden[title]})" for title in others if title in hidden]
    others = [title for title in others if title not in relations and title not in hidden]
    if kept_from_it:
        notices.append(f"fields that are hidden from the model, not read: {', '.join(kept_from_it)}")
    if others:
        told = ", ".join(_with_near_field(title, graph.vocabulary.fields) for title in others)
        notices.append(f"columns that are not fields of the graph: {told}")
    if relations:
        notices.append(
            f"columns that are relations of the graph, not read: {', '.join(relations)}; a new entity is "
            "known by its fields, and by what is given as facts"
        )
    if not observed.any() and not facts:
        listed = ", ".join(map(repr, graph.vocabulary.fields[:20]))
        why = "".join(f"; {notice}" for notice in notices)
        raise UserError(f"{table.where}: no value of a field of the graph; its fields are {listed}{why}")
    new = NewEntities(tuple(names), values, observed)
    return dataclasses.replace(new, facts=_fact_ids(facts, graph, names)), notices


def _with_near_field(title: str, fields: Sequence[str]) -> str:
    """The title of a column, with the field that it may be meant for; case does not count."""
    by_lower = {field.lower(): field for field in fields}
    near = difflib.get_close_matches(title.lower(), by_lower, n=1, cutoff=NEAR)
    return f"{title} (did you mean {by_lower[near[0]]}?)" if near else title


def _first_column(table: TableFile, fields: Sequence[str]) -> str:
    """The one that names the entities where none is given."""
    column = next(iter(table.columns))
    if _is_index(column):
        title = f"is called {column!r}" if column else "has no title"
        raise UserError(
            f"{table.where}: the first column must name the entities but {title}, like the row numbers that "
            "pandas saves; write the table without them (to_csv(..., index=False)), put the column of names "
            "first, or give it with --name"
        )
    if column in fields:
        raise UserError(
            f"{table.where}: the first column must name the entities but is {column!r}, a field of "
            "the graph; put the column of names first, or give it with --name"
        )
    return column


def _new_names(table: TableFile, columns: Sequence[str], graph: NumericGraph) -> list[str]:
    names = joined_names(table, columns)
    known, seen = NameIndex("entity", graph.vocabulary.entities), set()
    for row, name in enumerate(names, 1):
        problem = "has no name" if not name else "repeats a name" if name in seen else ""
        problem = "is in the graph already" if name in known else problem
        if problem:
            where = f"{table.where}: data row {row} ({name!r})"
            raise UserError(f"{where} {problem}; every new entity needs a name of its own")
        seen.add(name)
    return names


def _values(
    table: TableFile, name: Sequence[str], count: int, graph: NumericGraph
) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
    """Values and what is observed, [n, M] each, the titles of other columns, and what was converted."""
    fields = NameIndex("field", graph.vocabulary.fields)
    values = np.zeros((count, graph.num_fields))
    observed = np.zeros(values.shape, bool)
    others: list[str] = []
    notices: list[str] = []
    for title in table.columns:
        if title in name:
            continue
        if title not in fields:
            if not _is_index(title):
                others.append(title)
            continue
        field = fields.id(title)
        found = field_column(table, title)
        values[:, field], observed[:, field] = found.values, found.observed
        notices += conversions(f"{table.where}: {title}", found)
    return values, observed, others, notices


def _fact_ids(facts: Sequence[NamedFact], graph: NumericGraph, names: Sequence[str]) -> np.ndarray:
    """int32 [f, 3], each different fact once, with ids of the graph and after them those of the new names."""
    entities = NameIndex("entity", (*graph.vocabulary.entities, *names))
    relations = NameIndex("relation", graph.vocabulary.relations)

    def ids() -> Iterator[tuple[int, int, int]]:
        for where, (head, relation, tail) in facts:
            fact = entities.id(head, where), relations.id(relation, where), entities.id(tail, where)
            if max(fact[0], fact[2]) < graph.num_entities:
                raise UserError(
                    f"{where}: neither {printable(repr(head))} nor {printable(repr(tail))} is a new entity; "
                    "only facts about new entities are read here"
                )
            if head == tail:
                raise UserError(f"{where}: {printable(repr(head))} is head and tail of one fact")
            yield fact

    return np.array(sorted(set(ids())), np.int32).reshape(-1, 3)


def _is_index(title: str) -> bool:
    """Whether the title of a column is that of an index that pandas saved; in csv it has none."""
    return not title or SAVED_INDEX.fullmatch(title) is not None


def tell(notices: Sequence[str], new: NewEntities, params: Any, console: Console) -> None:
    """Reports what was left out of a table of new entities, and how far to trust the model with them."""
    for notice in notices:
        console.note(notice)
    if len(new.facts) and "order_core" not in params:
        console.warn("the model has no order core: new facts are left out of the answers and change no score")
    if has_vectors(params) and not knows_unknown(params):
        console.warn(
            "the model was trained without train.entity_dropout: the mean entity stands for a new one"
        )
