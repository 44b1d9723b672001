"""What validation facts are ranked against: each rule against sets of facts, on any small graph."""

import re
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.evaluation.ranking import selection_filter
from numcoke_jax.system.errors import UserError
from tests import graphs

Fact = tuple[int, int, int]
NUM_ENTITIES, NUM_RELATIONS = 5, 2


def graph_of(
    train: Iterable[Fact],
    valid: Iterable[Fact] = (),
    test: Iterable[Fact] = (),
    vocabulary: Vocabulary | None = None,
) -> NumericGraph:
    """A graph of the given facts without literals, by default of 5 entities and 2 relations."""
    vocabulary = vocabulary or Vocabulary(entities=tuple("abcde"), relations=("above", "beside"), fields=())
    return graphs.graph_of(vocabulary, *(sorted(rows) for rows in (train, valid, test)))


def candidates(graph: NumericGraph, rule: str) -> set[Fact]:
    """Every (head, relation, candidate) that counts under a rule, from one mask [R, N, N]."""
    relations, heads = np.arange(NUM_RELATIONS)[:, None], np.arange(NUM_ENTITIES)
    mask = selection_filter(graph, rule).mask(heads, relations, NUM_ENTITIES)
    assert mask.dtype == np.bool_
    assert mask.shape == (NUM_RELATIONS, NUM_ENTITIES, NUM_ENTITIES)
    return {(h, r, t) for r, h, t in np.ndindex(*mask.shape) if not mask[r, h, t]}


EVERYTHING = {
    (h, r, t) for h in range(NUM_ENTITIES) for r in range(NUM_RELATIONS) for t in range(NUM_ENTITIES)
}
entities = st.integers(0, NUM_ENTITIES - 1)
facts = st.sets(st.tuples(entities, st.integers(0, NUM_RELATIONS - 1), entities), max_size=12)


@given(facts, facts, facts)
def test_seen_filters_by_train_and_valid_and_all_by_the_test_too(
    train: set[Fact], valid: set[Fact], test: set[Fact]
) -> None:
    graph = graph_of(train, valid, test)
    assert candidates(graph, "seen") == EVERYTHING - train - valid
    assert candidates(graph, "all") == EVERYTHING - train - valid - test


@given(facts, facts)
def test_reversed_leaves_the_head_and_what_train_and_valid_show_to_be_false(
    train: set[Fact], test: set[Fact]
) -> None:
    """Any facts that hold one way only: of both ways the first to come in sorted order is kept."""
    one_way = {(h, r, t) for h, r, t in train if h <= t or (t, r, h) not in train}
    valid = set(sorted(one_way)[::3])
    graph = graph_of(one_way - valid, valid, test)
    expected = {(h, r, t) for h, r, t in EVERYTHING if t == h or (t, r, h) in one_way}
    assert candidates(graph, "reversed") == expected


@given(facts, facts)
def test_reversed_refuses_exactly_the_graphs_with_a_fact_and_its_reverse(
    train: set[Fact], valid: set[Fact]
) -> None:
    """Wherever they stand, in one split or in two; a fact of an entity with itself is no reverse."""
    known = train | valid
    names = {("above", "beside")[r] for h, r, t in known if h != t and (t, r, h) in known}
    graph = graph_of(train, valid)
    if not names:
        assert selection_filter(graph, "reversed") is not None
        return
    with pytest.raises(UserError) as caught:
        selection_filter(graph, "reversed")
    found = re.fullmatch(
        r"eval\.selection='reversed' needs relations that are strict orders, but '(above|beside)' holds in "
        r"both directions for some entities; set eval\.selection='seen'",
        str(caught.value),
    )
    assert found is not None
    assert found[1] in names


def test_test_facts_do_not_reach_seen_and_reversed() -> None:
    """Not even a reverse of a training fact, which would contradict the order, is noticed there."""
    train, valid = {(0, 0, 1), (1, 0, 2)}, {(0, 0, 2)}
    for rule in ("seen", "reversed"):
        without = candidates(graph_of(train, valid), rule)
        assert candidates(graph_of(train, valid, {(1, 0, 0), (3, 0, 4)}), rule) == without


def test_the_reverse_of_another_relation_is_no_contradiction() -> None:
    graph = graph_of({(0, 0, 1)}, {(1, 1, 0)})
    assert candidates(graph, "reversed") == {(h, r, h) for h in range(5) for r in range(2)} | {
        (1, 0, 0),  # 0 is above 1, so 1 is not above 0
        (0, 1, 1),  # 1 is beside 0
    }


def test_reversed_on_a_graph_whose_facts_do_not_fit_into_64_bits() -> None:
    """N N R = 2^63: ids are packed into Python's integers instead."""
    size = 2**21
    vocabulary = Vocabulary(entities=("e",) * size, relations=("r",) * size, fields=())
    last = size - 1
    one_way = {(last, last, 0), (0, last, 1)}
    both_ways = one_way | {(0, last, last)}
    known = selection_filter(graph_of(one_way, vocabulary=vocabulary), "reversed")
    mask = known.mask(np.array([0]), np.array([last]), size)
    np.testing.assert_array_equal(np.flatnonzero(~mask[0]), [0, last])
    with pytest.raises(UserError, match="'r' holds in both directions"):
        selection_filter(graph_of(both_ways, vocabulary=vocabulary), "reversed")
