"""The place of a new row: its rank, and its value, under each relation that compares.

Where a relation compares a field, a value that is known has its rank among those of the graph.  A missing one
has the interval of `impute.py`: its position comes from the facts about the new entity and from its other
values, and the width from hidden cells of the graph with about as many facts, so that it covers as often
there.  New entities mostly come with few: hidden cells are then left as many of theirs, with no training.

A relation that compares no field ("beat") has positions of its own, which no value shows.  Ranks are then
those of draws from the order core's beliefs about all entities of the relation; what they cover cannot be
checked on the graph itself.
"""

import dataclasses
from typing import Any

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.inference.intervals import (
    CELL_COLUMNS,
    STREAM,
    Cells,
    Factors,
    Scale,
    believed,
    cell_rows,
    field_scales,
    hidden_cells,
    lacking,
    scores_of,
    told_scores,
)
from numcoke_jax.inference.trained import Trained
from numcoke_jax.models.order_core.comparative import comparative_relations
from numcoke_jax.models.order_core.fit import OrderFit, fit_orders
from numcoke_jax.models.order_core.value_scores import ValueScores
from numcoke_jax.runs.unseen import NewEntities, extended_graph
from numcoke_jax.system.errors import UserError

LEVEL = 0.9  # of the coverage that is aimed at, unless told otherwise
PLACE_COLUMNS = ("entity", "relation", *CELL_COLUMNS[1:])
DRAWS, DRAWS_AT_ONCE = 2000, 100


def places(trained: Trained, new: NewEntities, level: float = LEVEL) -> list[dict[str, Any]]:
    """Where new entities stand under each relation that compares.

    Args:
      trained: the run; its graph matters, its parameters do not.
      new: n entities.
      level: target coverage, in (0, 1).

    Returns:
      For each entity and relation "entity", "relation", "field" ("" if the relation compares none),
      "low_rank", "rank" and "high_rank" of "of", rank 1 being the lowest, "low_value" and "high_value" (None:
      the interval has no end there, or there is no field), and "known_by" ("value", "facts", "values" or
      "nothing").

    Raises:
      UserError: no relation of the graph compares.
    """
    run, graph = trained.run, trained.run.graph.without_inverses()
    whole = extended_graph(graph, new)
    relations = tuple(relation for relation in run.sizes.ordered if relation < graph.num_relations)
    relations = relations or comparative_relations(graph)
    if not relations:
        raise UserError(
            "no relation of the graph compares entities, so a new one has no place; give --relation to "
            "rank the facts about it"
        )
    scores = scores_of(whole, whole.observed)
    scales = field_scales(whole, relations, scores)
    compared = {name: field for field, scale in scales.items() for name in scale.relations}
    names = [graph.vocabulary.relations[relation] for relation in relations]
    is_new = np.arange(whole.num_entities) >= graph.num_entities
    told = told_scores(scales, scores)
    by_field = {}
    if compared:
        missing = {
            field: believed(scales[field], told, field, is_new & ~whole.observed[:, field])
            for field in {*compared.values()}
        }
        factors = _factors(trained, Cells.joined([*missing.values()]), level)
        for field, cells in missing.items():
            by_field[field] = _cells(graph, whole, scores, field, cells, factors)
    rows = []
    fitted = None if compared.keys() >= {*names} else fit_orders(whole.train, relations, scores, whole.valid)
    for column, (relation, name) in enumerate(zip(relations, names, strict=True)):
        if name in compared:
            rows += [{**cell, "relation": name} for cell in by_field[compared[name]]]
        elif fitted is not None:
            fields = [field for field in scales if fitted.weights[column, field]]
            placed = [_placed(whole, scales[field], field)[is_new] for field in fields]
            known = np.any(placed, axis=0) if fields else np.zeros(is_new.sum(), bool)
            rows += _of_positions(graph, whole, fitted, column, relation, known, level, run.config.seed)
    order = {name: place for place, name in enumerate(new.names)}
    return sorted(rows, key=lambda row: order[row["entity"]])


