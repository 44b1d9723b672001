"""TransE, and what holds of every model that the paper's is compared with."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from numcoke_jax.config.checks import check_config
from numcoke_jax.models.interface import GraphSizes, KnowledgeModel
from numcoke_jax.models.transe import TransE
from numcoke_jax.system import random_streams
from numcoke_jax.system.errors import UserError
from numcoke_jax.training.programs import create_objective
from numcoke_jax.training.step import train_step
from tests import examples
from tests.oracles import transe as oracle

pytestmark = pytest.mark.usefixtures("short_blocks")

RELATIONS = jnp.array([1, 0], jnp.int32)
HEADS = jnp.array([[0, 2, 4], [3, 1, 3]], jnp.int32)
COMPARED = ("transe", "literale", "rakge")


def model_and_parameters(**changes: Any) -> tuple[KnowledgeModel, dict]:
    return examples.model_and_parameters(examples.config_with(model__name="transe", **changes))


def in_training(parameters: dict, relations: Any, heads: Any, seed: int = 0) -> jax.Array:
    model, _ = model_and_parameters(score__dropout=0.5)
    call = examples.compiled(functools.partial(examples.apply, model, train=True))
    return call(parameters, relations, heads, examples.literals(), rngs={"dropout": jax.random.key(seed)})[0]


def test_parameters_are_two_tables_whatever_the_fields() -> None:
    _, parameters = model_and_parameters()
    shapes = jax.tree.map(jnp.shape, parameters)
    assert shapes == {"entities": {"embedding": (5, 4)}, "relation_embedding": (2, 4)}


def test_dropout_drops_the_entity_table_once_a_step() -> None:
    """With r = 0 an entity is at distance 0 from itself only if head and tail lost the same entries."""
    _, parameters = model_and_parameters()
    parameters = parameters | {"relation_embedding": jnp.zeros((2, 4))}
    everyone = jnp.tile(jnp.arange(5, dtype=jnp.int32), (2, 1))
    found = in_training(parameters, jnp.array([1, 0], jnp.int32), everyone)
    margin = examples.config_with().score.margin
    np.testing.assert_array_equal(np.diagonal(found, axis1=1, axis2=2), margin)
    np.testing.assert_array_equal(found[0], found[1])  # all slots see the same table
    assert np.abs(found - in_training(parameters, RELATIONS, everyone, seed=1)).max() > 0.1


def test_dropped_logits_are_those_of_a_table_with_entries_zeroed_or_doubled() -> None:
    """A table [2, 1] has 4 masks at rate 1/2; in 300 steps each must come up, and nothing else."""
    config = examples.config_with(model__name="transe", model__dim=1, score__dropout=0.5)
    sizes = GraphSizes(entities=2, relations=1, fields=3)
    model, parameters = examples.model_and_parameters(config, sizes)
    one, literals = jnp.zeros((1,), jnp.int32), examples.literals(sizes)

    def one_step(key: jax.Array) -> jax.Array:
        inputs = (one, jnp.array([[0, 1]], jnp.int32), literals)
        return examples.apply(model, parameters, *inputs, train=True, rngs={"dropout": key})[0][0]

    found = np.asarray(examples.compiled(jax.vmap(one_step))(jax.random.split(jax.random.key(0), 300)))
    exact = examples.float64(parameters)
    expected = []
    for bits in np.ndindex(2, 2):
        table = exact["entities"]["embedding"] * 2.0 * np.array(bits)[:, None]
        of = functools.partial(oracle.logit_of_table, table, exact, config)
        expected.append([[of(head, 0, tail) for tail in range(2)] for head in range(2)])
    errors = np.abs(found[:, None] - np.array(expected)).max(axis=(2, 3))
    np.testing.assert_allclose(errors.min(axis=1), 0.0, atol=1e-5)
    assert len(set(errors.argmin(axis=1))) == 4


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_dropout_is_absent_in_evaluation_and_at_rate_zero(rate: float) -> None:
    model, parameters = model_and_parameters(score__dropout=rate)
    call = functools.partial(examples.apply, model, parameters, RELATIONS, HEADS, examples.literals())
    evaluated, _ = call(train=False)
    trained, _ = call(train=True, rngs={"dropout": jax.random.key(0)})
    assert bool((evaluated == trained).all()) == (rate == 0.0)


def test_the_model_takes_its_keys_and_no_order_term() -> None:
    model, _ = model_and_parameters(score__norm=2, score__margin=4.0, score__order="penalty")
    assert isinstance(model, TransE)
    assert (model.dim, model.entities.dropout) == (4, 0.3)
    assert (model.score_term.norm, model.score_term.margin, model.score_term.order) == (2, 4.0, "none")


@pytest.mark.parametrize("name", COMPARED)
def test_forty_steps_halve_the_loss(name: str) -> None:
    config = examples.config_with(model__name=name, score__dropout=0.0)
    model, _ = examples.model_and_parameters(config)
    optimizer, literals = optax.adam(0.05), examples.literals()
    create = examples.compiled(functools.partial(examples.created_state, model, optimizer))
    state = create(literals, key=random_streams.base_key(0))
    step = examples.compiled(
        functools.partial(
            train_step,
            model=model,
            optimizer=optimizer,
            loss_fn=create_objective(config).losses_and_statistics,
        )
    )
    losses = []
    for _ in range(40):
        state, loss = step(state, examples.batch(), literals)
        losses.append(float(loss))
    assert state.losses.first_nonfinite_step == -1
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.parametrize(
    ("key", "value", "off"), [("score.order_core", True, "False"), ("train.entity_dropout", 0.2, "0.0")]
)
def test_an_extension_that_a_model_lacks_is_refused(name: str, key: str, value: Any, off: str) -> None:
    config = examples.config_with(model__name=name)
    check_config(config)
    section, _, entry = key.partition(".")
    config[section][entry] = value
    with pytest.raises(UserError) as caught:
        check_config(config)
    assert str(caught.value) == (
        f"{key}={value} has no effect with model.name={name}, which lacks this extension: set {key}={off}"
    )
