"""Ranks on hand-made scores, the ranking cases, and a float64 loop as the oracle."""

import csv
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numcoke_jax.data.tail_index import TailIndex
from numcoke_jax.evaluation.ranking import TILE, filtered_ranks, head_chunks, rank_counts, summaries

CASES = Path(__file__).parents[1] / "cases"
NO_SCORE = -1e6  # of candidates that a case's scores.tsv leaves out


def _rank(scores, queries, filters=(), chunk=3):
    """Rank int triples with `scores` [R, N, N] (relation, head, candidate); filters are arrays of triples."""
    num_relations, num_entities = scores.shape[:2]
    known = TailIndex.from_triples(*filters, num_entities=num_entities, num_relations=num_relations)
    table = scores.astype(np.float32)

    def score(rows, heads):
        return jnp.asarray(rows[np.asarray(heads)])

    return filtered_ranks(lambda relation: table[relation], score, queries, known, num_entities, chunk)


def _loop_ranks(scores, queries, known, exclude_self):
    """Mean of the best and the worst place the target can get among the candidates, query by query."""
    ranks = []
    for head, relation, tail in queries.tolist():
        above = level = 0
        for candidate in range(scores.shape[2]):
            if candidate == tail or (head, relation, candidate) in known:
                continue
            if exclude_self and candidate == head:
                continue
            above += scores[relation, head, candidate] > scores[relation, head, tail]
            level += scores[relation, head, candidate] == scores[relation, head, tail]
        optimistic, pessimistic = 1 + above, 1 + above + level
        ranks.append((optimistic + pessimistic) / 2)
    return np.array(ranks, np.float64)


@st.composite
def ranking_problems(draw):
    num_entities, chunk = draw(
        st.sampled_from([(1, 2), (2, 1), (5, 1), (5, 2), (5, 8)])
    )  # one compilation each
    num_relations = draw(st.integers(1, 3))
    entity, relation = st.integers(0, num_entities - 1), st.integers(0, num_relations - 1)
    triple = st.tuples(entity, relation, entity)
    queries = draw(st.lists(triple, min_size=1, max_size=40))
    known = draw(st.lists(triple, max_size=20)) + draw(st.sampled_from([queries, []]))
    size = num_relations * num_entities**2
    scores = draw(st.lists(st.integers(-2, 2), min_size=size, max_size=size))  # few values: many ties
    scores = np.array(scores, np.float64).reshape(num_relations, num_entities, num_entities)
    as_array = [np.array(rows, np.int32).reshape(-1, 3) for rows in (queries, known)]
    return scores, *as_array, chunk


def assert_ranks_equal_the_loop(scores, queries, known, chunk):
    ranks = _rank(scores, queries, [known], chunk)
    known_facts = set(map(tuple, known.tolist()))
    np.testing.assert_array_equal(ranks.all, _loop_ranks(scores, queries, known_facts, False))
    np.testing.assert_array_equal(ranks.exclude_self, _loop_ranks(scores, queries, known_facts, True))


@settings(max_examples=60)
@given(ranking_problems())
def test_ranks_equal_the_loop_for_every_chunk_size(problem):
    assert_ranks_equal_the_loop(*problem)


@pytest.fixture(scope="module")
def large_problem():
    """300 queries on 40 heads, 100 of them among the known facts; scores with ties."""
    rng = np.random.default_rng(5)
    scores = np.round(rng.normal(size=(3, 40, 40)), 1)
    every = np.stack(np.meshgrid(np.arange(40), np.arange(3), np.arange(40)), -1).reshape(-1, 3)
    chosen = rng.permutation(every)
    queries, known = chosen[:300].astype(np.int32), chosen[200:900].astype(np.int32)
    return scores, queries, known


def test_metrics_are_the_same_bits_for_every_chunk_size_and_order(large_problem):
    scores, queries, known = large_problem
    expected = _loop_ranks(scores, queries, set(map(tuple, known.tolist())), False)
    reference = summaries(_rank(scores, queries, [known], chunk=5))
    assert reference["all"]["mrr"] == pytest.approx(np.mean(1 / expected), rel=1e-14)
    assert reference["all"]["mr"] == np.mean(expected)
    assert reference["exclude_self"] != reference["all"]
    rng = np.random.default_rng(0)
    assert summaries(_rank(scores, queries, [known], 1)) == reference
    for chunk in (1, 40, 64):
        assert summaries(_rank(scores, rng.permutation(queries), [known], chunk)) == reference


