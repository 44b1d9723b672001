"""Ranks from sorted candidates equal those from comparison, query by query, ties and the head included."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from numcoke_jax.data.tail_index import TailIndex
from numcoke_jax.evaluation import ranking
from numcoke_jax.evaluation.ranking import filtered_ranks, rank_counts, sorted_rank_counts
from numcoke_jax.evaluation.sorted_ranks import SORTED_FROM, sorted_candidates
from tests.evaluation.test_ranking import _rank, assert_ranks_equal_the_loop, ranking_problems


@pytest.fixture(scope="module", autouse=True)
def always_sorted():
    """Every chunk takes the way of many targets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "SORTED_FROM", 0)
        yield


@settings(max_examples=60)
@given(ranking_problems())
def test_ranks_equal_the_loop_for_every_chunk_size(problem):
    assert_ranks_equal_the_loop(*problem)


@pytest.mark.parametrize("digits", [0, 1, 6])
@pytest.mark.parametrize("filtered", [False, True])
def test_a_complete_graph_in_both_ways(monkeypatch, digits, filtered):
    """All pairs of 70 entities, with few different scores, some and hardly any ties."""
    rng = np.random.default_rng(digits)
    scores = np.round(rng.normal(size=(2, 70, 70)), digits)
    scores[scores == 0] *= rng.choice([1.0, -1.0], size=(scores == 0).sum())  # zeros of both signs are equal
    every = np.stack(np.meshgrid(np.arange(70), np.arange(2), np.arange(70)), -1).reshape(-1, 3)
    queries = every[rng.random(len(every)) < 0.8].astype(np.int32)
    known = [queries] if filtered else []
    by_sorting = _rank(scores, queries, known, chunk=32)
    monkeypatch.setattr(ranking, "SORTED_FROM", 10**9)
    by_comparison = _rank(scores, queries, known, chunk=32)
    for one, other in zip(by_sorting, by_comparison, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_way_is_chosen_by_the_number_of_queries(monkeypatch):
    taken = []
    monkeypatch.setattr(ranking, "SORTED_FROM", SORTED_FROM)

    def watch(name):
        function = getattr(ranking, name)

        def watched(*arrays):
            taken.append(name)
            return function(*arrays)

        monkeypatch.setattr(ranking, name, watched)

    watch("rank_counts")
    watch("sorted_rank_counts")
    scores = np.zeros((1, 80, 80))
    queries = np.array([(3, 0, tail) for tail in range(80)])
    assert SORTED_FROM == 64
    for count, name in ((63, "rank_counts"), (64, "sorted_rank_counts")):
        taken.clear()
        _rank(scores, queries[:count], chunk=1)
        assert set(taken) == {name}


def test_counts_are_equal_one_by_one():
    rng = np.random.default_rng(0)
    scores = jnp.asarray(rng.integers(-3, 4, size=(9, 33)), jnp.float32)
    known = jnp.asarray(rng.random((9, 30)) < 0.4)  # three columns of padding
    rows = jnp.asarray([*rng.integers(0, 9, 50), -1, -1], jnp.int32)
    tails = jnp.asarray([*rng.integers(0, 30, 50), 0, 0], jnp.int32)
    heads = jnp.asarray(rng.permutation(30)[:9], jnp.int32)
    expected = rank_counts(scores, known, rows, tails, heads)
    found = sorted_rank_counts(scores, known, sorted_candidates(scores, known), rows, tails, heads)
    for name, one, other in zip(expected._fields, expected, found, strict=True):
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one[:50], other[:50], err_msg=name)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("known_bad", [False, True])
def test_a_non_finite_score_raises(bad, known_bad):
    scores = np.zeros((1, 6, 6))
    scores[0, 2, 4] = bad
    queries = np.array([(head, 0, 1) for head in range(6)])
    known = TailIndex.from_triples(
        *([np.array([(2, 0, 4)])] if known_bad else []), num_entities=6, num_relations=1
    )
    table = scores.astype(np.float32)[0]
    with pytest.raises(FloatingPointError, match="non-finite scores for relation 0, heads 2$"):
        filtered_ranks(
            lambda _: table, lambda rows, heads: jnp.asarray(rows[np.asarray(heads)]), queries, known, 6, 3
        )
