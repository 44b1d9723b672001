"""The CSR index against dictionaries of sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.data.tail_index import TailIndex, distinct_facts


def _triples(rows):
    return np.array(rows, np.int32).reshape(-1, 3)


def _tails_of(*arrays):
    """{(head, relation): set of tails}, with plain loops."""
    tails: dict[tuple[int, int], set[int]] = {}
    for array in arrays:
        for head, relation, tail in array.tolist():
            tails.setdefault((head, relation), set()).add(tail)
    return tails


@st.composite
def sized_triples(draw):
    num_entities = draw(st.integers(1, 6))
    num_relations = draw(st.integers(1, 4))
    entity, relation = st.integers(0, num_entities - 1), st.integers(0, num_relations - 1)
    rows = st.lists(st.tuples(entity, relation, entity), max_size=30)
    return num_entities, num_relations, _triples(draw(rows)), _triples(draw(rows))


@given(sized_triples())
def test_index_holds_each_fact_of_the_union_once(case):
    num_entities, num_relations, first, second = case
    index = TailIndex.from_triples(first, second, num_entities=num_entities, num_relations=num_relations)
    expected = _tails_of(first, second)
    assert index.indptr.dtype == np.int64 and index.queries.dtype == index.tails.dtype == np.int32
    assert index.queries.tolist() == [[h, r] for h, r in sorted(expected, key=lambda pair: pair[::-1])]
    for (head, relation), begin, end in zip(
        map(tuple, index.queries.tolist()), index.indptr[:-1], index.indptr[1:], strict=True
    ):
        assert index.tails[begin:end].tolist() == sorted(expected[head, relation])
    assert index.counts.tolist() == [len(expected[h, r]) for h, r in index.queries.tolist()]


@given(sized_triples(), st.booleans(), st.sampled_from([np.int32, np.int64]))
def test_distinct_facts_are_sorted_and_each_once(case, large, dtype):
    facts = np.concatenate(case[2:]).astype(dtype)
    if large and len(facts):  # these ids do not fit into one packed number
        facts[facts == 0] = 2**31 - 2
    found = distinct_facts(facts)
    by_relation = sorted(
        {tuple(fact) for fact in facts.tolist()}, key=lambda fact: (fact[1], fact[0], fact[2])
    )
    assert found.tolist() == [list(fact) for fact in by_relation] and found.dtype == dtype


@given(sized_triples())
def test_mask_equals_set_membership(case):
    num_entities, num_relations, first, second = case
    index = TailIndex.from_triples(first, second, num_entities=num_entities, num_relations=num_relations)
    expected = _tails_of(first, second)
    heads = np.arange(num_entities)[:, None]
    relations = np.arange(num_relations)[None, :]
    mask = index.mask(heads, relations, num_entities + 2)  # more columns than entities stay False
    assert mask.shape == (num_entities, num_relations, num_entities + 2) and mask.dtype == bool
    for head in range(num_entities):
        for relation in range(num_relations):
            assert set(np.flatnonzero(mask[head, relation])) == expected.get((head, relation), set())


def test_row_order_and_repeats_do_not_change_the_index():
    rng = np.random.default_rng(0)
    triples = rng.integers(0, 5, (40, 3))
    shuffled = np.concatenate([rng.permutation(triples), triples[:7]])
    first, second = (
        TailIndex.from_triples(rows, num_entities=5, num_relations=5) for rows in (triples, shuffled)
    )
    for name in ("queries", "indptr", "tails", "keys"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_ids_outside_the_graph_have_no_row():
    # Packed with N = 3, (head 3, relation 0) would be the key of (head 0, relation 1).
    index = TailIndex.from_triples(_triples([(0, 1, 2)]), num_entities=3, num_relations=2)
    assert index.rows(np.array([0, 3, -3, 0]), np.array([1, 0, 2, 2])).tolist() == [0, -1, -1, -1]


@given(sized_triples())
def test_graphs_whose_packed_facts_overflow_give_the_same_index(case):
    """With R N^2 >= 2^63 facts are sorted in another way; unused ids above change nothing else."""
    num_entities, num_relations, first, second = case
    small = TailIndex.from_triples(first, second, num_entities=num_entities, num_relations=num_relations)
    large = TailIndex.from_triples(first, second, num_entities=2**31 - 1, num_relations=2**31 - 1)
    for name in ("queries", "indptr", "tails"):
        np.testing.assert_array_equal(getattr(large, name), getattr(small, name))
        assert getattr(large, name).dtype == getattr(small, name).dtype


def test_the_largest_ids_do_not_overflow():
    limit = 2**31 - 1
    triples = np.array([(limit - 1, limit - 1, limit - 1), (0, limit - 1, 5), (limit - 1, 0, 0)], np.int32)
    index = TailIndex.from_triples(triples, num_entities=limit, num_relations=limit)
    assert index.queries.tolist() == [[limit - 1, 0], [0, limit - 1], [limit - 1, limit - 1]]
    assert index.tails.tolist() == [0, 5, limit - 1]
    assert index.rows(np.array([limit - 1]), np.array([limit - 1])).tolist() == [2]


def test_pairs_lists_the_tails_of_the_asked_rows_in_their_order():
    triples = _triples([(0, 0, 1), (0, 0, 2), (1, 0, 0), (2, 0, 2)])
    index = TailIndex.from_triples(triples, num_entities=3, num_relations=1)
    asked, tails = index.pairs(np.array([2, -1, 0, 0]))
    assert asked.tolist() == [0, 2, 2, 3, 3]
    assert tails.tolist() == [2, 1, 2, 1, 2]


@pytest.mark.parametrize("arrays", [(), (np.empty((0, 3), np.int32),)])
def test_empty_index_answers_nothing(arrays):
    index = TailIndex.from_triples(*arrays, num_entities=3, num_relations=2)
    assert index.queries.shape == (0, 2) and index.indptr.tolist() == [0]
    assert index.rows(np.array([0, 1]), 0).tolist() == [-1, -1]
    assert not index.mask(np.array([0, 1]), 0, 3).any()


@pytest.mark.parametrize(
    "triple, message",
    [
        ((3, 0, 0), r"head ids must be in \[0, 3\), found 3 to 3"),
        ((0, 2, 0), r"relation ids must be in \[0, 2\), found 2 to 2"),
        ((0, 0, -1), r"tail ids must be in \[0, 3\), found -1 to -1"),
    ],
)
def test_ids_out_of_range_are_refused(triple, message):
    with pytest.raises(ValueError, match=message):
        TailIndex.from_triples(_triples([triple]), num_entities=3, num_relations=2)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"shape \[n, 3\], got \(4,\)"):
        TailIndex.from_triples(np.zeros(4, np.int32), num_entities=3, num_relations=2)
    index = TailIndex.from_triples(num_entities=3, num_relations=2)
    with pytest.raises(ValueError, match="at least 3 entities, got 2"):
        index.mask(np.array([0]), np.array([0]), 2)
