"""Columns of names to the canonical arrays of a `NumericGraph`, with a report of what was found.

Names are sorted by code point before they get ids, facts are unique and sorted by (relation, head,
tail): the same rows in another order, or with repeats, give the same arrays bit for bit.  The entities
are those that train, valid or test mention, and those listed as without facts; the fields are those with a
value of such an entity.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.data.files import findings, suspicions
from numcoke_jax.data.files.findings import FieldSummary, GraphReport
from numcoke_jax.data.files.lines import FACT_COLUMNS, in_one_chunk
from numcoke_jax.data.files.numbers import aggregate
from numcoke_jax.data.graph import HEAD, RELATION, SPLITS, TAIL, NumericGraph, Vocabulary, fact_keys
from numcoke_jax.data.tail_index import contains
from numcoke_jax.system.errors import UserError


@dataclasses.dataclass(frozen=True)
class _Coded:
    """A column of names: row i holds names[codes[i]]; codes int32 [rows], names distinct."""

    codes: np.ndarray
    names: pa.Array


def encode_graph(
    splits: dict[str, pa.Table],
    negatives: pa.Table | None,
    literals: pa.Table | None,
    without_facts: Sequence[str] = (),
) -> tuple[NumericGraph, GraphReport]:
    """The graph that tables of names describe.

    Args:
      splits: "train", "valid" and "test" -> table with columns head, relation, tail, each string or
        dictionary-encoded string; a missing split is empty.
      negatives: the same columns, or None.
      literals: columns entity, field (strings) and value (finite float64), or None.
      without_facts: names that are entities although no fact mentions them; others may be among them.

    Raises:
      UserError: train has no rows, or a literal value is not finite.
    """
    report = GraphReport()
    coded = {split: _code_facts(splits[split]) if split in splits else None for split in SPLITS}
    train = coded["train"]
    if train is None or len(train[0].codes) == 0:
        raise UserError("train.txt holds no facts; training needs at least one")
    columns = [column for facts in coded.values() if facts for column in facts]
    mentioned = _sorted_names([column.names for i, column in enumerate(columns) if i % 3 != RELATION])
    more = pa.array(without_facts, pa.string())
    entities = _sorted_names([mentioned, more]) if len(more) else mentioned
    relations = _sorted_names([column.names for column in columns[RELATION::3]])
    rows = {split: _to_ids(facts, entities, relations) for split, facts in coded.items()}
    negative_rows = _encode_negatives(negatives, entities, relations, report)
    del coded, columns

    sizes = len(entities), len(relations)
    facts, keys, negative_facts, negative_keys = _unique_facts(rows, negative_rows, *sizes, report)
    del rows, negative_rows
    entity_names, relation_names = tuple(entities.to_pylist()), tuple(relations.to_pylist())
    report.num_entities, report.num_relations = sizes
    alone = entities.filter(pc.invert(pc.is_in(entities, value_set=mentioned)))
    report.entities_without_facts = tuple(alone.to_pylist())
    findings.check_facts(report, facts, keys, entity_names, relation_names)
    report.suspicions += suspicions.column_order(facts, entity_names, relation_names)
    kept = ~contains(keys["train"], negative_keys)
    report.negatives_training_facts = int((~kept).sum())
    report.negatives = int(kept.sum())
    for split in SPLITS[1:]:
        report.negatives_contradicting[split] = int(contains(keys[split], negative_keys[kept]).sum())

    field_names, values, observed = _encode_literals(literals, entities, entity_names, report)
    _check_names(report, entities, relations, pa.array(field_names, pa.string()))
    _check_literal_names(report, frozenset(entity_names))
    graph = NumericGraph(
        vocabulary=Vocabulary(entity_names, relation_names, field_names),
        train=facts["train"],
        valid=facts["valid"],
        test=facts["test"],
        negatives=negative_facts[kept],
        values=values,
        observed=observed,
    )
    return graph, report


def named_facts(triples: np.ndarray, entities: pa.Array, relations: pa.Array) -> pa.Table:
    """Columns head, relation and tail, dictionary-encoded, of int [n, 3] triples of places in two arrays."""
    columns = zip(triples.T.astype(np.int32, copy=False), (entities, relations, entities), strict=True)
    arrays = [pa.DictionaryArray.from_arrays(places, names) for places, names in columns]
    return pa.table(arrays, names=list(FACT_COLUMNS))


def named_literals(
    entities: Sequence[str], fields: Sequence[str], values: np.ndarray, shown: np.ndarray
) -> pa.Table:
    """Columns entity, field and value of the cells [N, M] that are shown."""
    rows, columns = np.nonzero(shown)
    return pa.table(
        {
            "entity": pa.array(entities, pa.string()).take(pa.array(rows)),
            "field": pa.array(fields, pa.string()).take(pa.array(columns)),
            "value": pa.array(values[rows, columns], pa.float64()),
        }
    )


def _code_facts(table: pa.Table) -> tuple[_Coded, _Coded, _Coded]:
    return _code(table["head"]), _code(table["relation"]), _code(table["tail"])


def _code(column: pa.ChunkedArray) -> _Coded:
    """The column with only the names that its rows use."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    column = in_one_chunk(column)
    codes = column.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    used = np.zeros(len(column.dictionary), dtype=bool)
    used[codes] = True
    if used.all():
        return _Coded(codes, column.dictionary)
    new_codes = (np.cumsum(used) - 1).astype(np.int32)
    return _Coded(new_codes[codes], column.dictionary.filter(pa.array(used)))


