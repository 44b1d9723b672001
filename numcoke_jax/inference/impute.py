"""Missing values: the interval of ranks in which a trained model puts them, by the orders that it predicts.

For a missing cell (entity i, field m) and a relation r that compares the field, the model's calibrated
logits of (i, r, j) and (j, r, i) give, for every entity j whose value is observed, the odds that i stands
above j.  As exactly one of the two facts holds,

    l_ij = logit (i, r, j) - logit (j, r, i)        the log odds; negated for a relation "lower than"

so the rank of i among n observed entities (1: the lowest value) is expected at 1 + sum_j sigmoid(l_ij),
with the spread s_i = 1 + sqrt(sum_j sigmoid(l_ij) sigmoid(-l_ij)) if the comparisons were independent.  They
are not, which is why the interval is the ranks within t s_i, with t from split conformal prediction: each of
c test cells has a least t at which its interval contains its true rank, and the ceil((c + 1) level)-th
smallest of these is taken.  Test cells are those that `data.missing_rate` has masked, if the data set can be
rebuilt without masks: they were as missing in training as those whose truth is unknown.  For other data a
share of the observed cells is hidden from the trained model; as it has learned with their values in sight, it
does worse on them than on missing cells, and intervals come out too wide.  Coverage is measured with two
halves of the test cells, each with the t of the other; a value may still be missing for a reason that no test
cell shares.

With more than `MOST_REFERENCES` observed entities, that many are compared, evenly spaced by their ranks.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.load import load_graph
from numcoke_jax.evaluation.calibration import sigmoid
from numcoke_jax.evaluation.evaluator import Evaluator
from numcoke_jax.evaluation.orders import compared_fields, direction, field_of_relation
from numcoke_jax.inference.trained import Trained
from numcoke_jax.runs.run import Run, literals_for
from numcoke_jax.system.errors import UserError

MOST_REFERENCES = 1000
HIDDEN_SHARE = 0.2  # of the observed cells of a field, if the truth of missing ones is not known
LEAST_WEIGHT = 0.5  # of a field in a relation's learned weights, for the relation to count as comparing it
CELL_COLUMNS = ("entity", "field", "low_rank", "rank", "high_rank", "of", "low_value", "high_value")
ROUNDING = 1e-9  # tolerance, in ranks
TESTED_ON = ("masked", "hidden")
STREAM = 6  # of the run's seed; 5 draws the entities of `eval.inductive`


@dataclasses.dataclass(frozen=True)
class Comparing:
    """The relation that a field's values are imputed by; `sign` is 1 if its heads are the higher ones."""

    relation: int
    sign: int


@dataclasses.dataclass(frozen=True)
class Beliefs:
    """What the model believes about c cells of one field.

    Attributes:
      odds: float64 [c, refs], l: log odds that the cell's entity stands above the reference.
      values: float64 [n], all observed values, ascending.
    """

    odds: np.ndarray
    values: np.ndarray

    @property
    def ranks(self) -> np.ndarray:
        """Float64 [c], the expected ranks, from 1 to n + 1."""
        if not self.odds.shape[1]:
            return np.ones(len(self.odds))
        return 1.0 + len(self.values) * sigmoid(self.odds).mean(axis=1)

    @property
    def spreads(self) -> np.ndarray:
        """Float64 [c], s: more than 1 rank."""
        if not self.odds.shape[1]:
            return np.ones(len(self.odds))
        variances = (sigmoid(self.odds) * sigmoid(-self.odds)).mean(axis=1)
        return 1.0 + np.sqrt(len(self.values) * variances)


@dataclasses.dataclass(frozen=True)
class Truth:
    """Cells whose value is known and not shown to the model.

    Attributes:
      kind: one of `TESTED_ON`.
      cells: bool [N, M].
      values: float64 [N, M], right where `cells`.
      shown: the graph without these values.
    """

    kind: str
    cells: np.ndarray
    values: np.ndarray
    shown: NumericGraph


def comparing_relations(trained: Trained) -> dict[int, Comparing]:
    """field -> the relation that compares it; fields that no relation compares are left out.

    A relation compares the field whose learned weight is at least `LEAST_WEIGHT` or, if there is none or the
    model learns no weights, the field that it is named after.
    """
    graph = trained.run.graph
    learned = compared_fields(trained.params, graph.vocabulary)
    found: dict[int, Comparing] = {}
    strongest: dict[int, float] = {}
    for relation, name in enumerate(graph.vocabulary.relations):
        field, weight = field_of_relation(graph, relation), 0.0
        if learned and abs(learned[name][0].weight) >= LEAST_WEIGHT:
            first = learned[name][0]
            field, weight = graph.vocabulary.fields.index(first.field), first.weight
        elif field is not None:
            weight = LEAST_WEIGHT * direction(graph, relation, field)
        if field is not None and abs(weight) > strongest.get(field, 0.0):
            found[field] = Comparing(relation, 1 if weight > 0 else -1)
            strongest[field] = abs(weight)
    return found


