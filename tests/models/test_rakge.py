"""RAKGE: value embedding, relation-aware attention, gate, score, dropout and its contrastive loss."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.data.batches import Batch
from numcoke_jax.models.interface import GraphSizes, KnowledgeModel
from numcoke_jax.models.losses.rakge_contrastive import rakge_contrastive_loss, weighted_mean
from numcoke_jax.models.rakge import RAKGE, RelationAwareAttention, SharedValueEmbedding
from numcoke_jax.training.programs import create_objective
from tests import examples
from tests.oracles import binary_cross_entropy
from tests.oracles import rakge as oracle
from tests.oracles import rakge_contrastive as contrastive_oracle
from tests.oracles.arithmetic import norm as vector_norm

pytestmark = pytest.mark.usefixtures("short_blocks")

RELATIONS = jnp.array([1, 0], jnp.int32)
HEADS = jnp.array([[0, 2, 4], [3, 1, 3]], jnp.int32)
KEY = jax.random.key(5)
# The streams' numbers are fixed for all time, or recorded runs could not be repeated.
DROPOUT, ALPHA, BETA, MEMBER_WEIGHTS = 2, 3, 4, 7


def model_and_parameters(**changes: Any) -> tuple[KnowledgeModel, dict]:
    return examples.model_and_parameters(examples.config_with(model__name="rakge", **changes))


def trained(model: KnowledgeModel, parameters: dict, seed: int = 0) -> tuple[jax.Array, Any]:
    call = examples.compiled(functools.partial(examples.apply, model, train=True))
    rngs = {"dropout": jax.random.key(seed)}
    return call(parameters, RELATIONS, HEADS, examples.literals(), rngs=rngs)


def test_the_value_embedding_is_a_line_in_the_value() -> None:
    """T_m0 + x T_m1 equals the loops at any x."""
    module = SharedValueEmbedding(num_fields=3, attribute_dim=6)
    parameters = examples.parameters_of(module)
    basis = examples.apply(module, parameters)
    for field, x in [(0, 0.0), (1, 1.0), (2, -0.7), (0, 12.5)]:
        expected = oracle.attribute_vector(examples.float64(parameters), field, x)
        np.testing.assert_allclose(basis[field, 0] + x * basis[field, 1], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 2, 6])
def test_attention_equals_the_loops_with_any_bias_on_the_keys(heads: int) -> None:
    """The key bias that the module leaves out cancels in the softmax."""
    module = RelationAwareAttention(heads=heads)
    relations, values = examples.normal(2, 4, seed=1), examples.normal(5, 3, seed=2)
    basis = examples.normal(3, 2, 6, seed=3)
    parameters = examples.parameters_of(module, relations, values, basis)
    attributes, weights = examples.apply(module, parameters, relations, values, basis)
    exact = examples.float64((parameters, relations, values, basis))
    key_bias = np.random.default_rng(4).normal(size=6) * 3.0
    for s, n in np.ndindex(2, 5):
        vectors = [line[0] + x * line[1] for line, x in zip(exact[3], exact[2][n], strict=True)]
        expected, of_heads = oracle.attend(exact[0], exact[1][s], vectors, heads, key_bias)
        np.testing.assert_allclose(attributes[s, n], expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(weights[s, n], of_heads, rtol=1e-4, atol=1e-5)


def test_parameter_shapes() -> None:
    """N = 5, R = 2, M = 3, d = 4, a = 6."""
    _, parameters = model_and_parameters()
    assert jax.tree.map(jnp.shape, parameters) == {
        "entity_embedding": (5, 4),
        "relation_embedding": (2, 4),
        "order_projection": (2, 4, 4),
        "numeric": {
            "field_embedding": (3, 6),
            "value_weight": (6,),
            "value_bias": (6,),
            "transform": {"kernel": (6, 6), "bias": (6,)},
        },
        "attention": {
            "relation_projection": {"kernel": (4, 6), "bias": (6,)},
            "query": {"kernel": (6, 6), "bias": (6,)},
            "key": {"kernel": (6, 6)},
            "value": {"kernel": (6, 6)},
            "value_bias": (6,),
            "output": {"kernel": (6, 6), "bias": (6,)},
        },
        "gate": {
            "bias": (4,),
            "entity_gate": {"kernel": (4, 4)},
            "attribute_gate": {"kernel": (6, 4)},
            "joint": {"kernel": (10, 4), "bias": (4,)},
        },
    }


def test_initial_scales_are_those_of_the_public_code() -> None:
    """R = 8, d = 40, a = 60, M = 20: standard deviations of thousands of entries, bounds of all of them."""
    sizes = GraphSizes(entities=300, relations=8, fields=20)
    config = examples.config_with(model__name="rakge", model__dim=40, model__attribute_dim=60)
    model, _ = examples.model_and_parameters(config, sizes)
    one = jnp.zeros((1,), jnp.int32)
    literals = examples.literals(sizes)
    initialise = examples.compiled(functools.partial(model.init, train=False))
    variables = initialise(jax.random.key(0), one, one[:, None], literals)
    numeric, attention = variables["params"]["numeric"], variables["params"]["attention"]
    uniform = np.sqrt(1.0 / 3.0)  # standard deviation of U(-1, 1)
    for found, expected in [
        (variables["params"]["order_projection"], np.sqrt(2.0 / (40 * 40 + 8 * 40))),
        (variables["params"]["entity_embedding"], np.sqrt(2.0 / (300 + 40))),
        (numeric["field_embedding"], np.sqrt(2.0 / (20 + 60))),
        (numeric["transform"]["kernel"], uniform / np.sqrt(60)),
        (attention["relation_projection"]["kernel"], uniform / np.sqrt(40)),
        (attention["query"]["kernel"], uniform * np.sqrt(6.0 / (4 * 60))),
        (attention["key"]["kernel"], uniform * np.sqrt(6.0 / (4 * 60))),
        (attention["value"]["kernel"], uniform * np.sqrt(6.0 / (4 * 60))),
        (attention["output"]["kernel"], uniform / np.sqrt(60)),
    ]:
        np.testing.assert_allclose(np.std(found), expected, rtol=0.06)
    for found, bound in [
        (numeric["value_weight"], 1.0),
        (numeric["value_bias"], 1.0),
        (numeric["transform"]["bias"], 1.0 / np.sqrt(60)),
        (attention["relation_projection"]["bias"], 1.0 / np.sqrt(40)),
    ]:  # 60 uniform numbers: that none is in an end tenth of the range has a chance of (1 - 1/20)^60 < 0.05
        assert -bound <= found.min() < -0.7 * bound
        assert 0.7 * bound < found.max() <= bound
    for zero in (attention["query"]["bias"], attention["value_bias"], attention["output"]["bias"]):
        assert not zero.any()


def test_a_graph_without_literals_leaves_embeddings_and_score() -> None:
    sizes = GraphSizes(entities=5, relations=2, fields=0)
    config = examples.config_with(model__name="rakge")
    model, parameters = examples.model_and_parameters(config, sizes)
    assert set(parameters) == {"entity_embedding", "relation_embedding", "order_projection"}
    call = examples.compiled(functools.partial(examples.apply, model, train=False))
    found, _ = call(parameters, RELATIONS, HEADS, examples.literals(sizes))
    exact = examples.float64(parameters)
    for s, h, tail in np.ndindex(2, 3, 5):
        triple = int(HEADS[s, h]), int(RELATIONS[s]), tail
        expected = oracle.logit(exact, config, exact["entity_embedding"], *triple)
        np.testing.assert_allclose(found[s, h, tail], expected, rtol=1e-4)


@pytest.mark.parametrize("norm", [1, 2])
def test_dropout_acts_on_the_translation_of_heads_and_tails_apart_and_not_on_the_order_term(
    norm: int,
) -> None:
    """The vectors handed to the loss explain the logits, and are e with entries zeroed or doubled."""
    changes = {"score__norm": norm, "score__dropout": 0.5, "score__order_weight": 0.4}
    config = examples.config_with(model__name="rakge", **changes)
    model, parameters = model_and_parameters(**changes)
    found, encoded = trained(model, parameters)
    exact = examples.float64(parameters)
    heads, tails = examples.float64((encoded.dropped.heads, encoded.dropped.tails))
    for s, relation in enumerate([1, 0]):
        table = oracle.encode(exact, config, examples.literals(), relation)
        for h, tail in np.ndindex(3, 5):
            head = int(HEADS[s, h])
            dropped = heads[s, h], tails[s, tail]
            expected = oracle.logit(exact, config, table, head, relation, tail, dropped)
            np.testing.assert_allclose(found[s, h, tail], expected, rtol=1e-4, atol=1e-4)
            for vector, whole in zip(dropped, (table[head], table[tail]), strict=True):
                kept = vector != 0.0
                np.testing.assert_allclose(vector[kept], 2.0 * whole[kept], rtol=1e-4)
    of_same_entities = np.take_along_axis(tails, np.asarray(HEADS)[..., None], axis=1)
    assert ((heads == 0.0) != (of_same_entities == 0.0)).any()
    assert not np.array_equal(trained(model, parameters, seed=1)[0], found)


def test_outside_of_training_and_at_rate_zero_nothing_is_dropped() -> None:
    model, parameters = model_and_parameters(score__dropout=0.5)
    without, _ = model_and_parameters(score__dropout=0.0)
    call = examples.compiled(functools.partial(examples.apply, model, train=False))
    expected, encoded = call(parameters, RELATIONS, HEADS, examples.literals())
    np.testing.assert_allclose(trained(without, parameters)[0], expected, rtol=1e-6)
    np.testing.assert_array_equal(encoded.dropped.tails, encoded.entities)


def test_the_model_takes_its_keys() -> None:
    changes = {"score__norm": 2, "score__margin": 4.0, "score__order_weight": 0.4, "attention__heads": 3}
    model, _ = model_and_parameters(**changes)
    assert isinstance(model, RAKGE)
    assert (model.dim, model.norm, model.margin, model.order_weight, model.dropout) == (4, 2, 4.0, 0.4, 0.3)
    assert (model.attention.heads, model.numeric.attribute_dim, model.gate.kind) == (3, 6, "gate")


# The contrastive loss.

S, H, N, D = 2, 3, 6, 4


def pairs() -> Batch:
    """Pairs with one negative, with several and with none, without a positive, and padding."""
    labels, negatives = np.zeros((S, H, N), bool), np.zeros((S, H, N), bool)
    labels[0, 0, [1, 2, 4]] = negatives[0, 0, [3]] = True
    labels[0, 1, [0]] = negatives[0, 1, [3, 4, 5]] = True
    labels[0, 2, [1, 5]] = True  # no negatives: no loss
    negatives[1, 0, [1, 2]] = True  # no positive: the public code's mean of nothing is 0
    labels[1, 1, [0, 1, 2]] = negatives[1, 1, [3, 4]] = True
    labels[1, 2, [1]] = negatives[1, 2, [2]] = True  # padded below
    return Batch(
        relations=jnp.array([1, 0], jnp.int32),
        heads=jnp.array([[0, 2, 4], [3, 1, 0]], jnp.int32),
        mask=jnp.ones((S, H), bool).at[1, 2].set(False),
        labels=jnp.asarray(labels),
        negatives=jnp.asarray(negatives),
    )


def draws(key: jax.Array = KEY) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """random_weights, alpha and beta from the streams as they are documented."""

    def uniform(stream: int, *shape: int) -> np.ndarray:
        return np.asarray(jax.random.uniform(jax.random.fold_in(key, stream), shape), np.float64)

    return uniform(MEMBER_WEIGHTS, S, H, N), uniform(ALPHA, S, H, 1)[..., 0], uniform(BETA, S, H, 1)[..., 0]


def vectors() -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Heads, tails, relations and logits; none follows from another."""
    shapes = ((S, H, D), (S, N, D), (S, D), (S, H, N))
    heads, tails, relations, logits = (examples.normal(*shape, seed=i) for i, shape in enumerate(shapes))
    return heads, tails, relations, 3.0 * logits