def test_more_queries_than_one_call_takes(large_problem):
    """Every entity is a target of one head: 40 queries a chunk of one head, 4 a call."""
    scores = large_problem[0]
    queries = np.array([(7, 1, tail) for tail in range(40)])
    known = queries[::3]
    expected = _loop_ranks(scores, queries, set(map(tuple, known.tolist())), False)
    np.testing.assert_array_equal(_rank(scores, queries, [known], chunk=1).all, expected)


def test_renumbering_the_entities_does_not_change_a_rank(large_problem):
    scores, queries, known = large_problem
    new_id = np.random.default_rng(1).permutation(40)
    renamed = scores[:, np.argsort(new_id)][:, :, np.argsort(new_id)]
    moved = [np.stack([new_id[t[:, 0]], t[:, 1], new_id[t[:, 2]]], 1) for t in (queries, known)]
    np.testing.assert_array_equal(
        _rank(scores, queries, [known], 5).all, _rank(renamed, moved[0], [moved[1]], 5).all
    )


# Relation 0, head 0, N = 5.  Target 3 (score 2): 0 and 1 are above, 2 is level with it.
HAND_SCORES = np.array([[[4.0, 3.0, 2.0, 2.0, 1.0]] * 5])
HAND_QUERY = np.array([[0, 0, 3]])


@pytest.mark.parametrize(
    "known_tails, rank, rank_without_self",
    [
        ((), 3.5, 2.5),  # 1 + 2 + 1/2; the head 0 is one of those above
        ((3,), 3.5, 2.5),  # the target itself is known: nothing changes
        ((1, 3), 2.5, 1.5),
        ((2, 3), 3.0, 2.0),
        ((0, 3), 2.5, 2.5),  # the head is filtered already: it is not subtracted a second time
        ((0, 1, 2, 3, 4), 1.0, 1.0),  # nothing left to compare with
    ],
)
def test_filters_and_the_head_itself(known_tails, rank, rank_without_self):
    known = np.array([(0, 0, tail) for tail in known_tails]).reshape(-1, 3)
    ranks = _rank(HAND_SCORES, HAND_QUERY, [known])
    assert (ranks.all.tolist(), ranks.exclude_self.tolist()) == ([rank], [rank_without_self])


def test_known_tails_of_other_queries_are_candidates():
    known = np.array([(1, 0, 1), (3, 0, 0)])  # other heads, also the inverse fact
    assert _rank(HAND_SCORES, HAND_QUERY, [known]).all.tolist() == [3.5]


def test_a_head_that_is_the_target_stays_a_candidate():
    ranks = _rank(HAND_SCORES, np.array([[3, 0, 3], [2, 0, 3]]))
    # (2, ?): the head 2 is level with the target 3, without it 1 + 2.
    assert ranks.all.tolist() == [3.5, 3.5] and ranks.exclude_self.tolist() == [3.5, 3.0]


def test_the_same_head_under_two_relations_is_two_queries():
    scores = np.stack([HAND_SCORES[0], -HAND_SCORES[0]])  # relation 1 turns the order around
    ranks = _rank(scores, np.array([(0, 1, 3), (0, 0, 3)]), chunk=8)
    assert ranks.all.tolist() == [2.5, 3.5]  # under relation 1 only 4 is above and 2 level


def test_repeated_queries_all_count():
    summary = summaries(_rank(HAND_SCORES, np.repeat(HAND_QUERY, 3, axis=0)))["all"]
    assert (summary["count"], summary["mr"]) == (3, 3.5)


def test_no_queries_give_count_zero():
    metrics = summaries(_rank(HAND_SCORES, np.empty((0, 3), np.int32)))
    assert metrics["all"] == metrics["exclude_self"]
    assert metrics["all"]["count"] == 0 and metrics["all"]["mrr"] is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("candidate", [1, 3])  # a filtered candidate, an open one
def test_a_non_finite_score_raises(bad, candidate):
    scores = np.zeros((2, 5, 5))
    scores[1, 2, candidate] = bad
    queries = np.array([(0, 1, 0), (2, 1, 0), (2, 0, 0)])
    with pytest.raises(FloatingPointError, match="non-finite scores for relation 1, heads 2$"):
        _rank(scores, queries, [np.array([(2, 1, 1)])])


