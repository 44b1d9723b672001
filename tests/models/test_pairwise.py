"""Pairwise reductions: values and gradients against loops in float64, equal entries, blocks, memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.models.ops import pairwise
from tests import examples
from tests.oracles.pairwise import value_and_gradients

FUNCTIONS = {
    "l1_distance": pairwise.l1_distance,
    "l2_distance": pairwise.l2_distance,
    "squared_relu": pairwise.squared_relu,
    "squared_distance": pairwise.squared_distance,
    "half_angle_distance": pairwise.half_angle_distance,
}
# (S, H, N, d): one of each, and sizes that no block divides.
SHAPES = [(1, 1, 1, 1), (2, 3, 1, 7), (1, 1, 4, 23), (2, 3, 5, 41)]


def rows(shape: tuple[int, int, int, int]) -> tuple[jax.Array, jax.Array, jax.Array]:
    slots, heads, entities, dim = shape
    left = examples.normal(slots, heads, dim, seed=1)
    right = examples.normal(slots, entities, dim, seed=2)
    return left, right, examples.normal(slots, heads, entities, seed=3)


@examples.compiled
def results(left: jax.Array, right: jax.Array, cotangent: jax.Array) -> dict[str, tuple[Any, Any, Any]]:
    """Of each function the values and the gradients of sum(cotangent * values)."""
    found = {}
    for name, function in FUNCTIONS.items():
        values, pull_back = jax.vjp(function, left, right)
        found[name] = (values, *pull_back(cotangent))
    return found


def assert_equals_the_loops(*arrays: Any, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    for name, parts in results(*arrays).items():
        expected = value_and_gradients(name, *examples.float64(arrays))
        for part, of_loops in zip(parts, expected, strict=True):
            assert part.shape == of_loops.shape
            np.testing.assert_allclose(part, of_loops, rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_equal_the_loops(shape: tuple[int, int, int, int]) -> None:
    assert_equals_the_loops(*rows(shape))


def test_equal_entries_have_the_subgradient_zero() -> None:
    """Some entries are equal, and the whole rows of (s, h, n) = (0, 0, 0) and (1, 2, 4)."""
    left, right, cotangent = rows(SHAPES[-1])
    right = right.at[:, :, :3].set(left[:, :1, :3]).at[0, 0].set(left[0, 0]).at[1, 4].set(left[1, 2])
    assert_equals_the_loops(left, right, cotangent)


def test_gradients_of_two_equal_rows_are_zero_not_nan() -> None:
    left = right = jnp.full((1, 1, 3), 0.3)
    for parts in results(left, right, jnp.ones((1, 1, 1))).values():
        for part in parts:
            np.testing.assert_array_equal(part, 0.0)


def test_small_l2_distances_do_not_cancel() -> None:
    """|l|^2 + |r|^2 - 2 l.r in float32 would lose a distance of 0.02 between rows of length 200."""
    left = jnp.full((1, 1, 4), 100.0)
    right = left + jnp.array([0.01, -0.01, 0.01, -0.01])
    exact = np.sqrt(np.sum((np.float64(left) - np.float64(right)) ** 2))
    np.testing.assert_allclose(pairwise.l2_distance(left, right)[0, 0, 0], exact, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "block"), [("absolute", 4), ("square", 23), ("squared_relu", 1), ("squared_relu", 64)]
)
def test_blocks_of_any_size_equal_the_fused_form_of_other_platforms(
    name: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairwise, "FORWARD_BLOCK", block)
    monkeypatch.setattr(pairwise, "BACKWARD_BLOCK", block)
    function, derivative = pairwise._FUNCTIONS[name]

    @examples.compiled
    def both(left: jax.Array, right: jax.Array, cotangent: jax.Array) -> Any:
        by_blocks = (
            pairwise._forward_by_blocks(left, right, function=function),
            *pairwise._backward_by_blocks(left, right, cotangent, derivative=derivative),
        )
        fused = (
            pairwise._forward_fused(left, right, function=function),
            *pairwise._backward_fused(left, right, cotangent, derivative=derivative),
        )
        return by_blocks, fused

    for of_blocks, of_fused in zip(*both(*rows((2, 3, 5, 23))), strict=True):
        np.testing.assert_allclose(of_blocks, of_fused, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pairs", [1, 24, 30, 42], ids="{} pairs a tile".format)
def test_tiles_of_any_size_equal_the_loops(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven entities of 2 x 3 sums: a tile each, tiles that leave a rest, two tiles, one."""
    monkeypatch.setattr(pairwise, "TILE_PAIRS", pairs)
    arrays = rows((2, 3, 7, 11))
    counts = {1: 7, 24: 2, 30: 2, 42: 1}
    assert pairwise._tile_count(*arrays[:2]) == counts[pairs]
    jax.clear_caches()  # a constant of the module is no part of what compiled functions are found by
    assert_equals_the_loops(*arrays)


