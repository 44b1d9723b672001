"""Why a model gives a fact its score: terms, fields, experts, and what another value would change.

The terms are the model's own (`terms`); their sum is its score up to the rounding of float32.
"""

import functools
from collections.abc import Hashable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from numcoke_jax.data.graph import SPLITS, NumericGraph
from numcoke_jax.data.variants import SIDES, Change
from numcoke_jax.evaluation.internals import internals
from numcoke_jax.evaluation.orders import ComparedField, compared_fields
from numcoke_jax.inference.predict import Predictor, mean_ranks
from numcoke_jax.inference.trained import Trained
from numcoke_jax.inference.what_if import Predictors
from numcoke_jax.models.encoded import ORDER, TERMS, decided_by
from numcoke_jax.models.interface import ExplainsScores, KnowledgeModel
from numcoke_jax.models.order_core.score import OrderPositions

MOST_COMPARED = 3  # fields that are shown
MOST_MOVED = 10  # tails whose rank a what-if changes most
LEAST_WEIGHT = 0.01


def explain(
    trained: Trained,
    head: int,
    relation: int,
    tail: int,
    changes: Sequence[Change] = (),
    predictors: Predictors | None = None,
) -> dict[str, Any]:
    """Everything that can be said about (head, relation, tail), as JSON values.

    Args:
      trained: the model.
      head: its id.
      relation: its id.
      tail: its id.
      changes: values to try; without any there is no "what_if".
      predictors: of the model, where many questions are asked; None: new ones.

    Returns:
      head, relation, tail, known (the split that has the fact, or ""), score, probability (None: unknown),
      rank (filtered by the facts of all splits), terms {name: number}; for NumCoKE also decided_by (its part
      that decides the relation without the encoder), or else attention {side: {field: [one weight per head]}}
      and experts {side: [weights]}; for a relation that compares also compared (fields with weight and both
      values) and, with an order core, order (positions, margin, widths, memberships, noise and the
      probability that the head stands above the tail); what_if.

    Raises:
      FloatingPointError: a score is not finite.
    """
    graph = trained.run.graph
    names = graph.vocabulary
    predictors = predictors or Predictors(trained)
    predictor = predictors.own
    scores = _scores(predictor, head, relation)
    encoded = predictor.encoded(relation)
    found: dict[str, Any] = {
        "head": names.entities[head],
        "relation": names.relations[relation],
        "tail": names.entities[tail],
        "known": _split_of(graph, head, relation, tail),
        **_verdict(predictor, graph, scores, head, relation, tail),
        "terms": _terms(trained, encoded, head, tail),
    }
    deciding = decided_by(encoded)
    found |= {"decided_by": deciding} if deciding else _looked_at(trained, head, relation, tail)
    if deciding == ORDER:
        found["order"] = _decided_order(encoded.order, head, tail) | {"above": found["probability"]}
    compared = compared_fields(trained.params, names).get(names.relations[relation], [])
    if compared:
        found["compared"] = _values_of(graph, compared[:MOST_COMPARED], head, tail)
    if changes:
        found["what_if"] = _what_if(predictors, scores, head, relation, tail, changes)
    return found


def filtered_rank(graph: NumericGraph, scores: np.ndarray, head: int, relation: int, tail: int) -> float:
    """The rank of one tail in float [N] scores, as in the evaluation of a fact; ties at their mean."""
    counted = ~graph.index(*SPLITS).mask(head, relation, graph.num_entities)
    counted[tail] = False
    greater = np.sum(counted & (scores > scores[tail]))
    equal = np.sum(counted & (scores == scores[tail]))
    return float(1 + greater + equal / 2)


