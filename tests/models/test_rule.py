"""RulE's second loss against loops, what it draws, and that both ways to count are the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcoke_jax.models.rule
from numcoke_jax.models import MODELS
from numcoke_jax.models.rule import ways, with_one_replaced
from tests import examples
from tests.oracles import rule as oracle

BATCH = examples.batch()


def test_the_second_loss_is_that_of_facts_and_of_rules_against_changed_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every rule is changed in its first step to the next relation, so that the loops know how."""

    def next_at_first(bodies: jax.Array, count: int, *, key: jax.Array) -> jax.Array:
        del key
        return bodies.at[..., 0].set((bodies[..., 0] + 1) % count)

    monkeypatch.setattr(numcoke_jax.models.rule, "with_one_replaced", next_at_first)
    with jax.enable_x64(True):
        config = examples.config_with(model__name="rule", model__attributes="concat", score__dropout=0.0)
        model, parameters = examples.model_and_parameters(config)
        literals, exact = examples.literals(), examples.float64(parameters)
        logits, encoded = examples.apply(
            model,
            parameters,
            BATCH.relations,
            BATCH.heads,
            literals,
            train=True,
            rngs={"view_noise": jax.random.key(7)},
        )
        loss = MODELS["rule"].second_loss
        assert loss is not None
        found = loss(config)(encoded, logits, BATCH, key=jax.random.key(0))
        rotations, labels = [], []
        for s, h in np.ndindex(2, 3):
            query = int(BATCH.heads[s, h]), int(BATCH.relations[s])
            rotations.append([oracle.rotation(exact, config, literals, *query, tail) for tail in range(5)])
            labels.append(np.asarray(BATCH.labels[s, h]) & bool(BATCH.mask[s, h]))
            for tail in range(5):  # what is trained by `train.loss` is the rules' part alone
                expected = oracle.by_rules(exact, config, literals, *query, tail)
                np.testing.assert_allclose(logits[s, h, tail], expected, rtol=1e-9)
        weights = []
        for relation, number in np.ndindex(exact["fixed_rules"].shape[:2]):
            body = oracle.body_of(exact, relation, number)
            if body:
                changed = [(body[0] + 1) % 4, *body[1:]]
                pair = (oracle.weight(exact, relation, number, which) for which in (body, changed))
                weights.append(tuple(pair))
        np.testing.assert_allclose(found, oracle.second_loss(rotations, labels, weights), rtol=1e-9)


def test_one_step_of_a_body_is_replaced_by_any_other_relation() -> None:
    bodies = jnp.tile(jnp.array([[[0, 3, 1], [2, 1, -1], [3, -1, -1]]]), (300, 1, 1))
    changed = with_one_replaced(bodies, 4, key=jax.random.key(0))
    assert ((changed != bodies).sum(-1) == 1).all()
    assert ((changed >= 0) == (bodies >= 0)).all()
    assert (changed < 4).all()
    for body, length in enumerate((3, 2, 1)):
        seen = {(place, int(new)) for row in changed[:, body] for place, new in enumerate(row)}
        old = bodies[0, body].tolist()
        assert seen >= {(place, r) for place in range(length) for r in range(4) if r != old[place]}


def test_counting_by_matrices_and_by_facts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    facts = jnp.asarray(np.unique(rng.integers(0, [7, 3, 7], (40, 3)), axis=0), jnp.int32)
    bodies = jnp.array([[0, 4, 2], [5, 1, -1], [3, -1, -1], [-1, -1, -1]])
    found = []
    for cells in (3 * 7**2, 3 * 7**2 - 1):
        monkeypatch.setattr(numcoke_jax.models.rule, "MATRIX_CELLS", cells)
        made = jax.make_jaxpr(lambda heads: ways(bodies, heads, facts, relations=3, entities=7))
        found.append((ways(bodies, jnp.arange(7), facts, relations=3, entities=7), str(made(jnp.arange(7)))))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert "dot_general" in found[0][1]
    assert "dot_general" not in found[1][1]
    assert found[0][0].sum((1, 2)).tolist()[3] == 0.0 < found[0][0][0].max()
