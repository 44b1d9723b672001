"""Rules are found by what they lead to, and what would only repeat the relation is none."""

import itertools

import jax.numpy as jnp
import numpy as np

from numcoke_jax.models.mined_rules import LENGTH, RULES, _one_by_one, mined
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


def random_facts(seed: int, count: int = 30) -> np.ndarray:
    """Of 6 entities and 2 relations, without repetition."""
    rng = np.random.default_rng(seed)
    heads, relations, tails = rng.integers(0, 6, count), rng.integers(0, 2, count), rng.integers(0, 6, count)
    return np.unique(np.stack([heads, relations, tails], axis=1), axis=0)


def test_the_rule_behind_a_relation_comes_first() -> None:
    rules = mined(family(), 31, 4, seed=0)
    assert rules.shape == (4, RULES, LENGTH)
    # And not by the inverse of child, which is the same.
    assert tuple(rules[GRANDPARENT, 0]) == (PARENT, PARENT, -1)


def test_a_rule_of_three_steps_is_found() -> None:
    chains = [(10 * i + step, step, 10 * i + step + 1) for i in range(4) for step in range(3)]
    facts = np.array([*chains, *((10 * i, 3, 10 * i + 3) for i in range(4))], np.int32)
    assert tuple(mined(facts, 40, 4, seed=0)[3, 0]) == (0, 1, 2)


def test_neither_the_relation_nor_its_exact_inverse_is_its_rule() -> None:
    rules = mined(family(), 31, 4, seed=0)
    for relation in range(4):
        singles = [int(first) for first, second, _ in rules[relation] if second < 0 <= first]
        assert relation not in singles
    assert 4 + CHILD not in rules  # parent has the very same pairs


def test_a_way_by_the_fact_itself_bears_nothing_out() -> None:
    facts = np.array([[0, 0, 1], [2, 1, 3], [4, 2, 5]], np.int32)
    assert (mined(facts, 6, 3, seed=0) == -1).all()


def test_a_rule_leads_to_a_sampled_fact_along_other_facts() -> None:
    """All bodies that lead to facts of a relation are taken where there is room, and no others."""
    facts = random_facts(seed=3, count=9)
    rules = mined(facts, 6, 2, seed=0)
    for relation in range(2):
        expected = set()
        for fact in facts[facts[:, 1] == relation]:
            others = [row.tolist() for row in facts if (row != fact).any()]
            expected |= {
                body
                for steps in (1, 2, 3)
                for body in itertools.product(range(4), repeat=steps)
                if oracle.ways(others, 2, list(body), int(fact[0]), int(fact[2]))
            }
        found = {tuple(part for part in body if part >= 0) for body in rules[relation].tolist()} - {()}
        assert len(expected) < RULES
        assert found == expected - {(relation,)}


def test_a_rule_that_leads_elsewhere_is_taken_before_one_for_the_same_facts() -> None:
    """Values: 3 / 2, 3 / 2 and 2 / 2 at first; once the first is taken, the second is worth 3 / 4 alone."""
    led_to = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 1]], bool)
    assert _one_by_one(led_to, np.array([4, 4, 4])) == [0, 2, 1]


def test_of_two_rules_for_the_same_facts_the_one_of_fewer_pairs_comes_first() -> None:
    assert _one_by_one(np.ones((2, 3), bool), np.array([9, 4])) == [1, 0]


def test_ways_are_those_counted_one_by_one() -> None:
    facts, heads = random_facts(seed=1), [0, 4, 5]
    bodies = [[0, 1, -1], [2, 3, 0], [3, -1, -1], [1, 1, 2], [-1, -1, -1]]
    found = ways(jnp.array(bodies), jnp.array(heads), jnp.asarray(facts, jnp.int32), relations=2, entities=6)
    for k, h, tail in np.ndindex(5, 3, 6):
        body = [part for part in bodies[k] if part >= 0]
        expected = oracle.ways(facts.tolist(), 2, body, heads[h], tail) if body else 0
        assert found[k, h, tail] == expected


def test_rules_of_an_inverse_lead_from_the_tail_to_the_head_in_as_many_ways() -> None:
    rules = np.array([[[0, 1, -1], [2, 3, 1], [-1, -1, -1]], [[3, -1, -1], [1, 2, 0], [0, -1, -1]]])
    both = with_turned(rules)
    assert both.shape == (4, 3, 3)
    everyone, told = jnp.arange(6), jnp.asarray(random_facts(seed=2), jnp.int32)
    for relation in range(2):
        before, turned = (
            ways(jnp.asarray(bodies), everyone, told, relations=2, entities=6)
            for bodies in (rules[relation], both[relation + 2])
        )
        np.testing.assert_array_equal(both[relation], rules[relation])
        np.testing.assert_array_equal(turned, np.swapaxes(before, 1, 2))
        assert before[1].any()
