"""Intervals of cells of a table: from positions that facts and other values give, wide as hidden cells need.

`impute.py` says how; here are the parts that need a graph only, no run.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtri

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.data.literals import fit_normalizer
from numcoke_jax.models.order_core.comparative import comparative_relations
from numcoke_jax.models.order_core.fit import field_positions, fit_orders, informed
from numcoke_jax.models.order_core.value_scores import ValueScores, value_scores

FOLDS = 10
ENOUGH_CELLS = 30  # hidden ones, for a t of their own
CELL_COLUMNS = (
    "entity",
    "field",
    "low_rank",
    "rank",
    "high_rank",
    "of",
    "low_value",
    "high_value",
    "known_by",
)
NUMBER_TYPES = {
    **dict.fromkeys(("low_rank", "high_rank", "of"), "int64"),
    **dict.fromkeys(("rank", "low_value", "high_value"), "float64"),
}  # of columns; the others have text
NOTHING = 0.95  # width of a position, in those of the whole field, from which nothing is known about it
KINDS = WITH, WITHOUT = "with facts", "without facts"
STREAM = 6  # of the run's seed; 5 draws the entities of `eval.inductive`
GIVEN = 3  # within it, facts for hidden cells
SomeCells = TypeVar("SomeCells", bound="Cells")
CANDIDATES = 4  # drawn for each fact that a cell is given, as some repeat others


@dataclasses.dataclass(frozen=True)
class Scale:
    """The facts that compare a field.

    Attributes:
      relations: their names; empty if no relation compares it.
      upper, lower: int [F], entities with the higher and the lower value of each fact.
    """

    relations: tuple[str, ...]
    upper: np.ndarray
    lower: np.ndarray

    def without(self, entities: np.ndarray) -> "Scale":
        """The facts in which none of these entities is."""
        kept = ~(np.isin(self.upper, entities) | np.isin(self.lower, entities))
        return Scale(self.relations, self.upper[kept], self.lower[kept])

    def given(
        self, counts: np.ndarray, values: np.ndarray, shown: np.ndarray, drawn: np.random.Generator
    ) -> "Scale":
        """The facts if some entities are in so many of them, all with others.

        An entity keeps some of its own, drawn at random; if these are too few, it is compared with entities
        drawn at random, by their values, and as many of these facts are turned around as others contradict
        the values.

        Args:
          counts: int [N], of each entity; -1 for the others, whose facts all stay.
          values: float64 [N], of the field.
          shown: bool [N], whose values may be compared.
          drawn: what is drawn.
        """
        some = counts >= 0
        upper, lower = some[self.upper], some[self.lower]
        one = drawn.permutation(np.flatnonzero(upper != lower))
        own = np.where(upper, self.upper, self.lower)[one]
        other = np.where(upper, self.lower, self.upper)[one]
        more = np.repeat(np.arange(len(counts)), CANDIDATES * counts.clip(0))
        others = drawn.choice(np.flatnonzero(shown & ~some), len(more))
        both = shown[self.upper] & shown[self.lower]
        wrong = np.mean(np.append(values[self.upper] < values[self.lower], 0.0), where=np.append(both, True))
        above = (values[more] > values[others]) != (drawn.random(len(more)) < wrong)
        differ = values[more] != values[others]
        facts = np.stack(
            [
                np.concatenate([own, more[differ]]),
                np.concatenate([other, others[differ]]),
                np.concatenate([upper[one], above[differ]]),
            ]
        )
        first = np.sort(np.unique(facts, axis=1, return_index=True)[1])
        facts = facts[:, first][:, np.argsort(facts[0, first], kind="stable")]
        place = np.arange(facts.shape[1]) - np.searchsorted(facts[0], facts[0], "left")
        own, other, up = facts[:, place < counts[facts[0]]]
        rest = ~upper & ~lower
        return Scale(
            self.relations,
            np.concatenate([self.upper[rest], np.where(up, own, other)]),
            np.concatenate([self.lower[rest], np.where(up, other, own)]),
        )

    def facts_of(self, entities: np.ndarray) -> np.ndarray:
        """Int64, the number of facts that each entity is in."""
        ends = np.concatenate([self.upper, self.lower]).astype(int)
        return np.bincount(ends, minlength=int(entities.max(initial=-1)) + 1)[entities]


@dataclasses.dataclass(frozen=True)
class Cells:
    """Cells of some fields with what facts and values say about them.

    Attributes:
      entities, fields: int [c].
      mean, width: float64 [c], of the normal score.
      facts: int64 [c], how many there are about the entity's value.
    """

    entities: np.ndarray
    fields: np.ndarray
    mean: np.ndarray
    width: np.ndarray
    facts: np.ndarray

    @property
    def kinds(self) -> np.ndarray:
        """[c], `WITH` or `WITHOUT` facts."""
        return np.where(self.facts > 0, WITH, WITHOUT).astype(object)

    @classmethod
    def joined(cls: type[SomeCells], parts: Sequence[SomeCells]) -> SomeCells:
        """All cells, in order."""
        names = [field.name for field in dataclasses.fields(cls)]
        nothing = cls(*(np.empty(0, float if name in ("mean", "width", "needed") else int) for name in names))
        return cls(*(np.concatenate([getattr(part, name) for part in (nothing, *parts)]) for name in names))

    def take(self: SomeCells, chosen: np.ndarray) -> SomeCells:
        """Some of the cells, by mask or place."""
        return type(self)(*(column[chosen] for column in vars(self).values()))


def cell_columns(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str] = CELL_COLUMNS
) -> dict[str, np.ndarray]:
    """The columns of rows such as `cell_rows` has, with NaN for a value that there is not."""
    return {name: np.array([row[name] for row in rows], NUMBER_TYPES.get(name, object)) for name in names}


def scores_of(graph: NumericGraph, observed: np.ndarray) -> ValueScores:
    """Normal scores of the values under a mask, bool [N, M], by the quantiles of these values alone.

    Quantiles of all values would leave a gap where one is hidden, twice as wide as that of a missing one.
    """
    values = np.where(observed, graph.values, 0.0)
    return value_scores(fit_normalizer(values, observed, "quantile").apply(values, observed), observed)


def field_scales(graph: NumericGraph, ordered: Sequence[int], scores: ValueScores) -> dict[int, Scale]:
    """field -> the facts that compare it, by what an order core finds; no fact for the other fields."""
    relations = tuple(relation for relation in ordered if relation < graph.own_relations)
    relations = relations or comparative_relations(graph)
    weights = np.zeros((0, 0))
    if relations:
        weights = fit_orders(graph.train, relations, scores, graph.valid).weights
    scales = {}
    for field in range(graph.num_fields):
        comparing = [r for r, w in zip(relations, weights, strict=True) if abs(w[field]) == 1.0]
        signs = {r: w[field] for r, w in zip(relations, weights, strict=True)}
        facts = graph.train[np.isin(graph.train[:, RELATION], comparing)]
        up = np.array([signs[r] > 0 for r in facts[:, RELATION]], bool)
        scales[field] = Scale(
            tuple(graph.vocabulary.relations[r] for r in comparing),
            np.where(up, facts[:, HEAD], facts[:, TAIL]),
            np.where(up, facts[:, TAIL], facts[:, HEAD]),
        )
    return scales


def told_scores(scales: Mapping[int, Scale], scores: ValueScores) -> ValueScores:
    """The scores with what facts say about missing ones; see `informed`."""
    facts = {field: (scale.upper, scale.lower) for field, scale in scales.items() if len(scale.upper)}
    return (
        informed(facts, scores) if len(facts) > 1 else scores
    )  # a field's own cells look at its facts anyway


def conformal_factor(needed: np.ndarray, level: float) -> float:
    """The ceil((c + 1) level)-th smallest of the c needed factors; inf if there are too few."""
    place = math.ceil((len(needed) + 1) * level)
    return float(np.sort(needed)[place - 1]) if place <= len(needed) else math.inf


def needed_factor(cells: Cells, truth: np.ndarray, values: np.ndarray, scores: ValueScores) -> np.ndarray:
    """The least t of each cell whose interval, from one known value to another, contains the true value.

    Args:
      cells: c of them.
      truth: float64 [N, M], true values of the cells.
      values: float64 [N, M], known ones where `scores` are observed.
      scores: of the known values.

    Returns:
      float64 [c].
    """
    needed = np.empty(len(cells.mean))
    for field in np.unique(cells.fields):
        rows, seen = cells.fields == field, scores.observed[:, field]
        known = np.sort(values[seen, field])
        ends = np.concatenate([[-np.inf], np.sort(scores.scores[seen, field]), [np.inf]])
        true = truth[cells.entities[rows], field]
        below = ends[np.searchsorted(known, true, "left")]
        above = ends[1 + np.searchsorted(known, true, "right")]
        mean = cells.mean[rows]
        needed[rows] = np.maximum(np.maximum(mean - above, below - mean), 0.0) / cells.width[rows]
    return needed


def believed(scale: Scale, scores: ValueScores, field: int, chosen: np.ndarray) -> Cells:
    """What is known about the chosen entities' cells (bool [N]) of a field, none of them in `scores`."""
    by_facts = field_positions(scale.upper, scale.lower, scores, field)
    by_values = scores.filled[:, field], np.sqrt(scores.variances[:, field])
    entities = np.flatnonzero(chosen)
    facts = scale.facts_of(entities)
    mean, width = (
        np.where(facts > 0, one[entities], other[entities])
        for one, other in zip(by_facts, by_values, strict=True)
    )
    return Cells(entities, np.full(len(entities), field), mean, width, facts)


