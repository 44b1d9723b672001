"""From raw scores to probabilities: a temperature and a shift, shared or per relation, fitted on validation.

    p = sigmoid((score - b) / T),   (T, b) = argmin sum softplus(z) - label z,   z = (score - b) / T

in float64; the sum is convex in (1 / T, -b / T), so the minimum is the only one.  A temperature alone (b = 0)
could not correct scores that are all too low, such as those of a model that saw a tenth of the facts and took
the rest to be false.  Labels y in {0, 1} become Platt's ("Probabilistic Outputs for Support Vector Machines",
1999), (n+ + 1) / (n+ + 2) and 1 / (n- + 2), which keeps T above 0.

A label is expected with probability c p, where c is the share of the true triples that are labelled
(`labelled_scores.py`), and (T, b) minimise the negative log-likelihood of that (Elkan and Noto, "Learning
Classifiers from Only Positive and Unlabeled Data", KDD 2008, whose classifier is divided by c).

A probability is known of what validation has enough of: facts of the relation that are not in train, of heads
that have no training fact of it (their "first" tails), or of heads that have one ("further" tails; where no
head has two tails, validation has no such fact, and a second one is as unlikely as it is unknown).
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.evaluation.labelled_scores import Labelled, Question, labelled_scores
from numcoke_jax.system.errors import UserError

BINS = 10  # of equal width, for the expected calibration error
LEAST_LABELS = 20  # of each class, for a probability to be known
RANGE = 1e-4, 1e4  # of a temperature: one class alone, or scores of 0, would push it beyond all limits
NEWTON_STEPS = 100
MOST_TRUE = 1.0 - 1e-6  # largest share of true triples that a fit starts from
Numbers = float | np.ndarray


def expit(logits: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-z)), float64, without overflow; to import scipy's takes half a second."""
    return np.exp(-np.logaddexp(0.0, -logits))


class Scale(NamedTuple):
    """z = (score - shift) / temperature, and the validation facts that it rests on."""

    temperature: float
    shift: float
    first: int = LEAST_LABELS  # of heads without a training fact of the relation; or all, for directions
    further: int = LEAST_LABELS  # of heads with one

    def logits(self, scores: np.ndarray) -> np.ndarray:
        """Float64 z of scores of any float type."""
        return (np.asarray(scores, np.float64) - self.shift) / self.temperature

    def known(self, further: np.ndarray) -> np.ndarray:
        """Whether there were facts enough, bool [n], for those whose heads have a training fact or not."""
        return np.where(further, self.further, self.first) >= LEAST_LABELS


