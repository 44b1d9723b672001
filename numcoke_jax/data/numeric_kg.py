"""Graphs from tables of pandas and from folders, as Python has them."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numcoke_jax.data.files.folder import BAD_VALUES, NO_DATES
from numcoke_jax.data.files.numbers import Reading
from numcoke_jax.data.graph import SPLITS, LoadedGraph, NumericGraph
from numcoke_jax.data.load import build_facts, build_graph, load_folder
from numcoke_jax.data.tables.cells import TableFile
from numcoke_jax.data.tables.comparisons import OWN_TABLE, ComparisonSettings
from numcoke_jax.data.tables.facts import DEFAULT_SHARES, FactChoice
from numcoke_jax.data.tables.frames import Table, given_table
from numcoke_jax.data.tables.known import RELATION_SUFFIX, EntityTable
from numcoke_jax.data.tables.own import INDEX, compared_fields, no_text, own_table, refuse_hidden
from numcoke_jax.data.variants import without_fields
from numcoke_jax.system.errors import UserError, plural, plural_of


@dataclasses.dataclass(frozen=True)
class NumericKG:
    """A graph to train on, with what its reader noticed.

    Attributes:
      loaded: graph, notices and name.
      comparisons: how a table was compared: fields with a relation and the `ComparisonSettings`; None for
        a folder.
    """

    loaded: LoadedGraph
    comparisons: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        """What it is, in a line, in place of all its arrays."""
        graph = self.graph
        return (
            f"<NumericKG {self.loaded.name}: {plural_of(graph.num_entities, 'entity', 'entities')}, "
            f"{plural(graph.num_relations, 'relation')}, {plural(graph.num_fields, 'field')}, "
            f"{plural(sum(len(graph.split(split)) for split in SPLITS), 'fact')}>"
        )

    @property
    def graph(self) -> NumericGraph:
        """Names, facts and values."""
        return self.loaded.graph

    @classmethod
    def from_table(
        cls,
        table: Table,
        *,
        name: str | Sequence[str],
        relations: str | Sequence[str] = (),
        fields: str | Sequence[str] = (),
        categories: str | Sequence[str] = (),
        dates: str = "",
        parse: str = "",
        **settings: Any,
    ) -> "NumericKG":
        """The comparative graph of a table: (h, "Weight_comp", t) says that h's Weight is above t's.

        Args:
          table: one row per entity, missing values as NaN, None or NA; or the path of a csv, tsv, parquet or
            xlsx file.
          name: the column that names the entities, or several, joined by ", "; "index": the labels of the
            rows, or their numbers, row 1, row 2 and so on.
          relations: one or several numeric columns that get a relation each; (): all fields with more
            than two different values.
          fields: one or several numeric columns stored as values; (): every numeric one.
          categories: columns that become facts, such as (song, "artist", value): `data/tables/categories.py`.
          dates: "year" or "days" (since 1970-01-01): columns of dates are numeric, too; "": they are not.
          parse: "numbers" reads 14.2 %, 1,065, 3,5 and $12, too (`data/files/written.py`); "" does not.
          **settings: those of `ComparisonSettings`, such as group_size=60, protocol="nearest", seed=1. By
            default all entities form one group, the split is (0.8, 0.1, 0.1), and no value is masked.

        Raises:
          UserError: a column is missing, appears twice or holds anything but numbers, or a setting is wrong.
        """
        columns = (tuple(listed(given)) for given in (name, relations, fields, categories))
        names, compared, stored, symbolic = columns
        if not names:
            raise UserError("from_table: name: give the column, or columns, that name the entities")
        known = [field.name for field in dataclasses.fields(ComparisonSettings)]
        for key in settings:
            if key not in known:
                raise UserError(f"from_table: {key} is not a setting; the settings are {', '.join(known)}")
        file = given_table("table", table, Reading(dates, parse), INDEX if INDEX in names else "")
        entities, compared = compared_fields(own_table(file, names, compared, stored, symbolic), compared)
        return cls.compared(entities, compared, dataclasses.replace(OWN_TABLE, **settings))

    @property
    def compared_relations(self) -> tuple[str, ...]:
        """The relations that compare a table's values; () for another graph."""
        fields = self.comparisons["relations"] if self.comparisons is not None else ()
        return tuple(field + RELATION_SUFFIX for field in fields)

    @classmethod
    def compared(
        cls, entities: EntityTable, relations: Sequence[str], settings: ComparisonSettings
    ) -> "NumericKG":
        """The comparative graph of entities, with how it was made; arguments and errors of `build_graph`."""
        comparisons = {"relations": tuple(relations), **dataclasses.asdict(settings)}
        return cls(build_graph(entities, relations, settings), comparisons)

    @classmethod
    def from_facts(
        cls,
        facts: Table | Sequence[Table],
        attributes: Table | None = None,
        *,
        head: str | Sequence[str],
        tail: str | Sequence[str],
        relation: str | Sequence[str] = (),
        relation_column: str = "",
        name: str | Sequence[str] = (),
        fields: str | Sequence[str] = (),
        categories: str | Sequence[str] = (),
        hide: str | Sequence[str] = (),
        dates: str = "",
        parse: str = "",
        split: Sequence[float] | str = DEFAULT_SHARES,
        seed: int = 0,
    ) -> "NumericKG":
        """The graph of a table with a fact in each row, and of its entities' attributes.

        Args:
          facts: one row per fact, as a table or its path, or several of them; repeated facts count once,
            contradicting ones are kept, and counted.
          attributes: one row per entity; all of them are entities of the graph.  None: no literals.
          head, tail: the columns that name a fact's head and tail; several are joined by ", ".
          relation: the relation of all facts, such as "beat", or of each table of several.
          relation_column: the column that names each fact's relation, instead.
          name: the columns of the attributes that name an entity.
          fields: columns of the attributes that become literals; (): every one that holds numbers only.
          categories, dates, parse: as in `from_table`, of the attributes; such facts are for training.
          hide: fields that no model is given: facts may compare them, and measures look at them.
          split: shares of train, valid and test; "order:COLUMN", whose earlier rows train and later ones
            test; or "column:COLUMN", whose cells are train, valid or test.
          seed: of a split at random.

        Raises:
          UserError: a column is missing or not what it should be, such as one to hide that holds text, or
            names repeat (see `data.tables.attributes`).
        """
        chosen = FactChoice(
            head=tuple(listed(head)),
            tail=tuple(listed(tail)),
            relations=tuple(listed(relation or ())),
            relation_column=relation_column,
            name=tuple(listed(name)),
            fields=tuple(listed(fields)),
            categories=tuple(listed(categories)),
            split=tuple(split) if isinstance(split, Iterable) and not isinstance(split, str) else split,
            seed=seed,
        )
        entities, reading, index = None, Reading(dates, parse), INDEX if INDEX in chosen.name else ""
        if attributes is not None:
            entities = given_table("attributes", attributes, reading, index)
        built = build_facts(_fact_tables(facts), entities, chosen)
        if entities is not None:
            refuse_hidden(entities, listed(hide), built.graph.vocabulary.fields, "hide")
        return cls(without_fields(built, listed(hide)))

    @classmethod
    def from_folder(cls, path: str | Path, *, bad_values: str = "error", dates: str = "") -> "NumericKG":
        """The graph of a folder in text layout; raises UserError for others.

        Args:
          path: the folder, or a zip archive of it.
          bad_values: "missing" leaves literals that are not numbers out.
          dates: as in `from_table`, of the literals.
        """
        if bad_values not in BAD_VALUES:
            raise UserError(f"bad_values: must be one of {', '.join(BAD_VALUES)}, got {bad_values!r}")
        return cls(load_folder(str(path), bad_values=bad_values, dates=Reading(dates).dates or NO_DATES))


def _fact_tables(facts: Table | Sequence[Table]) -> list[TableFile]:
    if isinstance(facts, Mapping) or not isinstance(facts, Table | Iterable):
        raise UserError(f"facts: needs a table, or a list of tables, got a {type(facts).__name__}")
    if isinstance(facts, Table):
        return [given_table("facts", facts)]
    tables = [given_table(f"facts {place}", table) for place, table in enumerate(facts, 1)]
    if not tables:
        raise UserError("facts: an empty list; give a table, or several")
    return tables


def listed(given: str | Iterable[str]) -> list[str]:
    """One name or several as a list; raises UserError for anything but text, such as a row number."""
    if not isinstance(given, Iterable):
        raise UserError(no_text(given))
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str):
            raise UserError(no_text(name))
    return names