@dataclasses.dataclass(frozen=True)
class Hidden(Cells):
    """Observed cells, believed as if they were missing.

    Attributes:
      needed: float64 [c], the factor that each needs (`needed_factor`).
    """

    needed: np.ndarray

    @classmethod
    def of(cls, cells: Cells, graph: NumericGraph, shown: ValueScores) -> "Hidden":
        """Cells of a graph that are not among the values shown."""
        return cls(**vars(cells), needed=needed_factor(cells, graph.values, graph.values, shown))


@dataclasses.dataclass(frozen=True)
class Factors:
    """The t of an interval m -+ t w, from hidden cells like the one it is for.

    Where many facts bracket each hidden cell, most need next to no width beyond the neighbouring values.  A
    cell with one fact is not like them: cells are told apart by the number of their facts, in powers of two.
    Where too few hidden cells have about as many (`lacking`), every hidden cell is given as many
    (`Scale.given`).  Where that is impossible, and where nothing is known, the position is taken for normal,
    and the interval is not narrower than its level says.

    Attributes:
      level: target coverage, in (0, 1).
      kinds: kind -> t of all its cells; inf if there are too few.
      by_facts: floor(log2(number of facts)) -> t, of the numbers that at least `ENOUGH_CELLS` hidden cells
        have, and enough for the level.
    """

    level: float
    kinds: Mapping[str, float]
    by_facts: Mapping[int, float]

    @classmethod
    def from_hidden(cls, hidden: Hidden, given: Hidden, level: float) -> "Factors":
        """From hidden cells as they are, and from those that are given facts."""
        kinds = {k: conformal_factor(hidden.needed[hidden.kinds == k], level) for k in KINDS}
        both = Hidden.joined([hidden, given])
        magnitudes = _magnitudes(both.facts)
        groups, counts = np.unique(magnitudes[both.facts > 0], return_counts=True)
        enough = groups[counts >= ENOUGH_CELLS].tolist()
        by_facts = {m: conformal_factor(both.needed[magnitudes == m], level) for m in enough}
        return cls(level, kinds, {m: t for m, t in by_facts.items() if math.isfinite(t)})

    def of(self, cells: Cells) -> np.ndarray:
        """Float64 [c], the factor of each cell."""
        normal = ndtri((1.0 + self.level) / 2.0)
        many = {m: self.by_facts.get(m, max(self.kinds[WITH], normal)) for m in set(_magnitudes(cells.facts))}
        with_facts = np.array([many[m] for m in _magnitudes(cells.facts)], float)
        found = np.where(cells.facts > 0, with_facts, self.kinds[WITHOUT])
        return np.where(unknown(cells), np.maximum(found, normal), found)


