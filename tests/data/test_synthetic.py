"""Synthetic graphs: their known order, kinds of fields, counts, splits, and the bits of a seed."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.data.files.folder import read_folder, write_folder
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.data.synthetic import (
    SyntheticSettings,
    draw_pairs,
    draw_values,
    field_names,
    mid_ranks,
    relation_names,
    relation_orders,
    synthetic_graph,
)
from numcoke_jax.system.errors import UserError

SMALL = SyntheticSettings(entities=40, fields=3, relations=5, triples=600)


def all_facts(graph):
    return np.concatenate([graph.split(split) for split in SPLITS])


def test_every_fact_follows_the_known_order_of_its_relation():
    for direction, sign in ((">", 1), ("<", -1)):
        settings = dataclasses.replace(SMALL, direction=direction)
        graph, _ = synthetic_graph(settings)
        orders = relation_orders(draw_values(settings), settings.relations)
        known = orders[[int(name[1:]) for name in graph.vocabulary.entities]]
        heads, relations, tails = all_facts(graph).T
        assert (sign * (known[heads, relations] - known[tails, relations]) > 0).all()
        heads, relations, tails = graph.negatives.T
        assert len(heads) and (sign * (known[heads, relations] - known[tails, relations]) < 0).all()


def test_counts_are_those_asked_for_and_no_fact_comes_twice():
    graph, _ = synthetic_graph(SMALL)
    facts = all_facts(graph)
    assert len(np.unique(facts, axis=0)) == len(facts) == 600
    assert np.bincount(facts[:, 1]).tolist() == [120] * 5
    assert [len(graph.split(split)) for split in SPLITS] == [60, 60, 480]
    assert graph.vocabulary.relations == (
        "field_0_continuous_comp",
        "field_1_discrete_comp",
        "field_2_skewed_comp",
        "mix_3_comp",
        "mix_4_comp",
    )
    uneven, _ = synthetic_graph(dataclasses.replace(SMALL, triples=598))
    assert np.bincount(all_facts(uneven)[:, 1]).tolist() == [120, 120, 120, 119, 119]


def test_the_graph_is_canonical_and_survives_its_text(tmp_path):
    """What the text reader makes of the written folder is the graph itself, bit for bit."""
    for settings in (
        SMALL,
        dataclasses.replace(SMALL, entities=300, triples=100),  # many entities without a fact
        dataclasses.replace(SMALL, fields=12, relations=11, kinds=("discrete",), missing_rate=0.97),
    ):
        graph, notices = synthetic_graph(settings)
        folder = tmp_path / str(settings.entities * settings.fields)
        write_folder(graph, folder)
        again, report = read_folder(folder)
        assert report.errors == []
        for field in dataclasses.fields(graph):
            one, other = getattr(graph, field.name), getattr(again, field.name)
            if field.name == "vocabulary" or one is None:
                assert one == other
            elif not field.name.startswith("_"):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other, err_msg=field.name)
        dropped = settings.entities - graph.num_entities
        assert any("without a fact left out" in notice for notice in notices) == (dropped > 0)
        lost = settings.fields - graph.num_fields
        assert any("without a value left out" in notice for notice in notices) == (lost > 0)


def test_values_are_those_drawn_where_they_are_shown():
    graph, _ = synthetic_graph(SMALL)
    assert graph.num_entities == 40  # each has 30 facts on average: none is left out
    np.testing.assert_array_equal(graph.values, np.where(graph.observed, draw_values(SMALL), 0.0))
    assert graph.observed.sum() == 96  # 40 * 3 cells, a fifth masked


def test_kinds_of_fields():
    settings = SyntheticSettings(entities=20_000, fields=4, levels=7)
    values = draw_values(settings)
    assert field_names(settings) == (
        "field_0_continuous",
        "field_1_discrete",
        "field_2_skewed",
        "field_3_continuous",
    )
    # Of n = 20,000 draws the mean lies within 5 / sqrt(n) = 0.036 standard deviations of its expectation.
    for field in (0, 3):
        assert abs(values[:, field].mean()) < 0.036 and abs(values[:, field].std() - 1) < 0.036
        assert len(np.unique(values[:, field])) == 20_000
    assert np.bincount(values[:, 1].astype(int)).tolist() == pytest.approx([20_000 / 7] * 7, rel=0.1)
    logs = np.log(values[:, 2])
    assert abs(logs.mean() / 2) < 0.036 and abs(logs.std() / 2 - 1) < 0.036
    assert values[:, 2].mean() > 5 * np.median(values[:, 2])  # exp(2) = 7.4 in expectation
    correlations = np.corrcoef(np.column_stack([values[:, [0, 1, 3]], logs]).T)
    assert np.abs(correlations - np.eye(4)).max() < 0.036  # fields are independent


def test_a_seed_decides_everything_and_each_use_has_its_own_stream():
    first, again = synthetic_graph(SMALL)[0], synthetic_graph(SMALL)[0]
    for name in (*SPLITS, "negatives", "values", "observed"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    other = synthetic_graph(dataclasses.replace(SMALL, seed=1))[0]
    assert not np.array_equal(draw_values(SMALL), draw_values(dataclasses.replace(SMALL, seed=1)))
    assert not np.array_equal(first.train, other.train)
    more_fields = dataclasses.replace(SMALL, fields=9, missing_rate=0.5)
    np.testing.assert_array_equal(draw_values(SMALL), draw_values(more_fields)[:, :3])
    masked = synthetic_graph(dataclasses.replace(SMALL, missing_rate=0.5))[0]
    np.testing.assert_array_equal(first.train, masked.train)  # the mask has no say in the facts


def test_mixes_follow_the_sum_of_mid_ranks():
    """By hand, M = 2: the mid-ranks of the fields are 0, 1.5, 1.5, 3 and 3, 0.5, 0.5, 2."""
    values = np.array([[1.0, 9.0], [2.0, 4.0], [2.0, 4.0], [7.0, 5.0]])
    orders = relation_orders(values, 5)
    np.testing.assert_array_equal(orders[:, :2], values)
    np.testing.assert_array_equal(orders[:, 2], [3.0, 2.0, 2.0, 5.0])  # field 0 + field (2 + 1) mod 2
    np.testing.assert_array_equal(orders[:, 3], [3.0, 2.0, 2.0, 5.0])  # field 1 + field (3 + 1) mod 2
    np.testing.assert_array_equal(orders[:, 4], [0.0, 3.0, 3.0, 6.0])  # field 0 + field (4 + 2) mod 2
    np.testing.assert_array_equal(relation_orders(values, 1), values[:, :1])


def test_mixes_follow_the_distance_of_mid_ranks():
    """By hand, as above; a field has no distance to itself."""
    values = np.array([[1.0, 9.0], [2.0, 4.0], [2.0, 4.0], [7.0, 5.0]])
    orders = relation_orders(values, 5, "distance")
    np.testing.assert_array_equal(orders[:, :2], values)
    np.testing.assert_array_equal(
        orders[:, 2:], [[3.0, 3.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    )


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12))
def test_mid_ranks_count_what_is_below_and_half_of_what_is_equal(numbers):
    values = np.array(numbers, float)
    expected = [
        sum(other < value for other in numbers) + (sum(other == value for other in numbers) - 1) / 2
        for value in numbers
    ]
    np.testing.assert_array_equal(mid_ranks(values), expected)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=12), st.integers(0, 80), st.integers(0, 2**32))
def test_pairs_are_ordered_different_and_as_many_as_there_are(numbers, count, seed):
    order = np.array(numbers, float)
    possible = {(a, b) for a, b in itertools.permutations(range(len(numbers)), 2) if order[a] > order[b]}
    pairs = [tuple(pair) for pair in draw_pairs(order, count, np.random.default_rng(seed)).tolist()]
    assert pairs == sorted(set(pairs))
    assert set(pairs) <= possible
    assert len(pairs) == min(count, len(possible))


@pytest.mark.parametrize("count", [3, 20])  # by rejection, by listing all pairs
def test_every_pair_is_equally_likely(count):
    order = np.array([0.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0])  # 28 pairs, 3 of equals: 25 ordered ones
    trials = 1500
    hits = np.zeros((8, 8))
    for seed in range(trials):
        pairs = draw_pairs(order, count, np.random.default_rng(seed))
        hits[pairs[:, 0], pairs[:, 1]] += 1
    share = count / 25
    spread = np.sqrt(trials * share * (1 - share))
    drawn = hits[order[:, None] > order[None, :]]
    assert drawn.sum() == trials * count
    assert np.abs(drawn - trials * share).max() < 5 * spread


def test_a_relation_without_enough_pairs_gets_all_and_says_so():
    settings = SyntheticSettings(entities=5, fields=1, relations=1, triples=1000, split=(1.0, 0.0, 0.0))
    graph, notices = synthetic_graph(settings)
    assert len(graph.train) == 10
    assert "synthetic: field_0_continuous_comp has 10 facts, all there are, of 1,000" in notices


def test_equal_values_everywhere_leave_nothing_to_train_on():
    settings = SyntheticSettings(entities=5, fields=1, relations=1, kinds=("discrete",), levels=1)
    with pytest.raises(UserError, match=r"data.synthetic_triples=20000: 0 facts leave none for training"):
        synthetic_graph(settings)


def test_names_keep_the_order_of_their_numbers():
    settings = SyntheticSettings(entities=11, fields=12, relations=1001, triples=2002)
    for names in (field_names(settings), relation_names(settings)):
        assert list(names) == sorted(names)
    assert len(relation_names(settings)) == 1001


@pytest.mark.slow
def test_a_million_entities_and_ten_million_facts():
    settings = SyntheticSettings(entities=1_000_000, fields=20, relations=20, triples=10_000_000)
    graph, notices = synthetic_graph(settings)
    assert len(notices) == 1
    assert (graph.num_entities, graph.num_fields, graph.num_relations) == (1_000_000, 20, 20)
    assert [len(graph.split(split)) for split in SPLITS] == [1_000_000, 1_000_000, 8_000_000]
    keys = (graph.test[:, 1].astype(np.int64) << 40) + (graph.test[:, 0].astype(np.int64) << 20)
    assert (np.diff(keys + graph.test[:, 2]) > 0).all()  # sorted, none twice; ids are below 2^20
