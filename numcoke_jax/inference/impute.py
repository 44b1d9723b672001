"""Missing values: intervals from the positions that facts and other values give an entity on a field's scale.

A field that a relation compares is a scale of the order core (`models/order_core`): the position of a
missing cell has a mean m and a width w, from the facts about its entity and from the entity's other values.
A cell of a field that no relation compares is known from the other values alone.  Whatever model was trained,
the positions are those of an order core fitted to the run's graph.

The interval is m -+ t w on the scale of normal scores, shown as ranks among the observed values and as
values.  t comes from split conformal prediction: observed cells are hidden, a tenth at a time, the positions
fitted without them, and each hidden cell has a least t whose interval, between values that are not hidden,
contains its value; the ceil((c + 1) level)-th smallest of these is taken.  It is taken apart for two kinds
of cells, because an entity without a value is in no comparison of the field in the graph of a table:

- with facts: cells whose entity is in a fact of a relation that compares the field; apart for few and many
  facts (`intervals.Factors`), as many bracket a cell so well that it needs hardly any width.  Where too few
  cells have about as many, hidden cells are given as many.
- without facts: all others.  Hidden cells of this kind lose their facts too, and are expected from the
  entity's other values alone, as the copula of all values has them.

Coverage is measured on cells whose value is known but was never shown, if there are any (those that
`data.missing_rate` has masked), otherwise on hidden cells, with the t of the other half of them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.load import load_graph
from numcoke_jax.inference.intervals import (
    KINDS,
    STREAM,
    Cells,
    Factors,
    Hidden,
    believed,
    cell_rows,
    field_scales,
    hidden_cells,
    interval_ranks,
    lacking,
    needed_factor,
    scores_of,
    told_scores,
)
from numcoke_jax.inference.trained import Trained
from numcoke_jax.runs.run import Run
from numcoke_jax.system.errors import UserError

TESTED_ON = ("masked", "hidden")


def impute(trained: Trained, fields: Sequence[int] | None = None, level: float = 0.9) -> dict[str, Any]:
    """Intervals of all missing cells, and the coverage of intervals made alike for cells with known values.

    Args:
      trained: the run; its graph matters, its parameters do not.
      fields: ids of those that are shown; None: all.  The intervals of a field do not depend on the others.
      level: target coverage, in (0, 1).

    Returns:
      {"level", "tested_on" (one of `TESTED_ON`), "factors" {kind: t, or None for the whole range, if there
      are too few hidden cells}, "coverage": {"cells", "covered", "mean_width" (shares)}, "kinds": {kind: the
      same}, "fields": {name: {"relations", "observed", "missing", "cells", "covered", "mean_width"}},
      "cells": [{"entity", "field", "low_rank", "rank", "high_rank", "of", "low_value", "high_value",
      "known_by"}]}; a value is None if the interval has no end on that side.

    Raises:
      UserError: the graph has no field, or a field that is asked for has no observed value.
    """
    run, graph = trained.run, trained.run.graph
    asked = _asked(graph, fields)
    scores = scores_of(graph, graph.observed)
    scales = field_scales(graph, run.sizes.ordered, scores)
    told = told_scores(scales, scores)
    missing = Cells.joined([believed(scales[m], told, m, ~graph.observed[:, m]) for m in scales])
    few = lacking(graph, scales, missing, level)
    hidden, given = hidden_cells(graph, scales, run.config.seed, few)
    factors = Factors.from_hidden(hidden, given, level)
    if (truth := masked_truth(run)) is not None:
        tested = missing.take(truth.observed[missing.entities, missing.fields])
        of_each = factors.of(tested)
        covered = needed_factor(tested, truth.values, graph.values, scores) <= of_each
    else:
        tested, of_each = hidden, _factors_of_other_half(hidden, given, level, run.config.seed)
        covered = hidden.needed <= of_each
    low, high = interval_ranks(tested, of_each, scores)
    widths = (high - low + 1) / (graph.observed.sum(axis=0)[tested.fields] + 1)

    def coverage(members: np.ndarray) -> dict[str, Any]:
        count = int(members.sum())
        shares = {"covered": covered, "mean_width": widths}
        means = {name: float(part[members].mean()) if count else None for name, part in shares.items()}
        return {"cells": count, **means}

    return {
        "level": level,
        "tested_on": TESTED_ON[truth is None],
        "factors": {kind: t if math.isfinite(t) else None for kind, t in factors.kinds.items()},
        "coverage": coverage(np.isin(tested.fields, asked)),
        "kinds": {k: coverage(np.isin(tested.fields, asked) & (tested.kinds == k)) for k in KINDS},
        "fields": {
            graph.vocabulary.fields[m]: {
                "relations": list(scales[m].relations),
                "observed": int(graph.observed[:, m].sum()),
                "missing": int((~graph.observed[:, m]).sum()),
                **coverage(tested.fields == m),
            }
            for m in asked
        },
        "cells": cell_rows(graph, missing.take(np.isin(missing.fields, asked)), factors, scores),
    }


def masked_truth(run: Run) -> NumericGraph | None:
    """The graph with the values that `data.missing_rate` has masked; None if they cannot be known.

    They can for a table of the config and for a synthetic graph, which are rebuilt without masks.
    """
    data = run.config.data
    if data.path or data.missing_rate == 0 or data.control != "true" or run.held_out is not None:
        return None
    whole_config = data.copy_and_resolve_references()
    whole_config.missing_rate = 0.0
    whole, own = load_graph(whole_config).graph, run.graph.without_inverses()
    if whole.vocabulary != own.vocabulary or not np.array_equal(whole.train, own.train):
        return None
    return whole if (whole.observed & ~own.observed).any() else None


def _asked(graph: NumericGraph, fields: Sequence[int] | None) -> list[int]:
    names, seen = graph.vocabulary.fields, np.flatnonzero(graph.observed.any(axis=0)).tolist()
    for field in fields or ():
        if field not in seen:
            raise UserError(f"the field {names[field]!r} has no observed value, so it has no scale")
    found = list(fields) if fields else seen
    if not found:
        raise UserError("the graph has no field with an observed value: there is nothing to impute")
    return found


def _factors_of_other_half(hidden: Hidden, given: Hidden, level: float, seed: int) -> np.ndarray:
    """Float64 [c]: for each hidden cell the t from the other half of the entities."""
    drawn = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, 1)))
    count = int(hidden.entities.max(initial=0)) + 1
    first = drawn.permutation(count)[: count // 2]
    in_first, given_first = (np.isin(part.entities, first) for part in (hidden, given))
    factors = np.empty(len(hidden.needed))
    for half, given_half in ((in_first, given_first), (~in_first, ~given_first)):
        of_others = Factors.from_hidden(hidden.take(~half), given.take(~given_half), level)
        factors[half] = of_others.of(hidden.take(half))
    return factors
