"""The numeric order term: its equations by loops and by hand, and what it may and may not depend on."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.numeric_order import (
    NumericOrder,
    RelationPositions,
    field_choices,
    field_weights,
    order_logits,
)
from numcoke_jax.training.losses.binary_cross_entropy import binary_cross_entropy
from tests import examples
from tests.oracles import numeric_order as oracle

MODULE = NumericOrder(num_relations=2)
RELATIONS = jnp.array([1, 0], jnp.int32)
EVERY_HEAD = jnp.broadcast_to(jnp.arange(5, dtype=jnp.int32), (2, 5))


def features() -> jax.Array:
    return examples.normal(5, 4, seed=3)


def parameters() -> dict:
    found = examples.parameters_of(MODULE, features(), examples.literals(), RELATIONS)
    return found | {"field_weight": found["field_weight"] / MODULE.sharpness}


@functools.cache
def compiled_positions() -> Any:
    return examples.compiled(functools.partial(examples.apply, MODULE))


def positions(
    weights: dict, literals: Literals | None = None, vectors: jax.Array | None = None
) -> RelationPositions:
    """Of the 5 example entities under relations 1 and 0."""
    literals = examples.literals() if literals is None else literals
    vectors = features() if vectors is None else vectors
    return compiled_positions()(weights, vectors, literals, RELATIONS)


def all_logits(found: RelationPositions) -> np.ndarray:
    """[S, N, N]: every entity as head, every entity as tail."""
    return np.asarray(order_logits(found, EVERY_HEAD))


def test_positions_and_logits_equal_the_loops() -> None:
    with jax.enable_x64(True):
        weights, literals = parameters(), examples.literals()
        found = positions(weights)
        logits = all_logits(found)
        exact, vectors = examples.float64(weights), np.asarray(features(), np.float64)
        for s, relation in enumerate([1, 0]):
            for head in range(5):
                z, k = oracle.position_and_certainty(exact, vectors[head], literals, head, relation)
                np.testing.assert_allclose(found.position[s, head], z, rtol=1e-12)
                np.testing.assert_allclose(found.certainty[s, head], k, rtol=1e-12)
                for tail in range(5):
                    expected = oracle.term(exact, vectors, literals, relation, head, tail)
                    np.testing.assert_allclose(logits[s, head, tail], expected, rtol=1e-10, atol=1e-14)


def literals_of(cells: list[list[float | None]]) -> Literals:
    """Positions of observed cells; None is a missing one, 99 is stored there."""
    values = jnp.array([[99.0 if cell is None else cell for cell in row] for row in cells], jnp.float32)
    observed = jnp.array([[cell is not None for cell in row] for row in cells])
    return Literals(values=values, observed=observed, positions=values)


def test_at_the_start_no_field_and_no_direction_is_preferred() -> None:
    """w = 0: every entity stands at 0, so no pair gets anything, and every field can still be chosen.

    Certainty by hand: of entity 2 half is missing, k_2 = 1/2 + 1/2 * 1/2 = .75.
    """
    literals = literals_of([[0.8, 0.4], [0.2, 0.6], [0.3, None]])
    module, nothing = NumericOrder(num_relations=1), jnp.zeros((3, 4), jnp.float32)
    relation, heads = jnp.array([0], jnp.int32), jnp.array([[0]], jnp.int32)
    found, variables = examples.compiled(module.init_with_output)(
        jax.random.key(0), nothing, literals, relation
    )
    np.testing.assert_array_equal(found.position, [[0.0, 0.0, 0.0]])
    np.testing.assert_allclose(found.certainty, [[1.0, 1.0, 0.75]], rtol=1e-6)
    np.testing.assert_array_equal(order_logits(found, heads), np.zeros((1, 1, 3)))

    def logit(weights: jax.Array) -> jax.Array:
        chosen = {"params": variables["params"] | {"field_weight": weights}}
        found: Any = module.apply(chosen, nothing, literals, relation)
        return order_logits(found, heads)[0, 0, 1]

    gradient = jax.jit(jax.grad(logit))(jnp.zeros((1, 2, 2)))
    # d z_i / d w^up_m = 10 x_im / 4; 1.313262 * s (10) * 2.5 * (x_0m - x_1m) with gaps .6 and -.2
    np.testing.assert_allclose(gradient, [[[19.69893, -6.56631], [-19.69893, 6.56631]]], rtol=1e-5)


def test_accelerators_are_asked_for_all_digits_of_positions() -> None:
    """The program that a TPU would get, forward and backward: by itself it rounds operands to bfloat16."""

    def total(weights: dict) -> jax.Array:
        found = examples.apply(MODULE, weights, features(), examples.literals(), RELATIONS)
        return jnp.sin(found.position + found.certainty).sum()

    lowered = jax.jit(jax.grad(total)).trace(parameters()).lower(lowering_platforms=("tpu",))
    products = [line for line in lowered.as_text().splitlines() if "stablehlo.dot_general" in line]
    assert len(products) >= 3
    assert all("precision = [HIGHEST, HIGHEST]" in line for line in products)


def test_logits_by_hand() -> None:
    """Choices (ln 3 upwards in field 0, else 0) of two fields: (3, 1, 1, 1) / 6, so a = (1/3, 0).

    s = 10, softplus(1) = 1.313262; z_0 = .8 / 3, z_1 = .2 / 3: 1.313262 tanh(10 * .2) = 1.266021.
    Entity 2: k = 2/6 * 1/2 + 4/6 = 5/6 as field 1 is missing, z_2 = .3 / 3:
    1.313262 tanh(10 * 5/6 * .5 / 3) = 1.313262 * .882925 = 1.159512.
    """
    literals = literals_of([[0.8, 0.4], [0.2, 0.6], [0.3, None]])
    module, nothing = NumericOrder(num_relations=1), jnp.zeros((3, 4), jnp.float32)
    relation, heads = jnp.array([0], jnp.int32), jnp.array([[0]], jnp.int32)
    weights = examples.compiled(module.init)(jax.random.key(0), nothing, literals, relation)["params"]
    up, down = [math.log(3.0) / module.sharpness, 0.0], [0.0, 0.0]
    for choice, sign in (([up, down], 1.0), ([down, up], -1.0)):  # downwards: the same with the other sign
        chosen = {"params": weights | {"field_weight": jnp.array([choice])}}
        found: Any = module.apply(chosen, nothing, literals, relation)
        logits = order_logits(found, heads)
        np.testing.assert_allclose(logits * sign, [[[0.0, 1.266021, 1.159512]]], rtol=1e-5)


def test_field_weights_by_hand() -> None:
    """(ln 3, 0, 0) upwards and 0 downwards: (3, 1, 1, 1, 1, 1) / 8, so a = (1/4, 0, 0)."""
    weights = jnp.array([[[math.log(3.0), 0.0, 0.0], [0.0] * 3], [[0.0] * 3, [math.log(3.0), 0.0, 0.0]]])
    found = field_weights(weights / MODULE.sharpness, MODULE.sharpness)
    np.testing.assert_allclose(found, [[0.25, 0.0, 0.0], [-0.25, 0.0, 0.0]], atol=1e-7)


@settings(max_examples=30)
@given(st.lists(st.floats(-3, 3, width=32), min_size=12, max_size=12))
def test_field_choices_sum_to_one(logits: list[float]) -> None:
    """However large the weights are: with everything observed each entity is certain and within (-1, 1)."""
    weights = parameters() | {"field_weight": jnp.array(logits, jnp.float32).reshape(2, 2, 3)}
    ones = literals_of([[1.0] * 3] * 5)
    found = positions(weights, ones)
    np.testing.assert_allclose(found.certainty, 1.0, rtol=1e-5)
    assert (np.abs(found.position) <= 1.0 + 1e-6).all()


def test_turning_the_directions_round_turns_the_order_round() -> None:
    """A relation "is lower than" is "is higher than" with up and down exchanged, at no cost."""
    weights = parameters()
    turned = weights | {"field_weight": weights["field_weight"][:, ::-1]}
    np.testing.assert_allclose(all_logits(positions(turned)), -all_logits(positions(weights)), rtol=1e-5)


def test_gradients_agree_with_finite_differences() -> None:
    """In every parameter, with no field chosen yet (all positions are 0) and with some."""
    with jax.enable_x64(True):
        literals, vectors = examples.literals(), features()
        random = parameters()
        start = random | {"field_weight": jnp.zeros_like(random["field_weight"])}
        pull = examples.normal(2, 5, 5, seed=6)

        @jax.jit
        def pulled(weights: dict) -> jax.Array:
            found = examples.apply(MODULE, weights, vectors, literals, RELATIONS)
            return (order_logits(found, EVERY_HEAD) * pull).sum()

        for weights in (start, random):
            check_grads(pulled, (weights,), order=1, modes=["rev"], rtol=1e-5)


@pytest.mark.parametrize("directions", [(1, 1, 1), (-1, -1, -1), (1, -1, 1)])
def test_learns_field_and_direction_of_each_relation(directions: tuple[int, int, int]) -> None:
    """Three relations over three fields, "higher" or "lower": 300 steps of Adam on half of the pairs.

    Relation r compares field 2 - r; the found choice must hold over 0.9 of the sum, and the pairs that were
    not trained on must be in the right order.
    """
    places = jnp.asarray(np.random.default_rng(5).random((24, 3)), jnp.float32)
    literals = Literals(values=places, observed=jnp.ones((24, 3), bool), positions=places)
    compared = np.array([2, 1, 0])
    height = np.asarray(directions)[:, None] * np.asarray(places).T[compared]
    labels = jnp.asarray(height[:, :, None] > height[:, None, :], jnp.float32)
    trained = jnp.asarray(np.random.default_rng(7).random(labels.shape) < 0.5)
    module, relations = NumericOrder(num_relations=3), jnp.arange(3, dtype=jnp.int32)
    heads, nothing = jnp.tile(jnp.arange(24, dtype=jnp.int32), (3, 1)), jnp.zeros((24, 2), jnp.float32)
    optimizer = optax.adam(0.02)

    def logits_of(weights: dict) -> jax.Array:
        return order_logits(examples.apply(module, weights, nothing, literals, relations), heads)

    def loss(weights: dict) -> jax.Array:
        return binary_cross_entropy(logits_of(weights), labels, trained)[0]

    @jax.jit
    def train(weights: dict) -> dict:
        def step(carry: tuple, _: None) -> tuple:
            updates, state = optimizer.update(jax.grad(loss)(carry[0]), carry[1])
            return (optax.apply_updates(carry[0], updates), state), None

        return jax.lax.scan(step, (weights, optimizer.init(weights)), length=300)[0][0]

    initial = examples.compiled(module.init)(jax.random.key(0), nothing, literals, relations)
    weights = train(initial["params"])
    choices = np.asarray(field_choices(weights["field_weight"], module.sharpness))
    for relation, direction in enumerate(directions):
        assert choices[relation, 0 if direction > 0 else 1, compared[relation]] > 0.9
    wrong = (np.asarray(logits_of(weights)) > 0) != np.asarray(labels, bool)
    off_diagonal = ~np.eye(24, dtype=bool) & ~np.asarray(trained)
    assert wrong[off_diagonal].mean() < 0.02


def test_a_known_position_is_certain_and_a_guessed_one_as_certain_as_was_learned() -> None:
    """One field, (R,) shares: sigmoid(0) = 1/2 under relation 0, sigmoid(ln 3) = 3/4 under relation 1."""
    weights = parameters() | {"missing_certainty": jnp.array([0.0, math.log(3.0)])}
    literals = literals_of([[0.1] * 3, [None] * 3, [0.7] * 3, [None] * 3, [0.9] * 3])
    found = positions(weights, literals)
    np.testing.assert_allclose(found.certainty[0], [1.0, 0.75, 1.0, 0.75, 1.0], rtol=1e-6)
    np.testing.assert_allclose(found.certainty[1], [1.0, 0.5, 1.0, 0.5, 1.0], rtol=1e-6)


def test_order_is_antisymmetric_and_bounded_by_its_weight() -> None:
    weights = parameters()
    logits = all_logits(positions(weights))
    np.testing.assert_allclose(logits, -logits.swapaxes(1, 2), rtol=1e-6)
    bound = np.log1p(np.exp(np.asarray(weights["weight"])))[np.asarray(RELATIONS)]
    assert (np.abs(logits) < bound[:, None, None]).all()
    assert np.abs(logits).max() > 0.05


def test_a_higher_position_never_scores_lower() -> None:
    """Among certain entities a head beats exactly the tails below it, or above it if turned round."""
    literals = literals_of([[0.2] * 3, [0.9] * 3, [0.5] * 3, [0.5] * 3, [0.1] * 3])
    upwards = jnp.array([[[1.0] * 3, [0.0] * 3], [[0.0] * 3, [1.0] * 3]])
    found = all_logits(positions(parameters() | {"field_weight": upwards}, literals))
    place = np.array([0.2, 0.9, 0.5, 0.5, 0.1])
    gaps = np.sign(place[:, None] - place)
    np.testing.assert_array_equal(np.sign(found), [-gaps, gaps])  # relations 1 and 0


def test_missing_positions_come_from_the_entitys_own_embedding_alone() -> None:
    weights, literals = parameters(), examples.literals()
    expected = positions(weights)
    missing = ~np.asarray(literals.observed)
    assert literals.positions is not None
    junk = dataclasses.replace(
        literals,
        values=literals.values + 7.0,  # the term does not look at values at all
        positions=jnp.where(literals.observed, literals.positions, 99.0),
    )
    found = positions(weights, junk)
    np.testing.assert_array_equal(found.position, expected.position)
    np.testing.assert_array_equal(found.certainty, expected.certainty)

    other_vectors = positions(weights, vectors=features() + 1.0)
    np.testing.assert_array_equal(other_vectors.certainty, expected.certainty)
    moved = np.asarray(other_vectors.position != expected.position)
    np.testing.assert_array_equal(moved, np.broadcast_to(missing.any(axis=1), moved.shape))

    row = int(np.argmax(missing.any(axis=1)))
    one_vector = positions(weights, vectors=features().at[row].add(1.0))
    moved = np.asarray(one_vector.position != expected.position)
    np.testing.assert_array_equal(moved, np.broadcast_to(np.arange(5) == row, moved.shape))


def test_positions_are_needed() -> None:
    literals = dataclasses.replace(examples.literals(), positions=None)
    message = r"the numeric order term needs literals\.positions: the values' quantiles"
    with pytest.raises(ValueError, match=message):
        MODULE.init(jax.random.key(0), features(), literals, RELATIONS)
