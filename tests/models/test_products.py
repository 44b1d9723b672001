"""Products of operands rounded to bfloat16: their numbers, their gradients, where the encoder has them."""

import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from numcoke_jax.config.checks import check_config
from numcoke_jax.config.schema import choices, default_config
from numcoke_jax.models.experts import MixtureOfExperts
from numcoke_jax.models.fusion import KnowledgeFusion
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.models.ops import products
from numcoke_jax.models.score import DecodedOrderScore
from numcoke_jax.system.errors import UserError
from tests import examples
from tests.oracles import arithmetic
from tests.oracles import experts as experts_oracle
from tests.oracles import fusion as fusion_oracle
from tests.oracles import numcoke as oracle
from tests.oracles.products import einsum, rounded, to_bfloat16

# The forms of the model: with a batch index or none, first, last or in the middle.
FORMS = (
    "nd,kde->nke",
    "nkh,khd->nkd",
    "snd,sed->sne",
    "sna,ak->snk",
    "sna,la->snl",
    "la,mqa->qlm",
    "lba,mqa->lqmb",
)

# The same again as dimension numbers: what is summed over, then what is not.
DIMENSIONS = {
    "nad,dz->naz": (((2,), (0,)), ((), ())),
    "and,dza->anz": (((2,), (0,)), ((0,), (2,))),
    "dnea,ezad->anz": (((0, 2), (3, 0)), ((3,), (2,))),
}


def operands(subscripts: str) -> tuple[jax.Array, jax.Array]:
    """Normal numbers of fixed sizes, an index each."""
    sizes = {"n": 5, "s": 2, "d": 4, "e": 3, "k": 3, "h": 6, "a": 4, "l": 2, "b": 3, "m": 5, "q": 3, "z": 3}
    left, right = subscripts.partition("->")[0].split(",")
    shapes = [tuple(sizes[index] for index in term) for term in (left, right)]
    return examples.normal(*shapes[0], seed=1), examples.normal(*shapes[1], seed=2)


@pytest.mark.parametrize("compile_it", [False, True])
@pytest.mark.parametrize("subscripts", FORMS)
def test_a_product_and_its_gradients_are_those_of_rounded_operands(subscripts: str, compile_it: bool) -> None:
    """Products of two bfloat16 numbers are exact in float32: what differs is the rounding of sums."""

    def product_and_gradients(left: jax.Array, right: jax.Array, cotangent: jax.Array) -> Any:
        value, pull = jax.vjp(functools.partial(products.einsum, "bfloat16", subscripts), left, right)
        return value, *pull(cotangent)

    left, right = operands(subscripts)
    exact = np.einsum(subscripts, *examples.float64((left, right)))
    cotangent = examples.normal(*exact.shape, seed=3)
    call = jax.jit(product_and_gradients) if compile_it else product_and_gradients
    found = call(left, right, cotangent)
    i, j, k = re.split(",|->", subscripts)
    x, y, g = (rounded(np.asarray(array)) for array in (left, right, cotangent))
    expected = (einsum(subscripts, x, y), einsum(f"{k},{j}->{i}", g, y), einsum(f"{i},{k}->{j}", x, g))
    for of_found, of_expected in zip(found, expected, strict=True):
        assert of_found.dtype == jnp.float32
        np.testing.assert_allclose(of_found, of_expected, rtol=1e-6, atol=2e-6)
    assert np.abs(found[0] - exact).max() > 1e-3  # without rounding, 1e-6


@pytest.mark.parametrize("subscripts", DIMENSIONS)
def test_the_product_of_dense_layers_takes_any_dimension_numbers(subscripts: str) -> None:
    left, right = operands(subscripts)
    found = products.dot_general("bfloat16")(left, right, DIMENSIONS[subscripts], precision=None)
    expected = einsum(subscripts, rounded(np.asarray(left)), rounded(np.asarray(right)))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(  # the same axes in the same order as JAX's
        expected, np.asarray(lax.dot_general(left, right, DIMENSIONS[subscripts])), atol=0.1
    )


