"""Positions from facts, by expectation propagation (Minka 2001; of orders: TrueSkill, Herbrich et al. 2006).

    P(fact "h above t" | z) = f + (1 - 2 f) Phi((z_h - z_t) / s)

s is the noise of the relation's comparisons and f the share of facts that are reversed; both are learned.
Facts that positions are not inferred from (validation's) are asked as well: what later facts are like they
know better.  s is that of both kinds, and f each kind's own: training facts may be dirtier than others.
Every fact sends its head and its tail a Gaussian message (a site): the factor that turns the belief without
the fact (the cavity) into the one with it, in mean and variance.  All sites are updated at once, halfway, and
again until nothing moves.  Φ is log-concave, so at f = 0 no message has a negative precision; at f > 0 a fact
that contradicts the others may have, and is taken to say nothing about widths.
"""

import copy
import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from numcoke_jax.models.order_core.value_prior import ValuePrior

ROUNDS, SWEEPS = 12, 10  # of learning noise and prior; of messages in each round
DAMPING = 0.5
PRIOR_EVERY = 3  # sweeps
MOVED = 1e-3  # in units of the prior's width: sweeps end when no position moves more
NOISE_STEPS = np.array([-1.0, -0.5, -0.2, -0.05, 0.0, 0.05, 0.2, 0.5, 1.0])  # of log s, the best is taken
FIRST_NOISE, FIRST_REVERSED = 0.1, 0.1  # f starts high: from 0, 20 % of reversed facts are taken for noise
LEAST_REVERSED, MOST_REVERSED = 1e-6, 0.49  # a smaller share of reversed facts is none
HELD_OUT_WEIGHT = 3.0  # of a held-out fact, against one under its cavities, when s is learned
PRIOR_FACTS = 20  # held-out facts that the share of the others counts as, where theirs is learned
LEAST_PRECISION = 1e-9
LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


Ends = tuple[np.ndarray, np.ndarray]
NO_FACTS: Ends = np.zeros(0, int), np.zeros(0, int)


@dataclasses.dataclass(frozen=True)
class Comparisons:
    """Facts of one scale, and the positions that values give away.

    Attributes:
      heads, tails: int64 [F]; each head stands above its tail.
      known: bool [N], whether the position is known.
      positions: float64 [N], read where known.
      held_out: heads and tails, int64 [V] each, of facts that say how noisy facts are and nothing else.
    """

    heads: np.ndarray
    tails: np.ndarray
    known: np.ndarray
    positions: np.ndarray
    held_out: Ends = NO_FACTS


@dataclasses.dataclass(frozen=True)
class Beliefs:
    """What facts and values say about the positions.

    Attributes:
      mean, width: float64 [N]; the width (a standard deviation) is 0 where the position is known.
      noise: s.
      reversed_share: f of held-out facts; without any, of the others.
      log_predictive: float64 [F], of each fact given all others: log P(h above t) under the cavities.
      log_evidence: of all facts together, by the approximation's normalising constants; an entity's prior is
        the one that the others' facts leave it.
      prior: the values' part as it was learned.
    """

    mean: np.ndarray
    width: np.ndarray
    noise: float
    reversed_share: float
    log_predictive: np.ndarray
    log_evidence: float
    prior: ValuePrior


class _Noise(NamedTuple):
    """s, f of the facts that positions are inferred from, and f of held-out ones."""

    scale: float
    share: float
    held_out_share: float


class _Normals(NamedTuple):
    """n normal distributions, float64 [n] each; the variance is 0 where a position is known."""

    mean: np.ndarray
    variance: np.ndarray

    def log_probability(self, scale: float, share: float) -> np.ndarray:
        """Of how far heads stand above tails: log P(h above t), float64 [n], at a noise s and a share f."""
        return _log_probability(self.mean / np.sqrt(self.variance + scale**2), share)


@dataclasses.dataclass
class _Sites:
    """Messages of the facts to their heads or to their tails, as natural parameters, float64 [F] each."""

    precision: np.ndarray
    shift: np.ndarray

    def move(self, precision: np.ndarray, shift: np.ndarray) -> None:
        self.precision += DAMPING * (precision - self.precision)
        self.shift += DAMPING * (shift - self.shift)


@dataclasses.dataclass(frozen=True)
class _Messages:
    """Where the messages of a round have come to.

    Attributes:
      mean, precision, shift: float64 [N], of the beliefs; mean = shift / precision where it is not known.
      prior_mean, prior_variance: float64 [N].
      cavities: beliefs about the heads and about the tails of every fact without the fact.
    """

    mean: np.ndarray
    precision: np.ndarray
    shift: np.ndarray
    prior_mean: np.ndarray
    prior_variance: np.ndarray
    cavities: list[_Normals]


