"""The controls of an accuracy claim change the values and nothing else."""

import dataclasses

import numpy as np
import pytest

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.variants import CONTROLS, controlled_values
from tests.graphs import graph_of, numbered


def graph() -> NumericGraph:
    rng = np.random.default_rng(0)
    observed = rng.random((30, 3)) < 0.7
    facts = {"train": [(0, 0, 1)], "valid": [(2, 0, 1)]}
    return graph_of(numbered(30, fields=3), **facts, values=rng.normal(size=(30, 3)), observed=observed)


def test_shuffled_values_are_a_permutation_within_each_field():
    before = graph()
    after = controlled_values(before, "shuffled", seed=1)
    np.testing.assert_array_equal(after.observed, before.observed)
    assert not np.array_equal(after.values, before.values)
    for field in range(3):
        having = before.observed[:, field]
        assert sorted(after.values[having, field]) == sorted(before.values[having, field])
        assert not after.values[~having, field].any()


def test_fields_are_shuffled_independently():
    before = graph()
    observed = np.ones_like(before.observed)
    values = np.repeat(np.arange(30.0)[:, None], 3, axis=1)
    whole = dataclasses.replace(before, values=values, observed=observed)
    columns = controlled_values(whole, "shuffled", seed=1).values.T
    assert not np.array_equal(columns[0], columns[1]) and not np.array_equal(columns[1], columns[2])


def test_one_seed_gives_one_permutation():
    one, again, other = (controlled_values(graph(), "shuffled", seed=seed).values for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_zeroed_keeps_the_mask_and_removed_clears_it():
    before = graph()
    zeroed, removed = (controlled_values(before, control, seed=0) for control in ("zeroed", "removed"))
    assert not zeroed.values.any() and np.array_equal(zeroed.observed, before.observed)
    assert not removed.values.any() and not removed.observed.any()


@pytest.mark.parametrize("control", CONTROLS)
def test_facts_and_names_stay(control):
    before = graph()
    after = controlled_values(before, control, seed=0)
    assert after.vocabulary == before.vocabulary
    for part in ("train", "valid", "test", "negatives"):
        assert getattr(after, part) is getattr(before, part)


def test_another_word_is_refused():
    with pytest.raises(ValueError, match=r"control must be one of .*'true'.*, got 'mixed'"):
        controlled_values(graph(), "mixed", seed=0)