def impute(trained: Trained, fields: Sequence[int] | None = None, level: float = 0.9) -> dict[str, Any]:
    """Intervals of all missing cells, and the coverage of intervals made alike for cells with known values.

    Args:
      trained: the model.
      fields: ids; None: all that a relation compares.
      level: target coverage, in (0, 1).

    Returns:
      {"level", "tested_on" (one of `TESTED_ON`), "factor" (t; None: the whole range, as there are too few
      test cells), "coverage": {"cells", "covered", "mean_width" (shares)}, "fields": {name: {"relation",
      "observed", "missing", "cells", "covered", "mean_width"}}, "cells": [{"entity", "field", "low_rank",
      "rank", "high_rank", "of", "low_value", "high_value"}]}; a value is None if the interval has no end
      on that side.

    Raises:
      UserError: no relation compares a field.
      FloatingPointError: a score is not finite.
    """
    graph = trained.run.graph
    names, comparing = graph.vocabulary, _asked(trained, fields)
    truth = masked_truth(trained.run) or hidden_truth(graph, list(comparing), trained.run.config.seed)
    tested = {}
    for field, how in comparing.items():
        cells = np.flatnonzero(truth.cells[:, field])
        tested[field] = believed(trained, truth.shown, field, how, cells), truth.values[cells, field]
    needed = {field: needed_factor(*found) for field, found in tested.items()}
    factor = conformal_factor(np.concatenate(list(needed.values())), level)
    checks = _checked_by_halves({f: found for f, (found, _) in tested.items()}, needed, level, trained)
    return {
        "level": level,
        "tested_on": truth.kind,
        "factor": factor if math.isfinite(factor) else None,
        "coverage": _coverage(list(checks.values())),
        "fields": {
            names.fields[field]: {
                "relation": names.relations[how.relation],
                "observed": int(graph.observed[:, field].sum()),
                "missing": int((~graph.observed[:, field]).sum()),
                **_coverage([checks[field]]),
            }
            for field, how in comparing.items()
        },
        "cells": [row for field, how in comparing.items() for row in _rows(trained, field, how, factor)],
    }


def masked_truth(run: Run) -> Truth | None:
    """The values that `data.missing_rate` has masked; None if they cannot be known.

    They can for a table of the config and for a synthetic graph, which are rebuilt without masks.
    """
    data = run.config.data
    if data.path or data.missing_rate == 0 or data.control != "true" or run.held_out is not None:
        return None
    whole_config = data.copy_and_resolve_references()
    whole_config.missing_rate = 0.0
    whole = load_graph(whole_config).graph
    if whole.vocabulary != run.graph.vocabulary or not np.array_equal(whole.train, run.graph.train):
        return None
    cells = whole.observed & ~run.graph.observed
    return Truth("masked", cells, whole.values, run.graph) if cells.any() else None


def hidden_truth(graph: NumericGraph, fields: Sequence[int], seed: int) -> Truth:
    """`HIDDEN_SHARE` of the observed cells of each field, drawn by the seed alone."""
    cells = np.zeros(graph.observed.shape, bool)
    for field in fields:
        drawn = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, field)))
        observed = np.flatnonzero(graph.observed[:, field])
        cells[drawn.permutation(observed)[: int(HIDDEN_SHARE * len(observed))], field] = True
    values = np.where(cells, 0.0, graph.values)
    shown = dataclasses.replace(graph, observed=graph.observed & ~cells, values=values)
    return Truth("hidden", cells, graph.values, shown)