def propagate(
    facts: Comparisons,
    prior: ValuePrior,
    *,
    least_noise: float,
    fixed_noise: bool = False,
    rounds: int = ROUNDS,
) -> Beliefs:
    """Beliefs about the positions of one scale; learns noise, share of reversed facts and the prior.

    Each round passes messages, then learns.  The messages approximate, so that long learning may go past the
    best evidence: after `ROUNDS` it goes on only while the evidence grows.

    Args:
      facts: of the scale.
      prior: the values' part to start from.
      least_noise: lower bound of s, far below the gaps between known positions.
      fixed_noise: keep s at `least_noise` and f at 0.
      rounds: at most.
    """
    known, mean = facts.known, np.where(facts.known, facts.positions, 0.0)
    tells = ~(known[facts.heads] & known[facts.tails])  # the others say only how much noise there is
    ends = facts.heads[tells], facts.tails[tells]
    gaps = _Normals(mean[facts.heads] - mean[facts.tails], np.zeros(len(facts.heads)))
    sites = [_Sites(np.zeros(len(end)), np.zeros(len(end))) for end in ends]
    noise = _Noise(FIRST_NOISE, FIRST_REVERSED, FIRST_REVERSED)
    if fixed_noise:
        noise = _Noise(least_noise, 0.0, 0.0)
    beliefs, settled = None, False
    for count in range(rounds):
        before, used = mean, copy.copy(prior)
        found = _pass_messages(facts, ends, sites, used, mean, noise)
        prior, mean = copy.copy(used), found.mean
        prior.learn(known)
        variance = np.where(known, 0.0, 1.0 / found.precision)
        heads, tails = found.cavities
        gaps.mean[tells] = heads.mean - tails.mean
        gaps.variance[tells] = heads.variance + tails.variance
        if not fixed_noise:
            above, below = facts.held_out
            held_out = _Normals(mean[above] - mean[below], variance[above] + variance[below])
            noise, settled = _learned_noise(gaps, held_out, noise, least_noise)
        log_predictive = gaps.log_probability(noise.scale, noise.share)
        evidence = float(log_predictive.sum()) + _evidence_of_positions(known, ends, found)
        if count >= ROUNDS and beliefs is not None and evidence <= beliefs.log_evidence:
            break
        beliefs = Beliefs(
            mean, np.sqrt(variance), noise.scale, noise.held_out_share, log_predictive, evidence, used
        )
        if settled and np.abs(mean - before).max(initial=0.0) < 10 * MOVED:
            break
    assert beliefs is not None
    return beliefs


def _pass_messages(
    facts: Comparisons,
    ends: tuple[np.ndarray, np.ndarray],
    sites: list[_Sites],
    prior: ValuePrior,
    mean: np.ndarray,
    noise: _Noise,
) -> _Messages:
    """Sweeps until nothing moves; changes the sites."""
    for sweep in range(SWEEPS):
        precision, shift = _sums(ends, sites, len(mean))
        if sweep % PRIOR_EVERY == 0:
            prior_mean, prior_variance = _prior(facts, prior, precision, shift)
        before = mean
        precision += 1.0 / prior_variance
        shift += prior_mean / prior_variance
        mean = np.where(facts.known, facts.positions, shift / precision)
        cavities = [
            _cavities(facts, end, site, precision, shift) for end, site in zip(ends, sites, strict=True)
        ]
        _update(sites, cavities, noise.scale, noise.share)
        if sweep and np.abs(mean - before).max(initial=0.0) < MOVED:
            break
    return _Messages(mean, precision, shift, prior_mean, prior_variance, cavities)


def _evidence_of_positions(known: np.ndarray, ends: tuple[np.ndarray, np.ndarray], found: _Messages) -> float:
    """What the log evidence has besides the facts' predictive probabilities."""
    beliefs = _log_normaliser(found.precision, found.shift)
    evidence = np.sum((beliefs - _log_prior(found.prior_mean, found.prior_variance))[~known])
    for end, cavity in zip(ends, found.cavities, strict=True):
        free = ~known[end]
        evidence += np.sum(_log_prior(cavity.mean[free], cavity.variance[free]) - beliefs[end[free]])
    return float(evidence)


