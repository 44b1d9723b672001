"""The total loss: reading 16, composed of loops, and its gradients by central differences in every switch."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from numcoke_jax.config.schema import choices
from numcoke_jax.data.batches import Batch
from numcoke_jax.models.losses import contrastive
from numcoke_jax.system import random_streams
from numcoke_jax.training.programs import create_objective
from tests import examples
from tests.oracles import binary_cross_entropy, cross_entropy, numcoke
from tests.oracles import contrastive as contrastive_oracle

pytestmark = pytest.mark.usefixtures("short_blocks")

KEY = jax.random.key(5)

# Every value of every switch of the model and its loss is in one of these at least.
SWITCHES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one expert": {
        "numeric__share_transform": True,
        "numeric__missing": "zero",
        "experts__count": 1,
        "attention__operators": ("product",),
        "attention__relation_weight": 0.0,
        "fusion__kind": "paper",
        "score__norm": 2,
        "score__order": "penalty",
        "score__dropout": 0.0,
        "okcl__similarity": "dot",
        "okcl__reduce": "sum",
        "okcl__temperature": 3.0,
        "okcl__in_batch": True,
    },
    "hidden experts": {
        "numeric__encoding": "quantile",
        "numeric__bins": 3,
        "experts__hidden": 3,
        "experts__noise": False,
        "attention__operators": ("difference",),
        "attention__relation_weight": 1.0,
        "score__order": "none",
        "score__dropout": 0.0,
        "okcl__similarity": "cosine",
        "okcl__num_negative_mixes": 2,
        "okcl__in_batch": True,
        "train__label_smoothing": 0.1,
        "train__unknown_weight": 0.25,
    },
    "no query": {
        "numeric__encoding": "periodic",
        "numeric__frequencies": 2,
        "experts__noise": False,
        "attention__operators": ("concatenation",),
        "attention__use_query": False,
        "score__norm": 2,
        "score__dropout": 0.0,
        "okcl__sampling": "random",
        "okcl__negatives": "unlinked",
        "okcl__in_batch": True,
        "train__loss": "cross_entropy",
        "train__label_smoothing": 0.1,
        "train__unknown_weight": 0.25,
    },
    "no contrastive loss": {
        "attention__operators": ("mlp", "product"),
        "experts__hidden": 3,
        "score__norm": 2,
        "score__order": "none",
        "okcl__weight": 0.0,
        "train__entity_dropout": 0.4,
    },
}
DETERMINISTIC = ("one expert", "hidden experts", "no query")


def config_of(name: str) -> ConfigDict:
    return examples.config_with(**({"okcl__weight": 0.7} | SWITCHES[name]))


@functools.cache
def compiled_loss(name: str) -> Any:
    """(parameters, batch, literals, key) -> ((total, terms), gradients), in the given switches."""
    config = config_of(name)
    model, _ = examples.model_and_parameters(config)
    objective = create_objective(config)
    gradient = jax.value_and_grad(objective.losses, has_aux=True)
    return examples.compiled(
        lambda parameters, batch, literals, key: gradient(parameters, batch, literals, model=model, key=key)
    )


def evaluate(name: str, parameters: dict, batch: Batch | None = None, literals: Any = None) -> Any:
    batch = batch if batch is not None else examples.batch()
    literals = literals if literals is not None else examples.literals()
    return compiled_loss(name)(parameters, batch, literals, KEY)


def parameters_of(name: str) -> dict:
    return examples.model_and_parameters(config_of(name))[1]


def test_the_switches_cover_every_choice() -> None:
    """The defaults count as chosen where a set does not change them."""
    configs = [config_of(name) for name in SWITCHES]

    def chosen(section: str, key: str) -> set:
        return {config[section][key] for config in configs}

    assert chosen("numeric", "share_transform") == chosen("experts", "noise") == {False, True}
    assert chosen("numeric", "missing") == {"embedding", "zero"}
    assert chosen("numeric", "encoding") == set(choices("numeric.encoding"))
    assert {min(chosen("experts", "count")), min(chosen("experts", "hidden"))} == {1, 0}
    assert set().union(*chosen("attention", "operators")) == set(choices("attention.operators"))
    assert {0.0, 0.5, 1.0} == chosen("attention", "relation_weight")
    assert chosen("attention", "use_query") == {False, True}
    assert chosen("fusion", "kind") == set(choices("fusion.kind"))
    assert chosen("score", "order") == set(choices("score.order"))
    assert chosen("score", "norm") == {1, 2}
    assert chosen("okcl", "sampling") == set(choices("okcl.sampling"))
    assert chosen("okcl", "negatives") == set(choices("okcl.negatives"))
    assert chosen("okcl", "reduce") == set(choices("okcl.reduce"))
    assert chosen("okcl", "similarity") == set(choices("okcl.similarity"))
    assert chosen("okcl", "in_batch") == {False, True}
    assert chosen("train", "loss") == set(choices("train.loss"))


def loss_of_loops(name: str, parameters: dict) -> tuple[float, dict[str, tuple[float, float]]]:
    """Total and (sum, count) of each term, one triple and one pair at a time."""
    config, batch, literals = config_of(name), examples.batch(), examples.literals()
    parameters = examples.float64(parameters)
    relations = [int(r) for r in batch.relations]
    tables = np.array([numcoke.encode(parameters, config, literals, r) for r in relations])
    bce_sum, bce_count = 0.0, 0.0
    for s, h in np.ndindex(*batch.heads.shape):
        if not batch.mask[s, h]:
            continue
        head = int(batch.heads[s, h])
        logits = numcoke.logits(parameters, config, literals, tables[s], relations[s], head)
        known = batch.labels[s, h] | batch.negatives[s, h]
        if config.train.loss == "cross_entropy":
            weights = np.where(known, 1.0, config.train.unknown_weight).tolist()
            for tail in np.flatnonzero(batch.labels[s, h]):
                bce_sum += cross_entropy.of_fact(logits, int(tail), weights, config.train.label_smoothing)
                bce_count += 1.0
            continue
        for logit, true, sure in zip(logits, batch.labels[s, h], known, strict=True):
            target = binary_cross_entropy.smoothed(bool(true), config.train.label_smoothing)
            weight = 1.0 if sure else config.train.unknown_weight
            bce_sum += weight * binary_cross_entropy.entry(logit, target)
            bce_count += weight

    def draws(stream: str, *shape: int) -> np.ndarray:
        return np.asarray(jax.random.uniform(random_streams.stream(KEY, stream), shape), np.float64)

    slots, heads = batch.heads.shape
    settings = contrastive.ContrastiveSettings(
        norm=config.score.norm, **{key: value for key, value in config.okcl.items() if key != "weight"}
    )
    pair_sum, pairs = contrastive_oracle.loss_of_batch(
        tables,
        parameters["relation_embedding"][np.array(relations)],
        batch,
        draws("alpha", slots, heads, 1)[..., 0],
        draws("beta", slots, heads, settings.num_negative_mixes, 1)[..., 0],
        settings,
        draws("sampling", slots, heads, 5) if settings.sampling == "random" else None,
    )
    total = bce_sum / bce_count + config.okcl.weight * pair_sum / pairs
    return total, {"bce": (bce_sum, bce_count), "contrastive": (pair_sum, pairs)}


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_the_total_equals_the_loops(name: str) -> None:
    """Training mode, in float64, in the switches that draw neither noise nor dropout."""
    with jax.enable_x64(True):
        parameters = parameters_of(name)
        (total, terms), _ = evaluate(name, parameters)
        expected, expected_terms = loss_of_loops(name, parameters)
    entries = expected_terms["bce"][1]
    train = config_of(name).train
    if train.loss == "cross_entropy":
        batch = examples.batch()
        assert entries == (batch.labels & batch.mask[..., None]).sum()
    else:
        assert entries == 25 if train.unknown_weight == 1 else 5 < entries < 25  # 5 pairs of 5
    assert expected_terms["contrastive"][1] == 4  # one of the pairs has no positive
    np.testing.assert_allclose(total, expected, rtol=1e-6)
    for term, (sum_, count) in expected_terms.items():
        np.testing.assert_allclose(terms[term][0], sum_, rtol=1e-6, err_msg=term)
        assert terms[term][1] == count


@pytest.mark.parametrize("name", SWITCHES)
def test_gradients_equal_central_differences(name: str) -> None:
    """In a random direction of every parameter array: (L(x + h u) - L(x - h u)) / 2h, in float64.

    Noise and dropout stay what they are while their key does.
    """
    step = 1e-6
    with jax.enable_x64(True):
        parameters = parameters_of(name)
        _, gradients = evaluate(name, parameters)
        leaves, structure = jax.tree.flatten(parameters)
        rng = np.random.default_rng(1)
        for index, (path, gradient) in enumerate(jax.tree.leaves_with_path(gradients)):
            direction = rng.normal(size=gradient.shape)
            totals = []
            for sign in (1.0, -1.0):
                moved = list(leaves)
                moved[index] = leaves[index] + sign * step * direction
                totals.append(float(evaluate(name, jax.tree.unflatten(structure, moved))[0][0]))
            slope = (totals[0] - totals[1]) / (2.0 * step)
            expected = float(np.sum(np.asarray(gradient) * direction))
            label = f"{name}: {jax.tree_util.keystr(path)}"
            np.testing.assert_allclose(expected, slope, rtol=1e-5, atol=1e-8, err_msg=label)


def test_every_parameter_of_the_default_model_is_trained() -> None:
    """A parameter whose gradient is rounding noise would walk at random under Adam."""
    with jax.enable_x64(True):
        _, gradients = evaluate("defaults", parameters_of("defaults"))
    for path, gradient in jax.tree.leaves_with_path(gradients):
        assert np.abs(gradient).max() > 1e-9, jax.tree_util.keystr(path)


def assert_same_losses_and_gradients(found: Any, expected: Any) -> None:
    (total, terms), gradients = found
    (expected_total, expected_terms), expected_gradients = expected
    close = functools.partial(np.testing.assert_allclose, rtol=1e-6)
    close(total, expected_total)
    jax.tree.map(close, terms, expected_terms)
    jax.tree.map(functools.partial(close, rtol=1e-4, atol=1e-6), gradients, expected_gradients)


def test_padded_slots_change_neither_losses_nor_gradients() -> None:
    """A second slot that is full but masked; the first one draws the same numbers with and without it."""
    whole, parameters = examples.batch(), parameters_of("defaults")
    one_slot = jax.tree.map(lambda array: array[:1], whole)
    padded = dataclasses.replace(whole, mask=whole.mask.at[1].set(False))
    assert padded.labels[1].any()
    assert_same_losses_and_gradients(
        evaluate("defaults", parameters, padded), evaluate("defaults", parameters, one_slot)
    )


def test_what_lies_under_the_mask_changes_neither_losses_nor_gradients() -> None:
    batch, parameters = examples.batch(), parameters_of("defaults")
    hidden = ~batch.mask[..., None]
    even = jnp.arange(batch.labels.shape[-1]) % 2 == 0
    junk = dataclasses.replace(
        batch,
        heads=jnp.where(batch.mask, batch.heads, 3),
        labels=jnp.where(hidden, even, batch.labels),
        negatives=jnp.where(hidden, ~even, batch.negatives),
    )
    assert (junk.heads != batch.heads).any()
    assert_same_losses_and_gradients(
        evaluate("defaults", parameters, junk), evaluate("defaults", parameters, batch)
    )
    # The mask is what hides it.
    (unmasked, _), _ = evaluate("defaults", parameters, dataclasses.replace(junk, mask=batch.mask | True))
    assert unmasked != evaluate("defaults", parameters, batch)[0][0]


@pytest.mark.parametrize("case", ["no negatives", "everything masked", "zero literals", "zero embeddings"])
def test_losses_and_gradients_stay_finite(case: str) -> None:
    batch, literals, parameters = examples.batch(), examples.literals(), parameters_of("defaults")
    if case == "no negatives":
        batch = dataclasses.replace(batch, labels=jnp.ones_like(batch.labels), negatives=batch.labels & False)
    elif case == "everything masked":
        batch = dataclasses.replace(batch, mask=jnp.zeros_like(batch.mask))
    elif case == "zero literals":
        literals = dataclasses.replace(literals, values=jnp.zeros_like(literals.values))
    else:
        parameters = jax.tree.map(jnp.zeros_like, parameters)
    (total, terms), gradients = evaluate("defaults", parameters, batch, literals)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((total, terms, gradients)))
    if case in ("no negatives", "everything masked"):
        np.testing.assert_array_equal(terms["contrastive"], [0.0, 0.0])
    if case == "everything masked":
        assert total == 0.0
        assert all((leaf == 0.0).all() for leaf in jax.tree.leaves(gradients))


def test_lambda_weighs_the_contrastive_mean() -> None:
    parameters = parameters_of("defaults")
    (total, terms), _ = evaluate("defaults", parameters)
    means = {name: sum_ / count for name, (sum_, count) in terms.items()}
    np.testing.assert_allclose(total, means["bce"] + 0.7 * means["contrastive"], rtol=1e-6)


def test_a_weight_of_zero_and_other_models_have_no_contrastive_term() -> None:
    assert create_objective(examples.config_with(okcl__weight=0.0)).contrastive is None
    assert create_objective(examples.config_with(model__name="transe")).contrastive is None
    assert create_objective(examples.config_with()).contrastive is not None
    with jax.enable_x64(True):
        (total, terms), _ = evaluate("no contrastive loss", parameters_of("no contrastive loss"))
        assert list(terms) == ["bce"]
        np.testing.assert_allclose(total, terms["bce"][0] / terms["bce"][1], rtol=1e-6)
