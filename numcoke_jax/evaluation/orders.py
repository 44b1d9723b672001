"""Share of held-out pairs that a model puts in the right order, by the gap between their values.

A fact (h, r, t) of a strict order is in the right order if the model scores (h, r, t) above (t, r, h); a
tie counts half.  The gap of a pair is the difference between the positions (quantiles) of its two values in
the field that the relation compares; it is known where both are observed.

Which field each relation compares, read off the weights of the order core or of a reference.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph, Vocabulary
from numcoke_jax.data.literals import fit_normalizer
from numcoke_jax.data.tables.known import RELATION_SUFFIX
from numcoke_jax.evaluation.pair_scores import scored_pairs
from numcoke_jax.evaluation.scorer import ScoredHeads, Scorer

GAP_QUARTERS = 4


@dataclasses.dataclass(frozen=True)
class PairOrders:
    """One entry per fact, in the facts' order.

    Attributes:
      model: float64 [n], 1 right, 0 wrong, 1/2 tied.
      rule: float64 [n], the rule "compare the raw values", which knows from training facts whether heads are
        the higher ones (`direction`; without any it assumes so): 1/2 where a value is missing.
      observed: int64 [n], how many of the two values are observed; -1 where the relation names no field.
      gap: float64 [n], difference of positions in [0, 1]; NaN unless both are observed.
      margin: float64 [n], score of the fact less that of its reverse.
      log_odds: float64 [n], of the fact against its reverse: half the margin, as of scores that are
        log odds; a model that shows probabilities of its own may say better.
      ranked: float32 [n], whether the head is the stronger by `strengths`: 1, 0, or 1/2 where both are equal.
      strengths: relation id -> (entities, strength) of its facts (`pair_scores.RelationPairs`).
    """

    model: np.ndarray
    rule: np.ndarray
    observed: np.ndarray
    gap: np.ndarray
    margin: np.ndarray
    log_odds: np.ndarray
    ranked: np.ndarray
    strengths: dict[int, tuple[np.ndarray, np.ndarray]]


def field_of_relation(graph: NumericGraph, relation: int) -> int | None:
    """The field that a relation compares by its name, or None."""
    name = graph.vocabulary.relations[relation].removesuffix(RELATION_SUFFIX)
    return graph.vocabulary.fields.index(name) if name in graph.vocabulary.fields else None


def direction(graph: NumericGraph, relation: int, field: int) -> int:
    """1 if the heads of a relation's training facts mostly have the higher values, -1 if the lower, or 0."""
    values = np.where(graph.observed[:, field], graph.values[:, field], np.nan)
    facts = graph.train[graph.train[:, RELATION] == relation]
    return int(np.sign(np.nansum(np.sign(values[facts[:, HEAD]] - values[facts[:, TAIL]]))))


def orders_of_split(graph: NumericGraph, split: str, scorer: Scorer, params: Any) -> PairOrders:
    """`pair_orders` of the facts of a split, scored by a model with these parameters.

    The graph's values may be other ones than those that the model was shown.
    """
    positions = fit_normalizer(graph.values, graph.observed, "quantile").apply(graph.values, graph.observed)
    return pair_orders(graph, graph.split(split), positions, functools.partial(scorer.scored_heads, params))


