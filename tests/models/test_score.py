"""The score: readings 14 and 15 of the paper, every norm and order term; dropout."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.config.schema import choices
from numcoke_jax.models.encoded import EncodedEntities
from numcoke_jax.models.score import DecodedOrderScore
from tests import examples
from tests.oracles.score import score

S, H, N, D, R = 2, 3, 5, 4, 3
RELATION_IDS = jnp.array([2, 0], jnp.int32)
HEADS = jnp.array([[0, 4, 4], [1, 0, 3]], jnp.int32)
ORDERS = choices("score.order")
SWITCHES = list(itertools.product((1, 2), ORDERS))


def apply(module: DecodedOrderScore, variables: dict, *inputs: Any, **call: Any) -> Any:
    """Logits from entities, relation vectors, relation ids and heads: projected, then scored."""

    def project_and_score(
        module: Any, entities: Any, relations: Any, ids: Any, heads: Any, train: bool
    ) -> Any:
        encoded = EncodedEntities(entities, relations, module.project(entities, ids))
        return module(encoded, heads, train=train)

    return module.apply(variables, *inputs, method=project_and_score, **call)


def module_and_parameters(**attributes: Any) -> tuple[DecodedOrderScore, dict]:
    module = DecodedOrderScore(
        **({"num_relations": R, "dim": D, "margin": 3.0, "order_weight": 0.4} | attributes)
    )
    variables: dict = {}
    if module.order != "none":
        variables = {"params": {"order_projection": examples.normal(R, D, D, seed=3)}}
    return module, variables


ENTITIES = examples.normal(S, N, D, seed=1)
RELATIONS = examples.normal(S, D, seed=2)


def logits(module: DecodedOrderScore, variables: dict, *, train: bool = False, seed: int = 0) -> jax.Array:
    @examples.compiled
    def call(variables: dict, key: jax.Array) -> jax.Array:
        rngs = {"dropout": key}
        return apply(module, variables, ENTITIES, RELATIONS, RELATION_IDS, HEADS, train=train, rngs=rngs)

    return call(variables, jax.random.key(seed))


@functools.cache
def evaluated(norm: int, order: str) -> jax.Array:
    return logits(*module_and_parameters(norm=norm, order=order))


@pytest.mark.parametrize(("norm", "order"), SWITCHES)
def test_every_triple_equals_the_equation(norm: int, order: str) -> None:
    _, variables = module_and_parameters(norm=norm, order=order)
    exact = examples.float64({"entities": ENTITIES, "relations": RELATIONS, "variables": variables})
    for s, h, n in np.ndindex(S, H, N):
        projection = None
        if order != "none":
            projection = exact["variables"]["params"]["order_projection"][RELATION_IDS[s]]
        expected = score(
            exact["entities"][s, HEADS[s, h]],
            exact["relations"][s],
            exact["entities"][s, n],
            projection,
            p=norm,
            margin=3.0,
            order=order,
            order_weight=0.4,
        )
        np.testing.assert_allclose(evaluated(norm, order)[s, h, n], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("norm", "order"), SWITCHES)
def test_all_tails_at_once_equal_one_triple_at_a_time(norm: int, order: str) -> None:
    """Each triple becomes a slot of its own with two entities, the head first and the tail second."""
    module, variables = module_and_parameters(norm=norm, order=order)
    slot, query, tail = np.array([(0, 0, 1), (0, 2, 4), (1, 1, 2), (1, 2, 3)]).T
    pairs = jnp.stack([ENTITIES[slot, HEADS[slot, query]], ENTITIES[slot, tail]], axis=1)
    first = jnp.zeros((4, 1), jnp.int32)

    @examples.compiled
    def call(variables: dict) -> jax.Array:
        return apply(module, variables, pairs, RELATIONS[slot], RELATION_IDS[slot], first, train=False)

    expected = evaluated(norm, order)[slot, query, tail]
    np.testing.assert_allclose(call(variables)[:, 0, 1], expected, rtol=1e-5, atol=1e-5)


def test_the_reward_rises_with_the_head_and_the_penalty_falls_with_the_tail() -> None:
    """By hand, W_r = identity, r = 0, d = 4: head all 2, tail all 1, and the other way round.

    ||e_h - e_t||_1 = 4 and ||max(0, +-1)||^2 = 4 in the one order, 0 in the other; epsilon 3, Delta 0.4.
    """
    entities = jnp.stack([jnp.full(D, 2.0), jnp.full(D, 1.0)])[None]
    identity = {"params": {"order_projection": jnp.eye(D)[None]}}
    expected = {
        "reward": [[3.0, -1.0 + 0.4 * 4.0], [-1.0, 3.0]],
        "penalty": [[3.0 + 0.4 * 3.0, -1.0 + 0.4 * 3.0], [-1.0 + 0.4 * (3.0 - 4.0), 3.0 + 0.4 * 3.0]],
        "none": [[3.0, -1.0], [-1.0, 3.0]],
    }
    for order in ORDERS:
        module, _ = module_and_parameters(order=order, num_relations=1)
        variables = {} if order == "none" else identity
        both = jnp.array([[0, 1]], jnp.int32)
        zero = jnp.zeros((1, D))
        call = examples.compiled(functools.partial(apply, module, train=False))
        found = call(variables, entities, zero, jnp.zeros(1, jnp.int32), both)
        np.testing.assert_allclose(found[0], expected[order], rtol=1e-6, err_msg=order)


def test_dropout_is_absent_in_evaluation_and_at_rate_zero() -> None:
    module, variables = module_and_parameters(dropout=0.5)
    without, _ = module_and_parameters(dropout=0.0)
    expected = evaluated(1, "reward")
    np.testing.assert_array_equal(logits(module, variables, seed=1), expected)
    np.testing.assert_array_equal(logits(without, variables, train=True), expected)
    first, again, other = (logits(module, variables, train=True, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - expected).max() > 0.1
    assert np.abs(first - other).max() > 0.1


def test_dropout_masks_heads_and_tails_of_the_translation_separately() -> None:
    """With d = 1 a logit is margin - |2 a h + r - 2 b t| for bits a (a query) and b (a tail of the slot).

    Half of the entries are dropped, the others doubled.  The bits that explain a matrix of logits are
    searched; there must be some, the same b for every query, and a must not follow b.
    """
    module = DecodedOrderScore(num_relations=1, dim=1, norm=1, margin=3.0, order="none", dropout=0.5)
    entities, relation = jnp.array([[[0.7], [-1.3], [2.1]]]), jnp.array([[0.31]])
    heads = jnp.array([[0, 2]], jnp.int32)
    draws = 300

    def one_draw(key: jax.Array) -> jax.Array:
        rngs = {"dropout": key}
        ids = jnp.zeros(1, jnp.int32)
        return apply(module, {}, entities, relation, ids, heads, train=True, rngs=rngs)[0]

    found = np.asarray(examples.compiled(jax.vmap(one_draw))(jax.random.split(jax.random.key(0), draws)))
    candidates = list(itertools.product((0, 1), repeat=5))
    matrices = []
    for bits in candidates:
        head = [2 * bits[h] * float(entities[0, heads[0, h], 0]) for h in range(2)]
        tail = [2 * bits[2 + n] * float(entities[0, n, 0]) for n in range(3)]
        matrices.append([[3.0 - abs(head[h] + 0.31 - tail[n]) for n in range(3)] for h in range(2)])
    errors = np.abs(found[:, None] - np.array(matrices)).max(axis=(2, 3))
    np.testing.assert_allclose(errors.min(axis=1), 0.0, atol=1e-5)
    drawn = np.array(candidates)[errors.argmin(axis=1)]
    # 300 draws: a share's standard deviation is 0.029, a correlation's 0.058; four of them are allowed.
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=0.116)
    np.testing.assert_allclose(np.corrcoef(drawn.T)[np.triu_indices(5, 1)], 0.0, atol=0.232)


@pytest.mark.parametrize("order", ["reward", "penalty"])
def test_dropout_leaves_the_order_term_alone(order: str) -> None:
    module, variables = module_and_parameters(order=order, dropout=0.5)
    plain, _ = module_and_parameters(order="none", dropout=0.5)
    in_training = logits(module, variables, train=True) - logits(plain, {}, train=True)
    in_evaluation = evaluated(1, order) - evaluated(1, "none")
    np.testing.assert_allclose(in_training, in_evaluation, rtol=1e-4, atol=1e-5)
