"""From raw scores to probabilities: a temperature and shift, shared or per relation, fitted on validation.

    p = sigmoid((score - b) / T),   (T, b) = argmin sum softplus(z) - label z,   z = (score - b) / T

in float64; the sum is convex in (1 / T, -b / T), so the minimum is the only one.  A temperature alone (b = 0)
cannot correct scores that are all too low, such as those of a model that saw a tenth of the facts and took
the rest to be false: the report has its error too.  For T and b together, labels y in {0, 1} become Platt's
("Probabilistic Outputs for Support Vector Machines", 1999), (n+ + 1) / (n+ + 2) and 1 / (n- + 2), which keeps
T above 0.

Which triples are labelled follows `eval.selection`, as the choice of the model did: "reversed" takes each
validation fact and its reverse, which a strict order makes false, so p answers "which of the two is it?"
(each way of a pair that is a fact both ways is once true and once false); the other rules take every tail of
a validation fact's query that is not a training fact, so p answers "is this a fact of the graph?".

In that case the facts of the test split are among those tails, without a label: only a share c of the facts
that training does not know is marked true.  So a label is expected with probability c p, not p, and (T, b)
minimise the negative log-likelihood of that (Elkan and Noto, "Learning Classifiers from Only Positive and
Unlabeled Data", KDD 2008, whose classifier is divided by c).  c is a ratio of counts: the test split only
contributes how many of its facts are among these tails, not which.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.evaluation.scorer import ScoredHeads
from numcoke_jax.system.errors import UserError

BINS = 10  # of equal width, for the expected calibration error
MOST_SCORES = 2_000_000  # per split; beyond that, a seeded sample of the queries
LEAST_LABELS = 20  # of each class, for a relation's own temperature
RANGE = 1e-4, 1e4  # of a temperature: one class alone, or scores of 0, would push it beyond all limits
NEWTON_STEPS = 100
MOST_TRUE = 1.0 - 1e-6  # largest share of true triples that a fit starts from


class Scale(NamedTuple):
    """z = (score - shift) / temperature."""

    temperature: float
    shift: float

    def logits(self, scores: np.ndarray) -> np.ndarray:
        """Float64 z of scores of any float type."""
        return (np.asarray(scores, np.float64) - self.shift) / self.temperature


UNCHANGED = Scale(1.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Scales of a model's scores.

    Attributes:
      common: temperature and shift of relations without their own.
      relations: relation id -> its own.
      fitted: False if nothing was fitted: probabilities are sigmoids of raw scores.
    """

    common: Scale = UNCHANGED
    relations: Mapping[int, Scale] = dataclasses.field(default_factory=dict)
    fitted: bool = False

    def probability(self, scores: np.ndarray, relation: int) -> np.ndarray:
        """Float64 probabilities of scores under one relation, in their shape."""
        return expit(self.relations.get(relation, self.common).logits(scores))

    @classmethod
    def from_report(cls, stored: Any, relations: tuple[str, ...], where: str) -> "Calibration":
        """What `calibrate` put into a report; uncalibrated if `stored` is None.

        Raises:
          UserError: it is something else.
        """
        if stored is None:
            return cls()
        try:
            own = {relations.index(name): _scale(entry) for name, entry in stored["relations"].items()}
            return cls(_scale(stored), own, True)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{where}: its calibration is not from this run ({error}); write it again with numcoke eval"
            ) from None


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Scores with what is known about them.

    Attributes:
      scores: float64 [n].
      labels: bool [n].
      relations: int64 [n], relation ids.
      share: c in (0, 1], the share of the true triples that is labelled true.
    """

    scores: np.ndarray
    labels: np.ndarray
    relations: np.ndarray
    share: float = 1.0


def calibrate(
    graph: NumericGraph,
    scored_heads: ScoredHeads,
    *,
    kind: str,
    selection: str,
    seed: int,
    log_odds: Collection[int] = (),
) -> dict[str, Any] | None:
    """Fit on validation facts, measure on validation and test.

    Args:
      graph: the facts.
      scored_heads: scores the graph's entities as tails.
      kind: "global" or "relation".
      selection: `eval.selection`.
      seed: of the sample of queries, if there are too many scores.
      log_odds: ids of relations whose scores are log odds already (an order core's): they stay as they are,
        as fitting them to a few hundred facts only adds noise.

    Returns:
      What goes into report.json: {"kind", "temperature", "shift", "relations": {name: {"temperature",
      "shift"}}, "valid", "test"}; a split has count, positives, labelled_share (c), and nll, ece and bins of
      the raw scores ("before"), with a temperature alone ("temperature") and with the shift ("after"), of c p
      where c < 1.  None if validation facts give labels of one kind only.
    """
    valid = labelled_scores(graph, "valid", scored_heads, selection=selection, seed=seed)
    if not len(valid.labels) or valid.labels.all() or not valid.labels.any():
        return None
    own = {int(relation): UNCHANGED for relation in log_odds}
    rest = ~np.isin(valid.relations, list(own))
    common, alone = UNCHANGED, UNCHANGED
    if valid.labels[rest].any() and not valid.labels[rest].all():
        common = fit_scale(valid.scores[rest], valid.labels[rest], valid.share)
        alone = Scale(fit_temperature(valid.scores[rest], valid.labels[rest], valid.share), 0.0)
    if kind == "relation":
        for relation in np.setdiff1d(valid.relations, list(own)):
            members = valid.relations == relation
            positives = int(valid.labels[members].sum())
            if min(positives, int(members.sum()) - positives) >= LEAST_LABELS:
                own[int(relation)] = fit_scale(valid.scores[members], valid.labels[members], valid.share)
    fitted = {
        "before": Calibration(),
        "temperature": Calibration(alone, dict.fromkeys(map(int, log_odds), UNCHANGED)),
        "after": Calibration(common, own, True),
    }
    test = labelled_scores(graph, "test", scored_heads, selection=selection, seed=seed)
    names = graph.vocabulary.relations
    return {
        "kind": kind,
        **common._asdict(),
        "relations": {names[relation]: scale._asdict() for relation, scale in own.items()},
        "valid": measured(valid, fitted),
        "test": measured(test, fitted),
    }


def labelled_scores(
    graph: NumericGraph, split: str, scored_heads: ScoredHeads, *, selection: str, seed: int
) -> Labelled:
    """Scores of the facts of `split` and of the triples that count as false (see the top of this file)."""
    facts = graph.known(split)
    asked = graph.index(split)
    if selection == "reversed":
        turned = graph.index_of(facts[:, [TAIL, RELATION, HEAD]])
        queries = np.unique(np.concatenate([asked.queries, turned.queries]), axis=0)
        left_out = None
    else:
        turned, queries = None, asked.queries
        # Validation is blind to the test.
        left_out = graph.index("train") if split == "valid" else graph.index("train", "valid", "test")
    queries = _sampled(queries, MOST_SCORES // max(graph.num_entities, 1), seed)
    unlabelled = graph.index("test") if split == "valid" else graph.index()
    hidden = 0  # test facts among the tails that are used
    parts: list[tuple[np.ndarray, np.ndarray, int]] = []
    for relation in np.unique(queries[:, RELATION]).tolist():
        heads = queries[queries[:, RELATION] == relation, HEAD]
        for begin, scores in scored_heads(heads, relation):
            block = heads[begin : begin + len(scores)]
            true = asked.mask(block, relation, graph.num_entities)
            if turned is not None:
                false = turned.mask(block, relation, graph.num_entities)
            else:
                assert left_out is not None
                false = ~true & ~left_out.mask(block, relation, graph.num_entities)
                hidden += int((false & unlabelled.mask(block, relation, graph.num_entities)).sum())
            for label, used in ((True, true), (False, false)):
                parts.append((scores[used].astype(np.float64), np.full(used.sum(), label), relation))
    labels = np.concatenate([np.empty(0, bool), *(labels for _, labels, _ in parts)])
    of_parts = np.array([relation for _, _, relation in parts], np.int64)
    return Labelled(
        scores=np.concatenate([np.empty(0), *(scores for scores, _, _ in parts)]),
        labels=labels,
        relations=np.repeat(of_parts, [len(labels) for _, labels, _ in parts]),
        share=labels.sum() / (labels.sum() + hidden) if hidden else 1.0,
    )


def fit_temperature(scores: np.ndarray, labels: np.ndarray, share: float = 1.0) -> float:
    """The temperature T that minimises the negative log-likelihood, within `RANGE`.

    The root of the derivative in 1 / T, which increases where all true triples are labelled.

    Args:
      scores: float64 [n].
      labels: bool [n].
      share: c in (0, 1], how many of the true triples are labelled true.
    """
    from scipy import optimize  # only who fits needs it

    def slope(inverse: float) -> float:
        return float(np.sum(scores * _slopes(scores * inverse, labels, share)[0]))

    if slope(1.0 / RANGE[1]) >= 0:
        return RANGE[1]
    if slope(1.0 / RANGE[0]) <= 0:
        return RANGE[0]
    return 1.0 / optimize.brentq(slope, 1.0 / RANGE[1], 1.0 / RANGE[0], xtol=1e-16, rtol=1e-14)


def fit_scale(scores: np.ndarray, labels: np.ndarray, share: float = 1.0) -> Scale:
    """The scale that minimises the negative log-likelihood of Platt's labels.

    Fisher's scoring (Newton's method where all true triples are labelled) with halved steps on
    (1 / T, -b / T) of standardised scores.  Scores that rank the classes the wrong way round would need a T
    below 0: they get the largest T of `RANGE` and, whatever their size, the share of true triples as
    probability.

    Args:
      scores: float64 [n].
      labels: bool [n], of both kinds.
      share: c in (0, 1], how many of the true triples are labelled true.
    """
    positives, count = int(labels.sum()), len(labels)
    targets = np.where(labels, (positives + 1) / (positives + 2), 1 / (count - positives + 2))
    mean, deviation = float(scores.mean()), max(float(scores.std()), 1e-12)
    features = np.stack([(scores - mean) / deviation, np.ones(count)])
    true = min(float(targets.mean()) / share, MOST_TRUE)
    log_odds = math.log(true / (1 - true))
    weights = np.array([0.0, log_odds])

    def loss(weights: np.ndarray) -> float:
        return negative_log_likelihood(weights @ features, targets, share)

    best = loss(weights)
    for _ in range(NEWTON_STEPS):
        slopes, information = _slopes(weights @ features, targets, share)
        curvature = (features * information) @ features.T + 1e-12 * np.eye(2)
        step = np.linalg.solve(curvature, features @ slopes)
        size = 1.0
        while loss(weights - size * step) > best and size > 1e-10:
            size /= 2
        weights = weights - size * step
        improvement, best = best - loss(weights), loss(weights)
        if improvement <= 1e-14 * abs(best):
            break
    inverse, (smallest, largest) = float(weights[0]) / deviation, (1.0 / RANGE[1], 1.0 / RANGE[0])
    if inverse < smallest:  # the other weight was fitted beside this one: alone it is the log-odds
        return Scale(RANGE[1], mean - log_odds / smallest)
    return Scale(1.0 / min(inverse, largest), mean - float(weights[1]) / inverse)


def _slopes(logits: np.ndarray, targets: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Derivative and expected (Fisher's) curvature of each triple's loss in its logit z.

    With q = c p, the probability of a label: (q - y) f and q (1 - p) f, where f = (1 - p) / (1 - q); f is 1
    for c = 1.
    """
    true = expit(logits)
    factor = expit(-(logits + _log_unlabelled(share)))  # f without 0 / 0 where p rounds to 1
    return (share * true - targets) * factor, share * true * expit(-logits) * factor


