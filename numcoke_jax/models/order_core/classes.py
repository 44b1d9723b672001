"""Relations whose tail is read off the head's value: every tail stands for an interval of one field.

"is_a high" of all entities above a half, "has_size small, medium or large": an ordered probit model
(McCullagh 1980) whose classes are the tails of a relation,

    P(tail t | head h) = Phi((u_t - z_h) / s') - Phi((l_t - z_h) / s')       s'^2 = w_h^2 + s^2

z_h is the head's normal score in the field (w_h its width where the value is missing), (l_t, u_t) the tail's
interval.  A relation counts as such only if nearly every training fact falls into its tail's interval.
"""

import dataclasses

import numpy as np
from scipy.special import ndtr

from numcoke_jax.data.graph import HEAD, RELATION, TAIL
from numcoke_jax.models.order_core.value_scores import ValueScores

MOST_CLASSES = 50
FEWEST_FACTS = 5  # of each tail, with the head's value observed
FUNCTIONAL = 0.98  # share of the heads that have a single tail
EXPLAINED = 0.98  # share of the facts that fall into their tail's interval
KNOWN = 0.5  # share of the facts whose head has a value
FAR = 1e6  # ends of the outer intervals, beyond all normal scores; finite, as parameters have to be
NOISES = np.geomspace(1e-4, 1.0, 41)  # the best is taken


@dataclasses.dataclass(frozen=True)
class ClassFit:
    """Intervals of one relation's tails.

    Attributes:
      field: the field they cut.
      lower, upper: float64 [N]; equal for an entity that is no class.
      noise: s.
    """

    field: int
    lower: np.ndarray
    upper: np.ndarray
    noise: float


def class_relations(train: np.ndarray, num_relations: int, scores: ValueScores) -> dict[int, ClassFit]:
    """The relations (ids) that classify by a value, with their fits.

    Args:
      train: int32 [n, 3] training facts.
      num_relations: R.
      scores: of the values.
    """
    found = {}
    for relation in range(num_relations):
        facts = train[train[:, RELATION] == relation]
        fit = fit_classes(facts[:, HEAD], facts[:, TAIL], scores)
        if fit is not None:
            found[relation] = fit
    return found


def fit_classes(heads: np.ndarray, tails: np.ndarray, scores: ValueScores) -> ClassFit | None:
    """The intervals of the tails in the field that explains facts (int [F] each) best; None if none does."""
    classes = np.unique(tails)
    single = len(np.unique(heads)) >= FUNCTIONAL * len(heads)
    if not (1 < len(classes) <= MOST_CLASSES and single) or np.isin(heads, classes).any():
        return None
    best, right = None, EXPLAINED
    for field in range(scores.scores.shape[1]):
        known = scores.observed[heads, field]
        values, labels = scores.scores[heads[known], field], np.searchsorted(classes, tails[known])
        counts = np.bincount(labels, minlength=len(classes))
        if known.mean() < KNOWN or counts.min() < FEWEST_FACTS:
            continue
        order, cuts = _cuts(values, labels, len(classes))
        share = float(np.mean(np.argsort(order)[labels] == np.searchsorted(cuts, values)))
        if share >= right:
            best, right = (field, classes[order], cuts, values, np.argsort(order)[labels]), share
    if best is None:
        return None
    field, ordered, cuts, values, places = best
    edges = np.concatenate([[-FAR], cuts, [FAR]])
    lower, upper = np.zeros(len(scores.scores)), np.zeros(len(scores.scores))
    lower[ordered], upper[ordered] = edges[:-1], edges[1:]
    return ClassFit(field, lower, upper, _noise(values, edges[places], edges[places + 1]))


def _cuts(values: np.ndarray, labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The classes (int [count]) in the order of their medians, and the values that part neighbours best."""
    order = np.argsort([np.median(values[labels == label]) for label in range(count)], kind="stable")
    cuts = []
    for below, above in zip(order[:-1], order[1:], strict=True):
        both = np.isin(labels, (below, above))
        by_value = np.argsort(values[both], kind="stable")
        ordered, is_above = values[both][by_value], labels[both][by_value] == above
        # wrong if the first k are below: those of them that are above, and the others that are not
        wrong = np.concatenate([[0], np.cumsum(is_above)]) + np.concatenate(
            [np.cumsum(~is_above[::-1])[::-1], [0]]
        )
        place = int(np.argmin(wrong[1:-1])) + 1
        cuts.append((ordered[place - 1] + ordered[place]) / 2.0)
    return order, np.maximum.accumulate(np.array(cuts))


def _noise(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """The s of `NOISES` under which the facts are likeliest."""
    fits = [
        np.log(np.maximum(ndtr((upper - values) / s) - ndtr((lower - values) / s), 1e-300)).sum()
        for s in NOISES
    ]
    return float(NOISES[int(np.argmax(fits))])