@pytest.mark.parametrize(
    ("number", "nearest"),
    [
        (257.0, 256.0),  # between 256 and 258: the even multiple of 2
        (259.0, 260.0),
        (1.0 + 2.0**-8 + 2.0**-20, 1.0 + 2.0**-7),
        (-0.1, -205 / 2048),  # 0.1 * 2048 = 204.8, and 205 has 8 digits
        (3e38, 226 * 2.0**120),  # 3e38 / 2^120 = 225.7
        (0.0, 0.0),
    ],
)
def test_a_number_becomes_the_nearest_one_of_eight_binary_digits(number: float, nearest: float) -> None:
    assert to_bfloat16(number) == nearest
    found = products.einsum("bfloat16", "i,ij->j", jnp.array([number]), jnp.ones((1, 1)))
    assert float(found[0]) == np.float32(nearest)


def test_small_integers_lose_nothing_and_sums_are_float32() -> None:
    """300 ones, 256 and 1: in bfloat16 a sum would stand still at 256."""
    ones = jnp.ones((2, 300))
    np.testing.assert_array_equal(products.einsum("bfloat16", "ni,mi->nm", ones, ones), 300.0)


def test_float32_is_jax_own_product() -> None:
    assert products.dot_general("float32") is lax.dot_general
    left, right = operands("snd,sed->sne")
    ours = jax.make_jaxpr(functools.partial(products.einsum, "float32", "snd,sed->sne"))(left, right)
    assert str(ours) == str(jax.make_jaxpr(functools.partial(jnp.einsum, "snd,sed->sne"))(left, right))


def test_wrong_arguments_are_named() -> None:
    message = r"operands='half': needs one of \('float32', 'bfloat16'\)"
    with pytest.raises(ValueError, match=message):
        products.dot_general("half")
    with pytest.raises(ValueError, match=message):
        products.einsum("half", "ab,bc->ac", jnp.ones((1, 1)), jnp.ones((1, 1)))
    message = r"subscripts='ab,bc->c': needs every index in two of the terms, found \['a'\] in one"
    with pytest.raises(ValueError, match=message):
        products.einsum("bfloat16", "ab,bc->c", jnp.ones((1, 1)), jnp.ones((1, 1)))


def test_the_key_takes_the_operands_that_round() -> None:
    config = default_config()
    assert config.model.products == "float32"
    config.model.products = "bfloat16"
    check_config(config)
    config.model.products = "bfloat"
    with pytest.raises(UserError) as caught:
        check_config(config)
    assert str(caught.value) == (
        "model.products=bfloat is not a choice: needs one of float32, bfloat16; did you mean bfloat16?"
    )


# Sizes that tell the axes apart: S relation slots, N entities, M fields, Q parts of a value, d, a, K experts
# of width E, L heads of width B, and the hidden layer of width Z.
S, N, M, Q, D, A, K, E, L, B, Z = 2, 13, 5, 7, 8, 40, 3, 6, 4, 10, 9
WIDE = GraphSizes(entities=N, relations=4, fields=M)
WIDE_KEYS = {
    "model__dim": D,
    "model__attribute_dim": A,
    "experts__count": K,
    "experts__hidden": E,
    "attention__heads": L,
    "attention__hidden": Z,
    "attention__operators": choices("attention.operators"),
    "numeric__encoding": "quantile",
    "numeric__bins": Q - 2,
}
Shapes = tuple[tuple[int, ...], ...]

