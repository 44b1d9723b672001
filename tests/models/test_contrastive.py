"""Ordinal contrastive loss: readings 10 to 13 in every switch, and pairs with nothing to contrast."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.data.batches import Batch
from numcoke_jax.models.losses.contrastive import (
    ContrastiveSettings,
    cosine,
    ordinal_contrastive_loss,
    similarity,
    top_k,
)
from tests import examples
from tests.oracles import contrastive as oracle

S, H, N, D = 2, 4, 7, 4
ENTITIES = examples.normal(S, N, D, seed=1)
RELATIONS = examples.normal(S, D, seed=2)
KEY = jax.random.key(11)
# The streams' numbers are fixed for all time, or recorded runs could not be repeated.
ALPHA, BETA, SAMPLING = 3, 4, 5


def batch() -> Batch:
    """One pair of each sort; entities of a row in brackets are its positives and its given negatives."""
    labels, negatives = np.zeros((S, H, N), bool), np.zeros((S, H, N), bool)
    labels[0, 0, [1, 2, 4, 6]] = True  # no given negatives: the unlinked 3 and 5 are the negatives
    labels[0, 1, [0]] = True  # one positive, three given negatives beside its own head
    negatives[0, 1, [2, 3, 4, 6]] = True
    negatives[0, 2, [1, 2]] = True  # no positive
    labels[0, 3] = True  # every entity is a positive: no negative
    labels[1, 0, [0, 1, 2, 3, 4]] = True  # five positives, its own head among them, one given negative
    negatives[1, 0, [5]] = True
    labels[1, 1, [1, 2]] = True  # given negatives that contradict nothing, its own head among them
    negatives[1, 1, [0, 5, 6]] = True
    labels[1, 2, [3]] = True
    negatives[1, 2, [6]] = True  # nothing given but its own head: all others are the negatives
    labels[1, 3, [1, 5]] = True  # padding: masked below, whatever its row says
    return Batch(
        relations=jnp.array([0, 1], jnp.int32),
        heads=jnp.array([[0, 3, 0, 5], [2, 0, 6, 1]], jnp.int32),
        mask=jnp.ones((S, H), bool).at[1, 3].set(False),
        labels=jnp.asarray(labels),
        negatives=jnp.asarray(negatives),
    )


def loss(settings: ContrastiveSettings, entities: jax.Array = ENTITIES, **changes: Any) -> Any:
    changed = batch().replace(**changes)  # type: ignore[attr-defined]
    return ordinal_contrastive_loss(entities, RELATIONS, changed, settings=settings, key=KEY)


def loss_of_loops(settings: ContrastiveSettings) -> tuple[float, int]:
    """The oracle's, with coefficients drawn from the streams as they are documented."""
    draw = jax.random.uniform
    alpha = draw(jax.random.fold_in(KEY, ALPHA), (S, H, 1))[..., 0]
    beta = draw(jax.random.fold_in(KEY, BETA), (S, H, settings.num_negative_mixes, 1))[..., 0]
    preferences = None
    if settings.sampling == "random":
        preferences = np.asarray(draw(jax.random.fold_in(KEY, SAMPLING), (S, H, N)), np.float64)
    return oracle.loss_of_batch(
        np.asarray(ENTITIES, np.float64),
        np.asarray(RELATIONS, np.float64),
        batch(),
        np.asarray(alpha, np.float64),
        np.asarray(beta, np.float64),
        settings,
        preferences,
    )


SWITCHES: list[dict[str, Any]] = [
    {},
    {"k": 1},
    {"k": 3},
    {"k": N + 5},
    {"temperature": 0.3},
    {"sampling": "random", "k": 2},
    {"negatives": "unlinked", "k": 2},
    {"reduce": "sum"},
    {"norm": 2},
    {"similarity": "cosine"},
    {"similarity": "dot", "reduce": "sum", "temperature": 2.0},
    {"num_negative_mixes": 3},
    {"in_batch": True},
    {"in_batch": True, "norm": 2, "num_negative_mixes": 2},
    {"in_batch": True, "similarity": "cosine", "num_negative_mixes": 2, "negatives": "unlinked"},
    {"in_batch": True, "similarity": "dot", "sampling": "random"},
]


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_sum_and_count_equal_the_loops(switches: dict[str, Any]) -> None:
    settings = ContrastiveSettings(**switches)
    total, count = loss(settings)
    expected, pairs = loss_of_loops(settings)
    np.testing.assert_allclose(total, expected, rtol=2e-5)
    assert count == pairs == 5  # of 8 pairs one has no positive, one no negative, one is padding


