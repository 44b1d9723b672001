"""Baselines learn: a few hundred steps on a small graph put the true tails first."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from numcoke_jax.data.batches import Batch
from numcoke_jax.models import create_model
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.training.programs import create_objective
from numcoke_jax.training.step import TrainState, train_step
from tests import examples

COUNT = 9
STEPS = 400
BASELINES = ["bigi", "cone", "dabr", "gie", "kgdm", "lorentzkg", "nekg", "rule", "slice", "wgcn"]


def chain() -> Batch:
    """Each entity's tails: the next one under relation 0, the third and fourth next under relation 1."""
    heads = np.arange(COUNT)
    labels = np.zeros((2, COUNT, COUNT), bool)
    for relation, steps in enumerate([(1,), (3, 4)]):
        for step in steps:
            labels[relation, heads[:-step], heads[step:]] = True
    return Batch(
        relations=jnp.array([0, 1], jnp.int32),
        heads=jnp.asarray(np.stack([heads, heads]), jnp.int32),
        mask=jnp.ones((2, COUNT), bool),
        labels=jnp.asarray(labels),
        negatives=jnp.zeros((2, COUNT, COUNT), bool),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", BASELINES)
def test_a_short_training_puts_the_true_tails_first(name: str) -> None:
    sizes = GraphSizes(entities=COUNT, relations=2, fields=3)
    config = examples.config_with(
        model__name=name, model__dim=12, query__filters=8, graph__layers=1, score__dropout=0.0
    )
    config.query.input_dropout = config.query.feature_dropout = config.query.hidden_dropout = 0.0
    model, batch, optimizer = create_model(config, sizes), chain(), optax.adam(0.015)
    facts = np.argwhere(batch.labels)[:, [1, 0, 2]]  # head, relation, tail
    literals = dataclasses.replace(examples.literals(sizes), facts=jnp.asarray(facts, jnp.int32))
    step = functools.partial(
        train_step, model=model, optimizer=optimizer, loss_fn=create_objective(config).losses_and_statistics
    )
    start = examples.created_state(model, optimizer, literals, key=jax.random.key(0))

    @examples.compiled
    def trained(state: TrainState) -> TrainState:
        return jax.lax.fori_loop(0, STEPS, lambda _, state: step(state, batch, literals)[0], state)

    @examples.compiled
    def logits_of(state: TrainState) -> jax.Array:
        call = functools.partial(examples.apply, model, state.params, train=False)
        return call(batch.relations, batch.heads, literals)[0]

    def share_of_true_tails_before_all_others(state: TrainState) -> float:
        logits = np.asarray(logits_of(state))
        best_other = np.where(batch.labels, -np.inf, logits).max(-1, keepdims=True)
        return float((logits > best_other)[np.asarray(batch.labels)].mean())

    assert share_of_true_tails_before_all_others(start) < 0.5
    assert share_of_true_tails_before_all_others(trained(start)) > 0.95
