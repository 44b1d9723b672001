"""Values as normal scores, and the expectation of a missing one from the entity's other values.

A field's observed values become y = Phi^-1(quantile), so that their order is kept and their distribution is
standard normal.  Fields are then taken as jointly normal (a Gaussian copula); its correlations are fitted by
EM over the observed cells (Dempster, Laird and Rubin 1977), shrunk towards none, because there may be few
entities.  A missing score is expected where the others of its row put it.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

EM_STEPS = 20
SHRINKAGE = 0.05  # of the correlations towards 0


@dataclasses.dataclass(frozen=True)
class ValueScores:
    """Normal scores of N entities in M fields.

    Attributes:
      scores: float64 [N, M]; NaN where the value is missing.
      filled: float64 [N, M]; the expected score where the value is missing.
      variances: float64 [N, M]; of a missing score given the others of its row, 0 where observed.
    """

    scores: np.ndarray
    filled: np.ndarray
    variances: np.ndarray

    @property
    def observed(self) -> np.ndarray:
        """Bool [N, M]."""
        return ~np.isnan(self.scores)

    def others(self, field: int) -> "ValueScores":
        """The other fields alone: what is expected of them does not look at this one."""
        scores = np.delete(self.scores, field, axis=1)
        return ValueScores(scores, *_conditional(scores))


def value_scores(quantiles: Float[np.ndarray, "N M"], observed: Bool[np.ndarray, "N M"]) -> ValueScores:
    """The scores of values given as quantiles in (0, 1), read only where `observed`."""
    scores = np.where(observed, ndtri(np.where(observed, quantiles, 0.5)), np.nan)
    return ValueScores(scores, *_conditional(scores))


def _conditional(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores with expectations in place of missing ones, and the variances of these."""
    count, fields = scores.shape
    filled, variances = np.nan_to_num(scores), np.zeros(scores.shape)
    if not np.isnan(scores).any():
        return filled, variances
    patterns, which = np.unique(~np.isnan(scores), axis=0, return_inverse=True)
    rows_of = [np.flatnonzero(which.ravel() == number) for number in range(len(patterns))]
    correlations = np.eye(fields)
    for _ in range(EM_STEPS):
        spread = np.zeros((fields, fields))  # what the expectations leave out of the second moments
        for pattern, rows in zip(patterns, rows_of, strict=True):
            known, unknown = np.flatnonzero(pattern), np.flatnonzero(~pattern)
            slopes = np.linalg.solve(correlations[np.ix_(known, known)], correlations[np.ix_(known, unknown)])
            filled[np.ix_(rows, unknown)] = scores[np.ix_(rows, known)] @ slopes
            left = correlations[np.ix_(unknown, unknown)] - correlations[np.ix_(unknown, known)] @ slopes
            variances[np.ix_(rows, unknown)] = np.diag(left)
            spread[np.ix_(unknown, unknown)] += len(rows) * left
        moments = (filled.T @ filled + spread) / count
        moments = (1.0 - SHRINKAGE) * moments + SHRINKAGE * np.eye(fields)
        deviations = np.sqrt(np.diag(moments))
        correlations = moments / deviations / deviations[:, None]
    return filled, variances
