"""Knowledge-aware aggregation: reading 9 of the paper, both kinds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.config.schema import choices
from numcoke_jax.models.fusion import KnowledgeFusion
from tests import examples
from tests.oracles.fusion import fuse

D, A = 4, 6
ENTITIES = examples.normal(2, 3, D, seed=1)
ATTRIBUTES = examples.normal(2, 3, A, seed=2)


def module_and_parameters(kind: str) -> tuple[KnowledgeFusion, dict]:
    module = KnowledgeFusion(kind=kind)
    return module, examples.parameters_of(module, ENTITIES, ATTRIBUTES)


@pytest.mark.parametrize("kind", choices("fusion.kind"))
def test_equals_the_equation(kind: str) -> None:
    module, parameters = module_and_parameters(kind)
    found = examples.apply(module, parameters, ENTITIES, ATTRIBUTES)
    exact, entities, attributes = examples.float64((parameters, ENTITIES, ATTRIBUTES))
    for i, j in np.ndindex(2, 3):
        expected = fuse(exact, entities[i, j], attributes[i, j], kind=kind)
        np.testing.assert_allclose(found[i, j], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", choices("fusion.kind"))
def test_parameter_shapes(kind: str) -> None:
    _, parameters = module_and_parameters(kind)
    expected = {"bias": (D,), "entity_gate": {"kernel": (D, D)}, "attribute_gate": {"kernel": (A, D)}}
    if kind == "gate":
        expected["joint"] = {"kernel": (D + A, D), "bias": (D,)}
    assert jax.tree.map(jnp.shape, parameters) == expected


def test_a_closed_gate_keeps_the_entity_and_an_open_one_the_joint_vector() -> None:
    module, parameters = module_and_parameters("gate")
    closed = examples.apply(module, parameters | {"bias": jnp.full(D, -60.0)}, ENTITIES, ATTRIBUTES)
    np.testing.assert_allclose(closed, ENTITIES, atol=1e-6)
    opened = examples.apply(module, parameters | {"bias": jnp.full(D, 60.0)}, ENTITIES, ATTRIBUTES)
    joint = jnp.concatenate([ENTITIES, ATTRIBUTES], -1) @ parameters["joint"]["kernel"]
    np.testing.assert_allclose(opened, jnp.tanh(joint + parameters["joint"]["bias"]), atol=1e-6)


def test_the_printed_line_lies_between_its_bias_and_one_above() -> None:
    """sigmoid(..) + b, with b outside of the sigmoid."""
    module, parameters = module_and_parameters("paper")
    found = examples.apply(module, parameters | {"bias": jnp.full(D, 5.0)}, ENTITIES, ATTRIBUTES)
    assert ((found > 5.0) & (found < 6.0)).all()
