"""Numbers at the end of float32, and graphs of every shape: no overflow, no division by zero, no crash."""

import io
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.graph import LoadedGraph, NumericGraph, Vocabulary
from numcoke_jax.data.tail_index import TailIndex
from numcoke_jax.evaluation.ranking import filtered_ranks, summaries
from numcoke_jax.models.experts import MixtureOfExperts
from numcoke_jax.models.losses.contrastive import ContrastiveSettings, ordinal_contrastive_loss
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.loop import train_and_evaluate
from numcoke_jax.runs.screen import Screen
from numcoke_jax.training.losses.binary_cross_entropy import binary_cross_entropy
from tests import examples
from tests.graphs import graph_of, numbered
from tests.tiny_runs import compiled_fast, config_of, numcoke

# --- numbers


@pytest.mark.parametrize("temperature", [-1e30, -1e4, -89.0, -20.0, 30.0, 1e30])
@pytest.mark.parametrize("size", [1.0, 1e-30, 1e20])
def test_the_gate_is_a_distribution_at_any_temperature(temperature: float, size: float) -> None:
    """A far negative one makes the gate choose one expert; values and gradients stay finite."""
    module = MixtureOfExperts(2, count=3)
    features, relations = size * examples.normal(4, 5, seed=1), jnp.array([0, 1], jnp.int32)
    parameters = examples.parameters_of(module, features, relations, train=False)
    parameters["relation_temperature"] = jnp.array([temperature, 0.0])

    def mixture(parameters: dict) -> tuple[jax.Array, jax.Array]:
        embedding, kept = module.apply(
            {"params": parameters},
            features,
            relations,
            train=False,
            capture_intermediates=lambda _, method: method == "gate",
            mutable=["intermediates"],
        )
        return embedding.sum() / size, kept["intermediates"]["gate"][0]

    gradients, gate = jax.jit(jax.grad(mixture, has_aux=True))(parameters)
    np.testing.assert_allclose(gate.sum(-1), 1.0, rtol=1e-5)
    if temperature < -80 and size == 1.0:
        np.testing.assert_allclose(np.sort(gate[0], axis=-1), [[0.0, 0.0, 1.0]] * 4, atol=1e-6)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


def test_cross_entropy_of_scores_of_1e30() -> None:
    """max(x, 0) - x y by hand: 1e30 where a score of that size is wrong, 0 where it is right."""
    logits = jnp.array([1e30, 1e30, -1e30, -1e30], jnp.float32)
    targets = jnp.array([1.0, 0.0, 1.0, 0.0], jnp.float32)

    def mean(logits: jax.Array) -> jax.Array:
        total, count = binary_cross_entropy(logits, targets, jnp.ones(4, bool))
        return total / count

    np.testing.assert_allclose(mean(logits), 2e30 / 4, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(mean)(logits), [0.0, 0.25, -0.25, 0.0], atol=1e-7)


class NothingKnown:
    """A filter without facts."""

    def mask(self, heads: np.ndarray, relations: np.ndarray, num_columns: int) -> np.ndarray:
        return np.zeros((*np.broadcast(heads, relations).shape, num_columns), bool)


def test_scores_of_1e30_are_ranked() -> None:
    scores = jnp.array([[1e30, -1e30, 1e30, 3e38]], jnp.float32)
    queries = np.array([[0, 0, tail] for tail in range(4)])
    ranks = filtered_ranks(lambda _: None, lambda _, heads: scores, queries, NothingKnown(), 4, 1)
    assert ranks.all.tolist() == [2.5, 4.0, 2.5, 1.0]


@pytest.mark.parametrize("similarity", ["distance", "cosine", "dot"])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e10])
def test_a_contrastive_temperature_of_1e_3(similarity: str, size: float) -> None:
    """k is larger than the candidates; one pair is linked to every entity, one has no positive."""
    labels = np.zeros((1, 3, 5), bool)
    labels[0, 0, [1, 2]] = labels[0, 1] = True
    batch = Batch(
        relations=jnp.zeros(1, jnp.int32),
        heads=jnp.array([[0, 1, 2]], jnp.int32),
        mask=jnp.ones((1, 3), bool),
        labels=jnp.asarray(labels),
        negatives=jnp.zeros((1, 3, 5), bool),
    )
    settings = ContrastiveSettings(k=50, temperature=1e-3, similarity=similarity)

    def loss(entities: jax.Array) -> tuple[jax.Array, jax.Array]:
        relations = size * examples.normal(1, 4, seed=2)
        return ordinal_contrastive_loss(entities, relations, batch, settings=settings, key=jax.random.key(0))

    entities = size * examples.normal(1, 5, 4, seed=1)
    (total, count), gradient = jax.value_and_grad(loss, has_aux=True)(entities)
    assert np.isfinite(total) and count == 1.0 and np.isfinite(gradient).all()


# --- graphs of every shape

