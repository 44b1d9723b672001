"""Which entities take part: Chao's estimate by hand, and a group inside a larger graph."""

import numpy as np
import pytest

from numcoke_jax.models.order_core.membership import BENEFIT_OF_DOUBT, memberships, unseen_members


def facts(pairs: list[tuple[int, int]], relation: int = 0) -> np.ndarray:
    return np.array([(head, relation, tail) for head, tail in pairs], np.int32).reshape(-1, 3)


@pytest.mark.parametrize(
    ("counts", "estimate"),
    [
        ([0, 0, 0], 0.0),
        ([1, 0], 0.0),  # 1 * 0 / (2 * 1)
        ([1, 1, 1, 0], 3.0),  # 3 * 2 / (2 * 1)
        ([1, 1, 1, 2, 2, 9, 0], 1.0),  # 3 * 2 / (2 * 3)
        ([2, 2, 3, 5], 0.0),
        ([1] * 10 + [2] * 4, 9.0),  # 10 * 9 / (2 * 5)
    ],
)
def test_estimates_by_hand(counts: list[int], estimate: float) -> None:
    assert unseen_members(np.array(counts)) == estimate


def test_entities_with_a_fact_take_part_for_certain() -> None:
    found = memberships([facts([(0, 1), (1, 2)]), facts([(3, 0)])], 6)
    np.testing.assert_array_equal(found[[0, 1, 2], 0], 1.0)
    np.testing.assert_array_equal(found[[0, 3], 1], 1.0)
    assert found.shape == (6, 2) and ((found > 0) & (found <= 1)).all()


def test_entities_that_other_relations_know_are_counted_apart() -> None:
    """By hand, for relation 0 of two, with 9 entities."""
    first = facts([(0, 2), (0, 3), (1, 6)])
    second = facts([(2, 3), (4, 5), (2, 4), (3, 5)])
    found = memberships([first, second], 9)
    # Known elsewhere (2-5): two with one fact each, two without: (1 + doubt) / 2.
    np.testing.assert_allclose(found[[4, 5], 0], (1.0 + BENEFIT_OF_DOUBT) / 2)
    # Others (0, 1, 6-8): once: 1 and 6, twice: 0: estimate 2 * 1 / (2 * 2) = 0.5; 7 and 8 are without.
    np.testing.assert_allclose(found[[7, 8], 0], (0.5 + BENEFIT_OF_DOUBT) / 2)
    np.testing.assert_array_equal(found[[0, 1, 2, 3, 6], 0], 1.0)


def test_a_group_of_60_among_150_is_told_from_the_rest() -> None:
    """A tenth of the pairs of 60 entities: all but few members have facts, the other 90 none."""
    rng = np.random.default_rng(0)
    members = np.sort(rng.choice(150, 60, replace=False))
    upper, lower = np.triu_indices(60, 1)
    kept = rng.random(len(upper)) < 0.1
    pairs = list(zip(members[upper[kept]].tolist(), members[lower[kept]].tolist(), strict=True))
    found = memberships([facts(pairs)], 150)[:, 0]
    outside = np.setdiff1d(np.arange(150), members)
    assert (found[members] == 1.0).sum() > 55
    assert (found[outside] < 0.05).all() and (found[outside] > 0).all()


def test_sparse_facts_about_all_entities_exclude_nobody() -> None:
    """40 facts about 200 entities: a third has a fact, and the estimate leaves room for the others."""
    rng = np.random.default_rng(1)
    pairs = [(int(a), int(b)) for a, b in (rng.choice(200, 2, replace=False) for _ in range(40))]
    found = memberships([facts(pairs)], 200)[:, 0]
    assert (found > 0.5).all()


def test_neither_facts_order_nor_relabelling_matters() -> None:
    rng = np.random.default_rng(2)
    parts = [facts([tuple(rng.choice(20, 2, replace=False)) for _ in range(n)]) for n in (5, 12)]
    expected = memberships(parts, 25)
    names = rng.permutation(25).astype(np.int32)
    renamed = [np.stack([names[part[:, 0]], part[:, 1], names[part[:, 2]]], axis=1)[::-1] for part in parts]
    np.testing.assert_array_equal(memberships(renamed, 25)[names], expected)


def test_no_facts_and_all_facts() -> None:
    np.testing.assert_allclose(memberships([facts([])], 4)[:, 0], BENEFIT_OF_DOUBT / 4)
    np.testing.assert_array_equal(memberships([facts([(0, 1), (2, 3)])], 4), 1.0)
    assert memberships([], 3).shape == (3, 0)
