"""Batch normalisation: batch and running statistics, padding, and how the step writes them."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from numcoke_jax.models.batch_norm import BatchNorm, with_statistics
from numcoke_jax.system import random_streams
from numcoke_jax.training.programs import create_objective
from numcoke_jax.training.step import train_step
from tests import examples

ROWS = examples.normal(2, 3, 4, seed=1, scale=2.0)
ONES = jnp.ones((2, 3))


def normalised(rows: jax.Array, weights: jax.Array, parameters: Any, *, train: bool) -> tuple[Any, Any]:
    return BatchNorm().apply({"params": parameters}, rows, weights, train=train, mutable=["statistics"])


def fresh_parameters() -> dict:
    return BatchNorm().init(jax.random.key(0), ROWS, ONES, train=False)["params"]


def test_training_takes_the_statistics_of_the_rows_and_evaluation_the_running_ones() -> None:
    parameters = fresh_parameters() | {"scale": jnp.full(4, 3.0), "bias": jnp.full(4, -1.0)}
    found, written = normalised(ROWS, ONES, parameters, train=True)
    flat = np.asarray(ROWS, np.float64).reshape(6, 4)
    mean, variance = flat.mean(0), flat.var(0)
    expected = 3.0 * (np.asarray(ROWS) - mean) / np.sqrt(variance + 1e-5) - 1.0
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    statistics = written["statistics"]
    np.testing.assert_allclose(statistics["running_mean"], 0.1 * mean, rtol=1e-4, atol=1e-6)  # 0.9 * 0 + ...
    np.testing.assert_allclose(statistics["running_variance"], 0.9 + 0.1 * variance, rtol=1e-4)
    after, nothing = normalised(ROWS, ONES, with_statistics(parameters, statistics), train=False)
    by_hand = 3.0 * (np.asarray(ROWS) - 0.1 * mean) / np.sqrt(0.9 + 0.1 * variance + 1e-5) - 1.0
    np.testing.assert_allclose(after, by_hand, rtol=1e-4, atol=1e-5)
    assert not nothing


def test_rows_of_weight_0_change_nothing() -> None:
    junk = jnp.concatenate([ROWS, 100.0 * ROWS[:, :2]], axis=1)
    weights = jnp.array([[1.0, 1.0, 1.0, 0.0, 0.0]] * 2)
    found, written = normalised(junk, weights, fresh_parameters(), train=True)
    alone, expected = normalised(ROWS, ONES, fresh_parameters(), train=True)
    np.testing.assert_allclose(found[:, :3], alone, rtol=1e-4, atol=1e-5)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), written, expected)


def test_padding_alone_stays_finite() -> None:
    found, written = normalised(ROWS, 0.0 * ONES, fresh_parameters(), train=True)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((found, written)))


def test_the_step_writes_the_running_statistics_and_the_optimiser_does_not_touch_them() -> None:
    config = examples.config_with(model__name="tucker")
    model, _ = examples.model_and_parameters(config)
    optimizer = optax.adamw(0.05, weight_decay=0.5)  # weight decay would shrink them
    literals, batch = examples.literals(), examples.batch()
    objective = create_objective(config)
    before = examples.created_state(model, optimizer, literals, key=random_streams.base_key(0))
    step = functools.partial(
        train_step, model=model, optimizer=optimizer, loss_fn=objective.losses_and_statistics
    )
    after, _ = examples.compiled(step)(before, batch, literals)
    key = random_streams.step_key(before.key, before.step)
    _, (_, statistics) = objective.losses_and_statistics(before.params, batch, literals, model=model, key=key)
    for norm in ("head_norm", "query_norm"):
        for name in ("running_mean", "running_variance"):
            found, written = after.params[norm][name], statistics[norm][name]
            np.testing.assert_allclose(found, written, rtol=1e-4, atol=1e-6)
            assert np.abs(found - before.params[norm][name]).max() > 1e-4
    jax.tree.map(lambda leaf, other: None, after.params, before.params)  # raises for another structure


def test_a_model_without_statistics_keeps_its_parameters() -> None:
    parameters = {"a": jnp.ones(2)}
    assert with_statistics(parameters, {}) is parameters
