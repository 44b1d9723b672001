"""Order accuracy of rules that learn nothing, to stand beside a model's on the same held-out facts.

Of a fact (h, r, t) each rule says which of h and t is the head:

* raw values: the one with the better value in the field that r compares; it guesses where one is missing.
* win rate: the one with the larger share of its training facts of r as their head, 1/2 without any.
* bounds: the one with the better value, a missing one taken for the middle between the highest value known
  below it and the lowest known above it (`models.references.comparisons`).

Which field r compares is read off the training facts (`models.references.compared`), and values are those
that the model was shown.  Ties count half.
"""

from typing import Any

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.models.order_core.comparative import comparative_relations
from numcoke_jax.models.references.compared import EXPLAINED, compared_fields, places_of
from numcoke_jax.models.references.comparisons import bounds_by_facts

RULES = ("raw values", "win rate", "bounds")


def reference_orders(graph: NumericGraph, positions: np.ndarray, right: np.ndarray) -> dict[str, Any] | None:
    """Order accuracies on the test facts of relations that compare, a model's and those of `RULES`.

    Args:
      graph: names, training and test facts.
      positions: float64 [N, M] quantiles of the values that the model was shown; NaN where missing.
      right: float64 [n], 1 for each test fact that the model puts in the right order, 0 or 1/2 for others.

    Returns:
      {"all": {"count", "model", and each of `RULES`}, "relations": {name: the same}}; a rule is None where
      no field says anything about the order, and "all" counts what every relation has.  None without facts.
    """
    asked = set(graph.test[graph.test[:, HEAD] != graph.test[:, TAIL], RELATION].tolist())
    compared = [r for r in comparative_relations(graph) if r in asked]
    if not compared:
        return None
    fields, exact_fields = (compared_fields(graph, positions, least=least) for least in (0.0, EXPLAINED))
    found, count, sums = {}, 0, np.zeros(1 + len(RULES))
    for relation in compared:
        train = graph.train[graph.train[:, RELATION] == relation]
        places, exact = (places_of(positions, w[[relation]])[:, 0] for w in (fields, exact_fields))
        strengths = places, _win_rates(train, graph.num_entities), _middles(exact, train)
        rows = (graph.test[:, RELATION] == relation) & (graph.test[:, HEAD] != graph.test[:, TAIL])
        heads, tails = graph.test[rows, HEAD], graph.test[rows, TAIL]
        columns = [right[rows], *(_in_order(strength, heads, tails) for strength in strengths)]
        of_relation = np.array([column.sum() for column in columns])
        found[graph.vocabulary.relations[relation]] = _row(len(heads), of_relation)
        count, sums = count + len(heads), sums + of_relation
    return {"all": _row(count, sums), "relations": found}


def _row(count: int, sums: np.ndarray) -> dict[str, Any]:
    shares = [None if np.isnan(one) else float(one) / count for one in sums]
    return {"count": count, **dict(zip(("model", *RULES), shares, strict=True))}


def _in_order(strength: np.ndarray, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """1, 0, or 1/2 for a tie and where one of the strengths, float64 [N], is missing; NaN if all are."""
    if np.isnan(strength).all():
        return np.full(len(heads), np.nan)
    gaps = strength[heads] - strength[tails]
    return np.where(np.isnan(gaps), 0.5, (1 + np.sign(gaps)) / 2)


def _win_rates(train: np.ndarray, entities: int) -> np.ndarray:
    won, lost = (np.bincount(train[:, side], minlength=entities) for side in (HEAD, TAIL))
    return np.where(won + lost, won / np.maximum(won + lost, 1), 0.5)


def _middles(places: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Float64 [N], places with the middles of the bounds where they are missing; as given if all are."""
    missing = np.isnan(places)
    if missing.all():
        return places
    bounds = np.stack(bounds_by_facts(places, *train[:, [HEAD, TAIL]].astype(np.int64).T))
    return np.where(missing, bounds.mean(axis=0), places)
