"""Second losses of BiGI, SLiCE, ConE, DistMult and ComplEx against loops; what BiGI and SLiCE draw."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcoke_jax.models.slice
from numcoke_jax.models import MODELS
from numcoke_jax.models.complex import moduli
from numcoke_jax.models.cone import angle, below, directions, half_opening
from tests import examples
from tests.oracles import bigi, cone, distmult
from tests.oracles import complex as complex_oracle
from tests.oracles import slice as slice_oracle

BATCH = examples.batch()


def in_training(name: str, **changes: Any) -> tuple[Any, Any, Any, Any, Any]:
    """config, parameters, literals, encoded and the second loss of a step, in float64."""
    config = examples.config_with(
        model__name=name, model__attributes="concat", score__dropout=0.0, score__norm=2, **changes
    )
    model, parameters = examples.model_and_parameters(config)
    literals, rngs = examples.literals(), {"view_noise": jax.random.key(7)}
    call = examples.compiled(functools.partial(examples.apply, model, train=True))
    logits, encoded = call(parameters, BATCH.relations, BATCH.heads, literals, rngs=rngs)
    second_loss = MODELS[name].second_loss
    assert second_loss is not None
    total, count = second_loss(config)(encoded, logits, BATCH, key=jax.random.key(0))
    return config, examples.float64(parameters), literals, encoded, (float(total), float(count))


def test_bigis_loss_is_that_of_facts_against_those_of_shuffled_rows() -> None:
    with jax.enable_x64(True):
        config, exact, literals, encoded, (total, count) = in_training("bigi")
        links, table = bigi.links_of(literals), bigi.table_of(exact, config, literals)
        true = bigi.sides(exact, table, table, links, config.graph.layers)
        own = exact["infomax"]
        for fact, found in zip(links, np.asarray(encoded.true), strict=True):
            np.testing.assert_allclose(found, bigi.fact_logit(own, true, true, links, fact), rtol=1e-9)
        both = np.concatenate([-np.asarray(encoded.true), np.asarray(encoded.shuffled)])
        np.testing.assert_allclose(total, sum(math.log1p(math.exp(x)) for x in both), rtol=1e-9)
        assert count == 2 * len(links)


def test_bigi_shuffles_the_rows_of_both_sides() -> None:
    """The shuffled logits are those of one of the pairs of permutations, and not of the identity."""
    with jax.enable_x64(True):
        config, exact, literals, encoded, _ = in_training("bigi", graph__layers=1)
        links, table = bigi.links_of(literals), bigi.table_of(exact, config, literals)
        true = bigi.sides(exact, table, table, links, 1)
        rng, found = np.random.default_rng(0), np.asarray(encoded.shuffled)
        assert np.abs(found - np.asarray(encoded.true)).max() > 1e-3
        keys = jax.random.split(drawn_key(config))
        orders = [np.asarray(jax.random.permutation(key, len(table))) for key in keys]
        assert any((order != np.arange(len(table))).any() for order in orders)
        heads, tails = ([table[i] for i in order] for order in orders)
        shown = bigi.sides(exact, heads, tails, links, 1)
        fact = int(rng.integers(len(links)))
        expected = bigi.fact_logit(exact["infomax"], true, shown, links, links[fact])
        np.testing.assert_allclose(found[fact], expected, rtol=1e-9)


def drawn_key(config: Any) -> jax.Array:
    """The key that the module's stream gives for the rngs of `in_training`."""
    model, parameters = examples.model_and_parameters(config)
    rngs = {"view_noise": jax.random.key(7)}
    return model.apply({"params": parameters}, rngs=rngs, method=lambda module: module.make_rng("view_noise"))


def test_slices_loss_is_that_of_guessing_the_hidden_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numcoke_jax.models.slice, "HIDDEN", 0.5)
    with jax.enable_x64(True):
        config, exact, literals, encoded, (total, count) = in_training("slice")
        hidden = np.asarray(encoded.hidden)
        assert 0 < hidden.sum() < len(hidden)
        queries = [int(head) for head in np.asarray(BATCH.heads)[np.asarray(BATCH.mask)] if hidden[head]]
        assert count == len(queries) > 0
        losses = (slice_oracle.guessing_loss(exact, config, literals, head, hidden) for head in queries)
        np.testing.assert_allclose(total, sum(losses), rtol=1e-9)


