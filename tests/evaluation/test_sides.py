"""Both sides of a fact: inverse relations, their filters and ranks, metrics by relation and cardinality."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from numcoke_jax.data.batches import TrainBatches
from numcoke_jax.data.graph import RELATION, SPLITS, NumericGraph, Vocabulary, graph_hash
from numcoke_jax.data.variants import with_inverses
from numcoke_jax.evaluation.evaluator import Evaluator
from numcoke_jax.evaluation.ranking import FilteredRanks, selection_filter
from numcoke_jax.evaluation.scorer import Scorer
from numcoke_jax.evaluation.sides import cardinalities, cardinality_metrics, relation_metrics, side_metrics
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.system.errors import UserError
from tests import examples, graphs

Fact = tuple[int, int, int]
ENTITIES, RELATIONS = 7, 3


@functools.cache
def graph(seed: int = 0, *, orders: bool = False) -> NumericGraph:
    """Random facts of three relations, each in one split; with `orders` the head has the higher id."""
    rng = np.random.default_rng(seed)
    every = np.stack(np.meshgrid(*map(np.arange, (ENTITIES, RELATIONS, ENTITIES))), axis=-1).reshape(-1, 3)
    every = every[every[:, 0] > every[:, 2]] if orders else every
    drawn = every[rng.permutation(len(every))[:45]].astype(np.int32)
    parts = [part[np.lexsort(part.T[[2, 0, 1]])] for part in np.split(drawn, [20, 28, 42])]
    return graphs.graph_of(Vocabulary(tuple("abcdefg"), ("r", "s", "t"), ()), *parts)


def set_of(facts: np.ndarray) -> set[Fact]:
    return {(h, r, t) for h, r, t in facts.tolist()}


def turned(facts: set[Fact]) -> set[Fact]:
    return {(t, r + RELATIONS, h) for h, r, t in facts}


def test_inverse_facts_are_those_of_training_facts_and_negatives_alone() -> None:
    whole = with_inverses(graph())
    own = {name: set_of(getattr(graph(), name)) for name in (*SPLITS, "negatives")}
    assert set_of(whole.train) == own["train"] | turned(own["train"])
    assert set_of(whole.negatives) == own["negatives"] | turned(own["negatives"])
    assert len(whole.train) == 2 * len(own["train"]), "each fact and each inverse fact once"
    for split in ("valid", "test"):
        np.testing.assert_array_equal(whole.split(split), graph().split(split))
        assert not turned(own[split]) & set_of(whole.train), f"training would know {split}"
    assert whole.vocabulary.relations == ("r", "s", "t", "inverse of r", "inverse of s", "inverse of t")
    assert (whole.num_relations, whole.own_relations) == (6, 3)
    assert (whole.inverse_of(1), whole.inverse_of(4), graph().inverse_of(1)) == (4, 1, None)
    assert set_of(whole.inverse_facts(whole.train)) == set_of(whole.train), "the inverse of an inverse"


def test_without_inverses_the_graph_is_that_of_the_data_and_its_hash_is_theirs() -> None:
    back = with_inverses(graph()).without_inverses()
    for field in dataclasses.fields(NumericGraph):
        if not field.name.startswith("_"):
            np.testing.assert_array_equal(getattr(back, field.name), getattr(graph(), field.name))
    assert graph_hash(with_inverses(graph())) == graph_hash(graph()) != graph_hash(graph(1))


def test_a_relation_that_has_the_name_of_an_inverse_is_refused() -> None:
    names = dataclasses.replace(graph().vocabulary, relations=("inverse of s", "r", "s"))
    with pytest.raises(UserError) as caught:
        with_inverses(dataclasses.replace(graph(), vocabulary=names))
    assert str(caught.value) == (
        "data.inverse=True: the graph has a relation 'inverse of s', the name of an inverse that is to be "
        "added; rename it, or set data.inverse=False"
    )


def candidates_of_heads(rule: str, head: int, relation: int, tail: int, own: NumericGraph) -> set[int]:
    """Who competes with the head of a fact, by the facts themselves; the head itself is not counted."""
    facts = {split: set_of(own.split(split)) for split in SPLITS}
    told = facts["train"] | facts["valid"] | (facts["test"] if rule == "all" else set())
    everyone = set(range(ENTITIES)) - {head}
    if rule == "reversed":  # (tail, r, candidate) is known: the candidate cannot be above the tail
        return {c for c in everyone if (tail, relation, c) in told or c == tail}
    return {c for c in everyone if (c, relation, tail) not in told}


@pytest.mark.parametrize("rule", ["seen", "all", "reversed"])
def test_the_filter_of_the_head_side_equals_the_loops(rule: str) -> None:
    own = graph(orders=rule == "reversed")
    used = selection_filter(with_inverses(own), rule)
    for head, relation, tail in [*own.valid.tolist(), *own.test.tolist()]:
        left_out = used.mask(np.array([tail]), np.array(relation + RELATIONS), ENTITIES)[0]
        found = set(np.flatnonzero(~left_out).tolist()) - {head}
        assert found == candidates_of_heads(rule, head, relation, tail, own)


@functools.cache
def ranked() -> tuple[Evaluator, Any, dict[int, np.ndarray]]:
    """A TransE of the graph with inverses: its evaluator, parameters and scores [N, N] of each relation."""
    whole = with_inverses(graph())
    sizes = GraphSizes.of(whole)
    model, params = examples.model_and_parameters(examples.config_with(model__name="transe"), sizes)
    scorer = Scorer(model, examples.literals(sizes), whole.vocabulary, chunk=3)
    heads = np.arange(ENTITIES)
    scores = {
        relation: np.concatenate([block for _, block in scorer.scored_heads(params, heads, relation)])
        for relation in range(2 * RELATIONS)
    }
    return Evaluator(scorer, whole, selection="seen"), params, scores


def counted(scores: np.ndarray, target: int, rivals: set[int]) -> float:
    """1, one for each rival above, a half for each level one."""
    return 1 + sum((scores[c] > scores[target]) + (scores[c] == scores[target]) / 2 for c in rivals)


def head_rank(fact: Fact, rule: str) -> float:
    head, relation, tail = fact
    rivals = candidates_of_heads(rule, head, relation, tail, graph())
    return counted(ranked()[2][relation + RELATIONS][tail], head, rivals)


def tail_rank(fact: Fact, rule: str) -> float:
    head, relation, tail = fact
    splits = SPLITS if rule == "all" else SPLITS[:2]
    told = {f for split in splits for f in set_of(graph().split(split))}
    rivals = {c for c in range(ENTITIES) if c != tail and (head, relation, c) not in told}
    return counted(ranked()[2][relation][head], tail, rivals)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_ranks_of_both_sides_equal_the_loops(split: str) -> None:
    evaluate, params, _ = ranked()
    sides = evaluate.sides(params, split)
    facts = [tuple(fact) for fact in graph().split(split).tolist()]
    for side, rank in (("heads", head_rank), ("tails", tail_rank)):
        np.testing.assert_array_equal(sides[side].all, [rank(fact, "all") for fact in facts])
    assert (sides["heads"].all != sides["tails"].all).any()


def test_the_model_is_chosen_by_both_sides() -> None:
    evaluate, params, _ = ranked()
    facts = [tuple(fact) for fact in graph().valid.tolist()]
    ranks = [rank(fact, "seen") for rank in (head_rank, tail_rank) for fact in facts]
    found = evaluate.for_selection(params)["all"]
    assert found["count"] == 2 * len(facts)
    assert found["mrr"] == pytest.approx(np.mean(1 / np.array(ranks)), rel=1e-6)


def test_cardinalities_equal_the_loops() -> None:
    """Means over questions with an answer, of all splits; 1.5 answers are many."""
    for seed in range(4):
        found = cardinalities(with_inverses(graph(seed)))
        facts = {fact for split in SPLITS for fact in set_of(graph(seed).split(split))}
        assert set(found) == {r for _, r, _ in facts}
        for relation, kind in found.items():
            own = {(h, t) for h, r, t in facts if r == relation}
            tails = np.mean([sum(h == head for h, _ in own) for head in {h for h, _ in own}])
            heads = np.mean([sum(t == tail for _, t in own) for tail in {t for _, t in own}])
            assert kind == f"{'n' if heads >= 1.5 else '1'}-{'n' if tails >= 1.5 else '1'}"


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ([(0, 1), (1, 2), (2, 3)], "1-1"),
        ([(0, 1), (0, 2), (3, 4)], "1-n"),  # 3 facts, 2 heads: 1.5 tails a head
        ([(0, 1), (0, 2), (3, 4), (5, 6)], "1-1"),  # 4 / 3
        ([(1, 0), (2, 0)], "n-1"),
        ([(0, 1), (0, 2), (3, 1), (3, 2)], "n-n"),
        ([(0, 1), (0, 1)], "1-1"),  # a fact counts once
    ],
)
def test_cardinalities_by_hand(facts: list[tuple[int, int]], kind: str) -> None:
    rows = np.array([(head, 1, tail) for head, tail in facts], np.int32)
    nothing = rows[:0]
    for place in range(3):
        splits: dict[str, Any] = dict.fromkeys(SPLITS, nothing) | {SPLITS[place]: rows}
        assert cardinalities(dataclasses.replace(graph(), **splits)) == {1: kind}


def test_metrics_by_relation_and_cardinality_are_those_of_their_facts() -> None:
    evaluate, params, _ = ranked()
    own, sides = graph(), evaluate.sides(params, "test")
    by_relation = relation_metrics(with_inverses(own), "test", sides)
    by_kind = cardinality_metrics(with_inverses(own), "test", sides)
    facts = [tuple(fact) for fact in own.test.tolist()]
    kinds = cardinalities(own)
    groups = [
        (by_relation[own.vocabulary.relations[r]], [f for f in facts if f[1] == r])
        for r in np.unique(own.test[:, RELATION]).tolist()
    ]
    groups += [(found, [f for f in facts if kinds[f[1]] == kind]) for kind, found in by_kind.items()]
    for found, members in groups:
        heads, tails = ([1 / rank(fact, "all") for fact in members] for rank in (head_rank, tail_rank))
        assert found["count"] == found["heads"]["count"] == len(members) == found["both"]["count"] / 2
        assert found["mrr"] == pytest.approx(np.mean(tails), rel=1e-6)
        assert found["heads"]["mrr"] == pytest.approx(np.mean(heads), rel=1e-6)
        assert found["both"]["mrr"] == pytest.approx(np.mean(heads + tails), rel=1e-6)
    assert sum(found["count"] for found in by_kind.values()) == len(facts)
    assert sum(found["relations"] for found in by_kind.values()) == len(by_relation)


def test_where_heads_are_not_ranked_nothing_is_said_of_them() -> None:
    ranks = FilteredRanks(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    assert "both" not in side_metrics({"tails": ranks})


def test_reversed_facts_as_negatives_rule_out_the_inverses_of_reversed_facts_too() -> None:
    own = graph(orders=True)
    batches = TrainBatches(
        with_inverses(own), batch_size=6, relations_per_step=3, seed=0, negatives="reversed"
    )
    found = batches.negatives
    rows = np.repeat(np.arange(len(found.queries)), np.diff(found.indptr))
    heads, relations = found.queries[rows].T
    train = set_of(own.train)
    reverse = {(t, r, h) for h, r, t in train}
    itself = {(h, r, h) for h, r, _ in train} | {(t, r + RELATIONS, t) for _, r, t in train}
    given = set_of(own.negatives)
    expected = reverse | turned(reverse) | itself | given | turned(given)
    assert set(zip(heads.tolist(), relations.tolist(), found.tails.tolist(), strict=True)) == expected
