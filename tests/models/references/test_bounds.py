"""Bounds of missing values, against the transitive closure of the facts."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.models.references.bounds import Bounds
from numcoke_jax.models.references.comparisons import bounds_by_facts
from tests.models.references.orders import graph_of, literals_of, parameters, random_order


def bounds_by_closure(
    values: np.ndarray, heads: np.ndarray, tails: np.ndarray
) -> tuple[list[float], list[float]]:
    """What is below and above by chains of facts whose inner members are missing (Warshall's algorithm)."""
    count = len(values)
    above = np.zeros((count, count), bool)
    above[heads, tails] = True
    for middle in range(count):
        if np.isnan(values[middle]):
            for i in range(count):
                for j in range(count):
                    above[i, j] |= above[i, middle] and above[middle, j]
    known = [j for j in range(count) if not np.isnan(values[j])]
    lower = [max([values[j] for j in known if above[i, j]], default=0.0) for i in range(count)]
    upper = [min([values[j] for j in known if above[j, i]], default=1.0) for i in range(count)]
    return lower, upper


@given(st.integers(0, 10**6), st.integers(1, 14), st.sampled_from([0.0, 0.3, 0.7, 1.0]), st.floats(0.0, 1.0))
def test_bounds_are_those_of_the_transitive_closure(
    seed: int, nodes: int, missing: float, share: float
) -> None:
    rng = np.random.default_rng(seed)
    values, heads, tails = random_order(rng, nodes=nodes, missing=missing, share=share)
    if seed % 2:  # facts that contradict the values and each other
        turned = rng.random(len(heads)) < 0.2
        heads, tails = np.where(turned, tails, heads), np.where(turned, heads, tails)
    found = bounds_by_facts(values, heads, tails)
    assert [bounds.tolist() for bounds in found] == list(bounds_by_closure(values, heads, tails))


def test_scores_by_hand_and_bounds_that_facts_turn_around() -> None:
    """Heads have the lower values.  4 is between 2 and 5; 6 is said to be above 7 and below 1."""
    values = np.array([0.0, 0.1, 0.2, 0.3, np.nan, 0.5, np.nan, 0.7, 0.8, 0.9])[:, None]
    ends = [(0, 1), (1, 2), (2, 3), (3, 5), (5, 7), (7, 8), (8, 9), (0, 9), (1, 9), (2, 9)]
    ends += [(2, 4), (4, 5), (0, 4), (4, 9), (6, 1), (7, 6)]
    graph = graph_of([(h, 0, t) for h, t in ends], values)
    model = Bounds(GraphSizes.of(graph))
    params = model.fit(graph, values, seed=0)
    assert params["field_weight"].tolist() == [[-1.0]]
    # On the turned scale a value v is at 1 - v.
    np.testing.assert_allclose(params["entity_bounds"][4, 0], [0.5, 0.8])
    np.testing.assert_allclose(params["entity_bounds"][6, 0], [0.3, 0.9])
    literals = literals_of(graph, values)
    heads = jnp.array([[4, 2]])
    scores, _ = model.apply(parameters(params), jnp.array([0]), heads, literals, train=False)
    assert scores[0, 0, 6] == pytest.approx((0.65 - 0.6) / np.hypot(0.3, 0.6), rel=1e-5)
    assert scores[0, 0, 5] == pytest.approx((0.65 - 0.5) / np.hypot(0.3, 0.1), rel=1e-5)  # 1 / N = 0.1
    assert scores[0, 1, 3] == pytest.approx(0.1 / np.hypot(0.1, 0.1), rel=1e-5)


def test_a_new_entity_is_between_its_facts_if_it_has_some_and_may_be_anywhere_if_not() -> None:
    """7 stands between 2 and 4 by facts of its own, 8 is in none; neither has a value."""
    values = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, np.nan, np.nan])[:, None]
    ends = [(high, low) for high in range(7) for low in range(high)] + [(7, 2), (4, 7)]
    graph = graph_of([(h, 0, t) for h, t in ends], values)
    model = Bounds(GraphSizes.of(graph))
    params = parameters(model.fit(graph, values, seed=0))
    literals = literals_of(graph, values)
    scores, _ = model.clone(unseen=2).apply(
        params, jnp.array([0]), jnp.array([[7, 8]]), literals, train=False
    )
    # A middle of 0.3 and a width of 0.2, of 0.5 and of 1; those of a value are the value and 1 / N.
    assert scores[0, 0, 1] == pytest.approx((0.3 - 0.1) / np.hypot(0.2, 1 / 9), rel=1e-5)
    assert scores[0, 1, 1] == pytest.approx((0.5 - 0.1) / np.hypot(1.0, 1 / 9), rel=1e-5)
    assert scores[0, 0, 8] == pytest.approx((0.3 - 0.5) / np.hypot(0.2, 1.0), rel=1e-5)
