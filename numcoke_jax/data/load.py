"""config.data -> graph: a folder in text layout, or a data set by name.

The names are those of the raw tables that a comparative graph is built from (`known.TABLES`), and of
graphs: "fb15k_237" (fb15k.py), "synthetic" (synthetic.py), "rakge_credit" and "rakge_spotify" (rakge.py).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from ml_collections import ConfigDict

from numcoke_jax.data.files.encode import GraphReport, encode_graph, named_facts, named_literals
from numcoke_jax.data.files.findings import empty_splits
from numcoke_jax.data.files.folder import NO_DATES, read_folder
from numcoke_jax.data.files.lines import FACT_COLUMNS
from numcoke_jax.data.files.rdf import is_rdf_name
from numcoke_jax.data.graph import LoadedGraph, NumericGraph
from numcoke_jax.data.public.fb15k import load_fb15k_237
from numcoke_jax.data.public.rakge import AUTHORS_GRAPHS, load_authors_graph
from numcoke_jax.data.public.tables import known_table
from numcoke_jax.data.synthetic import SyntheticSettings, synthetic_graph
from numcoke_jax.data.tables.attributes import read_attributes
from numcoke_jax.data.tables.cells import TableFile
from numcoke_jax.data.tables.comparisons import Comparisons, ComparisonSettings, compare
from numcoke_jax.data.tables.draws import CATEGORY_STREAM, split_triples, stream
from numcoke_jax.data.tables.facts import FactChoice, read_facts
from numcoke_jax.data.tables.known import EntityTable, table_spec
from numcoke_jax.data.variants import without_fields
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path

UNNAMED = "table"  # what a table from Python is called
Settings = TypeVar("Settings", SyntheticSettings, ComparisonSettings)
SYNTHETIC_PREFIX = "synthetic_"  # of the keys that only a synthetic graph has


def load_graph(data_config: ConfigDict) -> LoadedGraph:
    """The graph that config.data describes.

    `data_config.path` names a folder in text layout; `bad_values` and `dates` say what becomes of literals
    that are not numbers.  If the path is "", the data set `data_config.table` is taken; a raw table is
    compared by the other keys.  The same config gives the same graph, bit for bit.

    Raises:
      UserError: the folder or data set is missing or malformed, or a key has a value that is not allowed.
    """
    if data_config.path:
        return load_folder(data_config.path, bad_values=data_config.bad_values, dates=data_config.dates)
    if data_config.table == "fb15k_237":
        return LoadedGraph(*load_fb15k_237(data_config.dir), data_config.table)
    if data_config.table == "synthetic":
        return LoadedGraph(*synthetic_graph(synthetic_settings(data_config)), data_config.table)
    if data_config.table in AUTHORS_GRAPHS:
        rate, seed = float(data_config.missing_rate), data_config.seed
        found = load_authors_graph(data_config.table, data_config.dir, seed=seed, missing_rate=rate)
        return LoadedGraph(*found, data_config.table)
    settings = comparison_settings(data_config)
    table = known_table(data_config.table, data_config.dir)
    relations = tuple(data_config.relations) or table_spec(data_config.table).relations
    return build_graph(table, relations, settings)


def load_folder(path: str, *, bad_values: str = "error", dates: str = NO_DATES) -> LoadedGraph:
    """The graph of a folder, or of a zip archive of one, in text layout; raises UserError for anything else.

    Args:
      path: the folder or archive.
      bad_values, dates: see `folder.read_folder`.
    """
    path = str(home_path(path))
    if is_rdf_name(path):
        raise UserError(
            f"data.path: {path} is RDF, which has no splits; write a folder once, with "
            f"numcoke data rdf {path} --out=DIR, and give that"
        )
    graph, report = read_folder(path, bad_values=bad_values, dates=dates)
    name = Path(path).resolve().name
    loaded = LoadedGraph(graph, report.milder_notices(), name, tuple(report.suspicions))
    return without_fields(loaded, report.hidden_fields)


def synthetic_settings(data_config: ConfigDict) -> SyntheticSettings:
    """The keys of config.data that describe a synthetic graph."""
    return _settings(SyntheticSettings, data_config, SYNTHETIC_PREFIX)


def comparison_settings(data_config: ConfigDict) -> ComparisonSettings:
    """The keys of config.data that decide how a table is compared; raises UserError for wrong values."""
    return _settings(ComparisonSettings, data_config)


def _settings(kind: type[Settings], data_config: ConfigDict, prefix: str = "") -> Settings:
    """Settings of a kind, each the key of config.data with its name behind the prefix, or else without it."""
    keys = {field.name: f"{prefix}{field.name}" for field in dataclasses.fields(kind)}
    values = {name: data_config[key if key in data_config else name] for name, key in keys.items()}
    values["split"] = tuple(float(share) for share in data_config.split)
    values["missing_rate"] = float(data_config.missing_rate)
    return kind(**values)


def build_graph(table: EntityTable, relations: Sequence[str], settings: ComparisonSettings) -> LoadedGraph:
    """The comparative graph of a table, with ids as for any other graph.

    Args:
      table: entities with values.
      relations: fields that get a comparative relation each.
      settings: protocol, groups, split, mask and seed.

    Raises:
      UserError: as for `compare`, with what was left out of the table, which may be the reason.
    """
    try:
        comparisons = compare(table, relations, settings)
    except UserError as error:
        raise UserError("; ".join([str(error), *table.notices])) from None
    for _, column, _ in table.categories:
        if column in comparisons.relations:
            raise UserError(
                f"categories: {column!r} is a relation of the comparisons, too; rename the column"
            )
    categories = _split_categories(table, comparisons, settings)
    graph, report = encode_comparisons(table, comparisons, categories)
    masked, shown = comparisons.masked, int(comparisons.shown.sum())
    title = "the table" if table.name == UNNAMED else f"table {table.name}"
    built = (
        f"built from {title} ({int(comparisons.kept.sum()):,} of {len(table.entities):,} entities, "
        f"{masked:,} of {masked + shown:,} values masked, relations {', '.join(comparisons.relations)}): "
        f"{settings.describe()}"
    )
    notices = [built, *table.notices, *comparisons.notices]
    lost = sorted(set(table.fields) - set(graph.vocabulary.fields))
    if lost:
        notices.append(f"fields without a value that is observed and not masked: {', '.join(lost)}")
    notices += [*empty_splits(graph), *report.notices()]
    return LoadedGraph(graph, notices, table.name)


def build_facts(tables: Sequence[TableFile], attributes: TableFile | None, choice: FactChoice) -> LoadedGraph:
    """The graph of tables with a fact in each row; every entity of the attributes is in it.

    Args:
      tables: the facts.
      attributes: one row per entity, with columns of numbers; None: the graph has no literals.
      choice: which columns say what, and how the facts are split.

    Raises:
      UserError: see `read_facts` and `read_attributes`; or columns of attributes are chosen without any.
    """
    facts = read_facts(tables, choice)
    if attributes is None:
        if choice.name or choice.fields or choice.categories:
            raise UserError(
                "name, fields, categories: are columns of the attributes, of which none are given"
            )
        graph, report = encode_graph(facts.tables(), None, None)
        notices = [*facts.notices, *empty_splits(graph), *report.notices()]
        return LoadedGraph(graph, notices, facts.where)
    entities = read_attributes(attributes, choice, facts)
    literals = named_literals(entities.entities, entities.fields, entities.values, entities.observed)
    splits = facts.tables()
    splits["train"] = pa.concat_tables([splits["train"], _named(entities.categories)])
    graph, report = encode_graph(splits, None, literals, entities.entities)
    notices = [*facts.notices, *entities.notices, *empty_splits(graph), *report.notices()]
    return LoadedGraph(graph, notices, facts.where)


def _named(facts: Sequence[tuple[str, str, str]]) -> pa.Table:
    """Columns head, relation and tail of facts by name."""
    columns = zip(*facts, strict=True) if facts else ((), (), ())
    arrays = [pa.array(list(column), pa.string()).dictionary_encode() for column in columns]
    return pa.table(arrays, names=list(FACT_COLUMNS))


def _split_categories(
    table: EntityTable, comparisons: Comparisons, settings: ComparisonSettings
) -> dict[str, list[tuple[str, str, str]]]:
    """The facts of categorical columns about entities of the graph, drawn over the splits by shares."""
    kept = {entity for entity, is_kept in zip(table.entities, comparisons.kept, strict=True) if is_kept}
    facts = sorted(fact for fact in table.categories if fact[0] in kept)
    parts = split_triples(np.arange(len(facts)), settings.split, stream(settings.seed, CATEGORY_STREAM))
    return {split: [facts[place] for place in places] for split, places in parts.items()}


def encode_comparisons(
    table: EntityTable, comparisons: Comparisons, categories: Mapping[str, Sequence[tuple[str, str, str]]]
) -> tuple[NumericGraph, GraphReport]:
    """The graph with names in place of positions, encoded as triples from files are.

    Args:
      table: entities with values.
      comparisons: their facts.
      categories: split -> further facts by name.
    """
    names = pa.array(table.entities, pa.string()), pa.array(comparisons.relations, pa.string())
    literals = named_literals(table.entities, table.fields, table.values, comparisons.shown)
    splits = {
        split: pa.concat_tables([named_facts(facts, *names), _named(categories.get(split, ()))])
        for split, facts in comparisons.splits.items()
    }
    kept = names[0].filter(pa.array(comparisons.kept)).to_pylist()
    return encode_graph(splits, named_facts(comparisons.negatives, *names), literals, kept)
