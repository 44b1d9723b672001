"""Names to arrays: a slow dictionary-and-set twin, order independence, and every count of the report."""

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numcoke_jax.data.files.encode import encode_graph
from numcoke_jax.data.files.findings import GraphReport, find_look_alikes, find_near_misses
from numcoke_jax.data.graph import SPLITS, NumericGraph, fact_keys
from numcoke_jax.data.tail_index import contains
from numcoke_jax.system.errors import UserError

Fact = tuple[str, str, str]
Literal = tuple[str, str, float]
ARRAYS = ("train", "valid", "test", "negatives", "values", "observed")


def fact_table(facts: list[Fact]) -> pa.Table:
    columns = [[fact[place] for fact in facts] for place in range(3)]
    return pa.table([pa.array(column, pa.string()) for column in columns], names=["head", "relation", "tail"])


def literal_table(literals: list[Literal]) -> pa.Table:
    return pa.table(
        {
            "entity": pa.array([entity for entity, _, _ in literals], pa.string()),
            "field": pa.array([field for _, field, _ in literals], pa.string()),
            "value": pa.array([value for _, _, value in literals], pa.float64()),
        }
    )


def encode(
    train: list[Fact],
    valid: list[Fact] = [],  # noqa: B006
    test: list[Fact] = [],  # noqa: B006
    negatives: list[Fact] | None = None,
    literals: list[Literal] | None = None,
) -> tuple[NumericGraph, GraphReport]:
    return encode_graph(
        {"train": fact_table(train), "valid": fact_table(valid), "test": fact_table(test)},
        None if negatives is None else fact_table(negatives),
        None if literals is None else literal_table(literals),
    )


def names_of(graph: NumericGraph, triples: np.ndarray) -> list[Fact]:
    entities, relations = graph.vocabulary.entities, graph.vocabulary.relations
    return [
        (entities[head], relations[relation], entities[tail]) for head, relation, tail in triples.tolist()
    ]


NAMES = st.sampled_from(
    ["a", "b", "B", "é", "🧪", "\uffff", " a", "1"]
)  # U+FFFF < U+1F9EA by code point only
FACTS = st.lists(st.tuples(NAMES, st.sampled_from(["r", "s", "R"]), NAMES), max_size=12)
LITERALS = st.lists(
    st.tuples(NAMES, st.sampled_from(["m", "n", "é"]), st.sampled_from([0.0, 1.0, -2.5, 1e300, 7.0])),
    max_size=12,
)


@settings(max_examples=150)
@given(train=FACTS.filter(bool), valid=FACTS, test=FACTS, negatives=FACTS, literals=LITERALS)
def test_arrays_and_counts_are_those_of_sets_and_dictionaries(
    train: list[Fact], valid: list[Fact], test: list[Fact], negatives: list[Fact], literals: list[Literal]
) -> None:
    graph, report = encode(train, valid, test, negatives, literals)
    splits = {"train": train, "valid": valid, "test": test}
    every = train + valid + test
    entities = sorted({name for head, _, tail in every for name in (head, tail)})
    relations = sorted({relation for _, relation, _ in every})
    assert graph.vocabulary.entities == tuple(entities)
    assert graph.vocabulary.relations == tuple(relations)
    for split, facts in splits.items():
        ids = sorted((relations.index(r), entities.index(h), entities.index(t)) for h, r, t in set(facts))
        expected = np.array([(h, r, t) for r, h, t in ids], np.int32).reshape(-1, 3)
        np.testing.assert_array_equal(graph.split(split), expected)
        assert graph.split(split).dtype == np.int32
        assert report.rows[split] == len(facts)
        assert report.repeated[split] == len(facts) - len(set(facts))
        assert report.facts[split] == len(set(facts))
        assert report.self_loops[split] == sum(head == tail for head, _, tail in set(facts))
    for first, second in [("train", "valid"), ("train", "test"), ("valid", "test")]:
        assert report.overlaps[first, second] == len(set(splits[first]) & set(splits[second]))
    assert report.inverse_pairs == sum(
        (tail, relation, head) in set(every) for head, relation, tail in set(every) if head < tail
    )

    known = {name for head, _, tail in train for name in (head, tail)}
    known_relations = {relation for _, relation, _ in train}
    assert report.unseen_entities == tuple(name for name in entities if name not in known)
    assert report.unseen_relations == tuple(name for name in relations if name not in known_relations)
    for split in SPLITS[1:]:
        assert report.unseen_facts[split] == sum(
            not ({head, tail} <= known and relation in known_relations)
            for head, relation, tail in set(splits[split])
        )

    nameable = [n for n in negatives if n[0] in entities and n[1] in relations and n[2] in entities]
    kept = set(nameable) - set(train)
    assert sorted(names_of(graph, graph.negatives)) == sorted(kept)
    assert report.negatives == len(kept)
    assert report.negatives_unknown == len(negatives) - len(nameable)
    assert report.negatives_repeated == len(nameable) - len(set(nameable))
    assert report.negatives_training_facts == len(set(nameable) & set(train))
    assert report.negatives_contradicting == {s: len(kept & set(splits[s])) for s in SPLITS[1:]}
    assert_literals(graph, report, literals, entities)