STAY_IN_FLOAT32 = {
    "U and U' of the gate": ((N, K, D), (D, 1), (N, K, 1)),
    "mixture by the gate": ((S, N, K), (N, K, D), (S, N, D)),
    "W_x v, without an entity": ((M, A, A), (M, A), (M, A)),
    "keys from single entries": ((L, A), (M, Q, A), (Q, L, M, A)),
    "parts of a value in the mlp": ((N, Q), (Q, Z), (N, Z)),
}
ROUND = {
    "experts": ((N, D), (K, D, E), (N, K, E)),
    "experts' second layer": ((N, K, E), (K, E, D), (N, K, D)),
    "entity projection": ((S, N, D), (D, A), (S, N, A)),
    "relation projection": ((S, D), (D, A), (S, A)),
    "query and keys": ((S, N, A), (A, Q * L * M), (S, N, Q * L * M)),
    "value weight and basis": ((L, A), (M, Q, A), (Q, L, M)),
    "query weight": ((S, N, A), (L, A), (S, N, L)),
    "mlp query": ((S, N, A), (A, Z), (S, N, Z)),
    "mlp basis": ((Q, A), (A, Z), (Q, Z)),
    "mlp output": ((S, N, Z), (Z, L), (S, N, L)),
    "aggregation and basis": ((L, B, A), (M, Q, A), (L, Q, M, B)),
    "aggregate": ((S, N, M * Q), (M * Q, B), (S, N, B)),
    "entity gate": ((S, N, D), (D, D), (S, N, D)),
    "attribute gate": ((S, N, A), (A, D), (S, N, D)),
    "joint": ((S, N, D + A), (D + A, D), (S, N, D)),
    "W_r": ((S, N, D), (S, D, D), (S, N, D)),
}


def unordered(shapes: Any) -> Shapes:
    """The same for a product and the two of its gradient: they have its three shapes in another order."""
    return tuple(sorted(tuple(sorted(shape)) for shape in shapes))


def products_of_encoder(operands: str, platform: str) -> tuple[str, list[tuple[Shapes, tuple[str, ...]]]]:
    """The program of encoding and its gradient for `platform`, and its products: shapes, element types."""
    model, parameters = examples.model_and_parameters(
        examples.config_with(model__products=operands, **WIDE_KEYS), WIDE
    )
    relations = jnp.arange(S, dtype=jnp.int32)

    def loss(parameters: dict) -> jax.Array:
        encoded = examples.apply(
            model, parameters, relations, examples.literals(WIDE), train=False, method="encode"
        )
        vectors = (encoded.entities, encoded.projected)
        return sum((jnp.sin(array).sum() for array in vectors), jnp.zeros(()))

    program = (
        jax.jit(jax.value_and_grad(loss)).trace(parameters).lower(lowering_platforms=(platform,)).as_text()
    )
    found = []
    for line in program.splitlines():
        if "stablehlo.dot_general" not in line:
            continue
        tensors = re.findall(r"tensor<([\dx]+)x(\w+)>", line.rpartition(" : ")[2])
        assert len(tensors) == 3, line
        shapes = [tuple(map(int, sizes.split("x"))) for sizes, _ in tensors]
        found.append((unordered(shapes), tuple(element for _, element in tensors)))
    return program, found


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_without_the_key_nothing_is_bfloat16(platform: str) -> None:
    program, found = products_of_encoder("float32", platform)
    assert "bf16" not in program and "reduce_precision" not in program
    assert {elements for _, elements in found} == {("f32", "f32", "f32")}
    assert {shapes for shapes, _ in found} == set(map(unordered, (STAY_IN_FLOAT32 | ROUND).values()))


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_which_products_have_bfloat16_operands_forward_and_backward(platform: str) -> None:
    """In the program that the accelerator would get, which needs none to be written."""
    _, found = products_of_encoder("bfloat16", platform)
    by_elements: dict[tuple[str, ...], set[Shapes]] = {}
    for shapes, elements in found:
        by_elements.setdefault(elements, set()).add(shapes)
    assert by_elements == {
        ("bf16", "bf16", "f32"): set(map(unordered, ROUND.values())),
        ("f32", "f32", "f32"): set(map(unordered, STAY_IN_FLOAT32.values())),
    }


def test_the_cpu_multiplies_rounded_operands_in_float32() -> None:
    program, found = products_of_encoder("bfloat16", "cpu")
    assert {elements for _, elements in found} == {("f32", "f32", "f32")}
    assert "stablehlo.reduce_precision" in program


def rounded_times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return arithmetic.times(rounded(matrix), rounded(vector))


def rounded_dense(parameters: dict, vector: np.ndarray) -> np.ndarray:
    product = rounded_times(np.transpose(parameters["kernel"]), vector)
    return product + parameters["bias"] if "bias" in parameters else product


