"""Which order each comparative relation follows, and every entity's place in it.

A relation may compare one field (positions are the field's values, and a missing one is inferred), something
that the fields say partly (a regression on the values, bent or not, and a remainder of every entity's own) or
nothing of the sort (the remainder alone).  Each of these is fitted, and the evidence chooses:

    log P(all F facts) - effective coefficients x (log F / 2 + log D)      - log 2 M - log F for a field

where an entity's prior is learned from the others.  A regression on D features pays for the choice among
them too (the extended BIC of Chen and Chen 2008); a field costs its choice among M in two directions, its
noise and its share of reversed facts.  So values count only if they explain the facts: shuffled ones do not,
even if the best of many agree with a few facts by chance.  Relations that compare the same field share its
positions.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, TAIL
from numcoke_jax.models.order_core.membership import memberships
from numcoke_jax.models.order_core.propagation import Beliefs, Comparisons, propagate
from numcoke_jax.models.order_core.reach import reach
from numcoke_jax.models.order_core.value_prior import ValuePrior
from numcoke_jax.models.order_core.value_scores import ValueScores

EXPLAINED = 0.98  # share of comparable facts that agree with a field: above, no other explanation is tried
ENOUGH_FACTS = 20  # comparable facts for that
FACTS_A_FEATURE = 3  # with fewer, no regression is tried: an entity's facts would explain themselves
NOISE_OF_GAP = 0.2  # least noise of a field's scale, in mean gaps between neighbouring quantiles
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
      noise, reversed_share: float64 [C].
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


def fit_orders(train: np.ndarray, relations: Sequence[int], scores: ValueScores) -> OrderFit:
    """The orders that the training facts (int32 [n, 3]) of some relations follow."""
    facts = [train[train[:, RELATION] == relation] for relation in relations]
    orders = [fit_order(part[:, HEAD], part[:, TAIL], scores) for part in facts]
    for field in {order.field for order in orders} - {None}:
        sharing = [place for place, order in enumerate(orders) if order.field == field]
        if len(sharing) > 1:
            joint = _shared_scale(field, [facts[place] for place in sharing], sharing, orders, scores)
            orders = [joint.get(place, order) for place, order in enumerate(orders)]
    beliefs = [order.beliefs for order in orders]
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
        weights=np.stack([order.weights for order in orders]),
    )


def fit_order(heads: np.ndarray, tails: np.ndarray, scores: ValueScores) -> RelationOrder:
    """The order that facts (heads above tails, int [F] each) follow."""
    candidates = []
    field, sign, agreement, count = best_field(heads, tails, scores.scores)
    if count:
        candidates.append(_by_field(heads, tails, scores, field, sign))
        if agreement >= EXPLAINED and count >= ENOUGH_FACTS:
            return candidates[0]
    candidates.append(_by_remainder(heads, tails, scores, scores.filled[:, :0]))
    straight = scores.filled[:, scores.observed.any(axis=0)]
    if 0 < straight.shape[1] * FACTS_A_FEATURE <= len(heads):
        bent = np.concatenate([straight, (straight**2 - 1.0) / np.sqrt(2.0)], axis=1)
        candidates += [_by_remainder(heads, tails, scores, features) for features in (straight, bent)]
    return max(candidates, key=lambda order: order.evidence)


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


def best_field(heads: np.ndarray, tails: np.ndarray, scores: np.ndarray) -> tuple[int, int, float, int]:
    """The field that explains the facts best, up or down.

    Returns:
      Its number, 1 or -1, the share of the facts with both values observed whose values differ in that
      direction (equal values explain nothing), and the number of these facts; (0, 1, 0.0, 0) if no field has
      facts with different values.
    """
    best, strength = (0, 1, 0.0, 0), 0.0
    for field in range(scores.shape[1]):
        gap = scores[heads, field] - scores[tails, field]
        gap = gap[np.isfinite(gap)]
        up, down = int((gap > 0).sum()), int((gap < 0).sum())
        surprise = abs(up - down) / np.sqrt(max(up + down, 1))  # standard deviations from a coin
        if surprise > strength:
            best = field, 1 if up > down else -1, max(up, down) / len(gap), len(gap)
            strength = surprise
    return best


def _by_field(
    heads: np.ndarray, tails: np.ndarray, scores: ValueScores, field: int, sign: int
) -> RelationOrder:
    """Positions are a field's values; missing ones are expected from the other fields, then from facts."""
    known = scores.observed[:, field]
    positions = sign * np.where(known, scores.scores[:, field], 0.0)
    others = scores.others(field)
    prior = ValuePrior(others.filled, others.variances)
    facts = Comparisons(heads, tails, known, positions)
    beliefs = propagate(facts, prior, least_noise=NOISE_OF_GAP / max(int(known.sum()), 1))
    weights = np.zeros(scores.scores.shape[1])
    weights[field] = sign
    cost = np.log(2 * scores.scores.shape[1]) + np.log(max(len(heads), 1))
    return RelationOrder(beliefs, weights, float(beliefs.log_evidence - cost))


def _by_remainder(
    heads: np.ndarray, tails: np.ndarray, scores: ValueScores, features: np.ndarray
) -> RelationOrder:
    """Positions are a regression on the features and a remainder of every entity's own."""
    count, prior = len(scores.scores), ValuePrior(features)
    facts = Comparisons(heads, tails, np.zeros(count, bool), np.zeros(count))
    beliefs = propagate(facts, prior, least_noise=LEAST_NOISE)
    per_coefficient = 0.5 * np.log(max(len(heads), 1)) + np.log(max(features.shape[1], 1))
    cost = prior.effective_size * per_coefficient
    return RelationOrder(beliefs, _weights(prior, scores), float(beliefs.log_evidence - cost))


def _weights(prior: ValuePrior, scores: ValueScores) -> np.ndarray:
    """Each field's share of the variance of the positions, with the sign of its slope."""
    weights, seen = np.zeros(scores.scores.shape[1]), scores.observed.any(axis=0)
    if len(prior.coefficients):
        per_field = prior.coefficients.reshape(-1, int(seen.sum()))  # straight, then bent
        squares = (per_field**2).sum(axis=0)
        weights[seen] = np.where(per_field[0] < 0, -1.0, 1.0) * squares / (squares.sum() + prior.residual)
    return weights


def _shared_scale(
    field: int | None,
    facts: Sequence[np.ndarray],
    sharing: Sequence[int],
    orders: Sequence[RelationOrder],
    scores: ValueScores,
) -> dict[int, RelationOrder]:
    """The orders of relations that compare one field, from the facts of all of them."""
    assert field is not None
    signs = [int(orders[place].weights[field]) for place in sharing]
    upper = [part[:, HEAD if sign > 0 else TAIL] for part, sign in zip(facts, signs, strict=True)]
    lower = [part[:, TAIL if sign > 0 else HEAD] for part, sign in zip(facts, signs, strict=True)]
    joint = _by_field(np.concatenate(upper), np.concatenate(lower), scores, field, 1)
    return {
        place: dataclasses.replace(
            joint,
            beliefs=dataclasses.replace(joint.beliefs, mean=sign * joint.beliefs.mean),
            weights=sign * joint.weights,
        )
        for place, sign in zip(sharing, signs, strict=True)
    }
