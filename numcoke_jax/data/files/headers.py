"""Header rows: which first rows of fact files name the columns instead of stating a fact.

A first row is a header when both hold:

1. it looks like one: its three cells are column words (`head relation tail`, `subject predicate object`,
   `h r t`, `headLabel relationLabel tailLabel`, `:START_ID :TYPE :END_ID` and the like, in any case, quoted
   or after a `#`), or train, valid and test all start with this same row;
2. it cannot be a real fact: no other row uses its relation, and its head and tail do not both occur in
   other rows.  First rows that look like headers do not count as other rows.

Rows further down that repeat it word for word are headers too, since joining files leaves them there,
unless the second row repeats it: that is how `folder.write_folder` marks a real fact.  A header that names
the columns in another order (head, tail, relation) is an error, not a notice.

What may or may not be a header stays a fact, with a notice: column words in another row, and a first row
none of whose names is used elsewhere.

In a literal file the first row is a header when its third cell is a word for "value", or when its
first two cells are column words, and the third is not a number.
"""

import dataclasses
import itertools
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.data.files.lines import in_one_chunk
from numcoke_jax.data.graph import SPLITS

Row = tuple[str, str, str]
MOST_HEADERS = 3  # a relation that is called like a column and has more rows is certainly a relation


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HEAD_WORDS = _words(
    "head h subject subj s source src from entity1 e1 head_entity head_id head_name subject_id source_id "
    "lhs start start_node node1 node_1 entity entity_1 ent1 left"
)

RELATION_WORDS = _words(
    "relation rel r predicate pred p property prop edge edge_type relationship relation_id predicate_id "
    "label type link attribute rel_type relation_type relation_name role"
)

TAIL_WORDS = _words(
    "tail t object obj o target tgt dst dest destination to entity2 e2 tail_entity tail_id tail_name "
    "object_id target_id rhs end end_node node2 node_2 entity entity_2 ent2 right"
)

ENTITY_WORDS = _words(
    "entity ent e entity_id entity_name id name item node subject subj s head h title qid mid uri iri"
)

FIELD_WORDS = _words(
    "attribute attr a field property prop predicate pred p relation rel r feature variable column key type "
    "data_property numeric_attribute attribute_name"
)

VALUE_WORDS = _words(
    "value val v literal number numeric numeric_value numerical_value num object obj o tail t amount "
    "quantity literal_value attribute_value"
)

QUALIFIERS = _words("id name label uri iri entity node type key qid mid 1 2")  # "subject id" means subject


@dataclasses.dataclass
class HeaderFindings:
    """Fact tables without header rows, and the names of the files where something was found.

    Attributes:
      tables: the tables given, without the rows that are headers.
      skipped: files whose header was left out, with the rows left out further down that repeat it.
      kept: files whose first row looks like a header but stays because other rows use its names.
      misordered: files whose header names the columns in an order other than head, relation, tail.
      inside: files with another row that looks like a header, and the index of the first one.
      lonely: files whose first row holds no name that is used elsewhere.
    """

    tables: dict[str, pa.Table]
    skipped: dict[str, int] = dataclasses.field(default_factory=dict)
    kept: list[str] = dataclasses.field(default_factory=list)
    misordered: dict[str, Row] = dataclasses.field(default_factory=dict)
    inside: dict[str, int] = dataclasses.field(default_factory=dict)
    lonely: dict[str, Row] = dataclasses.field(default_factory=dict)


def without_headers(files: dict[str, pa.Table]) -> HeaderFindings:
    """Finds the header rows of fact tables by the rule at the top of this module.

    Args:
      files: "train", "valid", "test", "neg" -> table with columns head, relation, tail
        (dictionary-encoded strings); any of them may be absent.
    """
    first_rows = {name: _row(table, 0) for name, table in files.items() if table.num_rows}
    shared = {first_rows.get(split) for split in SPLITS}
    candidates = {name for name, row in first_rows.items() if _names_columns(row) or shared == {row}}
    others = {name: _after_header(table) if name in candidates else table for name, table in files.items()}
    findings = HeaderFindings(dict(files))
    for name in sorted(candidates):
        row = first_rows[name]
        if _could_be_real(row, others):
            findings.kept.append(name)
        elif _names_columns(row) and not looks_like_facts_header(row):
            findings.misordered[name] = row
        else:
            findings.skipped[name] = files[name].num_rows - others[name].num_rows - 1
            findings.tables[name] = others[name]
    for name in sorted(first_rows.keys() - candidates):
        inside = _header_inside(files[name])
        if inside is not None:
            findings.inside[name] = inside
        elif _is_lonely(first_rows[name], others | {name: files[name].slice(1)}):
            findings.lonely[name] = first_rows[name]
    return findings