def _sorted_names(arrays: list[pa.Array]) -> pa.Array:
    """All names of the arrays once, sorted by code point (the order of their UTF-8 bytes)."""
    names = pc.unique(pa.chunked_array(arrays, type=pa.string()))
    return names.take(pc.sort_indices(names))


def _look_up(column: _Coded, names: pa.Array) -> np.ndarray:
    """int32 [rows] index in `names` of each row's name, -1 if it is not among them."""
    ids = pc.index_in(column.names, value_set=names).fill_null(-1).to_numpy(zero_copy_only=False)
    return ids.astype(np.int32, copy=False)[column.codes]


def _to_ids(
    columns: tuple[_Coded, _Coded, _Coded] | None, entities: pa.Array, relations: pa.Array
) -> np.ndarray:
    """int32 [rows, 3] in file order; -1 for unknown names."""
    if columns is None:
        return np.zeros((0, 3), dtype=np.int32)
    ids = np.empty((len(columns[0].codes), 3), dtype=np.int32)
    ids[:, HEAD] = _look_up(columns[HEAD], entities)
    ids[:, RELATION] = _look_up(columns[RELATION], relations)
    ids[:, TAIL] = _look_up(columns[TAIL], entities)
    return ids


def _encode_negatives(
    negatives: pa.Table | None, entities: pa.Array, relations: pa.Array, report: GraphReport
) -> np.ndarray:
    """int32 [rows, 3] of the negatives whose every name is known."""
    if negatives is None:
        return np.zeros((0, 3), dtype=np.int32)
    columns = _code_facts(negatives)
    ids = _to_ids(columns, entities, relations)
    known = (ids >= 0).all(axis=1)
    report.negative_rows = len(ids)
    report.negatives_unknown = int((~known).sum())
    if report.negatives_unknown:
        unknown: set[str] = set()
        for column, names in zip(columns, (entities, relations, entities), strict=True):
            unknown.update(
                column.names.filter(pc.invert(pc.is_in(column.names, value_set=names))).to_pylist()
            )
        report.unknown_negative_names = tuple(sorted(unknown))
    return ids[known]