def _magnitudes(facts: np.ndarray) -> np.ndarray:
    """Int [c]: floor(log2(facts)); -1 without any."""
    return np.frexp(facts.astype(float))[1] - 1


def unknown(cells: Cells) -> np.ndarray:
    """Bool [c]: cells about which neither facts nor other values say anything."""
    return (cells.kinds == WITHOUT) & (cells.width >= NOTHING)


def hidden_cells(
    graph: NumericGraph, scales: Mapping[int, Scale], seed: int, given: Collection[int] = ()
) -> tuple[Hidden, Hidden]:
    """Every observed cell, believed once with and (if it has some) once without its entity's facts.

    Args:
      graph: values and which are observed.
      scales: field -> its facts.
      seed: of what is drawn.
      given: numbers m: cells of compared fields are believed also with 2^m to 2^(m + 1) - 1 facts.

    Returns:
      The cells, and those of `given` (`Scale.given`).
    """
    drawn = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM,)))
    fold = drawn.integers(FOLDS, size=graph.observed.shape)
    giving = {
        m: np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, GIVEN, m))) for m in given
    }
    parts, with_given = [], []
    for number in range(FOLDS):
        hidden = graph.observed & np.equal(fold, number)
        shown = told_scores(scales, scores_of(graph, graph.observed & ~hidden))
        for field, scale in scales.items():
            chosen, values = hidden[:, field], graph.values[:, field]
            if not chosen.any() or not shown.observed[:, field].any():
                continue
            with_facts = believed(scale, shown, field, chosen)
            with_facts = with_facts.take(with_facts.kinds == WITH)
            bare = scale.without(np.flatnonzero(chosen))
            for cells in (with_facts, believed(bare, shown, field, chosen)):
                parts.append(Hidden.of(cells, graph, shown))
            for m, rng in giving.items() if len(scale.upper) else ():
                counts = np.where(chosen, rng.integers(2**m, 2 ** (m + 1), len(chosen)), -1)
                facts = scale.given(counts, values, shown.observed[:, field], rng)
                cells = believed(facts, shown, field, chosen)
                with_given.append(Hidden.of(cells.take(_magnitudes(cells.facts) == m), graph, shown))
    return Hidden.joined(parts), Hidden.joined(with_given)