def assert_literals(
    graph: NumericGraph, report: GraphReport, literals: list[Literal], entities: list[str]
) -> None:
    """Values, fields and counts are those of dictionaries."""
    cells: dict[tuple[str, str], set[float]] = {}
    for entity, field, value in literals:
        if entity in entities:
            cells.setdefault((entity, field), set()).add(value)
    fields = sorted({field for _, field in cells})
    assert graph.vocabulary.fields == tuple(fields)
    values, observed = np.zeros((len(entities), len(fields))), np.zeros((len(entities), len(fields)), bool)
    for (entity, field), options in cells.items():
        values[entities.index(entity), fields.index(field)] = np.median(sorted(options))
        observed[entities.index(entity), fields.index(field)] = True
    np.testing.assert_array_equal(graph.values, values)
    np.testing.assert_array_equal(graph.observed, observed)
    assert report.literals_conflicting == sum(len(options) > 1 for options in cells.values())
    of_known = [literal for literal in literals if literal[0] in entities]
    assert report.literals_unknown == len(literals) - len(of_known)
    assert report.literals_repeated == len(of_known) - len(set(of_known))
    assert report.unknown_literal_entities == tuple(sorted({e for e, _, _ in literals} - set(entities)))
    assert report.entities_without_literals == tuple(
        name for name in entities if name not in {entity for entity, _ in cells}
    )
    assert report.dropped_fields == tuple(sorted({field for _, field, _ in literals} - set(fields)))


@settings(max_examples=60)
@given(
    train=FACTS.filter(bool),
    negatives=FACTS,
    literals=LITERALS,
    shuffle=st.randoms(use_true_random=False),
    repeats=st.integers(1, 3),
)
def test_row_order_and_repeats_never_change_ids_or_arrays(
    train: list[Fact], negatives: list[Fact], literals: list[Literal], shuffle: random.Random, repeats: int
) -> None:
    graph, _ = encode(train, train[:2], train[1:], negatives, literals)
    facts, valid, test = train * repeats, train[:2], train[1:]
    false_facts, values = negatives * repeats, literals * repeats
    for rows in (facts, valid, test, false_facts):
        shuffle.shuffle(rows)
    shuffle.shuffle(values)
    other, _ = encode(facts, valid, test, false_facts, values)
    assert other.vocabulary == graph.vocabulary
    for name in ARRAYS:
        first, second = getattr(graph, name), getattr(other, name)
        assert (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes())


def test_dictionary_encoded_chunks_give_the_same_graph_as_plain_strings() -> None:
    facts = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a"), ("a", "s", "c")]
    plain, _ = encode(facts)
    chunks = [fact_table(facts[:2]), fact_table(facts[2:])]
    encoded = pa.concat_tables(
        pa.table({name: chunk[name].dictionary_encode() for name in chunk.column_names}) for chunk in chunks
    )
    assert encoded["head"].num_chunks == 2
    graph, _ = encode_graph({"train": encoded.slice(1)}, None, None)  # name "a" stays in the dictionary
    assert graph.vocabulary.entities == ("a", "b", "c")
    graph, _ = encode_graph({"train": encoded}, None, None)
    assert graph.vocabulary == plain.vocabulary
    np.testing.assert_array_equal(graph.train, plain.train)