def test_many_non_finite_heads_are_counted_not_listed():
    queries = np.array([(head, 0, 0) for head in range(39)])
    with pytest.raises(FloatingPointError, match="relation 0, heads 0, 1, 2, 3, 4 and 34 more"):
        _rank(np.full((1, 40, 40), np.nan), queries, chunk=40)


def test_a_non_finite_score_stops_the_ranking_within_two_chunks():
    encoded = []

    def encode(relation):
        encoded.append(relation)
        return np.full((3, 5), np.nan if relation == 2 else 0.0, np.float32)

    queries = np.array([(0, relation, 1) for relation in range(9)])
    known = TailIndex.from_triples(num_entities=5, num_relations=9)
    with pytest.raises(FloatingPointError, match="relation 2, heads 0"):
        filtered_ranks(encode, lambda rows, _: jnp.asarray(rows), queries, known, 5, 3)
    assert encoded == [0, 1, 2, 3]


def test_heads_that_are_not_asked_may_be_anything():
    scores = np.full((1, 5, 5), np.nan)
    scores[0, 3] = 0.0
    assert _rank(scores, np.array([(3, 0, 1)])).all.tolist() == [3.0]


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="chunk must be at least 1 head, got 0"):
        _rank(HAND_SCORES, HAND_QUERY, chunk=0)
    known = TailIndex.from_triples(num_entities=5, num_relations=1)
    with pytest.raises(ValueError, match=r"shape \(3, 5\), got \(3, 4\)"):
        filtered_ranks(lambda r: r, lambda _, heads: jnp.zeros((3, 4)), HAND_QUERY, known, 5, 3)


