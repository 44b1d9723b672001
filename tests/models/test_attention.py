"""Knowledge perceptual attention: readings 6, 7 and 8 of the paper in every switch."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.config.schema import choices
from numcoke_jax.models import attention
from numcoke_jax.models.attention import LINEAR_OPERATORS, PerceptualAttention
from tests import examples
from tests.oracles import attention as oracle

OPERATORS = choices("attention.operators")
S, N, M, Q, D, A, L, HIDDEN = 2, 3, 4, 3, 5, 6, 2, 7

ENTITIES = examples.normal(S, N, D, seed=1)
RELATIONS = examples.normal(S, D, seed=2)
COEFFICIENTS = examples.normal(N, M, Q, seed=3)
BASIS = examples.normal(M, Q, A, seed=4)
INPUTS = (ENTITIES, RELATIONS, COEFFICIENTS, BASIS)

OPERATOR_SETS = [
    *((operator,) for operator in OPERATORS),
    *itertools.combinations(LINEAR_OPERATORS, 2),
    LINEAR_OPERATORS,
    OPERATORS,
]


def module_and_parameters(**attributes: Any) -> tuple[PerceptualAttention, dict]:
    module = PerceptualAttention(**({"heads": L, "hidden": HIDDEN} | attributes))
    return module, examples.parameters_of(module, *INPUTS)


def attend(module: PerceptualAttention, parameters: dict, *inputs: jax.Array) -> tuple[Any, Any]:
    """Attributes [S, N, a] and weights [S, N, L, M] of the module."""
    return examples.compiled(module.apply)({"params": parameters}, *(inputs or INPUTS))


def expected(module: PerceptualAttention, parameters: dict) -> tuple[np.ndarray, np.ndarray]:
    """Attributes [S, N, a] and weights [S, N, L, M], from o_im = sum_q c_imq T_mq."""
    parameters = examples.float64(parameters)
    entities, relations, coefficients, basis = examples.float64(INPUTS)
    attributes, weights = np.zeros((S, N, A)), np.zeros((S, N, module.heads, M))
    for s, n in itertools.product(range(S), range(N)):
        p = oracle.query(
            parameters,
            entities[s, n],
            relations[s],
            relation_weight=module.relation_weight,
            use_query=module.use_query,
        )
        vectors = [sum(coefficients[n, m, q] * basis[m, q] for q in range(Q)) for m in range(M)]
        attributes[s, n], weights[s, n] = oracle.attend(parameters, p, vectors, module.operators)
    return attributes, weights


def assert_equals_the_equation(**attributes: Any) -> None:
    module, parameters = module_and_parameters(**attributes)
    found = attend(module, parameters)
    for part, of_equation in zip(found, expected(module, parameters), strict=True):
        assert part.shape == of_equation.shape
        np.testing.assert_allclose(part, of_equation, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operators", OPERATOR_SETS, ids="+".join)
def test_every_set_of_operators_equals_the_equation(operators: tuple[str, ...]) -> None:
    assert_equals_the_equation(operators=operators)


@pytest.mark.parametrize("relation_weight", [0.0, 0.3, 1.0])
def test_the_weights_of_entity_and_relation(relation_weight: float) -> None:
    assert_equals_the_equation(relation_weight=relation_weight)


@pytest.mark.parametrize("operators", [LINEAR_OPERATORS, ("mlp",)], ids="+".join)
def test_without_a_query_attributes_depend_on_the_values_alone(operators: tuple[str, ...]) -> None:
    assert_equals_the_equation(use_query=False, operators=operators)
    module, parameters = module_and_parameters(use_query=False, operators=operators)
    found, _ = attend(module, parameters)
    other, _ = attend(module, parameters, -ENTITIES, RELATIONS + 1.0, COEFFICIENTS, BASIS)
    np.testing.assert_array_equal(found, other)


@pytest.mark.parametrize("heads", [1, A])
def test_one_head_and_heads_of_size_one(heads: int) -> None:
    assert_equals_the_equation(heads=heads)


@pytest.mark.parametrize(("relation_weight", "decisive"), [(0.0, "entity"), (1.0, "relation")])
def test_a_weight_of_zero_cuts_entity_or_relation_off(relation_weight: float, decisive: str) -> None:
    module, parameters = module_and_parameters(relation_weight=relation_weight)
    found, _ = attend(module, parameters)
    others = {
        "entity": attend(module, parameters, ENTITIES + 1.0, *INPUTS[1:])[0],
        "relation": attend(module, parameters, ENTITIES, RELATIONS + 1.0, *INPUTS[2:])[0],
    }
    for changed, other in others.items():
        assert bool((found == other).all()) is (changed != decisive)


def test_weights_are_a_distribution_over_the_fields() -> None:
    module, parameters = module_and_parameters()
    _, weights = attend(module, parameters)
    assert (weights > 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-6)


def test_a_single_field_gets_the_whole_weight() -> None:
    module, parameters = module_and_parameters()
    _, weights = attend(module, parameters, ENTITIES, RELATIONS, COEFFICIENTS[:, :1], BASIS[:1])
    np.testing.assert_array_equal(weights, jnp.ones((S, N, L, 1)))


@pytest.mark.parametrize("operators", OPERATOR_SETS, ids="+".join)
def test_an_operator_brings_its_own_weights_and_no_others(operators: tuple[str, ...]) -> None:
    _, parameters = module_and_parameters(operators=operators)
    shapes = {
        "entity_projection": {"kernel": (D, A), "bias": (A,)},
        "relation_projection": {"kernel": (D, A), "bias": (A,)},
        "aggregation": (L, A // L, A),
        "product": (L, A),
        "difference": (L, A),
        "concatenation": (L, 2 * A),
        "mlp_query": {"kernel": (A, HIDDEN), "bias": (HIDDEN,)},
        "mlp_value": (A, HIDDEN),
        "mlp_output": (HIDDEN, L),
    }
    absent = set(LINEAR_OPERATORS) - set(operators)
    if "mlp" not in operators:
        absent |= {"mlp_query", "mlp_value", "mlp_output"}
    assert jax.tree.map(jnp.shape, parameters) == {
        name: shape for name, shape in shapes.items() if name not in absent
    }


def test_many_parts_of_a_value_equal_the_equation_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "MOST_UNROLLED_PARTS", Q - 1)
    assert_equals_the_equation(operators=OPERATORS)


def test_the_program_does_not_grow_with_the_parts_of_a_value() -> None:
    module, _ = module_and_parameters()

    def operations(parts: int) -> int:
        wide = ENTITIES, RELATIONS, examples.normal(N, M, parts, seed=3), examples.normal(M, parts, A, seed=4)
        parameters = examples.parameters_of(module, *wide)
        return len(jax.make_jaxpr(module.apply)({"params": parameters}, *wide).eqns)

    assert operations(60) == operations(6)