def test_a_name_that_only_a_skipped_row_used_is_no_entity() -> None:
    table = fact_table([("head", "relation", "tail"), ("a", "r", "b")])
    encoded = pa.table({name: table[name].dictionary_encode() for name in table.column_names}).slice(1)
    graph, _ = encode_graph({"train": encoded}, None, None)
    assert graph.vocabulary.entities == ("a", "b")
    assert graph.vocabulary.relations == ("r",)


def test_a_relation_may_be_called_like_an_entity() -> None:
    graph, _ = encode([("x", "x", "y"), ("y", "y", "x")])
    assert graph.vocabulary.entities == graph.vocabulary.relations == ("x", "y")
    np.testing.assert_array_equal(graph.train, [[0, 0, 1], [1, 1, 0]])


def test_no_training_facts_is_an_error() -> None:
    with pytest.raises(UserError, match=r"train\.txt holds no facts"):
        encode([], valid=[("a", "r", "b")])
    with pytest.raises(UserError, match=r"train\.txt holds no facts"):
        encode_graph({}, None, None)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_literals_must_be_finite(value: float) -> None:
    with pytest.raises(UserError, match="literal values must be finite, got .* in row 2; leave it out"):
        encode([("a", "r", "b")], literals=[("a", "m", 1.0), ("b", "m", value)])


def test_a_true_zero_is_observed_and_a_missing_cell_is_not() -> None:
    graph, _ = encode([("a", "r", "b")], literals=[("a", "m", 0.0), ("b", "n", 3.0)])
    np.testing.assert_array_equal(graph.values, [[0, 0], [0, 3]])
    np.testing.assert_array_equal(graph.observed, [[True, False], [False, True]])


def test_field_summaries_hold_range_and_coverage_of_observed_cells() -> None:
    _, report = encode(
        [("a", "r", "b"), ("b", "r", "c")], literals=[("a", "m", -4.0), ("c", "m", -1.0), ("b", "n", 2.0)]
    )
    summaries = [(field.name, field.observed, field.minimum, field.maximum) for field in report.fields]
    assert summaries == [("m", 2, -4.0, -1.0), ("n", 1, 2.0, 2.0)]


def test_keys_keep_order_and_equality_beyond_63_bits() -> None:
    rng = np.random.default_rng(0)
    largest = np.array([2**31 - 1, 2**20, 2**31 - 1])  # (2^31)^2 x 2^20 does not fit into an int64
    arrays = [rng.integers(0, largest, size=(50, 3)).astype(np.int32) for _ in range(2)]
    arrays[1][:10] = arrays[0][:10]
    keys = np.concatenate(fact_keys(arrays, 2**31, 2**20 + 1))
    rows = [(r, h, t) for h, r, t in np.concatenate(arrays).tolist()]
    for i in range(100):
        for j in range(100):
            assert (keys[i] < keys[j]) == (rows[i] < rows[j])
            assert (keys[i] == keys[j]) == (rows[i] == rows[j])


def test_packed_and_ranked_keys_agree() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.integers(0, 5, size=(40, 3)).astype(np.int32), np.zeros((0, 3), np.int32)]
    packed, ranked = fact_keys(arrays, 5, 5), fact_keys(arrays, 2**31, 2**31)
    assert [len(keys) for keys in ranked] == [40, 0]
    np.testing.assert_array_equal(np.unique(packed[0], return_inverse=True)[1], ranked[0])


@pytest.mark.parametrize("keys", [[], [3], [1, 2, 9]])
@pytest.mark.parametrize("sorted_keys", [[], [2], [1, 3, 9]])
def test_contains(sorted_keys: list[int], keys: list[int]) -> None:
    found = contains(np.array(sorted_keys, np.int64), np.array(keys, np.int64))
    assert found.tolist() == [key in sorted_keys for key in keys]