def _log_normaliser(precision: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """log of the integral of exp(-precision z^2 / 2 + shift z), without its constant."""
    return shift**2 / (2.0 * precision) - 0.5 * np.log(precision)


def _log_prior(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The same of a normal distribution."""
    return _log_normaliser(1.0 / variance, mean / variance)


def _sums(
    ends: tuple[np.ndarray, np.ndarray], sites: list[_Sites], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Precision and shift that the facts give every entity, float64 [N] each."""
    (heads, tails), (of_heads, of_tails) = ends, sites

    def summed(at_head: np.ndarray, at_tail: np.ndarray) -> np.ndarray:
        # float64 also of no facts, of which bincount makes integers
        return np.bincount(heads, at_head, count) + np.bincount(tails, at_tail, count) + np.zeros(count)

    return summed(of_heads.precision, of_tails.precision), summed(of_heads.shift, of_tails.shift)


def _prior(
    facts: Comparisons, prior: ValuePrior, precision: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The values' message to every position, which learns from what the facts say about the others."""
    told = np.divide(shift, precision, out=np.zeros_like(shift), where=precision > 0)
    targets = np.where(facts.known, facts.positions, told)
    return prior.predict(targets, np.where(facts.known, np.inf, precision))


def _cavities(
    facts: Comparisons, end: np.ndarray, site: _Sites, total: np.ndarray, natural: np.ndarray
) -> _Normals:
    known = facts.known[end]
    precision = np.maximum(total[end] - site.precision, LEAST_PRECISION)
    mean = np.where(known, facts.positions[end], (natural[end] - site.shift) / precision)
    return _Normals(mean, np.where(known, 0.0, 1.0 / precision))


def _log_probability(z: np.ndarray, share: float) -> np.ndarray:
    """log(f + (1 - 2 f) Phi(z))."""
    if not share:
        return log_ndtr(z)
    return np.logaddexp(np.log(share), np.log1p(-2.0 * share) + log_ndtr(z))


def _update(sites: list[_Sites], cavities: list[_Normals], noise: float, share: float) -> None:
    """Match mean and variance of (cavity x fact) for both ends of every fact."""
    heads, tails = cavities
    variance = heads.variance + tails.variance + noise**2
    deviation = np.sqrt(variance)
    z = (heads.mean - tails.mean) / deviation
    # d log P / dz, and minus its derivative: how far the mean moves and how much the variance shrinks
    slope = np.exp(np.log1p(-2.0 * share) - 0.5 * z * z - LOG_SQRT_2PI - _log_probability(z, share))
    shrink = np.clip(slope * (slope + z), 0.0, 1.0 - 1e-9) / variance
    for site, cavity, sign in zip(sites, cavities, (1.0, -1.0), strict=True):
        free = cavity.variance > 0
        precision = np.where(free, shrink / (1.0 - cavity.variance * shrink), 0.0)
        mean = cavity.mean + sign * cavity.variance * slope / deviation
        inverse = np.divide(1.0, cavity.variance, out=np.zeros_like(mean), where=free)
        site.move(precision, np.where(free, mean * (precision + inverse) - cavity.mean * inverse, 0.0))


def _learned_noise(facts: _Normals, held_out: _Normals, noise: _Noise, least: float) -> tuple[_Noise, bool]:
    """Better s and f of each kind for facts with these gaps, and whether they have settled.

    Those of facts that positions are inferred from are their cavities'.
    """
    steps = np.maximum(np.exp(np.log(noise.scale) + NOISE_STEPS), least)
    fits = [facts.log_probability(scale, noise.share).sum() for scale in steps]
    if len(held_out.mean):
        fits = [
            fit + HELD_OUT_WEIGHT * held_out.log_probability(scale, noise.held_out_share).sum()
            for fit, scale in zip(fits, steps, strict=True)
        ]
    scale = float(steps[int(np.argmax(fits))])
    share = held_out_share = _learned_share(facts, scale, noise.share)
    if len(held_out.mean):
        held_out_share = _learned_share(held_out, scale, noise.held_out_share, (PRIOR_FACTS, share))
    moved = abs(share - noise.share), abs(held_out_share - noise.held_out_share)
    settled = abs(np.log(scale / noise.scale)) < 0.06 and all(
        change < 0.1 * before + 1e-9 for change, before in zip(moved, noise[1:], strict=True)
    )
    return _Noise(scale, share, held_out_share), bool(settled)


def _learned_share(
    gaps: _Normals, scale: float, share: float, prior: tuple[float, float] = (0, 0.0)
) -> float:
    """A better f: three steps of EM, in which a fact is a coin toss with probability 2 f.

    `prior` is a number of further facts, and their f.
    """
    further, theirs = prior
    for _ in range(3 if share else 0):
        tossed = float((share / np.exp(gaps.log_probability(scale, share))).sum()) / 2.0
        share = min((tossed + further * theirs) / (len(gaps.mean) + 1 + further), MOST_REVERSED)
        if share < LEAST_REVERSED:
            return 0.0
    return share
