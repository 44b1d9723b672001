"""Rules that learn nothing, on orders small enough to see what they must say."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.evaluation.reference_orders import RULES, reference_orders
from tests.models.references.orders import graph_of

# Ten entities, 0 the highest; every pair is a training fact but those tested.  4 has no value.
VALUES = np.array([0.95, 0.85, 0.75, 0.65, np.nan, 0.45, 0.35, 0.25, 0.15, 0.05])[:, None]
TESTED = [(0, 9), (3, 4), (4, 6), (8, 9), (5, 4)]  # the last is false: 4 stands above 5


def graph(values: np.ndarray, *, turned: bool = False) -> NumericGraph:
    pairs = [(h, 0, t) for h in range(10) for t in range(h + 1, 10) if (h, t) not in TESTED]
    if turned:
        pairs = [(t, 0, h) for h, _, t in pairs]
    found = graph_of(pairs, values)
    test = [(t, 0, h) if turned else (h, 0, t) for h, t in TESTED]
    return dataclasses.replace(found, test=np.array([*test, (7, 0, 7)], np.int32))


def orders(graph: NumericGraph, values: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    found = reference_orders(graph, values, right)
    assert found is not None
    return found


@pytest.mark.parametrize("turned", [False, True])
def test_each_rule_says_what_it_knows(turned: bool) -> None:
    """Raw values guess the three pairs with 4; the facts put 4 between 5 (0.45) and 2 (0.75): at 0.6.

    The middle 0.6 is below 3's 0.65 and above 6's 0.35, and wrongly (as the fact is) above 5's 0.45.
    """
    right = np.array([1.0, 0.0, 0.5, 1.0, 0.0, 1.0])  # the pair of 7 with itself is left out
    found = orders(graph(VALUES, turned=turned), VALUES, right)["all"]
    assert found["count"] == 5
    assert found["model"] == pytest.approx(2.5 / 5)
    assert found["raw values"] == pytest.approx((1 + 0.5 + 0.5 + 1 + 0.5) / 5)
    assert found["bounds"] == pytest.approx((1 + 1 + 1 + 1 + 0) / 5)


def test_win_rates_count_training_facts() -> None:
    """Won and lost: 0 8-0, 9 0-7, 3 5-3, 4 4-3, 6 3-5, 8 0-8 (ties with 9), 5 4-5: 4/9 is below 4's 4/7."""
    found = orders(graph(VALUES), VALUES, np.ones(6))
    assert found["all"]["win rate"] == pytest.approx((1 + 1 + 1 + 0.5 + 0) / 5)
    assert found["relations"].keys() == {"r000"} and found["relations"]["r000"] == found["all"]


def test_without_values_only_the_facts_say_something() -> None:
    nothing = np.full((10, 1), np.nan)
    found = orders(graph(nothing), nothing, np.ones(6))["all"]
    assert found["raw values"] is None and found["bounds"] is None and found["win rate"] is not None
    assert list(found) == ["count", "model", *RULES]


def test_relations_that_do_not_compare_have_no_references() -> None:
    ring = [(i, 0, (i + 1) % 10) for i in range(10)]
    symmetric = graph_of([*ring, *((t, 0, h) for h, _, t in ring)], VALUES)
    symmetric = dataclasses.replace(symmetric, test=np.array([[0, 0, 5]], np.int32))
    assert reference_orders(symmetric, VALUES, np.ones(1)) is None
