"""LiteralE's gate on TransE."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.models.interface import GraphSizes, KnowledgeModel
from numcoke_jax.models.literale import LiteralE
from tests import examples
from tests.oracles import transe

pytestmark = pytest.mark.usefixtures("short_blocks")

RELATIONS = jnp.array([1, 0], jnp.int32)
HEADS = jnp.array([[0, 2, 4], [3, 1, 3]], jnp.int32)


def model_and_parameters(**changes: Any) -> tuple[KnowledgeModel, dict]:
    return examples.model_and_parameters(examples.config_with(model__name="literale", **changes))


def evaluated(model: KnowledgeModel, parameters: dict, literals: Any, heads: Any = HEADS) -> jax.Array:
    return examples.apply(model, parameters, RELATIONS, heads, literals, train=False)[0]


def test_parameter_shapes() -> None:
    """N = 5, R = 2, M = 3, d = 4: the gate sees 4 + 3 numbers."""
    _, parameters = model_and_parameters()
    assert jax.tree.map(jnp.shape, parameters) == {
        "entity_embedding": (5, 4),
        "relation_embedding": (2, 4),
        "gate": {
            "bias": (4,),
            "entity_gate": {"kernel": (4, 4)},
            "attribute_gate": {"kernel": (3, 4)},
            "joint": {"kernel": (7, 4), "bias": (4,)},
        },
    }


def test_without_fields_it_is_transe() -> None:
    sizes = GraphSizes(entities=5, relations=2, fields=0)
    config = examples.config_with(model__name="literale")
    model, parameters = examples.model_and_parameters(config, sizes)
    assert set(parameters) == {"entity_embedding", "relation_embedding"}
    found = evaluated(model, parameters, examples.literals(sizes))
    exact = examples.float64(parameters)
    for s, h, tail in np.ndindex(2, 3, 5):
        triple = int(HEADS[s, h]), int(RELATIONS[s]), tail
        expected = transe.logit_of_table(exact["entity_embedding"], exact, config, *triple)
        np.testing.assert_allclose(found[s, h, tail], expected, rtol=1e-5)


def test_dropout_acts_on_gated_heads_and_tails_apart() -> None:
    """With r = 0 an entity would stay at distance 0 from itself if head and tail lost the same entries."""
    model, parameters = model_and_parameters(score__dropout=0.5)
    parameters = parameters | {"relation_embedding": jnp.zeros((2, 4))}
    everyone = jnp.tile(jnp.arange(5, dtype=jnp.int32), (2, 1))
    call = functools.partial(examples.apply, model, parameters, RELATIONS, everyone, examples.literals())
    in_training, encoded = call(train=True, rngs={"dropout": jax.random.key(0)})
    in_evaluation, whole = call(train=False)
    np.testing.assert_array_equal(encoded.entities, whole.entities)  # the gate sees whole embeddings
    margin = examples.config_with().score.margin
    assert (np.diagonal(in_training, axis1=1, axis2=2) < margin - 0.1).any()
    np.testing.assert_array_equal(np.diagonal(in_evaluation, axis1=1, axis2=2), margin)


def test_the_model_takes_its_keys_and_no_order_term() -> None:
    model, _ = model_and_parameters(score__norm=2, score__margin=4.0, score__order="penalty")
    assert isinstance(model, LiteralE)
    term = model.score_term
    assert (model.dim, term.norm, term.margin, term.order, term.dropout) == (4, 2, 4.0, "none", 0.3)
    assert model.gate.kind == "gate"
