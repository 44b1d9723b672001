"""Rules are found with their confidence, and what would only repeat the relation is none."""

import jax.numpy as jnp
import numpy as np

from numcoke_jax.models.mined_rules import mined
from numcoke_jax.models.rule import ways, with_turned
from tests.oracles import rule as oracle

PARENT, GRANDPARENT, CHILD, OTHER = range(4)


def family() -> np.ndarray:
    """A binary tree of 31; all grandparents but one; children, which are parents turned around; noise."""
    parents = [(i, PARENT, j) for i in range(15) for j in (2 * i + 1, 2 * i + 2)]
    grand = [(i, GRANDPARENT, j) for i, _, k in parents for k2, _, j in parents if k == k2][1:]
    children = [(j, CHILD, i) for i, _, j in parents]
    rng = np.random.default_rng(0)
    noise = [(int(h), OTHER, int(t)) for h, t in rng.integers(0, 31, (6, 2))]
    return np.array([*parents, *grand, *children, *noise], np.int32)


def test_the_rule_behind_a_relation_comes_first() -> None:
    rules = mined(family(), 31, 4, seed=0)
    assert rules.shape == (4, 10, 2)
    assert tuple(rules[GRANDPARENT, 0]) == (PARENT, PARENT)  # and not the inverse of child, which is the same


def test_neither_the_relation_nor_its_exact_inverse_is_its_rule() -> None:
    rules = mined(family(), 31, 4, seed=0)
    for relation in range(4):
        singles = [int(a) for a, b in rules[relation] if b < 0 <= a]
        assert relation not in singles
    assert 4 + CHILD not in rules  # parent has the very same pairs


def test_a_rule_without_support_is_none() -> None:
    facts = np.array([[0, 0, 1], [2, 1, 3], [4, 2, 5]], np.int32)
    assert (mined(facts, 6, 3, seed=0) == -1).all()


def test_ways_are_those_counted_one_by_one() -> None:
    rng = np.random.default_rng(1)
    facts = np.stack([rng.integers(0, 6, 30), rng.integers(0, 2, 30), rng.integers(0, 6, 30)], axis=1)
    bodies, heads = [[0, 1], [2, 3], [3, -1], [1, 1], [-1, -1]], [0, 4, 5]
    found = ways(jnp.array(bodies), jnp.array(heads), jnp.asarray(facts, jnp.int32), relations=2, entities=6)
    for k, h, tail in np.ndindex(5, 3, 6):
        body = [part for part in bodies[k] if part >= 0]
        expected = oracle.ways(facts.tolist(), 2, body, heads[h], tail) if body else 0
        assert found[k, h, tail] == expected


def test_rules_of_an_inverse_lead_from_the_tail_to_the_head_in_as_many_ways() -> None:
    rng = np.random.default_rng(2)
    facts = np.stack([rng.integers(0, 6, 30), rng.integers(0, 2, 30), rng.integers(0, 6, 30)], axis=1)
    rules = np.array([[[0, 1], [2, 3], [-1, -1]], [[3, -1], [1, 2], [0, -1]]])
    both = with_turned(rules)
    assert both.shape == (4, 3, 2)
    everyone, told = jnp.arange(6), jnp.asarray(facts, jnp.int32)
    for relation in range(2):
        before, same, turned = (
            ways(jnp.asarray(bodies), everyone, told, relations=count, entities=6)
            for bodies, count in ((rules[relation], 2), (both[relation], 4), (both[relation + 2], 4))
        )
        np.testing.assert_array_equal(same, before)
        np.testing.assert_array_equal(turned, np.swapaxes(before, 1, 2))
        assert before[1].any()
