"""One training step: pure, compiled once, counted, and watched for the first value that is not finite."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from numcoke_jax.system import random_streams
from numcoke_jax.training.losses.objective import Objective
from numcoke_jax.training.programs import create_objective
from numcoke_jax.training.step import PARTS, LossSums, TrainState, train_step
from tests import examples

pytestmark = pytest.mark.usefixtures("short_blocks")

BLOW_UP_AT = 4  # the step whose update makes every parameter huge


def learning_rate(step: jax.Array) -> jax.Array:
    return jnp.where(step == BLOW_UP_AT, 1e30, 1e-2)


CONFIG = examples.config_with(okcl__weight=0.7)
OPTIMIZER = optax.adam(learning_rate)
OBJECTIVE = create_objective(CONFIG)


@functools.cache
def model() -> Any:
    return examples.model_and_parameters(CONFIG)[0]


@functools.cache
def step() -> Any:
    bound = functools.partial(
        train_step, model=model(), optimizer=OPTIMIZER, loss_fn=OBJECTIVE.losses_and_statistics
    )
    return examples.compiled(bound)


@functools.cache
def fresh_state(seed: int = 0) -> TrainState:
    @examples.compiled
    def create(key: jax.Array) -> TrainState:
        return examples.created_state(model(), OPTIMIZER, examples.literals(), key=key)

    return create(random_streams.base_key(seed))


def after(steps: int, state: TrainState | None = None) -> tuple[TrainState, list[float]]:
    """The state after some steps on the same batch, and the losses on the way."""
    state, losses = state or fresh_state(), []
    for _ in range(steps):
        state, loss = step()(state, examples.batch(), examples.literals())
        losses.append(float(loss))
    return state, losses


def leaves(state: TrainState) -> list[np.ndarray]:
    """All arrays but the key, which NumPy does not know."""
    without_key = (state.step, state.params, state.opt_state, state.losses)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(without_key)]


def assert_same_bits(left: TrainState, right: TrainState) -> None:
    assert (jax.random.key_data(left.key) == jax.random.key_data(right.key)).all()
    for found, expected in zip(leaves(left), leaves(right), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_fresh_state() -> None:
    state = fresh_state()
    assert state.step == 0
    assert state.losses.first_nonfinite_step == -1
    assert [float(x) for x in jax.tree.leaves(state.losses)] == [0.0, 0.0, 0.0, 0.0, -1.0, 0.0]
    assert (jax.random.key_data(state.key) == jax.random.key_data(random_streams.base_key(0))).all()
    other = fresh_state(seed=1)
    assert np.abs(state.params["entity_embedding"] - other.params["entity_embedding"]).max() > 0.01


def test_the_step_is_a_pure_function() -> None:
    """The same state twice gives the same bits, and the state that went in is as it was."""
    before = leaves(fresh_state())
    first, losses = after(3)
    second, losses_again = after(3)
    assert_same_bits(first, second)
    assert losses == losses_again
    for found, expected in zip(leaves(fresh_state()), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_steps_are_counted_in_int32_and_compiled_once() -> None:
    """A weakly typed counter or sum would change its type in the first step and compile a second time."""
    state, _ = after(3)
    assert state.step == 3
    assert state.step.dtype == jnp.int32
    assert step()._cache_size() == 1
    fresh = fresh_state()
    for before, now in zip(jax.tree.leaves(fresh), jax.tree.leaves(state), strict=True):
        assert jax.typeof(before) == jax.typeof(now)
        assert not jax.typeof(now).weak_type


def test_interrupted_training_continues_with_the_same_bits() -> None:
    """The state is all there is: copied to the host and back after two steps, the third is the third."""
    two, _ = after(2)
    arrays, structure = jax.tree.flatten(two)
    stored = [np.array(jax.random.key_data(leaf) if leaf is two.key else leaf) for leaf in arrays]
    restored = [
        jax.random.wrap_key_data(jnp.asarray(array)) if leaf is two.key else jnp.asarray(array)
        for leaf, array in zip(arrays, stored, strict=True)
    ]
    three, _ = after(1, jax.tree.unflatten(structure, restored))
    assert_same_bits(three, after(3)[0])


def test_the_loss_of_a_step_depends_on_the_steps_key() -> None:
    """Same parameters and batch: another step draws other noise, and so does another seed."""
    fresh = fresh_state()
    _, [first] = after(1)
    _, [other_step] = after(1, dataclasses.replace(fresh, step=jnp.array(1, jnp.int32)))
    _, [other_seed] = after(1, dataclasses.replace(fresh, key=random_streams.base_key(1)))
    assert len({first, other_step, other_seed}) == 3


def test_the_sums_are_the_objectives_with_the_steps_keys() -> None:
    forward = examples.compiled(functools.partial(OBJECTIVE.losses, model=model()))
    state, sums = fresh_state(), np.zeros(4)
    for number in range(2):
        key = jax.random.fold_in(random_streams.base_key(0), number)
        total, terms = forward(state.params, examples.batch(), examples.literals(), key=key)
        sums += [*terms["bce"], *terms["contrastive"]]
        state, [loss] = after(1, state)
        np.testing.assert_allclose(loss, total, rtol=1e-5)
    losses = state.losses
    found = [losses.bce_sum, losses.bce_count, losses.contrastive_sum, losses.contrastive_count]
    np.testing.assert_allclose(found, sums, rtol=1e-5)
    assert losses.bce_count == 50.0  # 2 steps, 5 real pairs, 5 candidates
    assert losses.contrastive_count == 8.0  # 4 of the pairs have positives


def test_the_first_step_that_is_not_finite_is_kept() -> None:
    """The update of step 4 makes the parameters 1e30, so step 5 is the first to lose its values."""
    good, losses = after(BLOW_UP_AT + 1)
    assert np.isfinite(losses).all()
    assert good.losses.first_nonfinite_step == -1
    bad, [loss] = after(1, good)
    assert not np.isfinite(loss)
    assert bad.losses.first_nonfinite_step == BLOW_UP_AT + 1
    worse, _ = after(2, bad)
    assert worse.losses.first_nonfinite_step == BLOW_UP_AT + 1


def test_an_infinite_literal_is_found_in_its_step() -> None:
    literals = examples.literals()
    row, field = np.argwhere(np.asarray(literals.observed))[0]
    infinite = dataclasses.replace(literals, values=literals.values.at[row, field].set(jnp.inf))
    good, _ = after(1)
    bad, _ = step()(good, examples.batch(), infinite)
    assert bad.losses.first_nonfinite_step == 1


def test_the_sums_start_again_from_zero() -> None:
    """As the loop does it after an epoch; the step count and what was learned stay."""
    state, _ = after(2)
    again = dataclasses.replace(state, losses=LossSums.zero())
    third, _ = after(1, again)
    assert third.losses.bce_count == 25.0
    assert third.step == 3


@dataclasses.dataclass(frozen=True)
class SumOfPowers(Objective):
    """sum_i |x_i|^power of a parameter x, no model involved; reported as (sum, 2), without a second term."""

    power: float = 2.0

    def losses_and_statistics(self, params: Any, batch: Any, literals: Any, *, model: Any, key: Any) -> Any:
        total = jnp.sum(params["x"] ** self.power)
        return total, ({"bce": (total, jnp.asarray(2.0, jnp.float32))}, {})


def simple_step(power: float, **jit: Any) -> Any:
    """SGD with rate 1/4 on such a sum."""
    optimizer, objective = optax.sgd(0.25), SumOfPowers(power=power)
    return jax.jit(
        functools.partial(
            train_step, model=model(), optimizer=optimizer, loss_fn=objective.losses_and_statistics
        ),
        **jit,
    )


def simple_state(*x: float) -> TrainState:
    params = {"x": jnp.array(x, jnp.float32)}
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optax.sgd(0.25).init(params),
        key=random_streams.base_key(0),
        losses=LossSums.zero(),
    )


def test_the_update_by_hand() -> None:
    """x - 2 x / 4 halves x; the loss is from before the update: 4^2 + 2^2 = 20, then 2^2 + 1 = 5."""
    state, losses = simple_state(4.0, -2.0), []
    for _ in range(2):
        state, loss = simple_step(2.0)(state, examples.batch(), examples.literals())
        losses.append(float(loss))
    np.testing.assert_array_equal(state.params["x"], [1.0, -0.5])
    assert losses == [20.0, 5.0]
    assert state.losses.bce_sum == 25.0
    assert state.losses.bce_count == 4.0
    assert state.losses.contrastive_sum == state.losses.contrastive_count == 0.0  # there is no such term
    assert state.losses.first_nonfinite_step == -1


def test_a_gradient_that_is_not_finite_counts_though_its_loss_is() -> None:
    """The root of 0 is 0, its slope is not."""
    state, loss = simple_step(0.5)(simple_state(4.0, 0.0), examples.batch(), examples.literals())
    assert loss == 2.0
    assert state.losses.first_nonfinite_step == 0
    assert parts_of(state) == {"gradient"}


def test_a_gradient_too_large_to_be_squared_counts_as_not_finite() -> None:
    """Its own entry, 3e19, is finite; Adam's second moment of it would not be."""
    state, loss = simple_step(2.0)(simple_state(1.5e19, 0.0), examples.batch(), examples.literals())
    assert np.isfinite(loss)
    assert parts_of(state) == {"gradient"}


