"""The field that a relation compares, its direction, and who is unknown."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.evaluation.orders import compared_fields as reported_fields
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.models.references.compared import (
    FEWEST_PAIRS,
    compared_fields,
    places_of,
    seen_entities,
    unknown_last,
)
from numcoke_jax.models.references.raw import RawValues
from tests.models.references.orders import graph_of, literals_of, parameters

N = 12


def two_relations(wrong: int = 0) -> tuple:
    """Relation 0 has higher values of field 1 at its heads, relation 1 lower ones of field 2."""
    rng = np.random.default_rng(0)
    positions = np.stack([rng.permutation(N) for _ in range(3)], axis=1) / N
    positions[3, 1] = positions[5, 2] = np.nan
    facts = []
    for i in range(N):
        for j in range(N):
            if positions[i, 1] > positions[j, 1]:
                facts.append((i, 0, j))
            if positions[i, 2] < positions[j, 2] and i != 7 and j != 7:
                facts.append((i, 1, j))
    facts = [
        (t, r, h) if n < wrong else (h, r, t) for n, (h, r, t) in enumerate(sorted(facts, key=lambda f: f[1]))
    ]
    return graph_of(facts, positions, relations=2), positions


def test_field_and_direction_are_found_by_the_facts() -> None:
    weight = compared_fields(*two_relations())
    assert weight.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, -1.0]]


def test_a_field_that_too_few_pairs_agree_with_is_found_but_not_taken_for_exact() -> None:
    """11 observed entities make 55 facts of relation 0; with 8 turned s is (47 - 8) / 55 = 0.71."""
    graph, positions = two_relations(wrong=8)
    assert compared_fields(graph, positions)[0].tolist() == [0.0, 1.0, 0.0]
    assert not compared_fields(graph, positions, least=0.8)[0].any()
    assert compared_fields(graph, positions, least=0.8)[1].tolist() == [0.0, 0.0, -1.0]


def test_few_pairs_and_removed_values_say_nothing() -> None:
    positions = np.arange(N)[:, None] / N
    facts = [(i + 1, 0, i) for i in range(FEWEST_PAIRS - 1)]
    assert not compared_fields(graph_of(facts, positions), positions).any()
    facts.append((N - 1, 0, 0))
    assert compared_fields(graph_of(facts, positions), positions).tolist() == [[1.0]]
    nothing = np.full((N, 1), np.nan)
    assert not compared_fields(graph_of(facts, nothing), nothing).any()
    assert compared_fields(graph_of(facts, np.empty((N, 0))), np.empty((N, 0))).shape == (1, 0)


def test_host_and_model_agree_on_places_and_the_report_names_the_fields() -> None:
    graph, positions = two_relations()
    model = RawValues(GraphSizes.of(graph))
    params = model.fit(graph, positions, seed=0)
    literals = literals_of(graph, positions)
    encoded: Any = model.apply(parameters(params), jnp.array([1, 0]), literals, train=False, method="encode")
    expected = places_of(positions, params["field_weight"]).T[[1, 0]]
    np.testing.assert_allclose(encoded.place, np.nan_to_num(expected, nan=0.5), atol=1e-6)
    assert encoded.observed.tolist() == (~np.isnan(expected)).tolist()
    assert np.asarray(encoded.known).tolist() == seen_entities(graph).T[[1, 0]].tolist()
    assert not encoded.known[0, 7] and encoded.known[1].sum() == N - 1  # 3 has no value: in no fact
    found = reported_fields(params, graph.vocabulary)
    assert [(name, fields[0].field, fields[0].weight) for name, fields in found.items()] == [
        ("r000", "f001", 1.0),
        ("r001", "f002", -1.0),
    ]


@pytest.mark.parametrize("scores", [[3.0, -2.0, 9.0, 1.0], [4.0, 2.0, 9.0, 1.0]])
def test_unknown_entities_are_below_all_known_ones(scores: list[float]) -> None:
    known = jnp.array([[True, True, False, True]])
    found = unknown_last(jnp.array([[scores]]), known)[0, 0]
    assert found[2] < found[jnp.array([0, 1, 3])].min()
    assert found[jnp.array([0, 1, 3])].tolist() == [scores[0], scores[1], scores[3]]
    assert np.isfinite(unknown_last(jnp.array([[scores]]), jnp.zeros_like(known))).all()
