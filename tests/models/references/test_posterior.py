"""Sampled orders, against all orders that keep the facts, and against drawing until all facts hold."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.models.references.posterior import (
    Posterior,
    independent_groups,
    sampled_places,
    without_circles,
)
from tests.models.references.orders import graph_of, literals_of, parameters, random_order

DRAWS = 8192  # a share's deviation is at most 0.006 if they were independent


def shares_above(places: np.ndarray) -> np.ndarray:
    """Float64 [nodes, nodes], how often one is above the other."""
    return (places[:, None] > places[None]).mean(axis=2)


@pytest.mark.parametrize(
    "facts",
    [
        [],
        [(0, 1), (2, 3)],
        [(0, 1), (1, 2), (3, 2), (3, 4)],
        [(4, 0), (4, 1), (4, 2), (4, 3)],
        [(0, 1), (1, 2), (2, 3), (3, 4)],
    ],
)
def test_without_values_all_orders_that_keep_the_facts_are_equally_probable(
    facts: list[tuple[int, int]],
) -> None:
    orders = [
        places
        for places in itertools.permutations(range(5))
        if all(places[head] > places[tail] for head, tail in facts)
    ]
    expected = shares_above(np.array(orders, float).T)
    heads, tails = np.array(facts, np.int64).reshape(-1, 2).T
    rng = np.random.default_rng(0)
    found = sampled_places(np.full(5, np.nan), heads, tails, draws=DRAWS, rng=rng)
    np.testing.assert_allclose(shares_above(found), expected, atol=0.03)
    assert (found[heads] > found[tails]).all()


def test_with_values_the_draws_are_those_that_happen_to_keep_all_facts() -> None:
    """Nodes 0 and 1 are known; of 200,000 uniform draws for the others those are kept in which facts hold."""
    values = np.array([0.3, 0.8, np.nan, np.nan, np.nan])
    heads, tails = np.array([2, 3, 1, 4, 1]), np.array([0, 2, 3, 2, 0])
    tried = np.random.default_rng(1).random((5, 200_000))
    tried[:2] = values[:2, None]
    tried = tried[:, (tried[heads] > tried[tails]).all(axis=0)]
    assert tried.shape[1] > 2_000
    found = sampled_places(values, heads, tails, draws=DRAWS, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found[2:].mean(axis=1), tried[2:].mean(axis=1), atol=0.02)
    np.testing.assert_allclose(found[2:].std(axis=1), tried[2:].std(axis=1), atol=0.02)
    np.testing.assert_allclose(shares_above(found[2:]), shares_above(tried[2:]), atol=0.03)
    # What is left of a known one without its value: 0 is below 2 and 1.
    assert found[0].max() <= 0.8 and 0.0 < found[0].min() < 0.1


@given(st.integers(0, 10**6), st.integers(2, 20), st.sampled_from([0.3, 1.0]), st.floats(0.0, 1.0))
def test_every_draw_keeps_every_fact_between_missing_values_and_those_of_known_ones(
    seed: int, nodes: int, missing: float, share: float
) -> None:
    values, heads, tails = random_order(
        np.random.default_rng(seed), nodes=nodes, missing=missing, share=share
    )
    found = sampled_places(values, heads, tails, draws=3, rng=np.random.default_rng(seed))
    with_values = np.where(np.isnan(values)[:, None], found, values[:, None].astype(np.float32))
    assert (with_values[heads] >= with_values[tails]).all()  # equal only by rounding to float32


@given(st.integers(0, 10**6), st.integers(1, 30), st.floats(0.0, 1.0))
def test_groups_have_all_missing_nodes_once_and_no_fact_inside(seed: int, nodes: int, share: float) -> None:
    values, heads, tails = random_order(np.random.default_rng(seed), nodes=nodes, missing=0.6, share=share)
    missing = np.isnan(values)
    group = np.full(nodes, -1)
    for number, members in enumerate(independent_groups(missing, heads, tails)):
        assert (group[members] == -1).all()
        group[members] = number
    assert ((group >= 0) == missing).all()
    both = missing[heads] & missing[tails]
    assert (group[heads[both]] != group[tails[both]]).all()


def test_of_a_circle_the_facts_are_kept_that_agree_with_the_shares() -> None:
    """0 > 1 > 2 > 0 and 3 > 0 > 4.  With one more of both kinds the shares are 3/6, 2/4, 2/4, 2/3, 1/3."""
    heads, tails = np.array([0, 1, 2, 3, 0]), np.array([1, 2, 0, 0, 4])
    kept = without_circles(np.ones(5, bool), heads, tails)
    assert list(zip(*kept, strict=True)) == [(3, 0), (0, 4)]  # no share in the circle is larger
    more = np.append(heads, 0), np.append(tails, 5)  # now 0 has 4/7
    kept = without_circles(np.ones(6, bool), *more)
    assert list(zip(*kept, strict=True)) == [(0, 1), (3, 0), (0, 4), (0, 5)]
    known = without_circles(np.array([False, True, True, True, True, True]), *more)  # 0 is not missing
    assert [side.tolist() for side in known] == [side.tolist() for side in more]


@given(st.integers(0, 10**6), st.integers(2, 12))
def test_without_circles_no_node_is_above_itself_and_an_order_loses_no_fact(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    values, heads, tails = random_order(rng, nodes=nodes, missing=1.0, share=0.5)
    missing = np.isnan(values)
    assert len(without_circles(missing, heads, tails)[0]) == len(heads)
    turned = rng.random(len(heads)) < 0.3
    kept = without_circles(missing, np.where(turned, tails, heads), np.where(turned, heads, tails))
    above = np.zeros((nodes, nodes), int)
    above[kept] = 1
    reached = np.linalg.matrix_power(above + np.eye(nodes, dtype=int), nodes) @ above
    assert not np.diag(reached).any()


def test_an_order_with_wrong_facts_is_still_found() -> None:
    """A tenth of the facts is turned around; the mean places are in the order of the numbers, nearly."""
    rng = np.random.default_rng(0)
    heads, tails = np.nonzero(np.tri(60, k=-1, dtype=bool) & (rng.random((60, 60)) < 0.5))
    turned = rng.random(len(heads)) < 0.1
    ends = np.where(turned, tails, heads), np.where(turned, heads, tails)
    found = sampled_places(np.full(60, np.nan), *ends, draws=64, rng=rng)
    assert np.corrcoef(found.mean(axis=1), np.arange(60))[0, 1] > 0.9


def fitted(values: np.ndarray) -> tuple:
    """Ten entities in order of their number, all facts but those of 9, which is in none."""
    facts = [(i, 0, j) for i in range(9) for j in range(i)]
    graph = graph_of(facts, values)
    model = Posterior(GraphSizes.of(graph), draws=64)
    literals = literals_of(graph, values)
    params = model.fit(graph, values, seed=1)
    return model, params, literals


def scores_of(model: Posterior, params: dict, literals: Literals) -> np.ndarray:
    heads = jnp.arange(10)[None]
    scores, _ = model.apply(parameters(params), jnp.array([0]), heads, literals, train=False)
    return np.asarray(scores[0])


@pytest.mark.parametrize("values", ["true", "false", "removed"])
def test_a_complete_order_is_ranked_right_whatever_the_values_say(values: str) -> None:
    """False values agree with half of the facts, so they are forgotten; an entity in no fact comes last."""
    positions = {
        "true": np.arange(10) / 10,
        "false": np.array([4, 0, 7, 2, 6, 8, 1, 5, 3, 9]) / 10,
        "removed": np.full(10, np.nan),
    }[values][:, None]
    model, params, literals = fitted(positions)
    assert params["field_weight"].any() == (values == "true")
    scores = scores_of(model, params, literals)
    for head in range(9):
        assert scores[head, 9] < scores[head, :9].min()
        below, others = scores[head, :head], np.append(scores[head, head:9], -np.inf)
        assert not len(below) or below.min() > others.max()


def test_ties_of_counts_are_broken_by_the_mean_and_the_same_seed_gives_the_same_draws() -> None:
    model, params, literals = fitted((np.arange(10) / 10)[:, None])
    scores = scores_of(model, params, literals)
    assert (np.diff(scores[8, :8]) < 0).all()  # all below 8 in every draw; the farther, the surer
    assert scores[8, 0] - scores[8, 7] < 4 / 64  # less than one draw counts
    again = fitted((np.arange(10) / 10)[:, None])[1]
    assert all(np.array_equal(params[name], again[name]) for name in params)


def test_a_new_entity_without_a_value_may_be_anywhere() -> None:
    model, params, literals = fitted((np.arange(10) / 10)[:, None])
    new = model.clone(unseen=1)
    gone = literals.replace(observed=literals.observed.at[9].set(False))
    scores = scores_of(new, params, gone)
    shares = 1 / (1 + np.exp(-scores[:9, 9]))  # P(i above the new one): i's place
    np.testing.assert_allclose(shares, np.arange(9) / 10, atol=0.03)
