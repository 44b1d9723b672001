"""Fields taken out, facts turned around, and facts that say what a changed value says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, LoadedGraph, NumericGraph, Vocabulary
from numcoke_jax.data.variants import facts_as_valued, hide_fields, reversed_facts
from numcoke_jax.runs.create import trained_on
from numcoke_jax.system.errors import UserError
from tests.examples import config_with


def ordered(count: int = 8) -> NumericGraph:
    """All pairs of a strict order by size under "above"; every second one to train on, with its negative."""
    facts = np.array([[i, 0, j] for i in range(count) for j in range(i)], np.int32)
    train = facts[::2]
    values = np.stack([np.arange(count) * 1.5, np.arange(count) % 3], axis=1)
    names = Vocabulary(tuple(f"e{i}" for i in range(count)), ("above",), ("size", "noise"))
    negatives = train[:, [TAIL, RELATION, HEAD]]
    return NumericGraph(names, train, facts[1::4], facts[3::4], negatives, values, np.ones((count, 2), bool))


def rows(facts: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(fact) for fact in facts.tolist()}


def test_a_hidden_field_leaves_its_facts_and_the_other_fields() -> None:
    graph = ordered()
    left = hide_fields(graph, ("size",))
    assert left.vocabulary.fields == ("noise",) and left.values.shape == left.observed.shape == (8, 1)
    np.testing.assert_array_equal(left.values[:, 0], graph.values[:, 1])
    for name in ("train", "valid", "test", "negatives"):
        np.testing.assert_array_equal(getattr(left, name), getattr(graph, name))
    assert hide_fields(graph, ("size", "noise")).num_fields == 0


def test_an_unknown_field_is_told_with_a_near_name() -> None:
    with pytest.raises(
        UserError, match=r"^data\.hide: the graph has no field 'siez'; did you mean size\?"
    ) as caught:
        hide_fields(ordered(), ("noise", "siez"))
    assert "\n" not in str(caught.value)


@given(st.sampled_from([0.1, 0.25, 0.5, 1.0]), st.integers(0, 50))
def test_the_share_of_training_facts_is_turned_and_nothing_else(share: float, seed: int) -> None:
    graph = ordered()
    turned = reversed_facts(graph, share, seed=seed)
    assert len(turned.train) == len(graph.train)
    missing = rows(graph.train) - rows(turned.train)
    assert len(missing) == round(share * len(graph.train))
    assert rows(turned.train) - rows(graph.train) == {(tail, r, head) for head, r, tail in missing}
    assert not rows(turned.negatives) & rows(turned.train), "what is a fact now is no negative"
    assert rows(turned.negatives) == rows(graph.negatives) - rows(turned.train)
    for split in ("valid", "test"):
        np.testing.assert_array_equal(turned.split(split), graph.split(split))
    np.testing.assert_array_equal(turned.train, reversed_facts(graph, share, seed=seed).train)
    order = np.lexsort((turned.train[:, TAIL], turned.train[:, HEAD], turned.train[:, RELATION]))
    np.testing.assert_array_equal(order, np.arange(len(order)))


def test_a_run_says_what_was_hidden_and_turned() -> None:
    config = config_with(data__hide=("noise",), data__reversed=0.25)
    loaded, held_out = trained_on(config, LoadedGraph(ordered(), [], "mine"))
    assert held_out is None and loaded.graph.vocabulary.fields == ("size",)
    assert loaded.notices == [
        "data.hide: no literals of noise",
        "data.reversed: 25% of the training facts are turned around",
    ]


def test_facts_follow_a_changed_value_in_the_direction_of_their_relation() -> None:
    graph = ordered()
    graph.values[7, 0] = -1.0
    up = facts_as_valued(graph, [7], {0: 1}, 0)
    assert (graph.values[up.train[:, HEAD], 0] > graph.values[up.train[:, TAIL], 0]).all()
    assert len(up.train) == len(graph.train) and set(up.train[:, HEAD]) != set(graph.train[:, HEAD])
    untouched = (graph.train[:, [HEAD, TAIL]] != 7).all(axis=1)
    assert rows(graph.train[untouched]) <= rows(up.train)
    np.testing.assert_array_equal(facts_as_valued(graph, [7], {}, 0).train, graph.train)
    graph.observed[7, 0] = False
    assert rows(facts_as_valued(graph, [7], {0: 1}, 0).train) == rows(graph.train)