def _unique_facts(
    rows: dict[str, np.ndarray],
    negative_rows: np.ndarray,
    num_entities: int,
    num_relations: int,
    report: GraphReport,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """(facts per split, their keys per split, negatives, their keys), each unique and in order of keys."""
    arrays = [rows[split] for split in SPLITS] + [negative_rows]
    row_keys = fact_keys(arrays, num_entities, num_relations)
    facts, keys = {}, {}
    for split, array, array_keys in zip(SPLITS, arrays, row_keys, strict=False):
        keys[split], first = np.unique(array_keys, return_index=True)
        facts[split] = np.ascontiguousarray(array[first])
        report.rows[split] = len(array)
        report.repeated[split] = len(array) - len(first)
    negative_keys, first = np.unique(row_keys[3], return_index=True)
    report.negatives_repeated = len(negative_rows) - len(first)
    return facts, keys, np.ascontiguousarray(negative_rows[first]), negative_keys


def _encode_literals(
    literals: pa.Table | None, entities: pa.Array, entity_names: tuple[str, ...], report: GraphReport
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """(field names, values float64 [N, M] with 0 where missing, observed bool [N, M])."""
    if literals is None or literals.num_rows == 0:
        report.entities_without_literals = entity_names
        return (), np.zeros((len(entities), 0)), np.zeros((len(entities), 0), dtype=bool)
    entity_column, field_column = _code(literals["entity"]), _code(literals["field"])
    row_values = literals["value"].to_numpy().astype(np.float64) + 0.0  # no negative zero
    if not np.isfinite(row_values).all():
        row = int(np.flatnonzero(~np.isfinite(row_values))[0])
        raise UserError(
            f"literal values must be finite, got {row_values[row]} in row {row + 1}; leave it out"
        )
    row_entities = _look_up(entity_column, entities)
    known = row_entities >= 0
    report.literal_rows = len(row_values)
    report.literals_unknown = int((~known).sum())
    if report.literals_unknown:
        unknown = pc.invert(pc.is_in(entity_column.names, value_set=entities))
        report.unknown_literal_entities = tuple(sorted(entity_column.names.filter(unknown).to_pylist()))
    used = np.zeros(len(field_column.names), dtype=bool)
    used[field_column.codes[known]] = True
    report.dropped_fields = tuple(sorted(field_column.names.filter(pa.array(~used)).to_pylist()))
    fields = _sorted_names([field_column.names.filter(pa.array(used))])
    row_fields = _look_up(field_column, fields)

    keys = row_entities[known].astype(np.int64) * len(fields) + row_fields[known]
    cells, cell_values, report.literals_repeated, report.literals_conflicting = aggregate(
        keys, row_values[known]
    )
    values = np.zeros((len(entities), len(fields)))
    observed = np.zeros((len(entities), len(fields)), dtype=bool)
    values.reshape(-1)[cells] = cell_values
    observed.reshape(-1)[cells] = True
    report.entities_without_literals = tuple(entity_names[i] for i in np.flatnonzero(~observed.any(axis=1)))
    field_names = tuple(fields.to_pylist())
    report.fields = tuple(
        FieldSummary(name, int(seen.sum()), float(column[seen].min()), float(column[seen].max()))
        for name, column, seen in zip(field_names, values.T, observed.T, strict=True)
    )
    return field_names, values, observed


def _check_names(report: GraphReport, entities: pa.Array, relations: pa.Array, fields: pa.Array) -> None:
    """Look-alikes among entities (those that no fact mentions included), relations and fields."""
    unknown = pa.array(
        sorted({*report.unknown_literal_entities, *report.unknown_negative_names}), type=pa.string()
    )
    kinds = (pa.concat_arrays([entities, unknown]), relations, fields)
    report.look_alikes = tuple(group for names in kinds for group in findings.find_look_alikes(names))
    report.padded_names = tuple(name for names in kinds for name in findings.find_padded(names))
    unseen = pa.array(sorted({*report.unseen_entities, *report.entities_without_facts}), pa.string())
    seen = entities.filter(pc.invert(pc.is_in(entities, value_set=unseen)))
    report.near_misses = findings.find_near_misses(unknown, entities)
    report.near_misses += findings.find_near_misses(unseen, seen)
    report.namespace_misses = suspicions.find_namespace_misses(unknown, entities)
    report.namespace_misses += suspicions.find_namespace_misses(unseen, seen, bare=True)


def _check_literal_names(report: GraphReport, entities: frozenset[str]) -> None:
    """Whether the literals seem to be about entities that the facts call otherwise."""
    unknown = set(report.unknown_literal_entities)
    report.suspicions += suspicions.literal_names(
        report.literal_rows,
        report.literals_unknown,
        report.unknown_literal_entities,
        [pair for pair in (*report.namespace_misses, *report.near_misses) if pair[0] in unknown],
        [field for field in report.dropped_fields if field in entities],
    )