def test_columns_after_the_last_entity_are_no_candidates(large_problem):
    """Those of a mesh: whatever they hold, the ranks are the same bits."""
    scores, queries, known = large_problem
    index = TailIndex.from_triples(known, num_entities=40, num_relations=3)

    def ranks(table):
        return filtered_ranks(
            lambda relation: table[relation], lambda rows, h: jnp.asarray(rows)[h], queries, index, 40, 7
        )

    wider = np.pad(scores, ((0, 0), (0, 0), (0, 3)), constant_values=np.inf)
    for found, expected in zip(ranks(wider), ranks(scores), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_one_compilation_serves_all_splits(large_problem):
    scores, queries, known = large_problem
    encoded, scored = [], []
    table = scores.astype(np.float32)

    def score(rows, heads):
        scored.append((heads.shape, heads.dtype))
        return jnp.asarray(rows[np.asarray(heads)])

    def encode(relation):
        encoded.append(relation)
        return table[relation]

    index = TailIndex.from_triples(known, num_entities=40, num_relations=3)
    chunk = 11  # a size no other test uses
    filtered_ranks(encode, score, queries, index, 40, chunk)
    assert encoded == [0, 1, 2]  # each relation once
    compiled = rank_counts._cache_size()  # type: ignore[attr-defined]
    for part in (queries[:1], queries[:77], queries[77:], known):
        filtered_ranks(encode, score, part, index, 40, chunk)
    assert rank_counts._cache_size() == compiled  # type: ignore[attr-defined]
    assert set(scored) == {((chunk,), jnp.int32.dtype)}


@pytest.mark.parametrize("num_queries", [1, TILE - 1, TILE, TILE + 1, 3 * TILE + 2])
def test_rank_counts_for_any_number_of_queries_and_padding(num_queries):
    rng = np.random.default_rng(num_queries)
    scores = rng.integers(-2, 3, (4, 9)).astype(np.float32)
    known = rng.random((4, 9)) < 0.3
    heads = np.array([5, 0, 8, 2], np.int32)
    rows, tails = rng.integers(0, 4, num_queries), rng.integers(0, 9, num_queries)
    padding = (0, 7)
    counts = rank_counts(
        scores, known, np.pad(rows, padding, constant_values=-1), np.pad(tails, padding), heads
    )
    for q, (row, tail) in enumerate(zip(rows.tolist(), tails.tolist(), strict=True)):
        others = [c for c in range(9) if c != tail and not known[row, c]]
        greater = [c for c in others if scores[row, c] > scores[row, tail]]
        equal = [c for c in others if scores[row, c] == scores[row, tail]]
        assert (counts.greater[q], counts.equal[q]) == (len(greater), len(equal))
        assert (counts.self_greater[q], counts.self_equal[q]) == (heads[row] in greater, heads[row] in equal)
        assert counts.finite[q]


def test_rank_counts_needs_no_array_of_queries_by_entities():
    shapes = ((64, 5000), jnp.float32), ((64, 5000), jnp.bool), ((1024,), jnp.int32), ((1024,), jnp.int32)
    arguments = [jax.ShapeDtypeStruct(*shape) for shape in (*shapes, ((64,), jnp.int32))]
    memory = rank_counts.lower(*arguments).compile().memory_analysis()
    assert memory is not None and memory.temp_size_in_bytes < 1024 * 5000


def test_chunks_hold_every_query_once_and_pad_with_a_head_of_their_own(large_problem):
    _, queries, _ = large_problem
    positions = []
    for plan in head_chunks(queries, 7):
        assert plan.heads.shape == (7,) and len(set(plan.heads)) == plan.rows.max() + 1
        own = queries[plan.positions]
        np.testing.assert_array_equal(own[:, 0], plan.heads[plan.rows])
        assert set(own[:, 1]) == {plan.relation}
        np.testing.assert_array_equal(own[:, 2], plan.tails)
        positions.extend(plan.positions.tolist())
    assert sorted(positions) == list(range(len(queries)))


def _read_rows(path):
    with path.open(newline="") as lines:
        return list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def _read_case(name, reverse_entities=False):
    """Arrays of a case's splits as {split: triples} and its scores [R, N, N]."""
    splits = {split: _read_rows(CASES / name / f"{split}.txt") for split in ("train", "valid", "test")}
    triples = [row for rows in splits.values() for row in rows]
    entities = sorted({n for h, _, t in triples for n in (h, t)}, reverse=reverse_entities)
    relations = sorted({r for _, r, _ in triples})
    entity_id, relation_id = ({n: i for i, n in enumerate(names)} for names in (entities, relations))
    scores = np.full((len(relations), len(entities), len(entities)), NO_SCORE)
    if (CASES / name / "scores.tsv").exists():
        for head, relation, tail, score in _read_rows(CASES / name / "scores.tsv"):
            scores[relation_id[relation], entity_id[head], entity_id[tail]] = float(score)
    arrays = {
        split: np.array([(entity_id[h], relation_id[r], entity_id[t]) for h, r, t in rows])
        for split, rows in splits.items()
    }
    return arrays, scores


@pytest.mark.parametrize("reverse_entities", [False, True])
def test_case_d01_all_ties(reverse_entities):
    splits, scores = _read_case("D01_all_ties", reverse_entities)
    assert _rank(scores, splits["test"], splits.values()).all.tolist() == [3.5, 3.5]
    summary = summaries(_rank(scores, splits["test"], splits.values()))["all"]
    assert summary["mrr"] == pytest.approx(0.285714, abs=5e-7)
    del summary["mrr"]
    assert summary == {"count": 2, "mr": 3.5, "hits@1": 0.0, "hits@3": 0.0, "hits@10": 1.0}


def test_case_d03_direction_mask():
    splits, scores = _read_case("D03_direction_mask")
    assert _rank(scores, splits["test"], splits.values()).all.tolist() == [2.0]


def test_case_d04_filter_all_splits():
    splits, scores = _read_case("D04_filter_all_splits")
    assert _rank(scores, splits["test"], splits.values()).all.tolist() == [1.0]
    assert _rank(scores, splits["test"], [splits["train"], splits["test"]]).all.tolist() == [2.0]
    assert _rank(scores, splits["test"]).all.tolist() == [3.0]


def test_case_d06_hits_boundary():
    splits, scores = _read_case("D06_hits_boundary")
    assert _rank(scores, splits["test"], splits.values()).all.tolist() == [1.0, 10.0, 11.0]
    assert _rank(scores, splits["test"]).all.tolist() == [1.0, 10.0, 11.0]
    summary = summaries(_rank(scores, splits["test"], splits.values()))["all"]
    expected = {"mrr": 0.396970, "mr": 7.333333, "hits@1": 1 / 3, "hits@3": 1 / 3, "hits@10": 2 / 3}
    assert summary == {"count": 3, **{name: pytest.approx(v, abs=5e-7) for name, v in expected.items()}}