def test_the_head_is_no_negative_of_its_own() -> None:
    """`train.negatives=reversed` rules (h, r, h) out for every query, and nothing is as near to h as h."""
    itself = jax.nn.one_hot(batch().heads, N, dtype=bool)
    without, with_it = (
        loss(ContrastiveSettings()),
        loss(ContrastiveSettings(), negatives=batch().negatives | itself),
    )
    np.testing.assert_array_equal(with_it, without)


def test_the_switches_do_change_the_loss() -> None:
    """Of the oracle: otherwise the comparisons above could not tell the switches apart."""
    losses = [
        loss_of_loops(ContrastiveSettings(**switches))[0] for switches in SWITCHES if switches != {"k": N + 5}
    ]
    assert len({round(value, 6) for value in losses}) == len(losses)


@pytest.mark.parametrize("in_batch", [False, True])
def test_pairs_with_nothing_to_contrast_have_zero_gradient_and_touch_no_other(in_batch: bool) -> None:
    """Slot 0: without positive (head 0), without negative (head 5) and one real pair (head 3)."""
    settings = ContrastiveSettings(in_batch=in_batch)
    mask = jnp.zeros((S, H), bool).at[0, 1].set(True)
    alone = jax.value_and_grad(lambda e: loss(settings, e, mask=mask)[0])(ENTITIES)
    beside = jax.value_and_grad(lambda e: loss(settings, e, mask=mask.at[0, 2:].set(True))[0])(ENTITIES)
    assert np.isfinite(alone[1]).all() and np.abs(alone[1]).max() > 0
    np.testing.assert_allclose(beside[0], alone[0], rtol=1e-6)
    np.testing.assert_allclose(beside[1], alone[1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["distance", "cosine", "dot"])
@pytest.mark.parametrize("in_batch", [False, True])
def test_a_batch_without_any_pair_is_exactly_zero_with_zero_gradients(kind: str, in_batch: bool) -> None:
    settings = ContrastiveSettings(similarity=kind, in_batch=in_batch, norm=2)
    nothing = {"labels": jnp.zeros((S, H, N), bool)}
    (total, count), gradient = jax.value_and_grad(
        lambda entities: loss(settings, entities, **nothing), has_aux=True
    )(ENTITIES)
    assert (total, count) == (0.0, 0.0)
    np.testing.assert_array_equal(gradient, 0.0)


@pytest.mark.parametrize("switches", [{"norm": 2, "in_batch": True}, {"similarity": "cosine"}], ids=str)
def test_gradients_at_zero_vectors_are_finite(switches: dict[str, Any]) -> None:
    """All embeddings 0: every distance is 0 and no vector has a direction."""
    settings = ContrastiveSettings(**switches)
    zero = jnp.zeros_like(ENTITIES)

    def total(entities: jax.Array, relations: jax.Array) -> jax.Array:
        return ordinal_contrastive_loss(entities, relations, batch(), settings=settings, key=KEY)[0]

    value, gradients = jax.value_and_grad(total, argnums=(0, 1))(zero, jnp.zeros_like(RELATIONS))
    assert np.isfinite(value)
    for gradient in gradients:
        assert np.isfinite(gradient).all()


def test_the_coefficients_follow_the_key() -> None:
    settings = ContrastiveSettings()
    other = ordinal_contrastive_loss(ENTITIES, RELATIONS, batch(), settings=settings, key=jax.random.key(12))[
        0
    ]
    assert loss(settings)[0] == loss(settings)[0]
    assert loss(settings)[0] != other


def test_the_negative_mixes_do_not_move_the_other_streams() -> None:
    """One pair whose negatives are k copies of its head: the mixes are the head, whatever beta is.

    So only alpha is left, and more negative mixes must add exactly their share to the denominator.
    """
    entities = jnp.ones((1, 3, D)).at[0, 1].set(2.0)
    one_pair = Batch(
        relations=jnp.zeros(1, jnp.int32),
        heads=jnp.zeros((1, 1), jnp.int32),
        mask=jnp.ones((1, 1), bool),
        labels=jnp.array([[[False, True, False]]]),
        negatives=jnp.array([[[False, False, True]]]),
    )
    for mixes in (1, 4):
        settings = ContrastiveSettings(num_negative_mixes=mixes)
        found, _ = ordinal_contrastive_loss(
            entities, jnp.full((1, D), 0.5), one_pair, settings=settings, key=KEY
        )
        alpha = float(jax.random.uniform(jax.random.fold_in(KEY, ALPHA), (1, 1, 1))[0, 0, 0])
        # p = 1.5, u = 1 + alpha, v = 1 in each of 4 dimensions.
        positive, negative = np.exp(-4 * abs(0.5 - alpha)), np.exp(-4 * 0.5)
        np.testing.assert_allclose(found, -np.log(positive / (positive + mixes * negative)), rtol=1e-5)


def test_top_k_by_hand() -> None:
    preferences = jnp.array([0.1, 0.9, 1.5, 0.9, 0.3])
    members = jnp.array([True, True, False, True, True])
    indices, exists = top_k(preferences, members, 3)
    assert indices.tolist() == [1, 3, 4]  # 2 is no member; 1 before 3 although they are equal
    assert exists.tolist() == [True, True, True]


@pytest.mark.parametrize("k", [1, 3, 6, 9])
def test_top_k_is_top_k_of_what_is_left_when_the_others_are_deleted(k: int) -> None:
    """60 draws with many ties: none, fewer than k, k and more members, and k beyond N = 6."""
    rng = np.random.default_rng(k)
    preferences = rng.integers(-2, 3, (60, 6)) / 2.0
    members = rng.random((60, 6)) < rng.random((60, 1))
    members[0], members[1] = False, True
    indices, exists = jax.vmap(lambda row, member: top_k(row, member, k))(
        jnp.asarray(preferences, jnp.float32), jnp.asarray(members)
    )
    assert indices.shape == exists.shape == (60, k)
    for row in range(60):
        expected = oracle.top_k(preferences[row].tolist(), members[row].tolist(), k)
        assert indices[row][exists[row]].tolist() == expected
        assert exists[row].tolist() == [i < len(expected) for i in range(k)]


def test_gradients_reach_the_chosen_vectors_and_the_head_only() -> None:
    """Head 3 with positive 0 and the two of its negatives 2, 4, 6 that are closest by cosine (k = 2)."""
    settings = ContrastiveSettings(k=2)
    mask = jnp.zeros((S, H), bool).at[0, 1].set(True)
    gradient = jax.grad(lambda entities: loss(settings, entities, mask=mask)[0])(ENTITIES)
    rows = np.asarray(ENTITIES[0], np.float64)
    cosines = [oracle.cosine(rows[3], row) for row in rows]
    chosen = sorted([2, 4, 6], key=lambda i: -cosines[i])[:2]
    touched = np.abs(gradient).max(-1) > 0
    assert touched[0].tolist() == [i in {3, 0, *chosen} for i in range(N)]
    assert not touched[1].any()


@pytest.mark.parametrize(
    ("kind", "norm", "expected"),
    [
        ("distance", 1, -7.0),
        ("distance", 2, -5.0),
        ("dot", 1, 30.0),
        ("cosine", 1, 30.0 / np.sqrt(20.0 * 65.0)),
    ],
)
def test_similarities_by_hand(kind: str, norm: int, expected: float) -> None:
    """p - u = (3, -4): L1 7, L2 5; p.u = -2 + 32 = 30; |p|^2 = 20, |u|^2 = 65."""
    p, u = jnp.array([2.0, 4.0]), jnp.array([-1.0, 8.0])
    settings = ContrastiveSettings(similarity=kind, norm=norm)
    np.testing.assert_allclose(similarity(p, u, settings), expected, rtol=1e-6)


def test_the_cosine_of_a_zero_vector_is_zero_with_finite_gradients() -> None:
    zero, other = jnp.zeros(3), jnp.array([1.0, 2.0, 3.0])
    value, gradients = jax.value_and_grad(cosine, argnums=(0, 1))(zero, other)
    assert value == 0.0
    assert np.isfinite(gradients).all()
    np.testing.assert_allclose(cosine(other, -2.0 * other), -1.0, rtol=1e-6)
