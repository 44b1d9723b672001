"""The controls of an accuracy claim change the values and nothing else."""

import numpy as np
import pytest

from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.data.variants import CONTROLS, controlled_values


def graph() -> NumericGraph:
    rng = np.random.default_rng(0)
    observed = rng.random((30, 3)) < 0.7
    facts = np.array([[0, 0, 1], [2, 0, 1]], np.int32)
    names = tuple(f"e{i:02d}" for i in range(30))
    return NumericGraph(
        vocabulary=Vocabulary(names, ("r",), ("a", "b", "c")),
        train=facts[:1],
        valid=facts[1:],
        test=facts[:0],
        negatives=facts[:0],
        values=np.where(observed, rng.normal(size=(30, 3)), 0.0),
        observed=observed,
    )


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
    columns = controlled_values(
        NumericGraph(
            before.vocabulary, before.train, before.valid, before.test, before.negatives, values, observed
        ),
        "shuffled",
        seed=1,
    ).values.T
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