@pytest.mark.parametrize(
    "group",
    [
        ("naïve", "nai\u0308ve"),
        ("kiln", "kiln "),
        ("kiln", " kiln"),
        ("kiln", "kiln\u00a0"),
        ("kiln", "\u3000kiln"),
        ("old kiln", "old\u00a0kiln"),
        ("old kiln", "old\u2009kiln"),
        ("kiln", "ki\u200bln"),
        ("kiln", "kiln\ufeff"),
        ("Å", "\u212b", "A\u030a"),
        ("7", "7.0"),
    ],
)
def test_look_alikes_are_grouped(group: tuple[str, ...]) -> None:
    names = pa.array([*group, "Kiln", "oven", "KILN"])
    assert find_look_alikes(names) == (tuple(sorted(group)),)


def test_names_that_differ_visibly_are_no_look_alikes() -> None:
    assert (
        find_look_alikes(pa.array(["Kiln", "kiln", "1", "01", "1.00", "1.5", "a_b", "a b", "m2", "m²"])) == ()
    )
    assert find_look_alikes(pa.array([], pa.string())) == ()


def test_near_misses_are_names_that_differ_in_quotes_brackets_case_or_underscores() -> None:
    entities = pa.array(['Ann_"Ace"_Lee', "old kiln", "/m/01", "oven", "lamp"])
    unknown = pa.array(['"Ann_""Ace""_Lee"', "Old_Kiln", "</m/01>", "lamp ", "ghost"])
    assert find_near_misses(unknown, entities) == (
        ('"Ann_""Ace""_Lee"', 'Ann_"Ace"_Lee'),
        ("Old_Kiln", "old kiln"),
        ("</m/01>", "/m/01"),
    )  # "lamp " is a look-alike and reported as such


def test_findings_name_what_they_count() -> None:
    graph, report = encode(
        train=[("a", "r", "b"), ("a", "r", "b"), ("b", "r", "a"), ("c", "r", "c")],
        valid=[("a", "r", "b"), ("d", "s", "a")],
        test=[("d ", "r", "a")],
        negatives=[("a", "r", "b"), ("d", "s", "a"), ("d", "s", "a"), ("a", "r", "ghost")],
        literals=[("a", "m", 1.0), ("a", "m", 1.0), ("a", "m", 2.0), ("A", "m", 2.0), ("ghost", "only", 2.0)],
    )
    assert report.notices() == [
        "train.txt: 1 repeated row; a repeated fact counts once",
        "train and valid share 1 fact: scores on valid are too good",
        "unseen in training: 2 entities (d; 'd ') and 1 relation (s) in 2 facts (1 valid, 1 test); "
        "entities are ranked like any other, facts of such relations are left out of all metrics",
        "self-loops, facts that link an entity to itself: 1; it is kept",
        "facts in both directions, (h, r, t) and (t, r, h): 1 pair",
        "neg.txt: 1 negative dropped because train.txt states the same fact",
        "neg.txt: 1 repeated row; a negative counts once",
        "neg.txt: 1 row dropped for 1 unknown name (ghost)",
        "neg.txt: negatives contradict facts of other splits (1 valid); they are kept, but negatives made "
        "with knowledge of valid or test facts leak that knowledge into training",
        "literals: 2 rows ignored, of 2 entities (A; ghost) that no fact mentions",
        "literals: 1 field (only) left without any value",
        "literals: 4 entities (b; c; d; ...) without any value",
        "literals: 1 repeated row; a repeated value counts once",
        "literals: 1 cell (entity, field) with several values; their median is used",
        "look-alike names, different only in white space, invisible characters, Unicode form or .0: 1 group, "
        "kept as different names: 'd' (unseen in training) / 'd ' (unseen in training)",
        "1 name would be known but for quotes, brackets, case or underscores: 'A' / 'a'",
        "1 name with white space before or after, kept to the letter: 'd '",
    ]
    assert graph.values[0, 0] == 1.5  # the median of 1 and 2


def test_a_clean_graph_has_no_findings() -> None:
    _, report = encode(
        [("a", "r", "b"), ("b", "r", "c")],
        [("a", "r", "c")],
        [],
        [("c", "r", "a")],
        [(name, "m", float(ord(name))) for name in "abc"],
    )
    assert report.notices() == []
    assert report.errors == []
    assert Counter(report.facts) == {"train": 2, "valid": 1, "test": 0}