def _factors(trained: Trained, asked: Cells, level: float) -> Factors:
    """The conformal factors for cells with as many facts as these, from hidden cells of the run's graph."""
    run, graph = trained.run, trained.run.graph.without_inverses()
    scales = field_scales(graph, run.sizes.ordered, scores_of(graph, graph.observed))
    few = lacking(graph, scales, asked, level)
    return Factors.from_hidden(*hidden_cells(graph, scales, run.config.seed, few), level)


def _cells(
    graph: NumericGraph,
    whole: NumericGraph,
    scores: ValueScores,
    field: int,
    missing: Cells,
    factors: Factors,
) -> list[dict[str, Any]]:
    """The rows of a field, of known values and of missing ones, ranked among the graph's own values."""
    first = graph.num_entities
    own = np.arange(whole.num_entities) < first
    ranked = dataclasses.replace(whole, observed=whole.observed & own[:, None])
    shown = dataclasses.replace(scores, scores=np.where(own[:, None], scores.scores, np.nan))
    rows = cell_rows(ranked, missing, factors, shown)
    known = np.sort(graph.values[graph.observed[:, field], field])
    for entity in np.flatnonzero(whole.observed[first:, field]) + first:
        value = float(whole.values[entity, field])
        low, high = (int(np.searchsorted(known, value, side)) + 1 for side in ("left", "right"))
        rows.append(
            {
                "entity": whole.vocabulary.entities[entity],
                "field": whole.vocabulary.fields[field],
                "low_rank": low,
                "rank": (low + high) / 2,
                "high_rank": high,
                "of": len(known) + 1,
                "low_value": value,
                "high_value": value,
                "known_by": "value",
            }
        )
    return rows


def _placed(whole: NumericGraph, scale: Scale, field: int) -> np.ndarray:
    """Bool [N], entities whose value of a field is observed, or placed by facts that compare it."""
    return whole.observed[:, field] | (scale.facts_of(np.arange(whole.num_entities)) > 0)


def _of_positions(
    graph: NumericGraph,
    whole: NumericGraph,
    fitted: OrderFit,
    column: int,
    relation: int,
    has_values: np.ndarray,
    level: float,
    seed: int,
) -> list[dict[str, Any]]:
    """The rows of a relation that compares no field, by draws of the positions of all its entities.

    `has_values`, bool [n], says of which new entities a field is known that the positions are made of.
    """
    mean, width = fitted.mean[:, column], fitted.width[:, column]
    own = graph.train[graph.train[:, RELATION] == relation]
    members = np.unique(own[:, [HEAD, TAIL]])
    new = np.arange(graph.num_entities, whole.num_entities)
    drawn = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, 2, relation)))
    ranks = np.empty((DRAWS, len(new)), int)
    for begin in range(0, DRAWS, DRAWS_AT_ONCE):
        others = np.sort(
            mean[members] + width[members] * drawn.standard_normal((DRAWS_AT_ONCE, len(members)))
        )
        positions = mean[new] + width[new] * drawn.standard_normal((DRAWS_AT_ONCE, len(new)))
        for place, (row, at) in enumerate(zip(others, positions, strict=True)):
            ranks[begin + place] = 1 + np.searchsorted(row, at)
    low, high = (
        np.quantile(ranks, share, axis=0, method="nearest") for share in ((1 - level) / 2, (1 + level) / 2)
    )
    facts = whole.train[whole.train[:, RELATION] == relation][:, [HEAD, TAIL]]
    has_facts = np.isin(new, facts)
    return [
        {
            "entity": whole.vocabulary.entities[entity],
            "relation": whole.vocabulary.relations[relation],
            "field": "",
            "low_rank": int(low[place]),
            "rank": float(ranks[:, place].mean()),
            "high_rank": int(high[place]),
            "of": len(members) + 1,
            "low_value": None,
            "high_value": None,
            "known_by": "facts" if has_facts[place] else "values" if has_values[place] else "nothing",
        }
        for place, entity in enumerate(new.tolist())
    ]