@dataclasses.dataclass(frozen=True)
class Given(Objective):
    """Losses that do not depend on anything."""

    total: float = 1.0
    bce: float = 1.0
    other: float = 1.0

    def losses_and_statistics(self, params: Any, batch: Any, literals: Any, *, model: Any, key: Any) -> Any:
        total, bce, other, one = (jnp.float32(x) for x in (self.total, self.bce, self.other, 1.0))
        return total, ({"bce": (bce, one), "contrastive": (other, one)}, {})


def given_step(state: TrainState, **values: Any) -> TrainState:
    bound = functools.partial(
        train_step, model=model(), optimizer=optax.sgd(0.25), loss_fn=Given(**values).losses_and_statistics
    )
    return jax.jit(bound)(state, examples.batch(), examples.literals())[0]


def parts_of(state: TrainState) -> set[str]:
    return {name for bit, name in enumerate(PARTS) if int(state.losses.nonfinite_parts) >> bit & 1}


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({}, set()),
        ({"total": jnp.inf}, {"total"}),
        ({"bce": jnp.nan, "total": jnp.nan}, {"bce", "total"}),
        ({"other": -jnp.inf}, {"contrastive"}),
    ],
    ids=["none", "total", "bce", "contrastive"],
)
def test_what_was_not_finite_is_named_by_the_first_step_alone(values: dict, parts: set[str]) -> None:
    state = given_step(given_step(simple_state(1.0)), **values)
    assert parts_of(state) == parts
    assert state.losses.first_nonfinite_step == (1 if parts else -1)
    later = given_step(state, bce=jnp.inf)
    assert parts_of(later) == (parts or {"bce"})
    assert later.losses.first_nonfinite_step == (1 if parts else 2)


def test_a_state_can_be_donated() -> None:
    """No two of its arrays share a buffer, or this would raise; the old state is gone afterwards."""
    donating, state = simple_step(2.0, donate_argnums=0), simple_state(4.0, -2.0)
    once, _ = donating(state, examples.batch(), examples.literals())
    assert state.params["x"].is_deleted()
    again = dataclasses.replace(once, losses=LossSums.zero())
    twice, _ = donating(again, examples.batch(), examples.literals())
    np.testing.assert_array_equal(twice.params["x"], [1.0, -0.5])