def test_experts_are_the_loops_of_rounded_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only W_k: entity and gate stay as they are."""
    module = MixtureOfExperts(num_relations=2, count=3, products="bfloat16")
    features, relations = examples.normal(5, 4, seed=1), jnp.array([1, 0], jnp.int32)
    parameters = examples.parameters_of(module, features, relations, train=False)
    found = examples.apply(module, parameters, features, relations, train=False)
    exact, rows = examples.float64((parameters, features))
    monkeypatch.setattr(experts_oracle, "times", rounded_times)
    for s, i in np.ndindex(2, 5):
        expected = experts_oracle.entity_embedding(exact, rows[i], int(relations[s]))
        np.testing.assert_allclose(found[s, i], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["gate", "paper"])
def test_fusion_is_the_loops_of_rounded_operands(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = KnowledgeFusion(kind=kind, products="bfloat16")
    entities, attributes = examples.normal(3, 4, seed=1), examples.normal(3, 6, seed=2)
    parameters = examples.parameters_of(module, entities, attributes)
    found = examples.apply(module, parameters, entities, attributes)
    monkeypatch.setattr(fusion_oracle, "dense", rounded_dense)
    exact, rows, others = examples.float64((parameters, entities, attributes))
    for i in range(3):
        expected = fusion_oracle.fuse(exact, rows[i], others[i], kind=kind)
        np.testing.assert_allclose(found[i], expected, rtol=1e-5, atol=1e-6)


def test_the_order_projection_is_the_product_of_rounded_operands() -> None:
    module = DecodedOrderScore(num_relations=2, dim=4, products="bfloat16")
    entities, matrices = examples.normal(1, 5, 4, seed=1), examples.normal(2, 4, 4, seed=2)
    found = examples.apply(
        module, {"order_projection": matrices}, entities, jnp.array([1], jnp.int32), method="project"
    )
    for i in range(5):
        expected = rounded_times(np.asarray(matrices[1]), np.asarray(entities[0, i]))
        np.testing.assert_allclose(found[0, i], expected, rtol=1e-5, atol=1e-6)


@functools.cache
def encodings() -> tuple[dict, dict]:
    """By operands: what the model encodes, and the gradient of a function of it, for the same parameters."""
    encoded, gradients = {}, {}
    _, parameters = examples.model_and_parameters(examples.config_with())
    for operands in products.OPERANDS:
        config = examples.config_with(model__products=operands)
        model, _ = examples.model_and_parameters(config)

        def loss(parameters: dict, model: Any = model) -> Any:
            relations = jnp.array([1, 0], jnp.int32)
            found = examples.apply(
                model, parameters, relations, examples.literals(), train=False, method="encode"
            )
            return jnp.sin(found.entities).sum() + jnp.cos(found.projected).sum(), found

        (_, encoded[operands]), gradients[operands] = examples.compiled(
            jax.value_and_grad(loss, has_aux=True)
        )(parameters)
    return encoded, gradients


def test_the_encoder_stays_close_to_the_loops() -> None:
    """Each operand is off by 2^-9 = 0.2% of itself at most, and a few products stand one behind the other."""
    config = examples.config_with()
    _, parameters = examples.model_and_parameters(config)
    exact, (encoded, _) = examples.float64(parameters), encodings()
    for s, relation in enumerate([1, 0]):
        expected = oracle.encode(exact, config, examples.literals(), relation)
        off = np.abs(encoded["bfloat16"].entities[s] - expected).max() / np.abs(expected).max()
        assert 1e-4 < off < 0.02
        np.testing.assert_allclose(encoded["float32"].entities[s], expected, rtol=1e-5, atol=1e-6)


def test_gradients_are_float32_and_close_to_those_of_float32_products() -> None:
    _, gradients = encodings()
    assert {leaf.dtype for leaf in jax.tree.leaves(gradients)} == {jnp.dtype("float32")}
    plain, rounded_ones = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradients[name])])
        for name in products.OPERANDS
    )
    off = np.linalg.norm(rounded_ones - plain) / np.linalg.norm(plain)
    assert 1e-4 < off < 0.02