def _after_header(table: pa.Table) -> pa.Table:
    """The table without its first row, and without those that repeat it unless the second one does."""
    rest = table.slice(1)
    if rest.num_rows == 0:
        return rest
    first, repeats = _row(table, 0), np.ones(rest.num_rows, dtype=bool)
    for column, name in zip(rest.columns, first, strict=True):
        column = in_one_chunk(column)
        code = pc.index(column.dictionary, pa.scalar(name, column.dictionary.type)).as_py()
        repeats &= column.indices.to_numpy(zero_copy_only=False) == code
    return rest if repeats[0] or not repeats.any() else rest.filter(pa.array(~repeats))


def _header_inside(table: pa.Table) -> int | None:
    """The index of the earliest row after the first that looks like a header and whose relation is rare."""
    relations = in_one_chunk(table["relation"])
    letters = pc.replace_substring_regex(pc.utf8_lower(relations.dictionary), "[^a-z0-9]", "")
    words = pc.is_in(letters, value_set=pa.array(sorted({word.replace("_", "") for word in RELATION_WORDS})))
    codes = relations.indices.to_numpy(zero_copy_only=False)
    for code in np.flatnonzero(words.to_numpy(zero_copy_only=False)).tolist():
        rows = np.flatnonzero(codes == code)
        if 0 < len(rows) <= MOST_HEADERS and looks_like_facts_header(_row(table, int(rows[0]))):
            return int(rows[0])
    return None


def _is_lonely(row: Row, others: dict[str, pa.Table]) -> bool:
    """Whether there are other tables with rows and none of them holds a name of `row`."""
    tables = [table for table in others.values() if table.num_rows]
    head, relation, tail = row
    return bool(tables) and not any(
        _uses(table["relation"], relation)
        or any(_uses(table[column], name) for column in ("head", "tail") for name in (head, tail))
        for table in tables
    )


def looks_like_facts_header(row: Row) -> bool:
    """Whether the three cells are words for head, relation and tail."""
    head, relation, tail = map(_column_words, row)
    return bool(head & HEAD_WORDS and relation & RELATION_WORDS and tail & TAIL_WORDS)


def _names_columns(row: Row) -> bool:
    """Whether the three cells are words for head, relation and tail in any order."""
    return any(looks_like_facts_header((a, b, c)) for a, b, c in itertools.permutations(row))


def looks_like_literals_header(row: Row) -> bool:
    """Whether the three cells are words for entity, field and value; the value is not a number."""
    entity, field, value = map(_column_words, row)
    named = bool(entity & ENTITY_WORDS), bool(field & FIELD_WORDS)
    return all(named) or (bool(value & VALUE_WORDS) and any(named))


def _column_words(cell: str) -> frozenset[str]:
    """The name of a column that a cell holds, in lower case with underscores, also without qualifiers."""
    stripped = cell.strip().lstrip("#").strip().strip("\"'<>?:").strip()
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stripped).casefold()  # subjectLabel
    words = re.findall(r"\w+", apart.replace("_", " ").replace("-", " "))
    core = [word for word in words if word not in QUALIFIERS]
    return frozenset({"_".join(words), core[0] if len(core) == 1 else "_".join(words)})


def _row(table: pa.Table, index: int) -> Row:
    head, relation, tail = (column[0].as_py() for column in table.slice(index, 1).columns)
    return head, relation, tail


def _could_be_real(row: Row, others: dict[str, pa.Table]) -> bool:
    head, relation, tail = row
    tables = others.values()
    if any(_uses(table["relation"], relation) for table in tables):
        return True
    return all(
        any(_uses(table["head"], name) or _uses(table["tail"], name) for table in tables)
        for name in (head, tail)
    )


def _uses(column: pa.ChunkedArray, name: str) -> bool:
    """Whether a row of a dictionary-encoded column holds `name`."""
    for chunk in column.chunks:
        code = pc.index(chunk.dictionary, pa.scalar(name, chunk.dictionary.type)).as_py()
        if code >= 0 and pc.index(chunk.indices, pa.scalar(code, chunk.indices.type)).as_py() >= 0:
            return True
    return False