UNCHANGED = Scale(1.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Scales of a model's scores.

    Attributes:
      relations: relation id -> its scale; others' probabilities are unknown.
      directions: whether probabilities tell which of a pair and its reverse is a fact ("reversed").
      entities: how many the graph has that it was fitted on; nothing is known of later ones.
    """

    relations: Mapping[int, Scale] = dataclasses.field(default_factory=dict)
    directions: bool = False
    entities: int = 0

    def probability(
        self, scores: np.ndarray, relation: int, *, further: np.ndarray, trained: np.ndarray
    ) -> np.ndarray:
        """Float64 [n] probabilities of scores [n] under one relation, NaN where unknown.

        Args:
          scores: of facts.
          relation: theirs.
          further: bool [n], the head has a training fact of the relation.
          trained: bool [n], the fact is one of training, whose score says how well that was learned.
        """
        scale = self.relations.get(relation)
        if scale is None:
            return np.full(len(scores), np.nan)
        known = scale.known(further & (not self.directions)) & (self.directions | ~trained)
        return np.where(known, expit(scale.logits(scores)), np.nan)

    @classmethod
    def from_report(cls, stored: Any, relations: tuple[str, ...], entities: int, where: str) -> "Calibration":
        """What `calibrate` put into a report; nothing is known if `stored` is None.

        Raises:
          UserError: it is something else.
        """
        if stored is None:
            return cls()
        try:
            own = {relations.index(name): _scale(entry) for name, entry in stored["relations"].items()}
            return cls(own, bool(stored["directions"]), entities)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{where}: its calibration is not from this run ({error}); write it again with numcoke eval"
            ) from None


def calibrate(
    graph: NumericGraph, questions: Sequence[Question], *, kind: str, seed: int
) -> dict[str, Any] | None:
    """Fit on validation facts, measure on validation and test.

    Args:
      graph: the facts.
      questions: of relations that no other one asks about.
      kind: "global" or "relation".
      seed: of the sample of queries, if there are too many scores.

    Returns:
      What goes into report.json: {"kind", "directions", "relations": {name: the fields of its `Scale`},
      "valid", "test"}; relations without `LEAST_LABELS` are left out.  A split has count, positives,
      labelled_share (mean c), and nll, ece and bins of the raw scores ("before") and of the scaled ones
      ("after"), of c p where c < 1, for facts whose probability is known.  None if none is.
    """
    valid, test = (
        Labelled.joined([labelled_scores(graph, split, question, seed=seed) for question in questions])
        for split in ("valid", "test")
    )
    own = _scales(
        valid, kind, [relation for asked in questions if asked.log_odds for relation in asked.relations]
    )
    if not own:
        return None
    scales = {"before": dict.fromkeys(own, UNCHANGED), "after": own}
    names = graph.vocabulary.relations
    return {
        "kind": kind,
        "directions": all(asked.selection == "reversed" for asked in questions if not asked.log_odds),
        "relations": {names[relation]: scale._asdict() for relation, scale in own.items()},
        **{
            split: measured(found.of(_known(found, own)), scales)
            for split, found in (("valid", valid), ("test", test))
        },
    }


def _scales(valid: Labelled, kind: str, log_odds: Collection[int]) -> dict[int, Scale]:
    """The scale of each relation that validation has labels enough of."""
    fitted, common = ~np.isin(valid.relations, list(log_odds)), None
    if kind == "global" and 0 < valid.labels[fitted].sum() < fitted.sum():
        common = fit_scale(
            valid.scores[fitted], valid.labels[fitted], valid.share[fitted], valid.weights[fitted]
        )
    own = {}
    for relation in np.unique(valid.relations).tolist():
        some = valid.of(valid.relations == relation)
        facts = [int(some.labels[some.further == group].sum()) for group in (False, True)]
        some = some.of(np.array(facts)[some.further.astype(int)] >= LEAST_LABELS)
        if relation in log_odds:
            own[relation] = UNCHANGED
        elif np.sum(some.labels) and np.sum(~some.labels) >= LEAST_LABELS:
            scale = common or fit_scale(some.scores, some.labels, some.share, some.weights)
            own[relation] = Scale(*scale[:2], *facts)
    return own


def _known(labelled: Labelled, scales: Mapping[int, Scale]) -> np.ndarray:
    """Which have a known probability, bool [n]."""
    known = np.zeros(len(labelled.labels), bool)
    for relation, scale in scales.items():
        known |= (labelled.relations == relation) & scale.known(labelled.further)
    return known


def fit_scale(scores: np.ndarray, labels: np.ndarray, share: Numbers = 1.0, weights: Numbers = 1.0) -> Scale:
    """The scale that minimises the negative log-likelihood of Platt's labels.

    Fisher's scoring (Newton's method where all true triples are labelled) with halved steps on
    (1 / T, -b / T) of standardised scores.  Scores that rank the classes the wrong way round would need a T
    below 0: they get the largest T of `RANGE` and, whatever their size, the share of true triples as
    probability.

    Args:
      scores: float64 [n].
      labels: bool [n], of both kinds.
      share: c in (0, 1], how many of the true triples are labelled true; of all, or float64 [n].
      weights: how many triples each stands for; of all, or float64 [n].
    """
    weights = np.broadcast_to(weights, scores.shape)
    count, positives = float(weights.sum()), float(weights @ labels)
    targets = np.where(labels, (positives + 1) / (positives + 2), 1 / (count - positives + 2))
    mean = float(weights @ scores) / count
    deviation = max(math.sqrt(float(weights @ (scores - mean) ** 2) / count), 1e-12)
    features = np.stack([(scores - mean) / deviation, np.ones(len(scores))])
    true = min(float(weights @ (targets / share)) / count, MOST_TRUE)
    log_odds = math.log(true / (1 - true))
    line = np.array([0.0, log_odds])

    def loss(line: np.ndarray) -> float:
        return negative_log_likelihood(line @ features, targets, share, weights)

    best = loss(line)
    for _ in range(NEWTON_STEPS):
        slopes, information = _slopes(line @ features, targets, share)
        curvature = (features * (weights * information)) @ features.T + 1e-12 * np.eye(2)
        step = np.linalg.solve(curvature, features @ (weights * slopes))
        size = 1.0
        while loss(line - size * step) > best and size > 1e-10:
            size /= 2
        line = line - size * step
        improvement, best = best - loss(line), loss(line)
        if improvement <= 1e-14 * abs(best):
            break
    inverse, (smallest, largest) = float(line[0]) / deviation, (1.0 / RANGE[1], 1.0 / RANGE[0])
    if inverse < smallest:  # the other coefficient was fitted beside this one: alone it is the log-odds
        return Scale(RANGE[1], mean - log_odds / smallest)
    return Scale(1.0 / min(inverse, largest), mean - float(line[1]) / inverse)


def _slopes(logits: np.ndarray, targets: np.ndarray, share: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Derivative and expected (Fisher's) curvature of each triple's loss in its logit z.

    With q = c p, the probability of a label: (q - y) f and q (1 - p) f, where f = (1 - p) / (1 - q); f is 1
    for c = 1.
    """
    true = expit(logits)
    factor = expit(-(logits + _log_unlabelled(share)))  # f without 0 / 0 where p rounds to 1
    return (share * true - targets) * factor, share * true * expit(-logits) * factor