@functools.cache
def contrastive_loss(norm: int) -> Any:
    """Compiled with the key as an argument: as a constant, XLA would draw its numbers while compiling."""
    return examples.compiled(functools.partial(rakge_contrastive_loss, norm=norm))


@functools.cache
def loss_and_gradients(norm: int) -> Any:
    """((sum, count), gradients by heads, tails, relations and logits)."""
    loss = functools.partial(rakge_contrastive_loss, norm=norm)
    return examples.compiled(jax.value_and_grad(loss, argnums=(0, 1, 2, 3), has_aux=True))


@pytest.mark.parametrize("norm", [1, 2])
def test_sum_and_count_equal_the_loops(norm: int) -> None:
    with jax.enable_x64(True):
        inputs = vectors()
        total, count = contrastive_loss(norm)(*inputs, pairs(), key=KEY)
        heads, tails, relations, logits = examples.float64(inputs)
        expected, expected_count = contrastive_oracle.loss_of_batch(
            heads, tails, relations, logits, pairs(), *draws(), p=norm
        )
        np.testing.assert_allclose(total, expected, rtol=1e-7)  # the coefficients may be drawn as float64
    assert count == expected_count == 4


def test_one_pair_by_hand() -> None:
    """h = 0, r = 1, one positive at 2 and one negative at -3, d = 1: means are the members themselves.

    ||1 - (-3 beta)|| = 1 + 3 beta and ||1 - 2 alpha||; -log sigmoid(x) = log(1 + exp(-x)).
    """
    one = Batch(
        relations=jnp.zeros(1, jnp.int32),
        heads=jnp.zeros((1, 1), jnp.int32),
        mask=jnp.ones((1, 1), bool),
        labels=jnp.array([[[False, True, False]]]),
        negatives=jnp.array([[[False, False, True]]]),
    )
    tails = jnp.array([[[0.0], [2.0], [-3.0]]])
    inputs = (jnp.zeros((1, 1, 1)), tails, jnp.ones((1, 1)), jnp.zeros((1, 1, 3)))
    found, count = contrastive_loss(1)(*inputs, one, key=KEY)
    alpha, beta = (
        float(jax.random.uniform(jax.random.fold_in(KEY, stream), (1, 1, 1))[0, 0, 0])
        for stream in (ALPHA, BETA)
    )
    expected = np.log1p(np.exp(abs(1.0 - 2.0 * alpha) - (1.0 + 3.0 * beta)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert count == 1


def test_gradients_equal_central_differences() -> None:
    """Of heads, tails, relations and, through the predictions, of the logits; in a random direction each."""
    step = 1e-6
    with jax.enable_x64(True):
        _, gradients = loss_and_gradients(1)(*vectors(), pairs(), key=KEY)
        for argument, gradient in enumerate(gradients):
            direction = np.random.default_rng(9).normal(size=gradient.shape)
            totals = []
            for sign in (1.0, -1.0):
                inputs = list(vectors())
                inputs[argument] += sign * step * direction
                totals.append(float(contrastive_loss(1)(*inputs, pairs(), key=KEY)[0]))
            slope = (totals[0] - totals[1]) / (2.0 * step)
            assert abs(slope) > 1e-4
            np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=1e-5)


def test_members_alone_count_and_weights_only_in_proportion() -> None:
    """Mean of two members with weights 1 and 3; a weight of a stranger changes nothing; none gives 0."""
    table = jnp.array([[[2.0], [6.0], [100.0]]])
    members = jnp.array([[[True, True, False], [True, True, False], [False, False, False]]])
    weights = jnp.array([[[1.0, 3.0, 0.0], [10.0, 30.0, 7.0], [1.0, 1.0, 1.0]]])
    np.testing.assert_allclose(weighted_mean(table, weights, members), [[[5.0], [5.0], [0.0]]], rtol=1e-6)


@pytest.mark.parametrize("extreme", [-1e4, 1e4])
def test_certain_predictions_and_equal_vectors_have_finite_gradients(extreme: float) -> None:
    """Predictions of 0 leave no weight to any negative; equal vectors have distance 0 from their mixes."""
    heads, tails, relations = jnp.ones((S, H, D)), jnp.ones((S, N, D)), jnp.zeros((S, D))
    inputs = (heads, tails, relations, jnp.full((S, H, N), extreme), pairs())
    (value, _), gradients = loss_and_gradients(2)(*inputs, key=KEY)
    assert np.isfinite(value)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("missing", ["negatives", "mask"])
def test_a_batch_without_pairs_is_exactly_zero_with_zero_gradients(missing: str) -> None:
    empty = dataclasses.replace(pairs(), **{missing: jnp.zeros_like(getattr(pairs(), missing))})

    (value, count), gradients = loss_and_gradients(2)(*vectors(), empty, key=KEY)
    assert (value, count) == (0.0, 0.0)
    assert all(not gradient.any() for gradient in gradients)


def test_the_objective_contrasts_the_dropped_vectors_of_the_step() -> None:
    """BCE mean plus weight times contrastive mean, from the logits and vectors of the same masks."""
    config = examples.config_with(
        model__name="rakge", score__dropout=0.5, okcl__weight=0.7, train__label_smoothing=0.1
    )
    model, parameters = examples.model_and_parameters(config)
    batch, literals = examples.batch(), examples.literals()
    objective = functools.partial(create_objective(config).losses, model=model)
    total, terms = examples.compiled(objective)(parameters, batch, literals, key=KEY)
    call = examples.compiled(functools.partial(examples.apply, model, train=True))
    rngs = {"dropout": jax.random.fold_in(KEY, DROPOUT)}
    logits, encoded = call(parameters, batch.relations, batch.heads, literals, rngs=rngs)
    bce = [
        binary_cross_entropy.entry(float(logit), binary_cross_entropy.smoothed(bool(label), 0.1))
        for logit, label in zip(logits[batch.mask].ravel(), batch.labels[batch.mask].ravel(), strict=True)
    ]
    heads, tails, relations, exact_logits = examples.float64(
        (encoded.dropped.heads, encoded.dropped.tails, encoded.relations, logits)
    )
    shapes = ((MEMBER_WEIGHTS, (2, 3, 5)), (ALPHA, (2, 3, 1)), (BETA, (2, 3, 1)))
    weights, alpha, beta = (
        np.asarray(jax.random.uniform(jax.random.fold_in(KEY, stream), shape)) for stream, shape in shapes
    )
    contrastive, count = contrastive_oracle.loss_of_batch(
        heads, tails, relations, exact_logits, batch, weights, alpha[..., 0], beta[..., 0], p=1
    )
    assert (count, len(bce)) == (2, 25)
    assert [int(terms[name][1]) for name in ("contrastive", "bce")] == [2, 25]
    np.testing.assert_allclose(terms["contrastive"][0], contrastive, rtol=1e-4)
    np.testing.assert_allclose(total, np.mean(bce) + 0.7 * contrastive / count, rtol=1e-4)


def test_without_a_weight_there_is_no_contrastive_term() -> None:
    assert create_objective(examples.config_with(model__name="rakge", okcl__weight=0.0)).contrastive is None
    objective = create_objective(examples.config_with(model__name="rakge"))
    assert objective.contrastive is not None
    assert objective.contrastive_weight == examples.config_with().okcl.weight


def test_the_order_term_alone_puts_the_head_itself_above_its_true_tails() -> None:
    """The penalty is 0 for the head and for everything below it: it never prefers a tail to the head."""
    model, parameters = model_and_parameters(score__order_weight=0.4)
    plain, _ = model_and_parameters(score__order_weight=0.0)

    @examples.compiled
    def order_term(parameters: dict, literals: Any) -> jax.Array:
        inputs = (parameters, RELATIONS, HEADS, literals)
        return examples.apply(model, *inputs, train=False)[0] - examples.apply(plain, *inputs, train=False)[0]

    order = order_term(parameters, examples.literals())
    of_heads = np.take_along_axis(np.asarray(order), np.asarray(HEADS)[..., None], axis=2)
    np.testing.assert_allclose(of_heads, 0.4 * 9.0, rtol=1e-5)
    assert (np.asarray(order) <= of_heads + 1e-4).all()
    assert vector_norm(np.asarray(order - of_heads).ravel(), 1) > 0.1
