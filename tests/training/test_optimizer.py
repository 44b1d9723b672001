"""The optax chain: learning rates by table, updates of one scalar parameter by hand."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.config.schema import default_config
from numcoke_jax.training.step import create_optimizer, learning_rate_schedule


def train_config_with(**changes: Any) -> Any:
    train = default_config().train
    train.update(changes)
    return train


@pytest.mark.parametrize(
    ("changes", "total_steps", "expected"),
    [
        ({}, 10, {0: 0.1, 5: 0.1, 10: 0.1, 1000: 0.1}),
        # linear from 0 at step 0 to the peak at step 4
        ({"warmup_steps": 4}, 12, {0: 0.0, 1: 0.025, 2: 0.05, 4: 0.1, 5: 0.1, 12: 0.1}),
        # 0.1 (1 + cos(pi t / 12)) / 2: at a third of the way cos is 1/2, half way 0
        ({"schedule": "cosine"}, 12, {0: 0.1, 4: 0.075, 6: 0.05, 8: 0.025, 12: 0.0, 20: 0.0}),
        # after the warm-up the cosine has the 8 steps that are left: half way at 8, the end at 12
        (
            {"schedule": "cosine", "warmup_steps": 4},
            12,
            {0: 0.0, 2: 0.05, 4: 0.1, 6: 0.05 * (1 + math.sqrt(0.5)), 8: 0.05, 12: 0.0},
        ),
        # a run that ends within its warm-up never gets to the peak
        ({"schedule": "cosine", "warmup_steps": 10}, 5, {0: 0.0, 5: 0.05}),
    ],
    ids=str,
)
def test_learning_rates(changes: dict, total_steps: int, expected: dict[int, float]) -> None:
    schedule = learning_rate_schedule(train_config_with(learning_rate=0.1, **changes), total_steps)
    found = {step: float(schedule(step)) for step in expected}
    assert found == pytest.approx(expected, abs=1e-8)


def trajectory(gradients: list[float], start: float = 2.0, **changes: Any) -> list[float]:
    """Values of one scalar parameter under the given gradients, beginning after the first update."""
    optimizer = create_optimizer(train_config_with(learning_rate=0.1, **changes), total_steps=100)
    parameter, values = jnp.array(start), []
    state = optimizer.init(parameter)
    for gradient in gradients:
        update, state = optimizer.update(jnp.array(gradient), state, parameter)
        parameter = parameter + update
        values.append(float(parameter))
    return values


def adam(
    gradients: list[float], start: float = 2.0, *, decay: float = 0.0, clip: float = math.inf
) -> list[float]:
    """Adam as its paper has it (b1 0.9, b2 0.999, eps 1e-8), decay decoupled as in AdamW."""
    parameter, first, second, values = start, 0.0, 0.0, []
    for t, gradient in enumerate(gradients, start=1):
        gradient = max(-clip, min(clip, gradient))
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        step = (first / (1 - 0.9**t)) / (math.sqrt(second / (1 - 0.999**t)) + 1e-8)
        parameter -= 0.1 * (step + decay * parameter)
        values.append(parameter)
    return values


def test_the_first_update_is_the_learning_rate_and_decay_comes_on_top() -> None:
    """Adam's first step is sign(g): 2 - 0.1 = 1.9; AdamW takes 0.1 * 0.5 * 2 = 0.1 more."""
    assert trajectory([0.3]) == pytest.approx([1.9])
    assert trajectory([0.3], optimizer="adamw", weight_decay=0.5) == pytest.approx([1.8])


def test_the_weight_decay_is_of_adamw_alone() -> None:
    assert trajectory([0.3, -0.1], weight_decay=0.5) == trajectory([0.3, -0.1])
    assert trajectory([0.3, -0.1], optimizer="adamw") == pytest.approx(trajectory([0.3, -0.1]))


@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_updates_equal_adam_written_out(decay: float) -> None:
    gradients = [0.3, -2.0, 0.0, 5.0]
    found = trajectory(gradients, optimizer="adamw", weight_decay=decay)
    np.testing.assert_allclose(found, adam(gradients, decay=decay), rtol=1e-5)


def test_large_gradients_are_clipped_and_small_ones_are_not() -> None:
    gradients = [0.3, -2.0, 0.5, 50.0]
    clipped = trajectory(gradients, clip_norm=1.0)
    np.testing.assert_allclose(clipped, adam(gradients, clip=1.0), rtol=1e-5)
    assert abs(clipped[-1] - trajectory(gradients)[-1]) > 0.01


def test_the_clip_is_of_the_norm_over_all_parameters() -> None:
    """|(3, 4)| = 5: clipped to 1 both are divided by 5, and the second step shows it in Adam's moments."""
    optimizer = create_optimizer(train_config_with(learning_rate=0.1, clip_norm=1.0), total_steps=10)
    parameters = {"a": jnp.array(0.0), "b": jnp.array(0.0)}
    state = optimizer.init(parameters)
    _, state = optimizer.update({"a": jnp.array(3.0), "b": jnp.array(4.0)}, state, parameters)
    updates, _ = optimizer.update({"a": jnp.array(0.3), "b": jnp.array(0.4)}, state, parameters)
    expected = {"a": np.diff(adam([0.6, 0.3]))[0], "b": np.diff(adam([0.8, 0.4]))[0]}
    np.testing.assert_allclose(updates["a"], expected["a"], rtol=1e-4)
    np.testing.assert_allclose(updates["b"], expected["b"], rtol=1e-4)


def test_the_schedule_reaches_the_updates() -> None:
    """With a constant gradient each of Adam's steps is the learning rate: 0, 0.05, then 0.1."""
    values = trajectory([1.0] * 4, warmup_steps=2)
    np.testing.assert_allclose(-np.diff([2.0, *values]), [0.0, 0.05, 0.1, 0.1], atol=1e-6)
