"""Numeric value embedding: readings 1 and 2 of the paper in every switch, and what a missing cell leaks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.models.numeric_embedding import (
    Literals,
    NumericValueEmbedding,
    attribute_vectors,
    value_coefficients,
)
from tests import examples
from tests.oracles.numeric_embedding import attribute_vector

N, M, A = 5, 3, 4
SWITCHES = [(share, missing) for share in (False, True) for missing in ("embedding", "zero")]


def module_and_parameters(share: bool, missing: str) -> tuple[NumericValueEmbedding, dict]:
    module = NumericValueEmbedding(num_fields=M, attribute_dim=A, share_transform=share, missing=missing)
    return module, examples.parameters_of(module)


def vectors(share: bool, missing: str, literals: Literals) -> jax.Array:
    module, parameters = module_and_parameters(share, missing)
    return attribute_vectors(value_coefficients(literals), examples.apply(module, parameters))


@pytest.mark.parametrize(("share", "missing"), SWITCHES)
def test_attribute_vectors_equal_the_equation(share: bool, missing: str) -> None:
    literals = examples.literals()
    _, parameters = module_and_parameters(share, missing)
    found = vectors(share, missing, literals)
    for i in range(N):
        for m in range(M):
            expected = attribute_vector(
                examples.float64(parameters),
                m,
                float(literals.values[i, m]),
                bool(literals.observed[i, m]),
                share_transform=share,
                missing=missing,
            )
            np.testing.assert_allclose(found[i, m], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("share", "missing"), SWITCHES)
def test_parameter_shapes(share: bool, missing: str) -> None:
    _, parameters = module_and_parameters(share, missing)
    expected: dict[str, tuple] = {"field_embedding": (M, A), "value_weight": (M, A)}
    expected |= {"transform": (A, A), "bias": (A,)} if share else {"transform": (M, A, A), "bias": (M, A)}
    if missing == "embedding":
        expected["missing_embedding"] = (M, A)
    assert {name: leaf.shape for name, leaf in parameters.items()} == expected


@pytest.mark.parametrize("missing", ["embedding", "zero"])
def test_the_stored_value_of_a_missing_cell_has_no_effect(missing: str) -> None:
    literals = examples.literals()
    junk = jnp.where(literals.observed, literals.values, jnp.array([7.0, jnp.inf, jnp.nan]))
    found = vectors(False, missing, dataclasses.replace(literals, values=junk))
    np.testing.assert_array_equal(found, vectors(False, missing, literals))


@pytest.mark.parametrize("missing", ["embedding", "zero"])
def test_gradients_reach_the_values_of_observed_cells_only(missing: str) -> None:
    literals = examples.literals()

    def total(values: jax.Array) -> jax.Array:
        return jnp.square(vectors(False, missing, dataclasses.replace(literals, values=values))).sum()

    np.testing.assert_array_equal(jax.grad(total)(literals.values) != 0, literals.observed)


def test_a_missing_cell_differs_from_a_true_zero_unless_missing_is_zero() -> None:
    zero = Literals(values=jnp.zeros((N, M)), observed=jnp.ones((N, M), bool))
    missing = dataclasses.replace(zero, observed=jnp.zeros((N, M), bool))
    np.testing.assert_array_equal(vectors(False, "zero", missing), vectors(False, "zero", zero))
    difference = np.abs(vectors(False, "embedding", missing) - vectors(False, "embedding", zero))
    assert difference.max(axis=-1).min() > 0.1


def test_the_shared_transform_is_the_same_transform_in_every_field() -> None:
    shared, parameters = module_and_parameters(True, "embedding")
    a_field, _ = module_and_parameters(False, "embedding")
    repeated = parameters | {
        "transform": jnp.stack([parameters["transform"]] * M),
        "bias": jnp.stack([parameters["bias"]] * M),
    }
    np.testing.assert_allclose(
        examples.apply(shared, parameters), examples.apply(a_field, repeated), rtol=1e-5, atol=1e-6
    )
