"""Values as normal scores, and the expectation of a missing one from the entity's other values.

A field's observed values become y = Phi^-1(quantile), so that their order is kept and their distribution is
standard normal.  Fields are then taken as jointly normal (a Gaussian copula); its correlations are fitted by
EM over the observed cells (Dempster, Laird and Rubin 1977), shrunk towards none, because there may be few
entities.  A missing score is expected where the others of its row put it.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

EM_STEPS = 20
MOST_ROWS = (
    4000  # entities that the correlations are fitted to, evenly spaced: more would not change them much
)
SHRINKAGE = 0.05  # of the correlations towards 0
NUMBERS_AT_ONCE = 2**22  # in the matrices of the rows that are worked on together


@dataclasses.dataclass(frozen=True)
class ValueScores:
    """Normal scores of N entities in M fields.

    Attributes:
      scores: float64 [N, M]; NaN where the value is missing.
      correlations: float64 [M, M], of the fields.
      filled: float64 [N, M]; the expected score where the value is missing.
      variances: float64 [N, M]; of a missing score given the others of its row, 0 where observed.
      told_mean, told_variances: float64 [N, M], what facts say of some missing scores (`with_told`); NaN of
        others.
    """

    scores: np.ndarray
    correlations: np.ndarray
    filled: np.ndarray
    variances: np.ndarray
    told_mean: np.ndarray
    told_variances: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, correlations: np.ndarray) -> "ValueScores":
        """Scores, float64 [N, M] with NaN where missing, of fields with these correlations."""
        parts = [_conditional(rows, correlations) for rows in _in_pieces(scores)]
        filled, variances, _ = (np.concatenate(part) for part in zip(*parts, strict=True))
        untold = np.full(scores.shape, np.nan)
        return cls(scores, correlations, filled, variances, untold, untold)

    @property
    def observed(self) -> np.ndarray:
        """Bool [N, M]."""
        return ~np.isnan(self.scores)

    def others(self, field: int) -> "ValueScores":
        """The other fields alone: what is expected of an entity's values does not look at this one."""
        rest = np.arange(self.scores.shape[1]) != field
        found = ValueScores.of(self.scores[:, rest], self.correlations[np.ix_(rest, rest)])
        told = self.told_mean[:, rest], self.told_variances[:, rest]
        return dataclasses.replace(found, told_mean=told[0], told_variances=told[1])

    @property
    def told(self) -> np.ndarray:
        """Bool [N, M]."""
        return ~np.isnan(self.told_mean)

    @property
    def expected(self) -> np.ndarray:
        """Float64 [N, M]: the scores, or what facts say of them, or what the others of the row say."""
        return np.where(self.told, self.told_mean, self.filled)

    @property
    def expected_variances(self) -> np.ndarray:
        """Float64 [N, M], of `expected`."""
        return np.where(self.told, self.told_variances, self.variances)

    def with_told(
        self,
        field: int,
        told: Bool[np.ndarray, " N"],
        mean: Float[np.ndarray, " N"],
        width: Float[np.ndarray, " N"],
    ) -> "ValueScores":
        """The same with a mean and a width (a standard deviation) for some missing scores of a field."""
        column = np.arange(self.scores.shape[1]) == field
        cells = told[:, None] & column & ~self.observed
        return dataclasses.replace(
            self,
            told_mean=np.where(cells, mean[:, None], self.told_mean),
            told_variances=np.where(cells, width[:, None] ** 2, self.told_variances),
        )


def value_scores(quantiles: Float[np.ndarray, "N M"], observed: Bool[np.ndarray, "N M"]) -> ValueScores:
    """The scores of values given as quantiles in (0, 1), read only where `observed`."""
    scores = np.where(observed, ndtri(np.where(observed, quantiles, 0.5)), np.nan)
    return ValueScores.of(scores, fitted_correlations(scores))


def fitted_correlations(scores: Float[np.ndarray, "N M"]) -> Float[np.ndarray, "M M"]:
    """The correlations of scores with NaN where missing, by EM."""
    fields = scores.shape[1]
    rows = scores[np.linspace(0, len(scores) - 1, min(len(scores), MOST_ROWS)).astype(int)]
    correlations = np.eye(fields)
    for _ in range(EM_STEPS if fields > 1 else 0):
        moments = np.zeros((fields, fields))
        for piece in _in_pieces(rows):
            filled, _, left = _conditional(piece, correlations)
            unknown = np.isnan(piece)
            moments += filled.T @ filled + np.einsum("nij,ni,nj->ij", left, unknown, unknown, optimize=True)
        moments = (1.0 - SHRINKAGE) * moments / len(rows) + SHRINKAGE * np.eye(fields)
        deviations = np.sqrt(np.diag(moments))
        correlations = moments / deviations / deviations[:, None]
    return correlations


def _in_pieces(scores: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of scores, as many at a time as their matrices fit into memory; at least one piece."""
    size = max(NUMBERS_AT_ONCE // max(scores.shape[1], 1) ** 2, 1)
    for begin in range(0, max(len(scores), 1), size):
        yield scores[begin : begin + size]


def _conditional(scores: np.ndarray, correlations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores [n, M] with expectations in place of missing ones, variances of these, covariances [n, M, M].

    With K the known fields of a row, S the correlations and P_K = inverse of S_KK, filled up with zeros: the
    expectation of the row is S P_K y, its covariance S - S P_K S.
    """
    known = ~np.isnan(scores)
    both = known[:, :, None] & known[:, None, :]
    alone = np.eye(scores.shape[1], dtype=bool) & ~both  # an unknown field stands apart, which inverts to 1
    inverse = np.linalg.inv(np.where(both, correlations, 0.0) + alone)
    slopes = correlations @ np.where(both, inverse, 0.0)
    expected = np.einsum("nij,nj->ni", slopes, np.where(known, scores, 0.0))
    left = correlations - slopes @ correlations
    variances = np.where(known, 0.0, np.diagonal(left, axis1=1, axis2=2).clip(0.0))
    return np.where(known, scores, expected), variances, left