def pair_orders(
    graph: NumericGraph, facts: np.ndarray, positions: np.ndarray, scored_heads: ScoredHeads
) -> PairOrders:
    """Score every fact and its reverse.

    Args:
      graph: values and names; relations are named after the field they compare ("weight_comp").
      facts: int32 [n, 3] held-out facts.
      positions: float [N, M] quantiles of the observed values.
      scored_heads: scores the graph's entities as tails.
    """
    count = len(facts)
    orders = PairOrders(
        model=np.empty(count),
        rule=np.full(count, 0.5),
        observed=np.full(count, -1),
        gap=np.full(count, np.nan),
        margin=np.empty(count),
        log_odds=np.empty(count),
        ranked=np.empty(count, np.float32),
        strengths={},
    )
    for pairs in scored_pairs(facts, scored_heads):
        relation, rows = pairs.relation, pairs.rows
        heads, tails = facts[rows, HEAD], facts[rows, TAIL]
        orders.margin[rows] = pairs.forward.astype(np.float64) - pairs.backward
        orders.log_odds[rows] = orders.margin[rows] / 2
        orders.model[rows] = (1 + np.sign(orders.margin[rows])) / 2
        orders.strengths[relation] = pairs.entities, pairs.strength
        of_heads, of_tails = (
            pairs.strength[np.searchsorted(pairs.entities, ends)] for ends in (heads, tails)
        )
        orders.ranked[rows] = (1 + np.sign(of_heads - of_tails)) / 2
        field = field_of_relation(graph, relation)
        if field is None:
            continue
        known = graph.observed[:, field]
        orders.observed[rows] = known[heads].astype(int) + known[tails]
        both = known[heads] & known[tails]
        values, places = graph.values[:, field], positions[:, field]
        higher, lower = (tails, heads) if direction(graph, relation, field) < 0 else (heads, tails)
        right = (values[higher] > values[lower]) + (values[higher] == values[lower]) / 2.0
        orders.rule[rows] = np.where(both, right, 0.5)
        orders.gap[rows] = np.where(both, np.abs(places[heads] - places[tails]), np.nan)
    return orders


def summary(orders: PairOrders) -> list[dict[str, Any]]:
    """Rows of a table: all pairs, by number of observed values, by quarter of the gap (narrowest first)."""
    groups = {"all pairs": np.ones(len(orders.model), bool)}
    groups |= {
        f"{name} observed": orders.observed == number
        for number, name in ((2, "both values"), (1, "one value"), (0, "no value"))
    }
    known = ~np.isnan(orders.gap)
    if known.any():
        edges = np.quantile(orders.gap[known], np.linspace(0, 1, GAP_QUARTERS + 1))
        quarter = np.clip(np.searchsorted(edges, orders.gap, side="left") - 1, 0, GAP_QUARTERS - 1)
        for place in range(GAP_QUARTERS):
            bounds = f"{edges[place]:.3f} to {edges[place + 1]:.3f}"
            name = f"both observed, gap quarter {place + 1}: {bounds}"
            groups[name] = known & (quarter == place)
    return [
        {
            "pairs": name,
            "count": int(members.sum()),
            "model": float(orders.model[members].mean()) if members.any() else None,
            "raw values": float(orders.rule[members].mean()) if members.any() else None,
        }
        for name, members in groups.items()
    ]


@dataclasses.dataclass(frozen=True)
class ComparedField:
    """One field and how much a relation compares it.

    Attributes:
      field: its name.
      weight: a_rm from -1 to 1: positive where the head has the higher value, negative where the tail has.
        Where a relation compares something curved, such as the distance of two fields, the size alone says
        something: how much of the positions is the field's.
    """

    field: str
    weight: float


def compared_fields(params: Any, vocabulary: Vocabulary) -> dict[str, Sequence[ComparedField]]:
    """For every relation that compares, its fields, the most compared one first; ties in id order.

    Args:
      params: parameters of a model.
      vocabulary: names of the graph it was trained on.

    Returns:
      relation -> its M fields; relations that compare no field are left out.  {} for a model that is no
      reference and has no order core (`score.order_core`).
    """
    weights = params.get("order_core", params).get("field_weight", np.zeros((0, 0)))
    weights = np.asarray(weights, np.float64)
    weights = weights[:, : len(vocabulary.fields)]
    if not weights.size:
        return {}
    order = np.argsort(-np.abs(weights), axis=1, kind="stable")
    return {
        relation: [ComparedField(vocabulary.fields[m], float(weights[r, m])) for m in order[r]]
        for r, relation in enumerate(vocabulary.relations)
        if weights[r].any()
    }
