"""Order measures against loops over all pairs and against SciPy; what they see and MRR does not."""

import dataclasses
import itertools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from numcoke_jax.data.graph import Vocabulary
from numcoke_jax.data.tail_index import TailIndex
from numcoke_jax.evaluation import pair_scores
from numcoke_jax.evaluation.order_measures import (
    ORDER_MEASURES,
    OrderSums,
    TauSums,
    order_measures,
    twice_above,
)
from numcoke_jax.evaluation.orders import pair_orders
from numcoke_jax.evaluation.ranking import filtered_ranks, summaries
from numcoke_jax.runs.order_tables import order_cells, order_rows
from tests import graphs
from tests.examples import scored_by

SMALL_NUMBERS = st.lists(st.integers(-3, 3), min_size=1, max_size=12)  # few values: many ties


def graph_of(facts, values=None, observed=None, relations=("size_comp", "near")):
    """Entities 0 to 5, the field "size"; the facts are those of the test, two more are known in training."""
    cells = {"values": np.arange(6.0) if values is None else values, "observed": observed}
    names = Vocabulary(tuple("abcdef"), relations, ("size",))
    return graphs.graph_of(names, train=[(5, 0, 0), (4, 0, 1)], test=facts, **cells)


def measured(graph, scores, chunk=4):
    """Measures of the test facts with scores [R, N, N]."""
    orders = pair_orders(graph, graph.test, graph.values / 10, scored_by(scores, chunk))
    return order_measures(graph, graph.test, orders)


def strengths(scores, entities):
    """The share of the others that each entity scores above, a tie half."""
    return {
        e: np.mean([(np.sign(scores[e, o] - scores[o, e]) + 1) / 2 for o in entities if o != e] or [0.0])
        for e in entities
    }


def by_loops(scores, facts):
    """The measures of one relation's facts, from their definitions."""
    entities = sorted({e for fact in facts for e in fact})
    facts = [(h, t) for h, t in facts if h != t]
    margins = [scores[h, t] - scores[t, h] for h, t in facts]
    strength = strengths(scores, entities)
    signs = [np.sign(round(strength[h] - strength[t], 9)) for h, t in facts]
    wins = [(one > -other) + (one == -other) / 2 for one, other in itertools.product(margins, margins)]
    return {
        "count": len(facts),
        "order_accuracy": np.mean([(margin > 0) + (margin == 0) / 2 for margin in margins]),
        "auc": np.mean(wins),
        "log_loss": np.mean([-math.log(1 / (1 + math.exp(-margin / 2))) for margin in margins]),
        "tau": np.mean(signs),
    }


@given(SMALL_NUMBERS)
def test_auc_counts_every_pair_of_fact_and_reverse(margins):
    expected = sum(2 * (a > -b) + (a == -b) for a, b in itertools.product(margins, margins))
    assert twice_above(np.array(margins, float)) == expected


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=40))
def test_tau_b_is_that_of_scipy(pairs):
    one, other = np.array(pairs, float).reshape(-1, 2).T
    found = TauSums.of(one, other).tau()
    if len(set(one)) < 2 or len(set(other)) < 2:
        assert found is None
    else:
        assert found == pytest.approx(kendalltau(one, other).statistic, abs=1e-12)