def intervals(beliefs: Beliefs, factor: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest rank of each cell, int64 [c] each; the rank nearest the expected one is inside.

    A rank at the very end counts as inside: the factor is exactly what some cell needs, and (d / s) s may
    round to less than d.
    """
    nearest, reach = np.round(beliefs.ranks), factor * beliefs.spreads + ROUNDING
    low = np.minimum(np.ceil(beliefs.ranks - reach), nearest)
    high = np.maximum(np.floor(beliefs.ranks + reach), nearest)
    return np.maximum(low, 1).astype(int), np.minimum(high, len(beliefs.values) + 1).astype(int)


def needed_factor(beliefs: Beliefs, values: np.ndarray) -> np.ndarray:
    """Float64 [c]: the least factor whose intervals contain the true values.

    Args:
      beliefs: about the cells.
      values: float64 [c], the truth; an interval contains it if it contains a rank that it can have among
        the observed values, equal ones in any order.
    """
    first = 1 + np.searchsorted(beliefs.values, values, side="left")
    last = 1 + np.searchsorted(beliefs.values, values, side="right")
    distance = np.maximum(np.maximum(first - beliefs.ranks, beliefs.ranks - last), 0.0)
    return distance / beliefs.spreads


def conformal_factor(needed: np.ndarray, level: float) -> float:
    """The ceil((c + 1) level)-th smallest of the c needed factors; inf if there are too few."""
    place = math.ceil((len(needed) + 1) * level)
    return float(np.sort(needed)[place - 1]) if place <= len(needed) else math.inf


def believed(
    trained: Trained, graph: NumericGraph, field: int, comparing: Comparing, cells: np.ndarray
) -> Beliefs:
    """What the model believes about `cells`, entities int [c], with the values that `graph` shows.

    Raises:
      FloatingPointError: a score is not finite.
    """
    observed = np.flatnonzero(graph.observed[:, field])
    order = observed[np.argsort(graph.values[observed, field], kind="stable")]
    count = min(len(order), MOST_REFERENCES)
    references = order[np.round(np.linspace(0, max(len(order) - 1, 0), count)).astype(int)]
    literals = literals_for(trained.run.config, trained.run.scale, graph)
    chunk = trained.run.config.eval.chunk
    evaluator = Evaluator(trained.run.programs.model, literals, graph, chunk=chunk, selection="all")
    relation = comparing.relation
    encoded = evaluator.encode(trained.params, relation)

    def logits(heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
        scored = evaluator.scored_heads(trained.params, heads, relation, encoded)
        rows = [scores[:, tails] for _, scores in scored]
        return scale.logits(np.concatenate(rows)) if rows else np.empty((0, len(tails)))

    scale = trained.calibration.relations.get(relation, trained.calibration.common)
    odds = logits(cells, references) - logits(references, cells).T.reshape(len(cells), len(references))
    return Beliefs(comparing.sign * odds, graph.values[order, field])


def _asked(trained: Trained, fields: Sequence[int] | None) -> dict[int, Comparing]:
    every = comparing_relations(trained)
    names = trained.run.graph.vocabulary.fields
    for field in fields or ():
        if field not in every:
            known = ", ".join(names[m] for m in every) or "none"
            raise UserError(
                f"no relation compares the field {names[field]!r}; fields that are compared: {known}"
            )
    if not every:
        raise UserError(
            "no relation compares a field, by its name (FIELD_comp) or by what the model has learned"
        )
    return {field: every[field] for field in (fields or sorted(every))}


def _checked_by_halves(
    beliefs: dict[int, Beliefs], needed: dict[int, np.ndarray], level: float, trained: Trained
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """field -> (covered bool [c], width float64 [c]) of its test cells, by the factor of the other half."""
    flat = np.concatenate(list(needed.values()))
    drawn = np.random.default_rng(np.random.SeedSequence(trained.run.config.seed, spawn_key=(STREAM,)))
    first_half = drawn.permutation(len(flat)) < len(flat) // 2
    factors = np.where(
        first_half, conformal_factor(flat[~first_half], level), conformal_factor(flat[first_half], level)
    )
    found, begin = {}, 0
    for field, of_field in beliefs.items():
        used = factors[begin : begin + len(needed[field])]
        begin += len(used)
        low, high = intervals(of_field, used)
        found[field] = needed[field] <= used, (high - low + 1) / (len(of_field.values) + 1)
    return found


def _coverage(checks: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    covered, widths = (np.concatenate(parts) for parts in zip(*checks, strict=True))
    if not len(covered):
        return {"cells": 0, "covered": None, "mean_width": None}
    return {
        "cells": len(covered),
        "covered": float(covered.mean()),
        "mean_width": float(widths.mean()),
    }


def _rows(trained: Trained, field: int, comparing: Comparing, factor: float) -> list[dict[str, Any]]:
    graph = trained.run.graph
    cells = np.flatnonzero(~graph.observed[:, field])
    beliefs = believed(trained, graph, field, comparing, cells)
    values = beliefs.values
    return [
        {
            "entity": graph.vocabulary.entities[entity],
            "field": graph.vocabulary.fields[field],
            "low_rank": int(low),
            "rank": float(rank),
            "high_rank": int(high),
            "of": len(values) + 1,
            "low_value": float(values[low - 2]) if low > 1 else None,
            "high_value": float(values[high - 1]) if high <= len(values) else None,
        }
        for entity, rank, low, high in zip(cells, beliefs.ranks, *intervals(beliefs, factor), strict=True)
    ]


def cell_frame(cells: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The cells that `impute` found as a table, whose columns have one type however many ends are open."""
    names = dict.fromkeys(("entity", "field"), "object")
    ranks = {"low_rank": "int64", "rank": "float64", "high_rank": "int64", "of": "int64"}
    values = dict.fromkeys(("low_value", "high_value"), "float64")
    return pd.DataFrame(cells, columns=list(CELL_COLUMNS)).astype(names | ranks | values)
