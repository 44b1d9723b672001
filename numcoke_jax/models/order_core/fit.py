"""Which order each comparative relation follows, and every entity's place in it.

A relation may compare one field (positions are the field's values, and a missing one is inferred), something
that the fields say partly (a regression on the values, straight or curved, and a remainder of every entity's
own) or nothing of the sort (the remainder alone).  Each of these is fitted, and the evidence chooses:

    log P(all F facts) - effective coefficients x (log F / 2 + log D)      - log 2 M - log F for a field

where an entity's prior is learned from the others.  A regression pays for the choice among D features
too (the extended BIC of Chen and Chen 2008); a field costs its choice among M in two directions, its
noise and its share of reversed facts.  So values count only if they explain the facts: shuffled ones do not,
even if the best of many agree with a few facts by chance.  Relations that compare the same field share its
positions; where there is no doubt which field that is, these stand for its missing values in the regressions
of other relations.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, TAIL
from numcoke_jax.models.order_core.features import Features, curved_features, rank_features, straight_features
from numcoke_jax.models.order_core.membership import memberships
from numcoke_jax.models.order_core.propagation import (
    NO_FACTS,
    ROUNDS,
    Beliefs,
    Comparisons,
    Ends,
    propagate,
)
from numcoke_jax.models.order_core.reach import reach
from numcoke_jax.models.order_core.value_prior import ValuePrior
from numcoke_jax.models.order_core.value_scores import ValueScores

EXPLAINED = 0.98  # share of comparable facts that agree with a field: above, no other explanation is tried
ENOUGH_FACTS = 20  # comparable facts for that
FACTS_A_FEATURE = 3  # with fewer, no regression is tried: an entity's facts would explain themselves
NOISE_OF_GAP = 0.2  # least noise of a field's scale, in mean gaps between neighbouring quantiles
LONG_ROUNDS = 40  # of a regression, whose scale grows slowly against its remainder's
MOST_HELD_OUT = 20_000  # facts of a relation that its noise is learned from; evenly spaced ones of more
NO_TRIPLES = np.zeros((0, 3), np.int32)
LEAST_NOISE = 1e-2  # of a scale without values, whose positions have a prior width of 1


@dataclasses.dataclass(frozen=True)
class RelationOrder:
    """The order that one relation follows.

    Attributes:
      beliefs: positions of all N entities; the head of a fact stands above its tail.
      weights: float64 [M], what part of the positions each field explains, negative where the lower value is
        the head's; their absolute values sum to 1 at most.
      evidence: see above.
    """

    beliefs: Beliefs
    weights: np.ndarray
    evidence: float

    @property
    def field(self) -> int | None:
        """The field whose values are the positions, or None."""
        return int(np.argmax(np.abs(self.weights))) if np.abs(self.weights).sum() == 1.0 else None


@dataclasses.dataclass(frozen=True)
class OrderFit:
    """The orders of C relations over N entities, as arrays for scoring.

    Attributes:
      mean, width: float64 [N, C].
      membership: float64 [N, C], the probability that an entity takes part in the relation's facts.
      noise, reversed_share: float64 [C], of facts like the held-out ones.
      reach: float64 [C, bins], see `reach.py`.
      weights: float64 [C, M].
    """

    mean: np.ndarray
    width: np.ndarray
    membership: np.ndarray
    noise: np.ndarray
    reversed_share: np.ndarray
    reach: np.ndarray
    weights: np.ndarray


def fit_orders(
    train: np.ndarray, relations: Sequence[int], scores: ValueScores, held_out: np.ndarray = NO_TRIPLES
) -> OrderFit:
    """The orders that facts of some relations follow.

    Args:
      train: int32 [n, 3].
      relations: the ids.
      scores: of the values.
      held_out: int32 [V, 3], validation facts, which tell how noisy facts are and nothing else.
    """
    facts = [train[train[:, RELATION] == relation] for relation in relations]
    later = [_some(held_out[held_out[:, RELATION] == relation]) for relation in relations]

    def ordered(place: int, scores: ValueScores) -> RelationOrder:
        return fit_order(*_ends(facts[place]), scores, held_out=_ends(later[place]))

    found = [_candidate_fields(*_ends(part), scores) for part in facts]
    plain = [place for place, fields in enumerate(found) if _explained(fields)]
    rest = [place for place in range(len(facts)) if place not in plain]
    # Where one field alone explains the facts there is nothing to choose, and no need of a fit to choose by.
    orders = {place: ordered(place, scores) for place in plain if len(found[place]) > 1}
    compared = {place: (found[place][0].field, found[place][0].sign) for place in plain}
    scales = _scales(compared | _compared(orders), facts, later)
    told = scores
    if len(scales) > 1 or rest:
        told = informed({field: (scale.upper, scale.lower) for field, scale in scales.items()}, scores)
    orders |= _by_scales(scales, told, also_single=len(scales) > 1 and bool(told.told.any()))
    orders |= {place: ordered(place, scores) for place in plain if place not in orders}
    orders |= {place: ordered(place, told) for place in rest}
    if rest:
        in_turn = {place: orders[place] for place in (*plain, *rest)}
        orders |= _by_scales(_scales(_compared(in_turn), facts, later), told)
    beliefs = [orders[place].beliefs for place in range(len(facts))]
    return OrderFit(
        mean=np.stack([belief.mean for belief in beliefs], axis=1),
        width=np.stack([belief.width for belief in beliefs], axis=1),
        membership=memberships(facts, len(scores.scores)),
        noise=np.array([belief.noise for belief in beliefs]),
        reversed_share=np.array([belief.reversed_share for belief in beliefs]),
        reach=np.stack(
            [
                reach(belief.mean, part[:, HEAD], part[:, TAIL])
                for belief, part in zip(beliefs, facts, strict=True)
            ]
        ),
        weights=np.stack([orders[place].weights for place in range(len(facts))]),
    )


def fit_order(
    heads: np.ndarray, tails: np.ndarray, scores: ValueScores, *, held_out: Ends = NO_FACTS
) -> RelationOrder:
    """The order that facts (heads above tails, int [F] each) follow; `held_out` as in `Comparisons`."""
    found = _candidate_fields(heads, tails, scores)
    orders = [_by_field(heads, tails, scores, one.field, one.sign, held_out) for one in found]
    if not _explained(found):
        features = _candidate_features(heads, tails, scores)
        orders += [_by_remainder(heads, tails, one, held_out) for one in features]
    best = max(orders, key=lambda order: order.evidence)
    # If values explain few facts, a field that does so without exception is likelier than a sum of fields.
    exact = [
        order
        for one, order in zip(found, orders, strict=False)
        if one.agreement == 1.0 and 2 * one.facts >= len(heads)
    ]
    return exact[0] if exact and best.weights.any() else best


def informed(scales: Mapping[int, tuple[np.ndarray, np.ndarray]], scores: ValueScores) -> ValueScores:
    """The scores with missing ones expected where facts put them, if there are facts about the entity.

    What is expected of an entity's other missing values then looks at more than its observed ones.

    Args:
      scales: field -> the entities (upper, lower: int [F]) of facts that compare it.
      scores: of the values.
    """
    found = scores
    for field, (upper, lower) in scales.items():
        in_facts = np.zeros(len(scores.scores), bool)
        in_facts[upper] = in_facts[lower] = True
        if (in_facts & ~scores.observed[:, field]).any():
            found = found.with_told(field, in_facts, *field_positions(upper, lower, scores, field))
    return found


def field_positions(
    upper: np.ndarray, lower: np.ndarray, scores: ValueScores, field: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and width, float64 [N] each, of every entity's position on the scale of a field.

    Args:
      upper, lower: int [F], the entities of facts that compare the field; without any, the other fields alone
        say where a missing value is.
      scores: of the values.
      field: its id.
    """
    if len(upper):
        beliefs = _by_field(upper, lower, scores, field, 1).beliefs
        return beliefs.mean, beliefs.width
    return scores.filled[:, field], np.sqrt(scores.variances[:, field])