ENTITIES, RELATIONS, FIELDS = 6, 3, 2
SHAPES = ("any", "one head", "one tail", "one relation", "an entity a relation", "two islands", "self-loops")


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """Parts of a graph of 6 entities, 3 relations and 2 fields (they compile once), of any shape and values.

    The graph is made in the test: checking its types draws random numbers, which hypothesis forbids here.
    """
    shape = draw(st.sampled_from(SHAPES))

    def fact() -> tuple[int, int, int]:
        head, tail = draw(st.integers(0, ENTITIES - 1)), draw(st.integers(0, ENTITIES - 1))
        relation = draw(st.integers(0, RELATIONS - 1))
        return {
            "any": (head, relation, tail),
            "one head": (0, relation, tail),
            "one tail": (head, relation, 0),
            "one relation": (head, 1, tail),
            "an entity a relation": (relation, relation, relation + 3),
            "two islands": (head, relation, tail // 3 + 3 * (head // 3)),
            "self-loops": (head, relation, head),
        }[shape]

    def facts(least: int, most: int) -> np.ndarray:
        rows = {fact() for _ in range(draw(st.integers(least, most)))}
        return np.array(sorted(rows), np.int32).reshape(-1, 3)

    train = facts(1, 20)
    if draw(st.booleans()):  # the first head is linked to every entity
        head, relation, _ = train[0]
        linked = np.array([[head, relation, tail] for tail in range(ENTITIES)], np.int32)
        train = np.unique(np.concatenate([train, linked]), axis=0)
    known = {tuple(row) for row in train.tolist()}
    negatives = [row for row in facts(0, 5).tolist() if tuple(row) not in known]
    finite = st.floats(allow_nan=False, allow_infinity=False)
    values = draw(st.lists(finite, min_size=ENTITIES * FIELDS, max_size=ENTITIES * FIELDS))
    observed = draw(st.lists(st.booleans(), min_size=ENTITIES * FIELDS, max_size=ENTITIES * FIELDS))
    return {
        "train": train,
        "valid": facts(0, 4),
        "test": facts(1, 6),
        "negatives": np.array(negatives, np.int32).reshape(-1, 3),
        "values": np.where(observed, values, 0.0).reshape(ENTITIES, FIELDS),
        "observed": np.array(observed).reshape(ENTITIES, FIELDS),
    }


def check_two_steps_and_ranks(parts: dict[str, Any], config: Any) -> None:
    graph = NumericGraph(Vocabulary(tuple("abcdef"), tuple("rst"), ("x", "y")), **parts)
    with compiled_fast():
        run = create_run(config, LoadedGraph(graph, [], "drawn"))
        state = run.fresh_state()
        for step in range(2):
            state, loss = run.step(state, run.batches.batch(step))
            assert np.isfinite(loss)
        assert int(state.losses.first_nonfinite_step) == -1
        ranks: dict[str, dict[str, Any]] = dict(summaries(run.evaluator.sides(state.params, "test")["tails"]))
    asked = graph.test[np.isin(graph.test[:, 1], graph.train[:, 1])]  # others are in no metric
    for metrics in (ranks["exclude_self"], ranks["all"]):
        assert metrics["count"] == len(asked)
        if not len(asked):
            continue
        assert 1.0 <= metrics["mr"] <= graph.num_entities and 0.0 < metrics["mrr"] <= 1.0
        assert metrics["hits@1"] <= metrics["hits@3"] <= metrics["hits@10"] <= 1.0
        assert metrics["mrr"] >= 1.0 / metrics["mr"] - 1e-12, "Jensen: the mean of 1/rank is not below 1/mean"
    known = TailIndex.from_triples(
        np.concatenate([graph.train, graph.valid, graph.test]),
        num_entities=graph.num_entities,
        num_relations=graph.num_relations,
    )
    if not len(asked):
        return
    others = known.mask(asked[:, 0], asked[:, 1], graph.num_entities).sum(-1) - 1
    most = graph.num_entities - others
    assert metrics["mr"] <= most.mean() + 1e-12, "no filtered tail is counted"


@hypothesis.settings(max_examples=40)
@hypothesis.given(graphs())
def test_a_graph_of_any_shape_is_trained_and_ranked_by_transe(parts: dict[str, Any]) -> None:
    config = config_of(Path("drawn"), train__batch_size=4, train__relations_per_step=2)
    check_two_steps_and_ranks(parts, config)


@pytest.mark.slow
@hypothesis.settings(max_examples=60)
@hypothesis.given(graphs())
def test_a_graph_of_any_shape_is_trained_and_ranked_by_numcoke(parts: dict[str, Any]) -> None:
    config = numcoke(config_of(Path("drawn"), train__batch_size=4, train__relations_per_step=2))
    config.okcl.k, config.okcl.temperature = 50, 1e-3
    check_two_steps_and_ranks(parts, config)


TINY = {  # entities, relations, fields, training facts
    "two entities": (2, 1, 1, [(0, 0, 1)]),
    "one entity": (1, 1, 0, [(0, 0, 0)]),
    "an entity a relation": (3, 3, 1, [(0, 0, 1), (1, 1, 2), (2, 2, 0)]),
    "all linked": (3, 1, 1, [(head, 0, tail) for head in range(3) for tail in range(3)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("model", ["transe", "numcoke", "rakge", "literale"])
def test_the_smallest_graphs_go_through_a_whole_run(name: str, model: str, tmp_path: Path) -> None:
    """A batch of one query, k larger than the candidates, no field, no negative."""
    entities, relations, fields, facts = TINY[name]
    rows = np.array(facts, np.int32)
    names, values = numbered(entities, relations, fields), np.ones((entities, fields))
    graph = graph_of(names, rows, rows[:1], rows[-1:], values=values)
    config = config_of(Path("drawn"), train__batch_size=1, train__relations_per_step=1, train__epochs=1)
    config = numcoke(config) if model == "numcoke" else config
    config.model.name, config.attention.heads = model, 2
    with compiled_fast():
        report = train_and_evaluate(
            config, tmp_path / "run", Screen(io.StringIO()), loaded=LoadedGraph(graph, [], "tiny")
        )
    assert report["test"]["count"] == 1 and 1.0 <= (report["test"]["mr"] or 0.0) <= entities
