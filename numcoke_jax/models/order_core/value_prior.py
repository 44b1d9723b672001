"""What the values say about positions before any fact: a Bayesian linear regression on an entity's scores.

    z_i = phi_i . b + u_i        u_i ~ N(0, t^2 + v_i . b^2),  b_d ~ N(0, a_d)

The variances a_d are learned (automatic relevance determination: MacKay 1992, Tipping 2001), so that a field
that does not help is switched off and false values do no harm.  The regression learns from what is known of
the positions, each with its precision; an entity's own prior is the prediction from all *other* entities
(leave-one-out, exact for linear regression), as in belief propagation.  A feature that is only expected
itself, because its value is missing, has a variance v: an entity without any value is known as badly as the
field is wide, however well the fields agree.
"""

import numpy as np
from jaxtyping import Float

LARGEST_LEVERAGE = 1.0 - 1e-9
VARIANCES = (1e-8, 1e6)  # of a coefficient
RESIDUALS = (1e-4, 4.0)  # t^2, where it is learned


class ValuePrior:
    """The regression of one relation's positions.

    Attributes:
      features: float64 [N, D], phi.
      variances: float64 [N, D], v, 0 where a feature is known; None: all are known.
      residual: t^2.
      coefficients: float64 [D], the posterior mean of b; 0 before `predict`.
      relevance: float64 [D], a.
    """

    def __init__(
        self,
        features: Float[np.ndarray, "N D"],
        variances: Float[np.ndarray, "N D"] | None = None,
        residual: float = 1.0,
    ) -> None:
        self.features, self.residual = features, residual
        self.variances = np.zeros(features.shape) if variances is None else variances
        size = features.shape[1]
        self.coefficients = np.zeros(size)
        self.relevance = np.full(size, 1.0 / max(size, 1))
        self._covariance = np.diag(self.relevance)
        self._targets = self._fitted = self._uncertain = self._expected = np.zeros(len(features))

    def predict(
        self, targets: Float[np.ndarray, " N"], precisions: Float[np.ndarray, " N"]
    ) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """Mean and variance of every position, from the other entities' targets.

        Args:
          targets: what is known of the positions; anything where the precision is 0.
          precisions: of the targets; inf for a known position, 0 for nothing known.
        """
        if not self.features.shape[1]:
            return np.zeros(len(targets)), np.full(len(targets), self.residual)
        self._expected = self.variances @ self.coefficients**2
        with np.errstate(divide="ignore"):
            weights = 1.0 / (self.residual + self._expected + 1.0 / precisions)
        targets = np.where(weights > 0, targets, 0.0)
        weighted = self.features * weights[:, None]
        self._covariance = np.linalg.inv(weighted.T @ self.features + np.diag(1.0 / self.relevance))
        self.coefficients = self._covariance @ (weighted.T @ targets)
        self._targets, self._fitted = targets, self.features @ self.coefficients
        self._uncertain = np.einsum("nd,de,ne->n", self.features, self._covariance, self.features)
        leverage = np.minimum(weights * self._uncertain, LARGEST_LEVERAGE)
        mean = (self._fitted - leverage * targets) / (1.0 - leverage)
        self._expected = self.variances @ self.coefficients**2
        return mean, self.residual + self._expected + self._uncertain / (1.0 - leverage)

    def learn(self, known: np.ndarray) -> None:
        """One EM step of a, and of t^2 if the positions of some entities (`known`, bool [N]) are known."""
        if not self.features.shape[1]:
            return
        moments = self.coefficients**2 + np.diag(self._covariance)
        self.relevance = np.clip(moments, *VARIANCES)
        if known.sum() > 2:
            squares = ((self._targets - self._fitted) ** 2 + self._uncertain)[known]
            # Of u + v . b^2, the part that is u's: to take v . b^2 off instead may leave nothing, and a
            # missing feature would make those sure whose features are all known.
            part = self.residual / (self.residual + self._expected[known])
            self.residual = float(
                np.clip((part**2 * squares + part * self._expected[known]).mean(), *RESIDUALS)
            )

    @property
    def effective_size(self) -> float:
        """How many coefficients the data determine, from 0 to D (MacKay's gamma)."""
        return float(np.sum(1.0 - np.diag(self._covariance) / self.relevance).clip(0.0))