class FieldAgreement(NamedTuple):
    """How far a field agrees with facts.

    Attributes:
      field: its number.
      sign: 1 if the heads have the higher values, -1 if the lower.
      agreement: the share of the facts with both values observed whose values differ in that direction; equal
        values explain nothing.
      facts: the number of these facts.
    """

    field: int
    sign: int
    agreement: float
    facts: int


def best_fields(heads: np.ndarray, tails: np.ndarray, scores: np.ndarray) -> list[FieldAgreement]:
    """The fields that may explain the facts: the one furthest from chance, and the one that agrees best.

    They differ where another field is almost the compared one and has more values. [] if no field has facts
    with different values. Of fields that agree equally it is the one with the fewest values of entities
    without a fact, which a relation that compares it would have facts about.
    """
    found, surprise, elsewhere = [], [], np.ones(len(scores), bool)
    elsewhere[heads] = elsewhere[tails] = False
    for field in range(scores.shape[1]):
        gap = scores[heads, field] - scores[tails, field]
        gap = gap[np.isfinite(gap)]
        up, down = int((gap > 0).sum()), int((gap < 0).sum())
        if up + down:
            found.append(FieldAgreement(field, 1 if up > down else -1, max(up, down) / len(gap), len(gap)))
            deviations = abs(up - down) / np.sqrt(up + down)  # from a coin
            surprise.append((deviations, -int(np.isfinite(scores[elsewhere, field]).sum())))
    if not found:
        return []
    first = found[max(range(len(found)), key=surprise.__getitem__)]
    enough = [one for one in found if one.facts >= min(ENOUGH_FACTS, first.facts)]
    second = max(enough, key=lambda one: (one.agreement, one.facts))
    return [first] if second == first else [first, second]


