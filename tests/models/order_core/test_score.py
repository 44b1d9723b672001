"""Logits of the order core against SciPy in float64, their order at extremes, and their probabilities."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from numcoke_jax.models.order_core.reach import BINS
from numcoke_jax.models.order_core.score import (
    LINEAR,
    NEVER,
    OrderPositions,
    order_logits,
    pair_probabilities,
)
from tests import examples
from tests.oracles import order_core as oracle

MOST_ADDED = 2e-3  # to a logit, by the order among equally likely pairs
score_all = examples.compiled(order_logits)


def positions(
    mean: Any,
    width: Any = 0.0,
    membership: Any = 1.0,
    noise: float = 1.0,
    reversed_share: float = 0.0,
    reach: Any = 1.0,
) -> OrderPositions:
    """Of one slot; the reach is 1 unless it is given."""
    mean = jnp.asarray(mean, jnp.float32)[None]
    return OrderPositions(
        mean=mean,
        width=jnp.broadcast_to(jnp.asarray(width, jnp.float32), mean.shape),
        membership=jnp.broadcast_to(jnp.asarray(membership, jnp.float32), mean.shape),
        noise=jnp.full((1,), noise, jnp.float32),
        reversed_share=jnp.full((1,), reversed_share, jnp.float32),
        reach=jnp.broadcast_to(jnp.asarray(reach, jnp.float32), (1, BINS)),
    )


def logits(found: OrderPositions, heads: Any = None) -> np.ndarray:
    """[H, N] of one slot; all entities are heads unless some are given."""
    heads = np.arange(found.mean.shape[-1]) if heads is None else heads
    return np.asarray(score_all(found, jnp.asarray(heads, jnp.int32)[None]))[0]


def compressed(odds: np.ndarray) -> np.ndarray:
    """Exact log odds up to `LINEAR`, beyond it their logarithm."""
    return np.sign(odds) * (np.minimum(np.abs(odds), LINEAR) + np.log1p(np.maximum(np.abs(odds) - LINEAR, 0)))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-4, 0.1, 0.45]), st.sampled_from([1e-3, 1.0, 30.0]))
def test_logits_are_the_log_odds_of_scipy(seed: int, share: float, noise: float) -> None:
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=7) * rng.choice([0.1, 1.0, 30.0])
    width = rng.uniform(0.0, 1.0, 7) * (rng.random(7) < 0.7)
    factor = np.where(rng.random(7) < 0.5, 1.0, rng.uniform(1e-3, 1.0, 7))
    found = positions(mean, width, factor, noise, share)
    mean, width, factor = examples.float64((found.mean[0], found.width[0], found.membership[0]))
    scale, reversed_share = float(found.noise[0]), float(found.reversed_share[0])
    all_logits = logits(found)
    for head in range(7):
        others = np.arange(7) != head
        expected = compressed(oracle.log_odds(mean, width, factor, scale, reversed_share, head))
        np.testing.assert_allclose(all_logits[head][others], expected[others], rtol=2e-5, atol=MOST_ADDED)
        assert all_logits[head, head] == NEVER


@pytest.mark.parametrize("share", [0.0, 0.1])
@pytest.mark.parametrize("member", [1.0, 0.3])
def test_logits_never_saturate(share: float, member: float) -> None:
    """Tails whose z differ by a tenth have different logits in the right order, from 0.01 to 1e7."""
    z = 1.1 ** np.arange(-48, 170)
    mean = np.concatenate([[0.0], -z, z])  # the head, then tails below and above it
    row = logits(positions(mean, membership=member, reversed_share=share), [0])[0]
    assert np.isfinite(row).all()
    order = np.argsort(-mean[1:])  # from the highest tail to the lowest
    assert (np.diff(row[1:][order]) > 0).all()
    assert row[0] == NEVER < row[1:].min()


def test_extreme_gaps_are_finite_and_lose_no_sign() -> None:
    z = np.array([1e3, 1e4, 1e5, 1e6, 1e12, 3e38])
    row = logits(positions(np.concatenate([[0.0], -z, z])), [0])[0]
    assert np.isfinite(row).all()
    assert (row[1:7] > LINEAR).all() and (row[7:] < -LINEAR).all() and (row[7:] > NEVER).all()
    expected = compressed(stats.norm.logcdf(z[:4]) - stats.norm.logsf(z[:4]))
    np.testing.assert_allclose(row[1:5], expected, rtol=1e-4)


def test_known_equals_and_the_entity_itself_are_the_lowest() -> None:
    mean = [0.5, 0.5, 0.5, 1e6, -1e6]
    row = logits(positions(mean, width=[0.0, 0.0, 0.2, 0.0, 0.0], noise=1e-6), [0])[0]
    assert row[0] == row[1] == NEVER
    assert (row[2:] > NEVER).all()
    assert row[2] == pytest.approx(0.0, abs=1e-3)  # level by expectation, not for certain


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.2]))
def test_one_of_a_pair_stands_above_the_other(seed: int, share: float) -> None:
    """If both are members, P(h, t) + P(t, h) = 1: the logits are each other's negatives."""
    rng = np.random.default_rng(seed)
    found = positions(rng.normal(size=9), rng.uniform(0.1, 2.0, 9), noise=0.3, reversed_share=share)
    pairs = ~np.eye(9, dtype=bool)
    forwards = logits(found)
    np.testing.assert_allclose(forwards[pairs], -forwards.T[pairs], atol=1e-5)
    heads, tails = np.indices((9, 9))
    above = pair_probabilities(found, heads, tails)
    np.testing.assert_allclose((above + above.T)[pairs], 1.0, atol=1e-6)


