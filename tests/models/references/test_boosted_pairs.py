"""Trees in JAX, against loops over the questions and against CatBoost's own predictions."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.models.references.boosted_pairs import (
    DEPTH,
    BoostedPairs,
    classifier,
    empty_trees,
    fitted_trees,
    pair_features,
)
from numcoke_jax.system.errors import UserError
from tests.models.references.orders import graph_of, literals_of, parameters

N, M = 30, 2


def example() -> tuple:
    """Entities in the order of one field plus a little of the other; a quarter of all pairs is known."""
    rng = np.random.default_rng(0)
    positions = rng.random((N, M))
    total = positions @ [1.0, 0.3]
    positions[rng.random((N, M)) < 0.2] = np.nan
    pairs = [(i, 0, j) for i in range(N) for j in range(N) if total[i] > total[j] and rng.random() < 0.5]
    graph = graph_of(pairs, positions)
    literals = literals_of(graph, positions)
    return graph, positions, literals


def scores_of(trees: dict, count: int, literals: Literals) -> np.ndarray:
    """Scores [N, N] of a model with these arrays, no entity of which is unknown."""
    model = BoostedPairs(GraphSizes(N, 1, M), unseen=N, trees=count)
    params = {name: np.asarray(array, np.float32)[None] for name, array in trees.items()}
    params |= {"field_weight": np.zeros((1, M), np.float32), "entity_seen": np.zeros((N, 1), np.float32)}
    scores, _ = model.apply(parameters(params), jnp.array([0]), jnp.arange(N)[None], literals, train=False)
    return np.asarray(scores[0])


def features(positions: np.ndarray) -> np.ndarray:
    """Float32 [N * N, 3 M] of all pairs."""
    heads, tails = np.divmod(np.arange(N * N), N)
    values = positions.astype(np.float32)
    return pair_features(values[heads], values[tails])


def test_trees_are_evaluated_as_their_questions_say() -> None:
    rng = np.random.default_rng(3)
    _, positions, literals = example()
    trees = empty_trees(5)
    trees["feature"][:4] = rng.integers(0, 3 * M, (4, DEPTH))
    trees["border"][:4] = rng.uniform(-0.5, 1.0, (4, DEPTH))
    trees["border"][1, 2:] = np.finfo(np.float32).max  # of depth 2
    trees["leaf"][:] = rng.normal(size=trees["leaf"].shape)
    trees["bias"][...] = 0.7
    found = scores_of(trees, 5, literals).ravel()
    expected = []
    for row in features(positions).astype(float):
        total = 0.7
        for feature, border, leaf in zip(trees["feature"], trees["border"], trees["leaf"], strict=True):
            answers = [not np.isnan(row[f]) and row[f] > b for f, b in zip(feature, border, strict=True)]
            total += float(leaf[sum(2**level for level in range(DEPTH) if answers[level])])
        expected.append(total)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_without_catboost_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)
    graph, positions, _ = example()
    with pytest.raises(UserError) as caught:
        BoostedPairs(GraphSizes.of(graph), trees=3).fit(graph, positions, seed=0)
    assert str(caught.value) == (
        "model.name=boosted_pairs is fitted with CatBoost, which is not installed: "
        'pip install "catboost>=1.2"'
    )


def test_without_values_or_facts_there_is_nothing_to_fit() -> None:
    graph, positions, _ = example()
    nothing = np.full((N, M), np.nan, np.float32)
    for facts, values in ((graph.train, nothing), (graph.train[:0], positions.astype(np.float32))):
        trees = fitted_trees(facts, values, trees=3, seed=0)
        assert not trees["leaf"].any() and not trees["bias"].any()


def test_jax_gives_catboosts_own_predictions() -> None:
    pytest.importorskip("catboost", reason="CatBoost is not installed (the extra `boosted`)")
    graph, positions, literals = example()
    values = positions.astype(np.float32)
    trees = fitted_trees(graph.train, values, trees=40, seed=1)
    heads, tails = values[graph.train[:, 0]], values[graph.train[:, 2]]
    rows = np.concatenate([pair_features(heads, tails), pair_features(tails, heads)])
    model = classifier(40, 1).fit(rows, np.repeat([1, 0], len(heads)))
    expected = model.predict(features(positions), prediction_type="RawFormulaVal")
    np.testing.assert_allclose(scores_of(trees, 40, literals).ravel(), expected, rtol=1e-4, atol=1e-4)
    assert (np.asarray(expected).reshape(N, N)[graph.train[:, 0], graph.train[:, 2]] > 0).mean() > 0.8
