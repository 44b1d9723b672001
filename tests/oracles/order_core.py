"""The order core from its definitions: integrals on a grid, refitted regressions, SciPy's distributions."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

Facts = Sequence[tuple[int, int]]


def posterior(
    facts: Facts,
    prior: Sequence[tuple[float, float]],
    *,
    noise: float,
    reversed_share: float = 0.0,
    points: int = 61,
    reach: float = 5.0,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and width of every position given the facts, and log P(facts): sums over a grid of all positions.

    Args:
      facts: (head, tail), each head said to stand above its tail.
      prior: mean and standard deviation of each position; 0 where it is known.
      noise: s.
      reversed_share: f.
      points: of the grid, for every unknown position.
      reach: of the grid, in standard deviations of the prior.
    """
    grid = np.linspace(-reach, reach, points)
    standard = stats.norm.pdf(grid) / stats.norm.pdf(grid).sum()
    unknown = [i for i, (_, width) in enumerate(prior) if width]
    axes = np.meshgrid(*[grid] * len(unknown), indexing="ij")
    weights = np.ones([points] * len(unknown))
    for part in np.meshgrid(*[standard] * len(unknown), indexing="ij"):
        weights = weights * part
    z: list = [mean for mean, _ in prior]
    for axis, i in zip(axes, unknown, strict=True):
        z[i] = prior[i][0] + prior[i][1] * axis
    for head, tail in facts:
        above = stats.norm.cdf(z[head] - z[tail], scale=noise)
        weights = weights * (reversed_share + (1.0 - 2.0 * reversed_share) * above)
    evidence = float(weights.sum())
    mean = np.array([(weights * position).sum() / evidence for position in z])
    squares = np.array([(weights * position**2).sum() / evidence for position in z])
    return mean, np.sqrt(np.maximum(squares - mean**2, 0.0)), float(np.log(evidence))


def regression(
    features: np.ndarray,
    targets: np.ndarray,
    precisions: np.ndarray,
    relevance: np.ndarray,
    residual: float,
    row: int,
) -> tuple[float, float]:
    """Mean and variance of z_row given all *other* targets: a joint Gaussian conditioned in function space.

    z = Phi b + u has the covariance Phi diag(a) Phi' + t^2 I, and the target of i is z_i plus an error of
    variance 1 / precision_i.
    """
    covariance = (features * relevance) @ features.T + residual * np.eye(len(features))
    others = [i for i in range(len(features)) if i != row and precisions[i] > 0]
    noise = [0.0 if np.isinf(precisions[i]) else 1.0 / precisions[i] for i in others]
    seen = covariance[np.ix_(others, others)] + np.diag(noise)
    across = covariance[row, others]
    gain = np.linalg.lstsq(seen, across, rcond=None)[0] if others else np.zeros(0)
    return float(gain @ targets[others]), float(covariance[row, row] - gain @ across)


def coefficient_moments(
    features: np.ndarray, targets: np.ndarray, precisions: np.ndarray, relevance: np.ndarray, residual: float
) -> tuple[np.ndarray, np.ndarray]:
    """E[b_d^2] of every coefficient, and E[(z_i - phi_i . b)^2] of every target, given all targets.

    By conditioning the joint normal distribution of coefficients and targets.
    """
    with np.errstate(divide="ignore"):
        noise = 1.0 / precisions
    seen = np.isfinite(noise)
    covariance = (features[seen] * relevance) @ features[seen].T
    gain = (relevance[:, None] * features[seen].T) @ np.linalg.inv(
        covariance + np.diag(residual + noise[seen])
    )
    mean = gain @ targets[seen]
    spread = np.diag(relevance) - gain @ (features[seen] * relevance)
    errors = (targets - features @ mean) ** 2 + np.diag(features @ spread @ features.T)
    return mean**2 + np.diag(spread), errors


def expected_score(correlations: np.ndarray, row: np.ndarray, field: int) -> tuple[float, float]:
    """Mean and variance of one score given the others that are not NaN, by the precision matrix."""
    kept = [field, *np.flatnonzero(~np.isnan(row) & (np.arange(len(row)) != field))]
    precision = np.linalg.inv(correlations[np.ix_(kept, kept)])
    return float(-precision[0, 1:] @ row[kept[1:]] / precision[0, 0]), float(1.0 / precision[0, 0])


def log_odds(
    mean: np.ndarray, width: np.ndarray, factor: np.ndarray, noise: float, reversed_share: float, head: int
) -> np.ndarray:
    """log(p q / (1 - p q)) of every tail, in float64 without cancellation; q = factor [N]."""
    z = (mean[head] - mean) / np.sqrt(width[head] ** 2 + width**2 + noise**2)
    with np.errstate(divide="ignore"):
        parts = np.log([reversed_share, 1.0 - 2.0 * reversed_share])
        above = np.logaddexp(parts[0], parts[1] + stats.norm.logcdf(z))
        below = np.logaddexp(parts[0], parts[1] + stats.norm.logsf(z))
        return above + np.log(factor) - np.logaddexp(below, above + np.log1p(-factor))