def ranks_of(scores: np.ndarray) -> np.ndarray:
    """Float64 [N], the rank of every entity by its score, the highest first; ties at their mean."""
    order = np.argsort(-scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = mean_ranks(scores[None, order])[0]
    return ranks


def _scores(predictor: Predictor, head: int, relation: int) -> np.ndarray:
    ((_, scores),) = predictor.scored_heads(np.array([head]), relation)
    return scores[0]


def _verdict(
    predictor: Predictor, graph: NumericGraph, scores: np.ndarray, head: int, relation: int, tail: int
) -> dict[str, float | None]:
    pair = np.array([head]), np.array([tail])
    probability = float(predictor.probabilities(scores[tail : tail + 1], *pair, relation)[0])
    return {
        "score": float(scores[tail]),
        "probability": None if np.isnan(probability) else probability,
        "rank": filtered_rank(graph, scores, head, relation, tail),
    }


def _split_of(graph: NumericGraph, head: int, relation: int, tail: int) -> str:
    fact = np.array([head, relation, tail])
    return next((split for split in SPLITS if (graph.known(split) == fact).all(axis=1).any()), "")


def _terms(trained: Trained, encoded: Any, head: int, tail: int) -> dict[str, float]:
    """The parts of the score; {} for a model whose score is no sum of terms."""
    model = trained.run.programs.model
    if not isinstance(model, ExplainsScores):
        return {}
    heads, deciding = jnp.array([[head]], jnp.int32), decided_by(encoded)
    found = _jitted_terms(cast(Hashable, model))(trained.params, encoded, heads)
    used = [deciding] if deciding else [name for name in TERMS if name in found]
    return {name: float(found[name][0, 0, tail]) for name in used}


@functools.lru_cache(maxsize=8)
def _jitted_terms(model: KnowledgeModel) -> Any:
    """(params, encoded, heads) -> the terms of all tails; compiled once for equal models."""
    return jax.jit(
        lambda params, *inputs: model.apply({"params": params}, *inputs, train=False, method="terms")
    )


def _looked_at(trained: Trained, head: int, relation: int, tail: int) -> dict[str, Any]:
    """Attention over the fields and weights of the experts, for both entities; {} for other models."""
    run = trained.run
    sown = internals(run.programs.model, run.literals, run.graph.num_entities, trained.params, relation)
    found: dict[str, Any] = {}
    pairs = tuple(zip(SIDES, (head, tail), strict=True))
    if "attention" in sown:
        fields = trained.run.graph.vocabulary.fields
        found["attention"] = {
            side: dict(zip(fields, sown["attention"][entity].T.tolist(), strict=True))
            for side, entity in pairs
        }
    if "experts" in sown:
        found["experts"] = {side: sown["experts"][entity].tolist() for side, entity in pairs}
    return found


def _values_of(
    graph: NumericGraph, compared: Sequence[ComparedField], head: int, tail: int
) -> list[dict[str, Any]]:
    """The most compared fields, each with its weight and both values; None where missing."""
    rows: list[dict[str, Any]] = []
    for one in compared:
        if abs(one.weight) < LEAST_WEIGHT and rows:
            continue
        field = graph.vocabulary.fields.index(one.field)
        values = {
            side: float(graph.values[entity, field]) if graph.observed[entity, field] else None
            for side, entity in zip(SIDES, (head, tail), strict=True)
        }
        rows.append({"field": one.field, "weight": one.weight, **values})
    return rows


def _decided_order(order: OrderPositions, head: int, tail: int) -> dict[str, float]:
    """Where the order core puts both entities."""
    pairs = tuple(zip(SIDES, (head, tail), strict=True))
    found = {f"{side}_position": float(order.mean[0, entity]) for side, entity in pairs}
    found |= {f"{side}_width": float(order.width[0, entity]) for side, entity in pairs}
    found |= {f"{side}_membership": float(order.membership[0, entity]) for side, entity in pairs}
    found["margin"] = found["head_position"] - found["tail_position"]
    found["noise"], found["reversed_share"] = float(order.noise[0]), float(order.reversed_share[0])
    return found


def _what_if(
    predictors: Predictors,
    before: np.ndarray,
    head: int,
    relation: int,
    tail: int,
    changes: Sequence[Change],
) -> dict[str, Any]:
    """Score, probability and rank under other values, and the tails whose rank moves most.

    The ranks of `moved` are among all entities, known tails too: a known one may move as well.
    """
    graph = predictors.own.graph
    predictor = predictors.changed(head, tail, changes)
    after = _scores(predictor, head, relation)
    names = graph.vocabulary.entities
    ranks = [ranks_of(row) for row in (before, after)]
    by_move = np.argsort(-np.abs(ranks[1] - ranks[0]), kind="stable")[:MOST_MOVED]
    moved = [
        {"tail": names[entity], "before": float(ranks[0][entity]), "after": float(ranks[1][entity])}
        for entity in by_move
        if ranks[0][entity] != ranks[1][entity]
    ]
    fields = graph.vocabulary.fields
    listed = [{"side": c.side, "field": fields[c.field], "value": c.value} for c in changes]
    return {"changes": listed, **_verdict(predictor, graph, after, head, relation, tail), "moved": moved}
