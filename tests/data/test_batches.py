"""Batches against sets of facts, and orders against each other."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numcoke_jax.data.batches import (
    Batch,
    TrainBatches,
    choose_epochs,
    choose_relations_per_step,
    count_steps,
)
from numcoke_jax.system.errors import UserError
from tests.graphs import graph_of, numbered


def _graph(train, num_entities, num_relations, negatives=()):
    return graph_of(numbered(num_entities, num_relations, digits=1), train, negatives=negatives)


@st.composite
def graph_parts(draw):
    """Arguments of `_graph`: up to 4 relations, some without facts, repeated facts and given negatives."""
    num_entities, num_relations = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    entity, relation = st.integers(0, num_entities - 1), st.integers(0, num_relations - 1)
    triple = st.tuples(entity, relation, entity)
    train = draw(st.lists(triple, min_size=1, max_size=40))
    negatives = [row for row in draw(st.lists(triple, max_size=15)) if row not in train]
    return train, num_entities, num_relations, negatives


sizes = st.sampled_from([(1, 1), (2, 1), (2, 2), (6, 2), (6, 3), (12, 4), (12, 0), (8, 0)])


def _same(first: Batch, second: Batch) -> bool:
    return all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    )


@settings(max_examples=60)
@given(graph_parts(), sizes, st.integers(0, 2), st.integers(0, 2))
def test_every_query_comes_once_an_epoch_with_its_own_labels(parts, size, seed, epoch):
    graph = _graph(*parts)
    batch_size, slots = size
    batches = TrainBatches(graph, batch_size=batch_size, relations_per_step=slots, seed=seed)
    facts = set(map(tuple, graph.train.tolist()))
    false = set(map(tuple, graph.negatives.tolist()))
    seen = []
    for step in range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch):
        batch = batches.batch(step)
        for s, h in np.ndindex(*batch.heads.shape):
            head, relation = int(batch.heads[s, h]), int(batch.relations[s])
            if not batch.mask[s, h]:
                assert head == 0 and not batch.labels[s, h].any() and not batch.negatives[s, h].any()
                continue
            seen.append((head, relation))
            for tail in range(graph.num_entities):
                assert batch.labels[s, h, tail] == ((head, relation, tail) in facts)
                assert batch.negatives[s, h, tail] == ((head, relation, tail) in false)
    assert sorted(seen) == sorted({(head, relation) for head, relation, _ in facts})
    assert batches.num_queries == len(seen)


@settings(max_examples=30)
@given(graph_parts(), sizes)
def test_shapes_and_dtypes_are_static_over_epochs(parts, size):
    graph = _graph(*parts)
    batches = TrainBatches(graph, batch_size=size[0], relations_per_step=size[1], seed=0)
    num_slots, num_heads = batches.relations_per_step, batches.heads_per_relation
    assert num_slots * num_heads == size[0]
    for step in range(2 * batches.steps_per_epoch + 1):
        batch = batches.batch(step)
        assert (batch.relations.shape, batch.relations.dtype) == ((num_slots,), np.int32)
        assert (batch.heads.shape, batch.heads.dtype) == ((num_slots, num_heads), np.int32)
        assert (batch.mask.shape, batch.mask.dtype) == ((num_slots, num_heads), np.bool_)
        for rows in (batch.labels, batch.negatives):
            assert (rows.shape, rows.dtype) == ((num_slots, num_heads, graph.num_entities), np.bool_)


def _skewed_graph():
    """Relation 0 has 11 heads, relation 1 has 3, relation 2 none, relation 3 one."""
    train = [(head, 0, (head + 1) % 12) for head in range(11)] + [(h, 1, 0) for h in range(3)] + [(5, 3, 6)]
    return _graph(train, num_entities=12, num_relations=4)


def test_random_access_equals_going_through_in_order():
    graph = _skewed_graph()
    in_order = TrainBatches(graph, batch_size=8, relations_per_step=2, seed=3)
    assert in_order.steps_per_epoch == 3  # chunks of 4 heads: 3 + 1 + 0 + 1 = 5, two a step
    expected = [in_order.batch(step) for step in range(9)]
    jumping = TrainBatches(graph, batch_size=8, relations_per_step=2, seed=3)
    for step in (8, 0, 5, 4, 2, 7, 1, 3, 6, 8):
        assert _same(jumping.batch(step), expected[step])
        assert _same(
            TrainBatches(graph, batch_size=8, relations_per_step=2, seed=3).batch(step), expected[step]
        )


def test_order_depends_on_seed_and_epoch():
    graph = _skewed_graph()
    order = {}
    for seed in (0, 1):
        batches = TrainBatches(graph, batch_size=4, relations_per_step=1, seed=seed)
        for epoch in (0, 1):
            steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
            drawn = [batches.batch(step) for step in steps]
            order[seed, epoch] = [(b.relations[0], *b.heads[0][b.mask[0]]) for b in drawn]
    assert len({str(steps) for steps in order.values()}) == 4
    # Both levels move: the order of relations and the heads that share a chunk.
    assert len({str([step[0] for step in steps]) for steps in order.values()}) > 1
    assert len({str(sorted(map(sorted, steps))) for steps in order.values()}) > 1


def test_heads_are_shuffled_evenly_and_chunks_mix_relations():
    graph = _graph([(head, relation, 0) for head in range(4) for relation in range(2)], 4, 2)
    batches = TrainBatches(graph, batch_size=8, relations_per_step=2, seed=0)
    first_heads, first_relations = np.zeros(4, int), np.zeros(2, int)
    for epoch in range(400):
        batch = batches.batch(epoch)
        first_heads[batch.heads[0, 0]] += 1
        first_relations[batch.relations[0]] += 1
    # 400 draws with p = 1/4 and 1/2: standard deviations 8.7 and 10; five of them either way.
    assert np.all(np.abs(first_heads - 100) < 44) and np.all(np.abs(first_relations - 200) < 50)


def test_repeated_facts_count_once():
    graph = _graph([(0, 0, 1), (0, 0, 1), (0, 0, 1), (0, 0, 2)], 3, 1)
    batch = TrainBatches(graph, batch_size=1, relations_per_step=1, seed=0).batch(0)
    assert batch.labels.tolist() == [[[False, True, True]]]


def _padded_share(heads_per_relation, batch_size):
    slots = choose_relations_per_step(heads_per_relation, batch_size)
    steps = count_steps(heads_per_relation, batch_size, slots)
    return slots, 1 - heads_per_relation.sum() / (steps * batch_size)


def test_many_small_relations_do_not_waste_the_slots():
    # 5,000 relations with one head each: S = 256 takes ceil(5000 / 256) = 20 steps of 5,120 slots.
    slots, padded = _padded_share(np.ones(5000, int), 256)
    assert (slots, padded) == (256, 1 - 5000 / 5120)


def test_few_large_relations_get_few_slots():
    # 9 x 60 heads, batch 256.  Chunks of 128 (S 2): 9 chunks, 5 steps.  64 (S 4): 9 chunks, 3 steps, the
    # fewest that 540 queries allow; so 4 is the smallest S within 1.25 x 3.
    slots, padded = _padded_share(np.full(9, 60), 256)
    assert (slots, padded) == (4, 1 - 540 / 768)


def test_one_relation_gets_one_slot():
    assert choose_relations_per_step(np.array([1000]), 256) == 1


@given(st.lists(st.integers(0, 300), min_size=1, max_size=30).filter(any), st.integers(1, 64))
def test_the_chosen_slots_divide_the_batch_and_stay_within_the_slack(heads_per_relation, batch_size):
    heads_per_relation = np.array(heads_per_relation)
    slots = choose_relations_per_step(heads_per_relation, batch_size)
    steps = {}
    for s in range(1, batch_size + 1):
        if batch_size % s == 0:
            chunks = sum(len(range(0, count, batch_size // s)) for count in heads_per_relation.tolist())
            steps[s] = len(range(0, chunks, s))
    assert steps[slots] <= 1.25 * min(steps.values())
    assert all(steps[s] > 1.25 * min(steps.values()) for s in steps if s < slots)
    assert count_steps(heads_per_relation, batch_size, slots) == steps[slots]


def test_zero_chooses_from_the_graph():
    graph = _graph([(head, head, 0) for head in range(12)], 12, 12)  # one head a relation
    batches = TrainBatches(graph, batch_size=6, relations_per_step=0, seed=0)
    assert (batches.relations_per_step, batches.heads_per_relation, batches.steps_per_epoch) == (6, 1, 2)


def test_wrong_sizes_are_refused():
    graph = _skewed_graph()
    with pytest.raises(UserError, match="train.relations_per_step must divide .* found 3 and 8; choose a"):
        TrainBatches(graph, batch_size=8, relations_per_step=3, seed=0)
    with pytest.raises(UserError, match="found -2 and 8"):
        TrainBatches(graph, batch_size=8, relations_per_step=-2, seed=0)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        TrainBatches(graph, batch_size=0, relations_per_step=0, seed=0)
    with pytest.raises(UserError, match="training split holds no triples"):
        TrainBatches(_graph([], 2, 1), batch_size=8, relations_per_step=2, seed=0)
    with pytest.raises(ValueError, match="seed must be 0 or more, got -1"):
        TrainBatches(graph, batch_size=8, relations_per_step=2, seed=-1)
    with pytest.raises(ValueError, match="step must be 0 or more, got -1"):
        TrainBatches(graph, batch_size=8, relations_per_step=2, seed=0).batch(-1)


def test_facts_of_strict_orders_rule_out_their_reverse_and_the_entity_itself() -> None:
    """Facts 0>1, 1>2 of r0 and 2>0 of r1; neg.txt has (0, r0, 2)."""
    graph = _graph([(0, 0, 1), (1, 0, 2), (2, 1, 0)], 3, 2, [(0, 0, 2)])
    batches = TrainBatches(graph, batch_size=4, relations_per_step=2, seed=0, negatives="reversed")
    expected = {(0, 0): {0, 2}, (1, 0): {0, 1}, (2, 1): {2}}
    seen = {}
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        for s, h in np.argwhere(batch.mask):
            key = int(batch.heads[s, h]), int(batch.relations[s])
            seen[key] = set(np.flatnonzero(batch.negatives[s, h]).tolist())
    assert seen == expected


def test_relations_that_hold_both_ways_have_no_reversed_negatives() -> None:
    graph = _graph([(0, 0, 1), (0, 1, 1), (1, 1, 0)], 2, 2)
    message = (
        r"^train\.negatives='reversed' needs relations that are strict orders, but 'r1' holds in both "
        r"directions for some entities; set train\.negatives='given'$"
    )
    with pytest.raises(UserError, match=message):
        TrainBatches(graph, batch_size=2, relations_per_step=1, seed=0, negatives="reversed")


@pytest.mark.parametrize(
    ("steps", "epochs"), [(1, 1440), (2, 720), (5, 288), (6, 240), (7, 240), (1000, 240)]
)
def test_a_graph_of_few_steps_an_epoch_gets_more_epochs(steps: int, epochs: int) -> None:
    assert choose_epochs(steps) == epochs