def test_membership_lowers_a_logit_and_bounds_the_probability() -> None:
    mean = np.array([0.0, -1.0, -1.0, -1.0, -1e5])
    row = logits(positions(mean, membership=[1.0, 1.0, 0.5, 0.1, 0.1]), [0])[0]
    assert row[1] > row[2] > row[3]
    probability = 1.0 / (1.0 + np.exp(-row.astype(float)))
    np.testing.assert_allclose(probability[1:4], stats.norm.cdf(1.0) * np.array([1.0, 0.5, 0.1]), rtol=2e-3)
    assert probability[4] == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.4])
def test_the_share_of_reversed_facts_bounds_the_probability(share: float) -> None:
    found = positions([0.0, -1e4, 1e4, -1.0], reversed_share=share)
    probability = 1.0 / (1.0 + np.exp(-logits(found, [0])[0].astype(float)))
    np.testing.assert_allclose(probability[1:3], [1.0 - share, share], rtol=5e-3)
    assert probability[3] == pytest.approx(share + (1 - 2 * share) * stats.norm.cdf(1.0), rel=2e-3)


def test_reach_multiplies_the_probability_by_the_places_between() -> None:
    """By hand: with d places between, the bin is floor(2 log2(1 + d)); facts of neighbours only are 9:1."""
    reach = np.full(BINS, 0.1)
    reach[2] = 0.9  # floor(2 log2(2)), of neighbours
    mean = [4.0, 3.0, 2.0, 1.0]
    probability = 1.0 / (1.0 + np.exp(-logits(positions(mean, noise=0.1, reach=reach)).astype(float)))
    np.testing.assert_allclose(np.diag(probability, 1), 0.9, rtol=5e-3)
    np.testing.assert_allclose(np.diag(probability, 2), 0.1, rtol=5e-3)


def random_slots() -> tuple[OrderPositions, jax.Array]:
    rng = np.random.default_rng(5)
    found = OrderPositions(
        mean=jnp.asarray(rng.normal(size=(3, 6)), jnp.float32),
        width=jnp.asarray(rng.uniform(0, 1, (3, 6)), jnp.float32),
        membership=jnp.asarray(rng.uniform(0.1, 1, (3, 6)), jnp.float32),
        noise=jnp.asarray([0.1, 0.01, 2.0], jnp.float32),
        reversed_share=jnp.asarray([0.0, 0.1, 0.3], jnp.float32),
        reach=jnp.asarray(rng.uniform(0.1, 1, (3, BINS)), jnp.float32),
    )
    return found, jnp.asarray(rng.integers(0, 6, (3, 4)), jnp.int32)


@pytest.mark.slow
def test_compiling_changes_nothing() -> None:
    found, heads = random_slots()
    np.testing.assert_allclose(score_all(found, heads), order_logits(found, heads), rtol=1e-5, atol=1e-5)


def test_slots_are_scored_on_their_own_and_vmap_changes_nothing() -> None:
    found, heads = random_slots()
    plain = score_all(found, heads)
    for slot in range(3):
        one = jax.tree.map(lambda rows, slot=slot: rows[slot : slot + 1], (found, heads))
        np.testing.assert_allclose(score_all(*one)[0], plain[slot], rtol=1e-5, atol=1e-5)
    stacked = jax.tree.map(lambda rows: jnp.stack([rows, rows[::-1]]), (found, heads))
    mapped = examples.compiled(jax.vmap(order_logits))(*stacked)
    np.testing.assert_allclose(mapped[0], plain, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mapped[1], plain[::-1], rtol=1e-5, atol=1e-5)


def test_relabelling_the_entities_relabels_the_logits() -> None:
    found, _ = random_slots()
    names = np.random.default_rng(6).permutation(6)
    heads = jnp.broadcast_to(jnp.arange(6, dtype=jnp.int32), (3, 6))
    expected = np.asarray(score_all(found, heads))
    per_entity = {name: getattr(found, name)[:, names] for name in ("mean", "width", "membership")}
    renamed = np.asarray(score_all(dataclasses.replace(found, **per_entity), heads))
    np.testing.assert_allclose(renamed, expected[:, names][:, :, names], rtol=1e-5, atol=1e-5)


def test_a_million_known_values_keep_apart_in_float32() -> None:
    """Neighbouring scores of 1e6 entities, in the middle, where they are closest, and at the ends."""
    count = 1_000_000
    scores = stats.norm.ppf((np.arange(count) + 0.5) / count)
    noise = 0.2 / count
    for place in (0, count // 6, count // 2, count - 3):
        mean = scores[place : place + 3]
        found = logits(positions(mean, noise=noise))
        assert found[2, 1] > 0 > found[1, 2] and found[2, 0] > found[2, 1] > NEVER
