"""Numeric value embedding: readings 1 and 2 of the paper in every switch, and what a missing cell leaks."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.config.schema import choices
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.numeric_embedding import NumericValueEmbedding, periodic_parts, quantile_parts
from tests import examples
from tests.oracles.numeric_embedding import attribute_vector

N, M, A, BINS, FREQUENCIES = 5, 3, 4, 3, 2
PARTS = {"linear": 1, "quantile": BINS, "periodic": 2 * FREQUENCIES}
SWITCHES = [
    (share, missing, encoding)
    for share in (False, True)
    for missing in ("embedding", "zero")
    for encoding in choices("numeric.encoding")
]


def module_of(share: bool, missing: str, encoding: str = "linear") -> NumericValueEmbedding:
    return NumericValueEmbedding(
        num_fields=M,
        attribute_dim=A,
        share_transform=share,
        missing=missing,
        encoding=encoding,
        bins=BINS,
        frequencies=FREQUENCIES,
    )


def vectors_of(coefficients: Any, basis: Any) -> Any:
    """o_im itself: the model works on the two factors."""
    return jnp.einsum("nmq,mqa->nma", coefficients, basis)


@functools.cache
def compiled_vectors(share: bool, missing: str, encoding: str) -> Any:
    """(parameters, literals) -> o [N, M, a]."""
    module = module_of(share, missing, encoding)
    return examples.compiled(
        lambda parameters, literals: vectors_of(*examples.apply(module, parameters, literals))
    )


def parameters_of(share: bool, missing: str, encoding: str = "linear") -> dict:
    return examples.parameters_of(module_of(share, missing, encoding), examples.literals())


def vectors(share: bool, missing: str, literals: Literals, encoding: str = "linear") -> jax.Array:
    parameters = parameters_of(share, missing, encoding)
    return compiled_vectors(share, missing, encoding)(parameters, literals)


@pytest.mark.parametrize(("share", "missing", "encoding"), SWITCHES)
def test_attribute_vectors_equal_the_equation(share: bool, missing: str, encoding: str) -> None:
    literals = examples.literals()
    module, parameters = module_of(share, missing, encoding), parameters_of(share, missing, encoding)
    found = vectors(share, missing, literals, encoding)
    assert literals.positions is not None
    for i in range(N):
        for m in range(M):
            expected = attribute_vector(
                examples.float64(parameters),
                module,
                m,
                float(literals.values[i, m]),
                float(literals.positions[i, m]),
                bool(literals.observed[i, m]),
            )
            np.testing.assert_allclose(found[i, m], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("share", "missing", "encoding"), SWITCHES)
def test_parameter_shapes(share: bool, missing: str, encoding: str) -> None:
    expected: dict[str, tuple] = {"field_embedding": (M, A), "value_weight": (M, PARTS[encoding], A)}
    expected |= {"transform": (A, A), "bias": (A,)} if share else {"transform": (M, A, A), "bias": (M, A)}
    if missing == "embedding":
        expected["missing_embedding"] = (M, A)
    if encoding == "periodic":
        expected["frequency"] = (M, FREQUENCIES)
    found = parameters_of(share, missing, encoding)
    assert {name: leaf.shape for name, leaf in found.items()} == expected


def test_initial_sizes() -> None:
    """Xavier's std sqrt(2 / (M + a)) a part; the frequencies' is what the setting says."""
    module = NumericValueEmbedding(
        40, 60, encoding="periodic", frequencies=50, frequency_scale=3.0, share_transform=True
    )
    literals = Literals(jnp.zeros((1, 40)), jnp.ones((1, 40), bool))
    found = examples.compiled(module.init)(jax.random.key(0), literals)["params"]
    np.testing.assert_allclose(np.std(found["value_weight"]), np.sqrt(2 / 100), rtol=0.02)
    np.testing.assert_allclose(np.std(found["frequency"]), 3.0, rtol=0.05)


def test_parts_by_hand() -> None:
    """Of four bins 0.6 fills 0 to .25 and .25 to .5, and .1 / .25 of the third.

    At 4/3 the frequencies 1/4 and 1 have gone 1/3 and 4/3 of a period, which is the same angle, 2 pi / 3:
    its sine is sqrt(3) / 2, its cosine -1 / 2.
    """
    found = quantile_parts(jnp.array([[0.6], [0.0], [1.0]]), 4)[:, 0]
    np.testing.assert_allclose(found, [[1.0, 1.0, 0.4, 0.0], [0.0] * 4, [1.0] * 4], rtol=1e-5)
    root = np.sqrt(3.0) / 2.0
    found = periodic_parts(jnp.array([[4.0 / 3.0]]), jnp.array([[0.25, 1.0]]))[0, 0]
    np.testing.assert_allclose(found, [root, root, -0.5, -0.5], rtol=1e-4)


@given(st.floats(0, 1, width=32), st.floats(0, 1, width=32))
def test_of_two_quantiles_the_higher_fills_no_bin_less(low: float, high: float) -> None:
    """And the filled bins add up to B q: nothing of the order is lost."""
    low, high = sorted((low, high))
    found = np.asarray(quantile_parts(jnp.array([[low], [high]], jnp.float32), 5))[:, 0]
    assert (found[1] >= found[0]).all()
    np.testing.assert_allclose(found.sum(1), [5 * low, 5 * high], rtol=1e-5, atol=1e-6)


def test_the_quantile_encoding_needs_positions() -> None:
    literals = dataclasses.replace(examples.literals(), positions=None)
    with pytest.raises(ValueError, match=r"the quantile encoding needs literals\.positions: the values'"):
        module_of(False, "zero", "quantile").init(jax.random.key(0), literals)


@pytest.mark.parametrize("encoding", choices("numeric.encoding"))
@pytest.mark.parametrize("missing", ["embedding", "zero"])
def test_the_stored_value_of_a_missing_cell_has_no_effect(missing: str, encoding: str) -> None:
    literals = examples.literals()
    strange = jnp.array([7.0, jnp.inf, jnp.nan])
    assert literals.positions is not None
    junk = dataclasses.replace(
        literals,
        values=jnp.where(literals.observed, literals.values, strange),
        positions=jnp.where(literals.observed, literals.positions, strange),
    )
    found = vectors(False, missing, junk, encoding)
    np.testing.assert_array_equal(found, vectors(False, missing, literals, encoding))


@pytest.mark.parametrize("encoding", choices("numeric.encoding"))
@pytest.mark.parametrize("missing", ["embedding", "zero"])
def test_gradients_reach_the_values_of_observed_cells_only(missing: str, encoding: str) -> None:
    literals, parameters = examples.literals(), parameters_of(False, missing, encoding)
    module = module_of(False, missing, encoding)

    def total(numbers: tuple[jax.Array, jax.Array]) -> jax.Array:
        moved = dataclasses.replace(literals, values=numbers[0], positions=numbers[1])
        return jnp.square(vectors_of(*examples.apply(module, parameters, moved))).sum()

    of_values, of_positions = examples.compiled(jax.grad(total))((literals.values, literals.positions))
    used = of_positions if encoding == "quantile" else of_values
    np.testing.assert_array_equal(np.asarray(used) != 0, literals.observed)


@pytest.mark.parametrize("encoding", choices("numeric.encoding"))
def test_nothing_that_a_missing_cell_stores_reaches_a_gradient(encoding: str) -> None:
    """NaN in a cell that is not observed: the parameters' gradients stay what they are."""
    literals, parameters = examples.literals(), parameters_of(False, "embedding", encoding)
    module = module_of(False, "embedding", encoding)

    def total(parameters: dict, literals: Literals) -> jax.Array:
        return jnp.square(vectors_of(*examples.apply(module, parameters, literals))).sum()

    gradients = examples.compiled(jax.grad(total))

    assert literals.positions is not None
    junk = dataclasses.replace(
        literals,
        values=jnp.where(literals.observed, literals.values, jnp.nan),
        positions=jnp.where(literals.observed, literals.positions, jnp.nan),
    )
    jax.tree.map(np.testing.assert_array_equal, gradients(parameters, junk), gradients(parameters, literals))


def test_a_missing_cell_differs_from_a_true_zero_unless_missing_is_zero() -> None:
    zero = Literals(values=jnp.zeros((N, M)), observed=jnp.ones((N, M), bool))
    missing = dataclasses.replace(zero, observed=jnp.zeros((N, M), bool))
    np.testing.assert_array_equal(vectors(False, "zero", missing), vectors(False, "zero", zero))
    difference = np.abs(vectors(False, "embedding", missing) - vectors(False, "embedding", zero))
    assert difference.max(axis=-1).min() > 0.1


def test_the_shared_transform_is_the_same_transform_in_every_field() -> None:
    parameters = parameters_of(True, "embedding")
    repeated = parameters | {
        "transform": jnp.stack([parameters["transform"]] * M),
        "bias": jnp.stack([parameters["bias"]] * M),
    }
    literals = examples.literals()
    np.testing.assert_allclose(
        compiled_vectors(True, "embedding", "linear")(parameters, literals),
        compiled_vectors(False, "embedding", "linear")(repeated, literals),
        rtol=1e-5,
        atol=1e-6,
    )
