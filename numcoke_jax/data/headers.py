"""Header rows: which first rows of fact files name the columns instead of stating a fact.

A first row is a header when both hold:

1. it looks like one: its three cells are column words (`head relation tail`, `subject predicate object`,
   `h r t` and the like, in any case, quoted or after a `#`), or it is word for word the first row of
   train, valid and test alike;
2. it cannot be a real fact: no other row uses its relation, and its head and tail do not both occur in
   other rows.  First rows that look like headers do not count as other rows.

A header that names the columns in another order (head, tail, relation) is an error, not a notice.

In a literal file the first row is a header when its third cell is a word for "value", or when its
first two cells are column words, and the third is not a number.
"""

import dataclasses
import itertools

import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.graph import SPLITS

Row = tuple[str, str, str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HEAD_WORDS = _words(
    "head h subject subj s source src from entity1 e1 head_entity head_id head_name subject_id source_id "
    "lhs start start_node node1 entity_1 ent1 left"
)
RELATION_WORDS = _words(
    "relation rel r predicate pred p property prop edge edge_type relationship relation_id predicate_id "
    "label type link attribute rel_type relation_type relation_name role"
)
TAIL_WORDS = _words(
    "tail t object obj o target tgt dst dest destination to entity2 e2 tail_entity tail_id tail_name "
    "object_id target_id rhs end end_node node2 entity_2 ent2 right"
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


@dataclasses.dataclass
class HeaderFindings:
    """Fact tables without header rows, and the names of the files where something was found.

    Attributes:
      tables: the tables given, without the rows that are headers.
      skipped: files whose header was left out.
      kept: files whose first row looks like a header but stays because other rows use its names.
      misordered: files whose header names the columns in an order other than head, relation, tail.
    """

    tables: dict[str, pa.Table]
    skipped: list[str]
    kept: list[str]
    misordered: dict[str, Row]


def without_headers(files: dict[str, pa.Table]) -> HeaderFindings:
    """Finds the header rows of fact tables by the rule at the top of this module.

    Args:
      files: "train", "valid", "test", "neg" -> table with columns head, relation, tail
        (dictionary-encoded strings); any of them may be absent.
    """
    first_rows = {name: _first_row(table) for name, table in files.items() if table.num_rows}
    shared = {first_rows.get(split) for split in SPLITS}
    candidates = {
        name
        for name, row in first_rows.items()
        if looks_like_facts_header(row) or _is_misordered(row) or shared == {row}
    }
    others = {name: table.slice(1) if name in candidates else table for name, table in files.items()}
    findings = HeaderFindings(dict(files), [], [], {})
    for name in sorted(candidates):
        row = first_rows[name]
        if _could_be_real(row, others):
            findings.kept.append(name)
        elif _is_misordered(row) and not looks_like_facts_header(row):
            findings.misordered[name] = row
        else:
            findings.skipped.append(name)
            findings.tables[name] = others[name]
    return findings


def looks_like_facts_header(row: Row) -> bool:
    """Whether the three cells are words for head, relation and tail."""
    head, relation, tail = map(_word, row)
    return head in HEAD_WORDS and relation in RELATION_WORDS and tail in TAIL_WORDS


def _is_misordered(row: Row) -> bool:
    """Whether the three cells are words for head, relation and tail in some other order."""
    return any(
        looks_like_facts_header((row[i], row[j], row[k]))
        for i, j, k in itertools.permutations(range(3))
        if (i, j, k) != (0, 1, 2)
    )


def looks_like_literals_header(row: Row) -> bool:
    """Whether the three cells are words for entity, field and value; the value is known to be no number."""
    entity, field, value = map(_word, row)
    return (entity in ENTITY_WORDS and field in FIELD_WORDS) or (
        value in VALUE_WORDS and (entity in ENTITY_WORDS or field in FIELD_WORDS)
    )


def _word(cell: str) -> str:
    """A cell as a column word: lower case, no quotes, no comment sign, words joined by underscores."""
    stripped = cell.strip().lstrip("#").strip().strip("\"'<>").strip().casefold()
    return stripped.replace(" ", "_").replace("-", "_")


def _first_row(table: pa.Table) -> Row:
    head, relation, tail = (column[0].as_py() for column in table.slice(0, 1).columns)
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