def _log_unlabelled(share: float) -> float:
    return math.log1p(-share) if share < 1.0 else -math.inf


def measured(labelled: Labelled, fitted: Mapping[str, Calibration]) -> dict[str, Any]:
    """Counts, and for each of `fitted` the mean negative log-likelihood, calibration error and bins."""
    count = len(labelled.labels)
    result: dict[str, Any] = {
        "count": count,
        "positives": int(labelled.labels.sum()),
        "labelled_share": float(labelled.share),
    }
    for name, calibration in fitted.items():
        logits = calibration.common.logits(labelled.scores)
        for relation, scale in calibration.relations.items():
            members = labelled.relations == relation
            logits[members] = scale.logits(labelled.scores[members])
        bins = reliability(labelled.share * expit(logits), labelled.labels)
        likelihood = negative_log_likelihood(logits, labelled.labels, labelled.share)
        result[name] = {
            "nll": likelihood / count if count else None,
            "ece": expected_calibration_error(bins) if count else None,
            "bins": bins,
        }
    return result


def negative_log_likelihood(logits: np.ndarray, labels: np.ndarray, share: float = 1.0) -> float:
    """The sum of -y log q - (1 - y) log(1 - q) with q = c sigmoid(z), in float64; c is the `share`."""
    unlabelled = np.logaddexp(0.0, logits) - np.logaddexp(0.0, logits + _log_unlabelled(share))
    labelled = np.logaddexp(0.0, -logits) - math.log(share)
    return float(np.sum(labels * labelled + (1.0 - labels) * unlabelled))


