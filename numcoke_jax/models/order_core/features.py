"""What a regression of positions may be made of: functions of an entity's values, as far as these are known.

Values come as normal scores y.  Besides these a regression may be straight or curved in ranks:

    u = sqrt(12) (Phi(y) - 1/2)          s = (u^2 - 1) / sqrt(4/5)          u_i u_j

all with mean 0 and variance 1 where fields are independent.  Sums of ranks are straight, distances
(u_i - u_j)^2 need the product.  Of a score that is only expected, as N(m, v), a feature has the mean and the
variance (by Gauss-Hermite quadrature), with different scores taken as independent.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr

from numcoke_jax.models.order_core.value_scores import ValueScores

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
PRODUCTS_A_FIELD = 2  # at most, those that agree best with the facts: all pairs would be too many
UNIT_DEVIATION = np.sqrt(12.0)  # of a uniform distribution from 0 to 1
SQUARE_DEVIATION = np.sqrt(0.8)  # of the square of a uniform distribution with mean 0 and variance 1


@dataclasses.dataclass(frozen=True)
class Features:
    """D features of N entities.

    Attributes:
      mean, variance: float64 [N, D]; the variance is 0 where all values behind a feature are observed.
      shares: float64 [D, M], how much of a feature is each field's; 1 together.
      choices: how many features these were chosen from, at least 1.
    """

    mean: Float[np.ndarray, "N D"]
    variance: Float[np.ndarray, "N D"]
    shares: Float[np.ndarray, "D M"]
    choices: int

    @property
    def size(self) -> int:
        """D."""
        return self.mean.shape[1]


def straight_features(scores: ValueScores, fields: Int[np.ndarray, " K"]) -> Features:
    """The scores of some fields; of none, for positions that no value explains."""
    shares = np.eye(scores.scores.shape[1])[fields]
    return Features(
        scores.expected[:, fields], scores.expected_variances[:, fields], shares, max(len(fields), 1)
    )


def rank_features(scores: ValueScores, fields: Int[np.ndarray, " K"]) -> Features:
    """Their ranks u."""
    mean, variance = _moments(scores, fields, _ranks)
    return Features(mean, variance, np.eye(scores.scores.shape[1])[fields], max(len(fields), 1))


def curved_features(
    scores: ValueScores,
    fields: Int[np.ndarray, " K"],
    heads: Int[np.ndarray, " F"],
    tails: Int[np.ndarray, " F"],
) -> Features:
    """Their ranks, squares of these, and the products that agree best with facts (heads above tails)."""
    mean, variance = _moments(scores, fields, _ranks)
    square_mean, square_variance = _moments(scores, fields, _squares)
    one, other = np.triu_indices(len(fields), k=1)
    agreement = [_agreement(mean[:, i] * mean[:, j], heads, tails) for i, j in zip(one, other, strict=True)]
    best = np.sort(np.argsort(-np.array(agreement), kind="stable")[: PRODUCTS_A_FIELD * len(fields)])
    one, other = one[best], other[best]
    of_one, of_other = variance[:, one], variance[:, other]
    product_variance = of_one * of_other + of_one * mean[:, other] ** 2 + of_other * mean[:, one] ** 2
    shares = np.eye(scores.scores.shape[1])[fields]
    return Features(
        np.concatenate([mean, square_mean, mean[:, one] * mean[:, other]], axis=1),
        np.concatenate([variance, square_variance, product_variance], axis=1),
        np.concatenate([shares, shares, (shares[one] + shares[other]) / 2.0]),
        2 * len(fields) + len(agreement),
    )


def _ranks(scores: np.ndarray) -> np.ndarray:
    return UNIT_DEVIATION * (ndtr(scores) - 0.5)


def _squares(scores: np.ndarray) -> np.ndarray:
    return (_ranks(scores) ** 2 - 1.0) / SQUARE_DEVIATION


def _moments(
    scores: ValueScores, fields: np.ndarray, feature: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance, [N, K] each, of a function of each score."""
    expected, variances = scores.expected[:, fields], scores.expected_variances[:, fields]
    mean, variance = feature(expected), np.zeros(expected.shape)
    unknown = variances > 0
    width = np.sqrt(variances[unknown])
    at_nodes = feature(expected[unknown][:, None] + width[:, None] * NODES)
    mean[unknown] = at_nodes @ WEIGHTS
    variance[unknown] = (at_nodes - mean[unknown][:, None]) ** 2 @ WEIGHTS
    return mean, variance


def _agreement(feature: np.ndarray, heads: np.ndarray, tails: np.ndarray) -> float:
    """How far facts are from chance by one feature, [N], in chance's standard deviations."""
    gap = feature[heads] - feature[tails]
    up, down = int((gap > 0).sum()), int((gap < 0).sum())
    return abs(up - down) / np.sqrt(max(up + down, 1))
