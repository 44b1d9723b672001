"""Ranking a split with a model: filters and metrics by loops over the model's oracle, for every chunk."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.evaluation.evaluator import Evaluator
from numcoke_jax.evaluation.ranking import summaries
from numcoke_jax.evaluation.scorer import Scorer
from tests import examples, graphs
from tests.oracles import numcoke as oracle

pytestmark = pytest.mark.usefixtures("short_blocks")

Fact = tuple[int, int, int]
SPLITS: dict[str, list[Fact]] = {
    "train": [(0, 0, 1), (0, 0, 2), (2, 0, 1), (1, 1, 4), (3, 1, 0), (2, 0, 3)],
    "valid": [(0, 0, 4), (3, 0, 1), (1, 1, 2), (2, 1, 2)],
    "test": [(0, 0, 3), (4, 0, 2), (4, 0, 3), (1, 1, 3), (1, 1, 0), (2, 1, 4), (3, 1, 3)],
}


def graph() -> NumericGraph:
    """5 entities, 2 relations; its literals are given to the evaluator apart."""
    names = Vocabulary(entities=tuple("abcde"), relations=("r", "s"), fields=("x", "y", "z"))
    return graphs.graph_of(names, **SPLITS)


def scorer(model: Any, *, chunk: int = 3) -> Scorer:
    return Scorer(model, examples.literals(), graph().vocabulary, chunk=chunk)


def evaluator(model: Any, *, chunk: int = 3, selection: str = "seen", facts: Any = None) -> Evaluator:
    return Evaluator(scorer(model, chunk=chunk), facts or graph(), selection=selection)


def reported(evaluate: Evaluator, parameters: Any, split: str) -> Any:
    return summaries(evaluate.sides(parameters, split)["tails"])


@functools.cache
def simple_model() -> tuple[Any, dict]:
    """TransE: compiled in a moment."""
    return examples.model_and_parameters(examples.config_with(model__name="transe"))


def metrics_of_loops(scores: dict[tuple[int, int], list[float]], facts: list[Fact], known: set[Fact]) -> dict:
    """Mean rank, mean reciprocal rank and hits of the facts, with and without the head as a candidate."""
    report = {}
    for name in ("all", "exclude_self"):
        ranks = []
        for head, relation, tail in facts:
            rank = 1.0
            for candidate, score in enumerate(scores[head, relation]):
                if candidate == tail or (head, relation, candidate) in known:
                    continue
                if name == "exclude_self" and candidate == head:
                    continue
                rank += score > scores[head, relation][tail]
                rank += 0.5 * (score == scores[head, relation][tail])
            ranks.append(rank)
        count = len(ranks)
        report[name] = {
            "count": count,
            "mrr": sum(1 / rank for rank in ranks) / count,
            "mr": sum(ranks) / count,
            "hits@1": sum(rank <= 1 for rank in ranks) / count,
            "hits@3": sum(rank <= 3 for rank in ranks) / count,
            "hits@10": sum(rank <= 10 for rank in ranks) / count,
        }
    return report


def assert_metrics(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for name, metrics in expected.items():
        assert found[name] == pytest.approx(metrics, rel=1e-12), name


def facts_of(*splits: str) -> set[Fact]:
    return {fact for split in splits for fact in SPLITS[split]}


def test_the_metrics_equal_the_loops() -> None:
    """NumCoKE from its float64 oracle; the report filters by all facts, the selection by train and valid."""
    config = examples.config_with()
    model, parameters = examples.model_and_parameters(config)
    exact, literals = examples.float64(parameters), examples.literals()
    scores = {}
    for relation in range(2):
        table = oracle.encode(exact, config, literals, relation)
        for head in range(5):
            scores[head, relation] = oracle.logits(exact, config, literals, table, relation, head)
    evaluate = evaluator(model)
    for split in ("valid", "test"):
        expected = metrics_of_loops(scores, SPLITS[split], facts_of("train", "valid", "test"))
        assert_metrics(reported(evaluate, parameters, split), expected)
    selected = metrics_of_loops(scores, SPLITS["valid"], facts_of("train", "valid"))
    assert_metrics(evaluate.for_selection(parameters), selected)
    # The filters and the head itself do matter in this example.
    assert selected != metrics_of_loops(scores, SPLITS["valid"], facts_of("train", "valid", "test"))
    assert selected["all"] != selected["exclude_self"]

    score = scorer(model)
    encoded = score.encode(parameters, 1)
    found = score.score(parameters, encoded, jnp.array([4, 0, 4], jnp.int32))
    np.testing.assert_allclose(found, [scores[4, 1], scores[0, 1], scores[4, 1]], rtol=1e-5)


def test_metrics_are_the_same_bits_for_every_chunk() -> None:
    model, parameters = simple_model()
    reports = []
    for chunk in (1, 2, 1000):
        evaluate = evaluator(model, chunk=chunk)
        assert scorer(model, chunk=chunk).chunk == min(
            chunk, 5
        )  # more heads than there are would only be padding
        reports.append([reported(evaluate, parameters, "test"), evaluate.for_selection(parameters)])
    assert all(report == reports[0] for report in reports)


def test_equal_scores_rank_in_the_middle() -> None:
    """Without parameters every score is the margin: a tail is level with all that are not filtered.

    Valid (0, r, 4): 1 and 2 are filtered by train, 3 by test; 0 is left, so the rank is 1 + 1/2.
    (3, r, 1): 0, 2, 3, 4 are left, 1 + 4/2.  (1, s, 2): 0, 3, 4 are filtered, 1 is left, 1 + 1/2.
    (2, s, 2): 4 is filtered, 0, 1, 3 are left, 1 + 3/2.  The sum is 8.5; of their own heads 0, 3 and 1 are
    among the candidates, half a rank each: 7.0.
    """
    model, parameters = simple_model()
    found = reported(evaluator(model), jax.tree.map(jnp.zeros_like, parameters), "valid")
    assert found["all"]["mr"] == 8.5 / 4
    assert found["exclude_self"]["mr"] == 7.0 / 4


def test_the_selection_rule_is_the_one_that_was_asked_for() -> None:
    """Of equal scores, as above.

    seen: (0, r, 4) is level with 0 and 3; (3, r, 1) with 0, 2, 3, 4; (1, s, 2) with 0, 1, 3; (2, s, 2) with
    0, 1, 3, 4.  reversed: each with its own head, if that is not the target, and with the entities that are
    known to be above the head: (3, r, 1) with 2 and (2, s, 2) with 1.
    """
    model, parameters = simple_model()
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    found = {
        rule: evaluator(model, selection=rule).for_selection(zeros)["all"]["mr"]
        for rule in ("seen", "all", "reversed")
    }
    assert found == {
        "seen": (2.0 + 3.0 + 2.5 + 3.0) / 4,
        "all": 8.5 / 4,
        "reversed": (1.5 + 2.0 + 1.5 + 1.5) / 4,
    }


def test_a_score_that_is_not_finite_stops_the_evaluation() -> None:
    model, parameters = simple_model()
    broken = parameters | {"relation_embedding": parameters["relation_embedding"].at[1, 0].set(jnp.nan)}
    with pytest.raises(FloatingPointError, match="non-finite scores under relation .* of 3 heads: .*; .*; "):
        evaluator(model).sides(broken, "test")
    with pytest.raises(FloatingPointError, match="non-finite scores under relation .* of 2 heads: b; d"):
        next(scorer(model).scored_heads(broken, np.array([1, 3]), 1))


def test_a_split_without_facts_has_no_metrics() -> None:
    model, parameters = simple_model()
    empty = dataclasses.replace(graph(), valid=np.zeros((0, 3), np.int32))
    found = evaluator(model, facts=empty).for_selection(parameters)
    assert found["all"]["count"] == 0
    assert found["all"]["mrr"] is None