def test_cones_loss_is_how_far_facts_are_outside() -> None:
    with jax.enable_x64(True):
        config, exact, literals, _, (total, count) = in_training("cone")
        expected, planes = 0.0, 0
        for s, h, tail in np.argwhere(np.asarray(BATCH.labels & BATCH.mask[..., None])).tolist():
            relation, head = int(BATCH.relations[s]), int(BATCH.heads[s, h])
            ends = (cone.planes(exact, config, literals, entity) for entity in (head, tail))
            for p, (x, y) in enumerate(zip(*ends, strict=True)):
                order = cone.orders(exact, relation, p)
                above, beneath = (x, y) if order > 0.0 else (y, x)
                if order and above != beneath:
                    expected += max(0.0, cone.angle(above, beneath) - cone.half_opening(above))
                planes += order != 0.0
        assert count == planes > 0
        np.testing.assert_allclose(total, expected, rtol=1e-4)


@pytest.mark.parametrize(("name", "oracle"), [("distmult", distmult), ("complex", complex_oracle)])
def test_the_cubed_norms_are_those_of_the_facts_of_a_batch(name: str, oracle: Any) -> None:
    with jax.enable_x64(True):
        config, exact, literals, _, (total, count) = in_training(name)
        facts = np.argwhere(np.asarray(BATCH.labels & BATCH.mask[..., None])).tolist()
        triples = [(int(BATCH.heads[s, h]), int(BATCH.relations[s]), tail) for s, h, tail in facts]
        assert count == len(triples) > 0
        expected = sum(oracle.cubed_norm(exact, config, literals, *triple) for triple in triples)
        np.testing.assert_allclose(total, expected, rtol=1e-9)


def test_the_gradient_of_a_modulus_of_zero_is_zero() -> None:
    gradient = jax.grad(lambda vector: moduli(vector).sum())(np.array([3.0, 0.0, 4.0, 0.0]))
    np.testing.assert_allclose(gradient, [0.6, 0.0, 0.8, 0.0], rtol=1e-6)


def test_what_a_relation_of_cone_leads_to_is_in_the_cone() -> None:
    with jax.enable_x64(True):
        points = jnp.tanh(
            0.3 * examples.normal(50, 2, 2, seed=1)
        )  # so far from the border that none is moved
        angles, steps = examples.normal(3, 2, seed=2, scale=3.0), examples.normal(3, 2, seed=3, scale=0.3)
        beneath = below(points, angles, steps)
        opening = half_opening(points)[..., 0]
        assert (angle(points, beneath) <= opening + 2e-3).all()  # arccos is that blunt at small angles
        # And the whole of it is reached: a large angle leads to its border.
        border = below(points, jnp.full((3, 2), 9.0), jnp.full((3, 2), 0.2))
        np.testing.assert_allclose(
            angle(points, border), jnp.broadcast_to(opening, border.shape[:-1]), atol=1e-3
        )


def test_hierarchies_are_found_in_the_facts() -> None:
    tree = [(0, 0, 1), (0, 0, 2), (1, 0, 3), (1, 0, 4)]  # from above
    turned = [(tail, 1, head) for head, _, tail in tree]
    both_ways = [(0, 2, 1), (1, 2, 0), (1, 2, 2)]
    two_kinds = [(0, 3, 4), (1, 3, 4)]  # no tail is a head
    facts = np.array([*tree, *turned, *both_ways, *two_kinds], np.int32)
    assert directions(facts, 5).tolist() == [1.0, -1.0, 0.0, 0.0, 0.0]


def test_bigi_and_slice_draw_in_training_alone() -> None:
    for name in ("bigi", "slice"):
        model, parameters = examples.model_and_parameters(examples.config_with(model__name=name))
        literals = examples.literals()
        encoded = examples.apply(model, parameters, BATCH.relations, BATCH.heads, literals, train=False)[1]
        drawn = {field.name: getattr(encoded, field.name) for field in dataclasses.fields(encoded)}
        assert all(drawn.get(field) is None for field in ("shuffled", "guesses", "hidden"))