def lacking(graph: NumericGraph, scales: Mapping[int, Scale], asked: Cells, level: float) -> list[int]:
    """For which numbers m too few hidden cells have 2^m to 2^(m + 1) - 1 facts, of those that `asked` have.

    Twice `ENOUGH_CELLS`, and twice those that the level needs, are enough: half of them judge the other half.

    Args:
      graph: what is observed.
      scales: field -> its facts.
      asked: cells whose intervals are wanted.
      level: target coverage.
    """
    facts = [scale.facts_of(np.flatnonzero(graph.observed[:, field])) for field, scale in scales.items()]
    hidden = _magnitudes(np.concatenate([np.empty(0, int), *facts]))
    enough = 2 * max(ENOUGH_CELLS, math.ceil(level / (1.0 - level)))
    wanted = np.unique(_magnitudes(asked.facts[asked.facts > 0])).tolist()
    return [m for m in wanted if np.count_nonzero(hidden == m) < enough]


def interval_ranks(cells: Cells, factors: np.ndarray, scores: ValueScores) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest rank of each cell, int64 [c] each, among the observed values and itself."""
    reach = np.where(np.isfinite(factors), factors * cells.width, np.inf)
    low, high = np.empty(len(reach), int), np.empty(len(reach), int)
    for field in np.unique(cells.fields):
        rows = cells.fields == field
        ordered = np.sort(scores.scores[scores.observed[:, field], field])
        low[rows] = 1 + np.searchsorted(ordered, (cells.mean - reach)[rows], "left")
        high[rows] = 1 + np.searchsorted(ordered, (cells.mean + reach)[rows], "right")
    return low, high


def cell_rows(
    graph: NumericGraph, cells: Cells, factors: Factors, scores: ValueScores
) -> list[dict[str, Any]]:
    """What is shown about missing cells: the "cells" of `impute`, ranked among the values of `graph`."""
    low, high = interval_ranks(cells, factors.of(cells), scores)
    middle = np.stack(interval_ranks(cells, np.zeros(len(low)), scores)).mean(axis=0)
    known_by = np.where(cells.kinds == WITH, "facts", np.where(unknown(cells), "nothing", "values"))
    rows = []
    for place, (entity, field) in enumerate(zip(cells.entities, cells.fields, strict=True)):
        values = np.sort(graph.values[graph.observed[:, field], field])
        first, last = int(low[place]), int(high[place])
        rows.append(
            {
                "entity": graph.vocabulary.entities[entity],
                "field": graph.vocabulary.fields[field],
                "low_rank": first,
                "rank": float(middle[place]),
                "high_rank": last,
                "of": len(values) + 1,
                "low_value": float(values[first - 2]) if first > 1 else None,
                "high_value": float(values[last - 1]) if last <= len(values) else None,
                "known_by": str(known_by[place]),
            }
        )
    return rows