def temporary_bytes(distance: Callable, slots: int, heads: int, entities: int, dim: int) -> int:
    """Of a compiled forward and backward pass, on top of its arguments and results."""

    def loss(left: jax.Array, right: jax.Array) -> jax.Array:
        return jnp.square(distance(left, right)).sum()

    shapes = jnp.zeros((slots, heads, dim)), jnp.zeros((slots, entities, dim))
    compiled = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(*shapes).compile()
    analysis = compiled.memory_analysis()
    assert analysis is not None
    return analysis.temp_size_in_bytes


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_tensor_of_all_differences_is_kept(name: str) -> None:
    """Forward and backward need less than a tenth of [S, H, N, d] in float32."""
    sizes = 2, 64, 64, 160
    assert temporary_bytes(FUNCTIONS[name], *sizes) < 4 * np.prod(sizes) / 10


def test_the_plain_expression_does_keep_that_tensor() -> None:
    """So the bound of the test above means something."""
    sizes = 2, 64, 64, 160

    def plain(left: jax.Array, right: jax.Array) -> jax.Array:
        return jnp.square(jnp.maximum(left[:, :, None] - right[:, None], 0.0)).sum(-1)

    assert temporary_bytes(plain, *sizes) > 4 * np.prod(sizes) / 10


def test_under_vmap() -> None:
    left, right, _ = rows(SHAPES[1])
    expected = results(*rows(SHAPES[1]))["l1_distance"][0]
    stacked = jnp.stack([left, -left]), jnp.stack([right, -right])
    found = examples.compiled(jax.vmap(pairwise.l1_distance))(*stacked)
    np.testing.assert_allclose(found, jnp.stack([expected, expected]), rtol=1e-6)


def test_float64_inputs_keep_their_precision() -> None:
    with jax.enable_x64(True):
        arrays = rows((1, 2, 3, 23))
        assert arrays[0].dtype == jnp.float64
        assert_equals_the_loops(*arrays, rtol=1e-12, atol=1e-12)


def test_a_sum_of_terms_equals_the_whole_tensor_and_keeps_one_term() -> None:
    """sum_d w_d tanh(l_d + r_d): no function of a difference, so the terms are added one by one."""
    slots, heads, entities, dim = 2, 8, 50, 64
    left, right = examples.normal(slots, heads, dim, seed=1), examples.normal(entities, dim, seed=2)
    weight = examples.normal(dim, seed=3)

    def whole(left: jax.Array, right: jax.Array, weight: jax.Array) -> jax.Array:
        return (weight * jnp.tanh(left[:, :, None] + right)).sum(-1)

    def by_terms(left: jax.Array, right: jax.Array, weight: jax.Array) -> jax.Array:
        rows = (jnp.moveaxis(left, -1, 0), right.T, weight)
        shape = (slots, heads, entities)
        return pairwise.sum_of_terms(lambda row: row[2] * jnp.tanh(row[0][..., None] + row[1]), rows, shape)

    cotangent = examples.normal(slots, heads, entities, seed=4)
    found, expected = (
        jax.jit(lambda *rows, form=form: (form(*rows), jax.vjp(form, *rows)[1](cotangent)))
        for form in (by_terms, whole)
    )
    parts, others = (jax.tree.leaves(form(left, right, weight)) for form in (found, expected))
    for part, other in zip(parts, others, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-4, atol=1e-4)
    memory = found.lower(left, right, weight).compile().memory_analysis()
    if memory is not None:
        tensor = slots * heads * entities * dim * 4
        assert memory.temp_size_in_bytes < tensor / 2