@pytest.mark.parametrize("count", [2, 3, 64, 65, 1000])
def test_tau_b_of_many_is_that_of_scipy(count):
    rng = np.random.default_rng(count)
    one = rng.normal(size=count)
    other = np.round(one + rng.normal(size=count), 1)
    assert TauSums.of(one, other).tau() == pytest.approx(kendalltau(one, other).statistic, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("digits", [0, 3])
def test_measures_of_a_noisy_graph_equal_the_loops(seed, digits):
    """Random facts, some in both directions and some loops, under two relations."""
    rng = np.random.default_rng(seed)
    facts = np.unique(rng.integers(0, [6, 2, 6], size=(25, 3)), axis=0)
    scores = np.round(rng.normal(size=(2, 6, 6)), digits)
    found = measured(graph_of(facts), scores)
    total = 0
    for relation, name in enumerate(("size_comp", "near")):
        own = [(h, t) for h, r, t in facts.tolist() if r == relation]
        expected = by_loops(np.float32(scores[relation]).astype(float), own)
        assert {key: found["relations"][name][key] for key in ORDER_MEASURES} == pytest.approx(expected)
        total += expected["count"]
    assert found["all"]["count"] == total
    for key in ("order_accuracy", "log_loss", "tau"):  # of all facts: sums over counts
        rows = found["relations"].values()
        whole = sum(row[key] * row["count"] for row in rows) / total
        assert found["all"][key] == pytest.approx(whole)
    squares = [row["count"] ** 2 for row in found["relations"].values()]
    wins = sum(row["auc"] * square for row, square in zip(found["relations"].values(), squares, strict=True))
    assert found["all"]["auc"] == pytest.approx(wins / sum(squares))


@pytest.mark.parametrize("chunk", [1, 2, 6, 9])
def test_measures_are_the_same_for_every_chunk_size(chunk):
    rng = np.random.default_rng(3)
    facts = np.unique(rng.integers(0, [6, 2, 6], size=(25, 3)), axis=0)
    scores = rng.normal(size=(2, 6, 6))
    assert measured(graph_of(facts), scores, chunk) == measured(graph_of(facts), scores)


@pytest.mark.parametrize("most", [0, 6 * 3, 6 * 6])
def test_of_many_entities_a_part_are_opponents_of_all(monkeypatch, most):
    """At least two opponents: the first and the last entity; else as many as fit, evenly spaced."""
    monkeypatch.setattr(pair_scores, "MOST_SCORES", most)
    rng = np.random.default_rng(1)
    scores = np.round(rng.normal(size=(6, 6)), 1).astype(np.float32)
    facts = np.array([(h, 0, (h + 1) % 6) for h in range(6)])
    (found,) = pair_scores.scored_pairs(facts, scored_by([scores], 4))
    opponents = {0: [0, 5], 18: [0, 2, 5], 36: [0, 1, 2, 3, 4, 5]}[most]
    for e in range(6):
        signs = [np.sign(scores[e, o] - scores[o, e]) for o in opponents if o != e]
        assert found.strength[e] == pytest.approx(np.mean([(sign + 1) / 2 for sign in signs]))


COMPLETE = [(h, 0, t) for h in range(6) for t in range(h) if (h, t) not in {(5, 0), (4, 1)}]


@pytest.mark.parametrize("largest", [1, 1e-3, 1e6])
def test_a_symmetric_score_has_mrr_1_and_no_order(largest):
    """The claim of the page: every pair is a fact, so low tails are above all candidates that are left."""
    graph, level = graph_of(COMPLETE), largest * np.random.default_rng(0).random(6)
    level.sort()
    scores = -np.add.outer(level, level)[None]
    known = TailIndex.from_triples(graph.train, graph.test, num_entities=6, num_relations=2)
    ranks = filtered_ranks(
        lambda _: np.float32(scores[0]), lambda rows, heads: jnp.asarray(rows[heads]), graph.test, known, 6, 4
    )
    assert summaries(ranks)["all"]["mrr"] == 1.0
    found = measured(graph, np.concatenate([scores, scores]))["all"]
    assert found == {
        "count": 13,
        "order_accuracy": 0.5,
        "auc": 0.5,
        "log_loss": pytest.approx(math.log(2)),
        "tau": 0.0,
        "tau_values": None,  # all entities are level
    }


def test_a_perfect_order_and_its_reverse():
    graph = graph_of(COMPLETE)
    margins = np.subtract.outer(graph.values[:, 0], graph.values[:, 0])
    right = measured(graph, [margins, margins])["all"]
    assert [right[key] for key in ("order_accuracy", "auc", "tau", "tau_values")] == [1, 1, 1, 1]
    wrong = measured(graph, [-margins, -margins])["all"]
    assert [wrong[key] for key in ("order_accuracy", "auc", "tau", "tau_values")] == [0, 0, -1, -1]
    assert wrong["log_loss"] > right["log_loss"]


@pytest.mark.parametrize("facts", [19, 20])
def test_a_relation_between_two_kinds_of_entities_has_no_order(facts):
    """Enough facts from 0, 1, 2 to 3, 4, 5: nobody asks whether a class is in its member."""
    classified = [(e % 3, 1, 3 + e % 2) for e in range(facts)]
    graph = graph_of([*COMPLETE, *classified])
    margins = np.subtract.outer(graph.values[:, 0], graph.values[:, 0])
    found = measured(graph, [margins, margins])
    counts = {name: row["count"] for name, row in found["relations"].items()}
    assert counts == {"size_comp": len(COMPLETE), "near": facts if facts < 20 else 0}
    assert found["all"]["count"] == sum(counts.values())
    assert (found["relations"]["near"]["order_accuracy"] is None) == (facts == 20)
    assert (found["all"]["order_accuracy"] == 1.0) == (facts == 20)
    back = graph_of([*COMPLETE, *classified, (3, 1, 5)])  # one tail that is a head, too
    assert measured(back, [margins, margins])["relations"]["near"]["count"] == facts + 1


def test_a_relation_that_mostly_holds_both_ways_has_no_order():
    """Friends: which of two stands above the other is no question; who beat whom once each way is one."""
    pairs = [(a, b) for a in range(6) for b in range(a)]
    friends = [fact for a, b in pairs for fact in ((a, 1, b), (b, 1, a))]
    upsets = [(a, 1, b) for a, b in pairs] + [(b, 1, a) for a, b in pairs[:5]]
    margins = np.zeros((6, 6))
    for facts, count in ((friends, 0), (upsets, 20)):
        found = measured(graph_of([*COMPLETE, *facts]), [margins, margins])
        assert found["relations"]["near"]["count"] == count
        assert found["all"]["count"] == len(COMPLETE) + count


def test_tau_of_values_turns_round_where_heads_are_the_lower_and_skips_missing_values():
    facts = [(t, r, h) for h, r, t in COMPLETE]
    lower = dataclasses.replace(graph_of(facts), train=np.array([[0, 0, 5]], np.int32))
    margins = np.subtract.outer(np.arange(6.0), np.arange(6.0))
    assert measured(lower, [-margins, margins])["relations"]["size_comp"]["tau_values"] == 1
    scores = margins.copy()
    scores[5] -= 100  # the model places entity 5 last
    assert measured(graph_of(COMPLETE), [scores, scores])["all"]["tau_values"] < 1
    unseen = graph_of(COMPLETE, observed=[True] * 5 + [False])
    assert measured(unseen, [scores, scores])["all"]["tau_values"] == 1


def test_the_narrowest_quarter_has_the_smallest_known_gaps():
    """Gaps are the differences of sizes here; those of entity 5 are not known, nor are those of "near"."""
    facts = [(1, 0, 0), (2, 0, 1), (3, 0, 0), (4, 0, 0), (5, 0, 4), (0, 1, 1)]
    graph = graph_of(facts, observed=[True] * 5 + [False])
    scores = np.zeros((2, 6, 6))
    scores[0, 1, 0], scores[0, 1, 2] = 1, 1  # the first narrow one is right, the second wrong
    found = measured(graph, scores)
    # Known gaps 1, 1, 3, 4 (tenths): the lowest quartile is 1.
    assert found["narrowest_quarter"]["gap"] == pytest.approx(0.1)
    assert found["narrowest_quarter"]["count"] == 2
    assert found["narrowest_quarter"]["order_accuracy"] == 0.5
    assert found["relations"]["size_comp"]["narrowest_quarter"]["count"] == 2
    assert found["relations"]["near"]["narrowest_quarter"] == {
        "count": 0,
        **dict.fromkeys(ORDER_MEASURES[1:]),
    }
    assert found["relations"]["near"]["tau_values"] is None


def test_without_known_gaps_there_is_no_narrow_quarter():
    found = measured(graph_of([(1, 1, 0), (2, 1, 2)]), np.ones((2, 6, 6)))
    assert found["narrowest_quarter"]["gap"] is None and found["narrowest_quarter"]["count"] == 0
    assert found["all"]["count"] == 1, "a fact with its head as tail has no order"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_difference_of_scores_that_is_not_finite_is_an_error(bad):
    with pytest.raises(FloatingPointError, match="1 difference of scores not finite, of 2"):
        OrderSums.of(np.array([0.0, bad]), np.zeros(2), np.zeros(2))


def test_rows_of_a_table_put_all_pairs_first_and_the_least_accurate_relations_next():
    row = {**dict.fromkeys(ORDER_MEASURES, 0.25), "count": 1200, "tau_values": None}
    relations = {f"r{n}": {**row, "order_accuracy": n / 10} for n in (3, 1, 2)}
    relations["empty"] = {"count": 0}
    narrow = {**row, "count": 300, "gap": 0.1}
    order: Any = {"all": row, "narrowest_quarter": narrow, "relations": relations}
    rows, more = order_rows(order, 2)
    assert [name for name, _ in rows] == ["all pairs", "narrowest, seen", "r1", "r2"]
    assert more == ", the 2 least accurate of 3 relations"
    assert order_cells(rows[0][1]) == ["1,200", "0.2500", "0.2500", "0.2500", "0.2500", "-"]
    assert order_cells(rows[1][1])[0] == "300"
    order |= {"narrowest_quarter": {"count": 0}, "relations": {"only": row}}
    assert [name for name, _ in order_rows(order, 2)[0]] == ["all pairs"]
    assert order_rows(None, 2) == ([], "")
