"""Bradley-Terry strengths: at the optimum, the gradient written out by loops is 0."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.models.references.bradley_terry import COVARIATES, BradleyTerry, Comparisons
from tests.models.references.orders import graph_of, literals_of, parameters


def random_problem(covariates: str) -> tuple[Comparisons, np.ndarray]:
    """Two relations of 7 entities, some facts contradicting each other, and a ridge for each number."""
    rng = np.random.default_rng(5)
    facts = np.array([(h, r, t) for r in range(2) for h in range(7) for t in range(7) if h != t], np.int32)
    facts = facts[rng.random(len(facts)) < 0.4]
    used = {"none": [[0, 0, 0]] * 2, "compared": [[0, 1, 0], [1, 0, 0]], "all": [[1, 1, 1]] * 2}[covariates]
    problem = Comparisons(facts, rng.normal(size=(7, 3)), np.array(used, bool))
    return problem, rng.uniform(0.1, 2.0, problem.size)


@pytest.mark.parametrize("covariates", COVARIATES)
def test_the_gradient_is_zero_at_the_solution(covariates: str) -> None:
    problem, ridge = random_problem(covariates)
    solution = problem.minimum(ridge, start=np.zeros(problem.size))
    strength, slope = problem.parts(solution)
    ridge_of_strength, ridge_of_slope = ridge[:14].reshape(2, 7), ridge[14:].reshape(2, 3)
    strength_gradient, slope_gradient = ridge_of_strength * strength, ridge_of_slope * slope
    for head, relation, tail in problem.facts:
        margin = strength[relation, head] - strength[relation, tail]
        for field in range(3):
            margin += slope[relation, field] * (problem.values[head, field] - problem.values[tail, field])
        wrong = 1 / (1 + math.exp(margin))
        strength_gradient[relation, head] -= wrong
        strength_gradient[relation, tail] += wrong
        for field in range(3):
            if problem.used[relation, field]:
                difference = problem.values[head, field] - problem.values[tail, field]
                slope_gradient[relation, field] -= wrong * difference
    np.testing.assert_allclose(strength_gradient, 0.0, atol=1e-5)
    np.testing.assert_allclose(slope_gradient, 0.0, atol=1e-5)
    assert (slope != 0).tolist() == problem.used.tolist()


def test_two_entities_have_the_strength_that_balances_one_fact_and_the_ridge() -> None:
    """By symmetry s and -s: the gradient sigmoid(-2 s) = s / 10 has its root at s = 1.3265."""
    problem = Comparisons(np.array([[0, 0, 1]], np.int32), np.empty((2, 0)), np.empty((1, 0), bool))
    strength, _ = problem.parts(problem.minimum(np.full(2, 0.1), start=np.zeros(2)))
    root = strength[0, 0]
    assert strength[0, 1] == pytest.approx(-root)
    assert 1 / (1 + math.exp(2 * root)) == pytest.approx(root / 10, abs=1e-6)


def test_curvature_is_the_slope_of_the_gradient() -> None:
    problem, ridge = random_problem("all")
    rng = np.random.default_rng(1)
    point, direction = rng.normal(size=(2, problem.size))
    step = 1e-5
    above, below = (problem.objective(point + sign * step * direction, ridge)[1] for sign in (1, -1))
    np.testing.assert_allclose(
        problem.curvature(point, direction, ridge), (above - below) / (2 * step), rtol=1e-5, atol=1e-7
    )


def order(missing: tuple[int, ...] = ()) -> tuple:
    """Twenty entities in order of their number, a fifth of all facts each in training and validation."""
    rng = np.random.default_rng(2)
    positions = ((np.arange(20) + 0.5) / 20)[:, None]
    positions[list(missing)] = np.nan
    pairs = [(i, 0, j) for i in range(19) for j in range(i)]  # 19 is in none
    rows = [pairs[place] for place in rng.permutation(len(pairs))]
    fifth = len(rows) // 5
    graph = graph_of(rows[:fifth], positions, valid=rows[fifth : 2 * fifth])
    literals = literals_of(graph, positions)
    return graph, positions, literals


def accuracy(covariates: str, missing: tuple[int, ...] = ()) -> float:
    """Share of all pairs of known entities in the right order."""
    graph, positions, literals = order(missing)
    model = BradleyTerry(GraphSizes.of(graph), covariates=covariates)
    params = model.fit(graph, positions, seed=0)
    scores, _ = model.apply(parameters(params), jnp.array([0]), jnp.arange(20)[None], literals, train=False)
    scores = np.asarray(scores[0])
    assert (scores[:, 19] < scores[:, :19].min(axis=1)).all()  # it is in no training fact
    return float(np.mean([scores[i, j] > 0 for i in range(19) for j in range(i)]))


def test_values_help_where_they_are_used() -> None:
    facts_alone = accuracy("none")
    assert 0.7 < facts_alone < 0.97
    assert accuracy("compared") == accuracy("all") == 1.0
    assert facts_alone < accuracy("compared", missing=(3, 8, 12)) < 1.0


def test_without_validation_facts_there_is_still_a_ridge() -> None:
    graph, positions, _ = order()
    graph = graph_of(graph.train.tolist(), positions)
    params = BradleyTerry(GraphSizes.of(graph)).fit(graph, positions, seed=0)
    assert 0.5 < np.abs(params["entity_strength"]).max() < 20