def _log_unlabelled(share: Numbers) -> Numbers:
    with np.errstate(divide="ignore"):  # all are labelled
        return np.log1p(np.negative(share))


def negative_log_likelihood(
    logits: np.ndarray, labels: np.ndarray, share: Numbers = 1.0, weights: Numbers = 1.0
) -> float:
    """The sum of -y log q - (1 - y) log(1 - q) with q = c sigmoid(z), in float64; c is the `share`."""
    unlabelled = np.logaddexp(0.0, logits) - np.logaddexp(0.0, logits + _log_unlabelled(share))
    labelled = np.logaddexp(0.0, -logits) - np.log(share)
    return float(np.sum(weights * (labels * labelled + (1.0 - labels) * unlabelled)))


def measured(labelled: Labelled, fitted: Mapping[str, Mapping[int, Scale]]) -> dict[str, Any]:
    """Counts, and for each of `fitted` the mean negative log-likelihood, calibration error and bins.

    Args:
      labelled: of relations that each of `fitted` has a scale of.
      fitted: what they are called -> the scales.
    """
    labels, share, weights = labelled.labels, labelled.share, labelled.weights
    count = float(weights.sum())
    result: dict[str, Any] = {
        "count": round(count),
        "positives": int(labels.sum()),
        "labelled_share": float(weights @ share) / count if count else 1.0,
    }
    for name, scales in fitted.items():
        logits = np.zeros(len(labels))
        for relation, scale in scales.items():
            members = labelled.relations == relation
            logits[members] = scale.logits(labelled.scores[members])
        bins = reliability(share * expit(logits), labels, weights)
        likelihood = negative_log_likelihood(logits, labels, share, weights)
        result[name] = {
            "nll": likelihood / count if count else None,
            "ece": expected_calibration_error(bins) if count else None,
            "bins": bins,
        }
    return result


def reliability(
    probabilities: np.ndarray, labels: np.ndarray, weights: Numbers = 1.0
) -> list[dict[str, float]]:
    """For every non-empty bin of probabilities: count, mean probability, share of true labels."""
    place = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    sums = [
        np.bincount(place, np.broadcast_to(weights, labels.shape) * rows, BINS)
        for rows in (1.0, probabilities, labels)
    ]
    return [
        {"count": count, "predicted": predicted / count, "true": true / count}
        for count, predicted, true in zip(*(column.tolist() for column in sums), strict=True)
        if count
    ]


def expected_calibration_error(bins: Sequence[Mapping[str, float]]) -> float:
    """Mean distance between predicted probability and share of true labels, weighted by the bins' counts."""
    total = math.fsum(part["count"] for part in bins)
    return math.fsum(part["count"] * abs(part["predicted"] - part["true"]) for part in bins) / total


def _scale(stored: Mapping[str, Any]) -> Scale:
    scale = Scale(
        float(stored["temperature"]), float(stored["shift"]), int(stored["first"]), int(stored["further"])
    )
    if not (all(map(math.isfinite, scale)) and scale.temperature > 0):
        raise ValueError("a temperature must be finite and above 0, a shift finite")
    return scale
