"""Reference: one strength for each entity under each relation; the stronger is the head.

Source: Bradley and Terry, "Rank Analysis of Incomplete Block Designs: I. The Method of Paired Comparisons",
Biometrika 39(3/4), 1952; the ridge makes strengths finite where one side of a pair always wins.

    P(i above j under r) = sigmoid(theta_ri - theta_rj)       theta_ri = s_ri + sum_m b_rm v_im
    minimised: - sum of log P(h above t) over training facts + (sum of k_ri s_ri^2 + k |b|^2) / 2
    score = theta_rh - theta_rt

v are quantiles scaled to mean 0 and variance 1, 0 where missing; `references.covariates` says which fields
have a slope b.  The ridge k_ri is k, or f k if i has a value in the field that r compares: where values say
it all, a large f leaves s to missing ones.  Of some pairs (k, f) the one is taken that gives the validation
facts the highest likelihood.

An entity of the graph in no training fact of a relation is unknown there; a new one has the mean strength.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.references.compared import Reference, places_of, unknown_last

COVARIATES = ("none", "compared", "all")
RIDGES = (
    30.0,
    10.0,
    3.0,
    1.0,
    0.3,
    0.1,
    0.03,
    0.01,
)  # k, strong ones first: each fit starts from the one before
FACTORS = (1.0, 100.0)  # f
WITHOUT_VALIDATION = (0.1, 1.0)
LARGEST_GRADIENT = 1e-6  # its norm at a solution
UNIT_DEVIATION = np.sqrt(12.0)  # of a uniform distribution from 0 to 1


@struct.dataclass
class Strengths:
    """All entities under S relations."""

    strength: Any  # float32 [S, N]
    known: Any  # bool [S, N]


class BradleyTerry(Reference):
    """Ranks by the difference of two strengths.

    Attributes:
      covariates: one of `COVARIATES`.
    """

    covariates: str = "none"

    def setup(self) -> None:
        super().setup()
        self.entity_strength = self.zeros("entity_strength", self.sizes.entities, self.sizes.relations)
        self.slope = self.zeros("slope", self.sizes.relations, self.sizes.fields)

    def own_arrays(
        self, graph: NumericGraph, positions: np.ndarray, weight: np.ndarray, seed: int
    ) -> dict[str, Any]:
        used = {"none": np.zeros_like(weight), "compared": weight, "all": np.ones_like(weight)}
        values = np.nan_to_num(UNIT_DEVIATION * (positions - 0.5))
        problem = Comparisons(graph.train, values, used[self.covariates] != 0)
        valued = ~np.isnan(places_of(positions, weight)) & (self.covariates != "none")
        strength, slope = problem.parts(_likeliest(problem, valued.T.ravel(), graph.valid))
        return {"entity_strength": strength.T, "slope": slope}

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> Strengths:
        """The strengths of all entities."""
        values = jnp.where(literals.observed, (literals.positions - 0.5) * UNIT_DEVIATION, 0.0)
        joined = jnp.sum(self.slope[relations][:, None] * values, axis=2)
        return Strengths(self.entity_strength.T[relations] + joined, self.known(relations))

    def score(self, encoded: Strengths, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        """Differences of strengths, which are logits."""
        of_heads = encoded.strength[np.arange(heads.shape[0])[:, None], heads]
        return unknown_last(of_heads[:, :, None] - encoded.strength[:, None], encoded.known)


@dataclasses.dataclass(frozen=True)
class Comparisons:
    """The objective on some facts; a solution is a float64 vector of all strengths, then all slopes.

    Attributes:
      facts: int32 [n, 3].
      values: float64 [N, M].
      used: bool [R, M], which slopes may differ from 0.
    """

    facts: np.ndarray
    values: np.ndarray
    used: np.ndarray

    @property
    def size(self) -> int:
        """Length of a solution."""
        return len(self.used) * (len(self.values) + self.used.shape[1])

    def of(self, facts: np.ndarray) -> "Comparisons":
        """The same on other facts."""
        return dataclasses.replace(self, facts=facts)

    def parts(self, solution: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Strengths [R, N] without what the values add, and slopes [R, M]."""
        relations, entities = len(self.used), len(self.values)
        strength, slope = np.split(solution, [relations * entities])
        return strength.reshape(relations, entities), slope.reshape(self.used.shape) * self.used

    def margins(self, solution: np.ndarray) -> np.ndarray:
        """Float64 [n], theta_rh - theta_rt of each fact."""
        strength, slope = self.parts(solution)
        theta = strength + slope @ self.values.T
        relation = self.facts[:, RELATION]
        return theta[relation, self.facts[:, HEAD]] - theta[relation, self.facts[:, TAIL]]

    def pulled_back(self, of_facts: np.ndarray) -> np.ndarray:
        """The gradient of a function of the margins, from its derivatives by them, float64 [n]."""
        shape = len(self.used), len(self.values)
        first = self.facts[:, RELATION].astype(np.int64) * shape[1]
        strength = np.bincount(first + self.facts[:, HEAD], of_facts, minlength=shape[0] * shape[1])
        strength -= np.bincount(first + self.facts[:, TAIL], of_facts, minlength=shape[0] * shape[1])
        slope = (strength.reshape(shape) @ self.values) * self.used
        return np.concatenate([strength, slope.ravel()])

    def loss(self, solution: np.ndarray) -> float:
        """Minus the logarithm of the likelihood."""
        return float(np.logaddexp(0.0, -self.margins(solution)).sum())

    def objective(self, solution: np.ndarray, ridge: np.ndarray) -> tuple[float, np.ndarray]:
        """What is minimised, and its gradient; the ridge is one number for each of the solution's."""
        improbable = _sigmoid(-self.margins(solution))
        gradient = self.pulled_back(-improbable) + ridge * solution
        return self.loss(solution) + float((ridge * solution) @ solution) / 2, gradient

    def curvature(self, solution: np.ndarray, direction: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """The Hessian of what is minimised, times a direction."""
        margins = self.margins(solution)
        variance = _sigmoid(margins) * _sigmoid(-margins)
        return self.pulled_back(variance * self.margins(direction)) + ridge * direction

    def minimum(self, ridge: np.ndarray, *, start: np.ndarray) -> np.ndarray:
        """The solution for ridges above 0, which is unique; by Newton's method with conjugate gradients."""
        import scipy.optimize  # only this model's training needs it

        found = scipy.optimize.minimize(
            self.objective,
            start,
            args=(ridge,),
            jac=True,
            hessp=self.curvature,
            method="trust-ncg",
            options={"gtol": LARGEST_GRADIENT},
        )
        return found.x


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -logits))


def _likeliest(problem: Comparisons, valued: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """The solution of the ridges that suit the validation facts, int32 [n, 3], best.

    `valued`, bool [R * N], has the strengths of entities whose compared value is observed.
    """
    pairs = [(ridge, factor) for factor in FACTORS if factor == 1.0 or valued.any() for ridge in RIDGES]
    solutions, solution = [], np.zeros(problem.size)
    for ridge, factor in pairs if len(valid) else [WITHOUT_VALIDATION]:
        ridges = np.full(problem.size, ridge)
        ridges[: len(valued)][valued] *= factor
        solution = problem.minimum(ridges, start=solution)
        solutions.append(solution)
    return min(solutions, key=problem.of(valid).loss)


MODEL = ModelSpec(
    lambda config, sizes: BradleyTerry(sizes, covariates=config.references.covariates),
    per_entity=("entity_seen", "entity_strength"),
    fitted=True,
)