def reliability(probabilities: np.ndarray, labels: np.ndarray) -> list[dict[str, float | int]]:
    """For every non-empty bin of probabilities: count, mean probability, share of true labels."""
    place = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    found = []
    for number in range(BINS):
        members = place == number
        count = int(members.sum())
        if count:
            mean = float(np.sum(probabilities[members])) / count
            found.append({"count": count, "predicted": mean, "true": int(labels[members].sum()) / count})
    return found


def expected_calibration_error(bins: list[dict[str, float | int]]) -> float:
    """Mean distance between predicted probability and share of true labels, weighted by the bins' counts."""
    total = sum(part["count"] for part in bins)
    return math.fsum(part["count"] * abs(part["predicted"] - part["true"]) for part in bins) / total


def _scale(stored: Mapping[str, Any]) -> Scale:
    scale = Scale(float(stored["temperature"]), float(stored["shift"]))
    if not (all(map(math.isfinite, scale)) and scale.temperature > 0):
        raise ValueError("a temperature must be finite and above 0, a shift finite")
    return scale


def _sampled(queries: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most `most` (but at least one) of the rows, in their original order."""
    if len(queries) <= max(most, 1):
        return queries
    chosen = np.random.default_rng(np.random.SeedSequence(seed)).permutation(len(queries))[: max(most, 1)]
    return queries[np.sort(chosen)]