def _some(held_out: np.ndarray) -> np.ndarray:
    return held_out[:: max(-(-len(held_out) // MOST_HELD_OUT), 1)]


def _ends(facts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return facts[:, HEAD], facts[:, TAIL]


def _candidate_fields(heads: np.ndarray, tails: np.ndarray, scores: ValueScores) -> list[FieldAgreement]:
    """The fields of `best_fields`, or the first alone if it agrees without exception."""
    fields = best_fields(heads, tails, scores.scores)
    without_exception = [one for one in fields if one.agreement == 1.0 and one.facts >= ENOUGH_FACTS]
    return without_exception[:1] or fields


def _explained(fields: Sequence[FieldAgreement]) -> bool:
    """Whether one of the fields agrees with the facts so well that nothing else is tried."""
    return any(found.agreement >= EXPLAINED and found.facts >= ENOUGH_FACTS for found in fields)


def _candidate_features(heads: np.ndarray, tails: np.ndarray, scores: ValueScores) -> list[Features]:
    """What a regression may be made of, beginning with nothing; as much as there are facts for."""
    fields = np.flatnonzero(scores.observed.any(axis=0))
    candidates = [straight_features(scores, fields[:0])]
    if 0 < len(fields) * FACTS_A_FEATURE <= len(heads):
        candidates += [straight_features(scores, fields), rank_features(scores, fields)]
        curved = curved_features(scores, fields, heads, tails)
        if curved.size * FACTS_A_FEATURE <= len(heads):
            candidates.append(curved)
    return candidates


def _by_field(
    heads: np.ndarray,
    tails: np.ndarray,
    scores: ValueScores,
    field: int,
    sign: int,
    held_out: Ends = NO_FACTS,
) -> RelationOrder:
    """Positions are a field's values; missing ones are expected from the other fields, then from facts."""
    known = scores.observed[:, field]
    positions = sign * np.where(known, scores.scores[:, field], 0.0)
    others = scores.others(field)
    prior = ValuePrior(others.expected, others.expected_variances)
    facts = Comparisons(heads, tails, known, positions, held_out)
    beliefs = propagate(facts, prior, least_noise=NOISE_OF_GAP / max(int(known.sum()), 1))
    weights = np.zeros(scores.scores.shape[1])
    weights[field] = sign
    cost = np.log(2 * scores.scores.shape[1]) + np.log(max(len(heads), 1))
    return RelationOrder(beliefs, weights, float(beliefs.log_evidence - cost))


def _by_remainder(heads: np.ndarray, tails: np.ndarray, features: Features, held_out: Ends) -> RelationOrder:
    """Positions are a regression on the features and a remainder of every entity's own."""
    count = len(features.mean)
    facts = Comparisons(heads, tails, np.zeros(count, bool), np.zeros(count), held_out)
    prior = ValuePrior(features.mean, features.variance)
    rounds = LONG_ROUNDS if features.size else ROUNDS
    beliefs = propagate(facts, prior, least_noise=LEAST_NOISE, rounds=rounds)
    per_coefficient = 0.5 * np.log(max(len(heads), 1)) + np.log(features.choices)
    cost = beliefs.prior.effective_size * per_coefficient
    return RelationOrder(beliefs, _weights(beliefs.prior, features), float(beliefs.log_evidence - cost))


def _weights(prior: ValuePrior, features: Features) -> np.ndarray:
    """Each field's share of the variance of the positions, with the sign of its own slope."""
    if not features.size:
        return np.zeros(features.shares.shape[1])
    slopes = prior.coefficients[np.argmax(features.shares == 1.0, axis=0)]  # of the first that is its own
    squares = prior.coefficients**2
    return np.where(slopes < 0, -1.0, 1.0) * (squares @ features.shares) / (squares.sum() + prior.residual)


@dataclasses.dataclass(frozen=True)
class _Scale:
    """The facts of all relations that compare one field.

    Attributes:
      upper, lower: int [F], their entities.
      held_out: the entities of held-out facts, upper and lower ones.
      signs: place of each relation -> 1 if its heads have the higher values, -1 if the lower.
    """

    upper: np.ndarray
    lower: np.ndarray
    held_out: Ends
    signs: Mapping[int, int]


def _compared(orders: Mapping[int, RelationOrder]) -> dict[int, tuple[int, int]]:
    """Place of each relation that compares one field -> the field, and 1 or -1 as in `_Scale`."""
    fields = {place: order.field for place, order in orders.items()}
    return {
        place: (field, int(orders[place].weights[field]))
        for place, field in fields.items()
        if field is not None
    }


def _scales(
    compared: Mapping[int, tuple[int, int]], facts: Sequence[np.ndarray], held_out: Sequence[np.ndarray]
) -> dict[int, _Scale]:
    """The compared fields of what `_compared` says."""
    scales = {}
    for field in sorted({field for field, _ in compared.values()}):
        signs = {place: sign for place, (other, sign) in compared.items() if other == field}
        scales[field] = _Scale(*_upwards(facts, signs), _upwards(held_out, signs), signs)
    return scales


def _upwards(facts: Sequence[np.ndarray], signs: Mapping[int, int]) -> Ends:
    """The upper and the lower entities of the facts of some relations."""
    ends = [facts[place][:, [HEAD, TAIL] if sign > 0 else [TAIL, HEAD]] for place, sign in signs.items()]
    upper, lower = np.concatenate(ends).T
    return upper, lower


def _by_scales(
    scales: Mapping[int, _Scale], scores: ValueScores, *, also_single: bool = False
) -> dict[int, RelationOrder]:
    """The orders of relations that compare a field together with others, from the facts of all of them."""
    orders = {}
    for field, scale in scales.items():
        if len(scale.signs) == 1 and not also_single:
            continue
        joint = _by_field(scale.upper, scale.lower, scores, field, 1, scale.held_out)
        for place, sign in scale.signs.items():
            beliefs = dataclasses.replace(joint.beliefs, mean=sign * joint.beliefs.mean)
            orders[place] = dataclasses.replace(joint, beliefs=beliefs, weights=sign * joint.weights)
    return orders
