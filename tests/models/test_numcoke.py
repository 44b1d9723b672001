"""The whole model: composed of the parts' loops, its parameters, and properties no part can show alone."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.config.schema import choices
from numcoke_jax.data.literals import Literals, fields_of_cells
from numcoke_jax.models import numcoke
from numcoke_jax.models.batch_norm import REAL_QUERIES, STATISTICS, STEP, with_statistics
from numcoke_jax.models.interface import ExplainsScores, GraphSizes
from numcoke_jax.models.numcoke import NumCoKE
from numcoke_jax.models.ops.tiles import cut
from numcoke_jax.training.losses.objective import STREAMS_OF_MODELS
from tests import examples
from tests.oracles import numcoke as oracle

pytestmark = pytest.mark.usefixtures("short_blocks")

RELATIONS = jnp.array([1, 0], jnp.int32)
HEADS = jnp.array([[0, 2, 4], [3, 1, 3]], jnp.int32)

SWITCHES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "ablations": {
        "experts__count": 1,
        "attention__use_query": False,
        "numeric__missing": "zero",
        "score__order": "penalty",
    },
    "extensions": {"numeric__encoding": "quantile", "train__entity_dropout": 0.5, "score__norm": 2},
    "printed": {
        "fusion__kind": "paper",
        "numeric__share_transform": True,
        "experts__hidden": 3,
        "attention__operators": choices("attention.operators"),
        "score__order": "none",
    },
    "distmult": {"score__decoder": "distmult"},
    "complex": {"score__decoder": "complex", "score__order": "penalty"},
    "tucker": {"score__decoder": "tucker", "score__order": "none"},
}


@functools.cache
def default_model() -> tuple[NumCoKE, dict]:
    model, parameters = examples.model_and_parameters(examples.config_with())
    assert isinstance(model, NumCoKE)
    return model, parameters


def logits(parameters: dict, relations: Any = RELATIONS, heads: Any = HEADS, literals: Any = None) -> Any:
    """Of the default model in evaluation."""
    literals = examples.literals() if literals is None else literals
    return compiled_logits()(parameters, relations, heads, literals)


@functools.cache
def compiled_logits() -> Any:
    model, _ = default_model()
    return examples.compiled(
        lambda parameters, *inputs: examples.apply(model, parameters, *inputs, train=False)[0]
    )


@pytest.mark.parametrize("name", SWITCHES)
def test_evaluation_equals_the_loops(name: str) -> None:
    """In float64: a graph of 5 entities, 2 relations and 3 fields, d = 4, a = 6, two heads and experts."""
    config = examples.config_with(**SWITCHES[name])
    with jax.enable_x64(True):
        model, parameters = examples.model_and_parameters(config)
        literals = examples.literals()
        call = examples.compiled(functools.partial(examples.apply, model, train=False))
        found, encoded = call(parameters, RELATIONS, HEADS, literals)
        exact = examples.float64(parameters)
        for s, relation in enumerate([1, 0]):
            table = oracle.encode(exact, config, literals, relation)
            np.testing.assert_allclose(encoded.entities[s], table, rtol=1e-10, atol=1e-12)
            for h, head in enumerate(np.asarray(HEADS[s])):
                expected = oracle.logits(exact, config, literals, table, relation, int(head))
                np.testing.assert_allclose(found[s, h], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", SWITCHES)
def test_the_terms_add_up_to_the_score(name: str) -> None:
    """A term is what is left without the other: the score without order term, and the rest."""
    config = examples.config_with(**SWITCHES[name])
    model, parameters = examples.model_and_parameters(config)
    assert isinstance(model, ExplainsScores)

    @examples.compiled
    def scored(parameters: dict) -> Any:
        encoded = examples.apply(
            model, parameters, RELATIONS, examples.literals(), train=False, method="encode"
        )
        both = [
            examples.apply(model, parameters, encoded, HEADS, train=False, method=method)
            for method in ("terms", "score")
        ]
        plain = dataclasses.replace(encoded, projected=None)
        return *both, examples.apply(model, parameters, plain, HEADS, train=False, method="score")

    terms, score, decoded = scored(parameters)
    assert set(terms) == {config.score.decoder} | ({"order"} if config.score.order != "none" else set())
    np.testing.assert_allclose(sum(terms.values()), score, rtol=1e-6)
    np.testing.assert_allclose(terms[config.score.decoder], decoded, rtol=1e-6)
    assert {term.dtype for term in terms.values()} == {jnp.dtype("float32")}


def test_float32_is_close_to_the_loops() -> None:
    _, parameters = default_model()
    exact, config, literals = examples.float64(parameters), examples.config_with(), examples.literals()
    table = oracle.encode(exact, config, literals, 1)
    expected = oracle.logits(exact, config, literals, table, 1, 2)
    np.testing.assert_allclose(logits(parameters)[0, 1], expected, rtol=1e-5)


def test_a_graph_without_literals_leaves_experts_and_score() -> None:
    sizes = GraphSizes(entities=5, relations=2, fields=0)
    model, parameters = examples.model_and_parameters(examples.config_with(), sizes)
    assert set(parameters) == {"entity_embedding", "relation_embedding", "experts", "score_term"}
    literals = examples.literals(sizes)
    found, _ = examples.compiled(functools.partial(examples.apply, model, train=False))(
        parameters, RELATIONS, HEADS, literals
    )
    exact, config = examples.float64(parameters), examples.config_with()
    table = oracle.encode(exact, config, literals, 1)
    for h, head in enumerate(np.asarray(HEADS[0])):
        expected = oracle.logits(exact, config, literals, table, 1, int(head))
        np.testing.assert_allclose(found[0, h], expected, rtol=1e-5)


def test_parameter_shapes() -> None:
    """N = 5, R = 2, M = 3, d = 4, a = 6, K = 2, L = 2."""
    _, parameters = default_model()
    assert jax.tree.map(jnp.shape, parameters) == {
        "entity_embedding": (5, 4),
        "relation_embedding": (2, 4),
        "numeric": {
            "field_embedding": (3, 6),
            "value_weight": (3, 1, 6),
            "transform": (3, 6, 6),
            "bias": (3, 6),
            "missing_embedding": (3, 6),
        },
        "experts": {
            "kernel": (2, 4, 4),
            "bias": (2, 4),
            "gate_logit": {"kernel": (4, 1)},
            "noise_scale": {"kernel": (4, 1), "bias": (1,)},
            "relation_temperature": (2,),
        },
        "attention": {
            "entity_projection": {"kernel": (4, 6), "bias": (6,)},
            "relation_projection": {"kernel": (4, 6), "bias": (6,)},
            "product": (2, 6),
            "difference": (2, 6),
            "concatenation": (2, 12),
            "aggregation": (2, 3, 6),
        },
        "fusion": {
            "entity_gate": {"kernel": (4, 4)},
            "attribute_gate": {"kernel": (6, 4)},
            "joint": {"kernel": (10, 4), "bias": (4,)},
            "bias": (4,),
        },
        "score_term": {"order_projection": (2, 4, 4)},
    }


def test_initial_parameters_follow_the_key_and_are_float32() -> None:
    model, _ = default_model()

    @examples.compiled
    def initial(key: jax.Array) -> Any:
        return model.init(key, RELATIONS[:1], HEADS[:1, :1], examples.literals(), train=False)["params"]

    first, again, other = (initial(jax.random.key(seed)) for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert {leaf.dtype for leaf in jax.tree.leaves(first)} == {jnp.dtype("float32")}
    assert np.abs(first["entity_embedding"] - other["entity_embedding"]).max() > 0.01
    # Xavier's normal: variance 2 / (fan_in + fan_out) a matrix, not shrunk by the fields' or experts' axis.
    for matrices, fans in [(first["numeric"]["transform"], 12), (first["experts"]["kernel"], 8)]:
        assert 0.5 < np.std(matrices) / np.sqrt(2 / fans) < 1.5


def test_renumbering_the_entities_renumbers_the_logits() -> None:
    _, parameters = default_model()
    order = np.array([3, 0, 4, 1, 2])  # the new entity i is the old entity order[i]
    new_id = np.argsort(order)
    renumbered = parameters | {"entity_embedding": parameters["entity_embedding"][order]}
    literals = jax.tree.map(lambda rows: rows[order], examples.literals())
    found = logits(renumbered, heads=jnp.asarray(new_id[HEADS], jnp.int32), literals=literals)
    np.testing.assert_allclose(found[..., new_id], logits(parameters), rtol=1e-5, atol=1e-6)


def test_renumbering_the_fields_changes_nothing() -> None:
    _, parameters = default_model()
    order = np.array([2, 0, 1])
    renumbered = parameters | {"numeric": jax.tree.map(lambda rows: rows[order], parameters["numeric"])}
    literals = jax.tree.map(lambda columns: columns[:, order], examples.literals())
    found = logits(renumbered, literals=literals)
    np.testing.assert_allclose(found, logits(parameters), rtol=1e-5, atol=1e-6)


def test_a_query_has_the_same_logits_in_every_batch() -> None:
    """Queries in other slots, beside other relations, and the slots one at a time."""
    _, parameters = default_model()
    whole = logits(parameters)
    swapped = logits(parameters, relations=RELATIONS[::-1], heads=HEADS[::-1, ::-1])
    np.testing.assert_allclose(swapped[::-1, ::-1], whole, rtol=1e-6)
    halves = [logits(parameters, RELATIONS[s : s + 1], HEADS[s : s + 1]) for s in range(2)]
    np.testing.assert_allclose(jnp.concatenate(halves), whole, rtol=1e-6)
    # A relation with more heads than a slot has fills two slots.
    twice = logits(parameters, relations=jnp.array([1, 1], jnp.int32), heads=HEADS[:1].repeat(2, axis=0))
    np.testing.assert_array_equal(twice[0], twice[1])


def test_the_stored_value_of_a_missing_cell_reaches_no_logit_and_an_observed_one_does() -> None:
    _, parameters = default_model()
    literals = examples.literals()
    expected = logits(parameters)
    junk = dataclasses.replace(literals, values=jnp.where(literals.observed, literals.values, 99.0))
    np.testing.assert_array_equal(logits(parameters, literals=junk), expected)
    moved = dataclasses.replace(literals, values=jnp.where(literals.observed, literals.values + 0.5, 0.0))
    assert np.abs(logits(parameters, literals=moved) - expected).max() > 1e-2
    # A missing cell is not a true 0.
    zeros = dataclasses.replace(literals, observed=jnp.ones_like(literals.observed))
    assert np.abs(logits(parameters, literals=zeros) - expected).max() > 1e-2


def test_encoding_and_scoring_apart_equal_the_whole() -> None:
    model, parameters = default_model()

    @examples.compiled
    def apart(parameters: dict) -> Any:
        encoded = examples.apply(
            model, parameters, RELATIONS, examples.literals(), train=False, method="encode"
        )
        return examples.apply(model, parameters, encoded, HEADS, train=False, method="score")

    np.testing.assert_allclose(apart(parameters), logits(parameters), rtol=1e-6)


def training_logits(model: Any) -> Any:
    """(parameters, a seed for each stream) -> logits in training."""

    @examples.compiled
    def call(parameters: dict, keys: dict) -> Any:
        literals = examples.literals()
        return examples.apply(model, parameters, RELATIONS, HEADS, literals, train=True, rngs=keys)[0]

    def with_seeds(parameters: dict, **seeds: int) -> np.ndarray:
        keys = {name: jax.random.key(seeds.get(name, 0)) for name in STREAMS_OF_MODELS}
        return np.asarray(call(parameters, keys))

    return with_seeds


def test_training_draws_from_each_stream_and_evaluation_from_none() -> None:
    model, parameters = examples.model_and_parameters(examples.config_with(train__entity_dropout=0.5))
    call = training_logits(model)
    np.testing.assert_array_equal(call(parameters), call(parameters))
    for stream in ("gating_noise", "dropout", "entity_dropout"):
        different = [
            np.abs(call(parameters, **{stream: seed}) - call(parameters)).max() for seed in (1, 2, 3)
        ]
        assert max(different) > 1e-3, stream
    # In evaluation no stream is given at all, or this would raise.
    evaluated = examples.compiled(functools.partial(examples.apply, model, train=False))
    found, _ = evaluated(parameters, RELATIONS, HEADS, examples.literals())
    np.testing.assert_allclose(found, logits(parameters), rtol=1e-6)


def test_a_dropped_entity_is_the_unknown_one() -> None:
    """With everything dropped, training equals evaluation of a table of unknown entities."""
    quiet = {"experts__noise": False, "score__dropout": 0.0}
    model, parameters = examples.model_and_parameters(
        examples.config_with(train__entity_dropout=1.0, **quiet)
    )
    unknown = jnp.broadcast_to(parameters["unknown_entity"], parameters["entity_embedding"].shape)
    expected = logits(parameters | {"entity_embedding": unknown})
    np.testing.assert_allclose(training_logits(model)(parameters), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("switches", "rows_at_once", "count"),
    [("defaults", 2, 5), ("ablations", 8, 2), ("extensions", 8, 2), ("printed", 2, 5)],
)
def test_entities_encoded_by_tiles_are_those_encoded_at_once(
    switches: str, rows_at_once: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tile an entity, and two with a rest; both slots of each; in training, gradients included."""
    config = examples.config_with(experts__noise=True, **SWITCHES[switches])
    model, parameters = examples.model_and_parameters(config)

    def loss(parameters: dict) -> jax.Array:
        streams = ("gating_noise", "entity_dropout", "dropout")
        keys = dict(zip(streams, jax.random.split(jax.random.key(1), 3), strict=True))
        scored_and_encoded = examples.apply(
            model, parameters, RELATIONS, HEADS, examples.literals(), train=True, rngs=keys
        )
        return sum((jnp.sin(leaf).sum() for leaf in jax.tree.leaves(scored_and_encoded)), jnp.zeros(()))

    def value_and_gradient() -> Any:
        return examples.compiled(jax.value_and_grad(loss))(parameters)

    at_once = value_and_gradient()
    counts = []

    def counted_cut(rows: jax.Array, axis: int, count: int) -> jax.Array:
        counts.append(count)
        return cut(rows, axis, count)

    monkeypatch.setattr(numcoke, "cut", counted_cut)
    monkeypatch.setattr(numcoke, "ROWS_ON_CPU", rows_at_once)
    found = value_and_gradient()
    assert set(counts) == {count}
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5), found, at_once
    )


def test_the_backward_pass_over_tiles_keeps_no_inner_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step keeps an entity, beside the parameters, falls to less than a third."""
    sizes = GraphSizes(entities=512, relations=2, fields=3)
    model, parameters = examples.model_and_parameters(examples.config_with(), sizes)

    def temporary_bytes() -> int:
        def loss(parameters: dict) -> jax.Array:
            encoded = examples.apply(
                model, parameters, RELATIONS, examples.literals(sizes), train=False, method="encode"
            )
            return jnp.sin(encoded.entities).sum()

        compiled = jax.jit(jax.grad(loss)).lower(parameters).compile()
        analysis = compiled.memory_analysis()
        assert analysis is not None
        return analysis.temp_size_in_bytes

    at_once = temporary_bytes()
    monkeypatch.setattr(numcoke, "ROWS_ON_CPU", 32)
    assert temporary_bytes() < at_once / 3


def test_running_statistics_of_the_decoder_are_those_of_the_real_queries() -> None:
    """Momentum 0.9: after a step, the mean of the heads' vectors counts a tenth, without padded queries."""
    quiet = {"experts__noise": False, "score__dropout": 0.0, "score__order": "none"}
    model, parameters = examples.model_and_parameters(examples.config_with(score__decoder="tucker", **quiet))
    mask = jnp.array([[True, True, False], [True, False, False]])
    keys = {name: jax.random.key(0) for name in STREAMS_OF_MODELS}

    @examples.compiled
    def step(parameters: dict) -> Any:
        variables = {"params": parameters, STEP: {REAL_QUERIES: mask}}
        inputs = RELATIONS, HEADS, examples.literals()
        return model.apply(variables, *inputs, train=True, rngs=keys, mutable=[STATISTICS])

    (_, encoded), written = step(parameters)
    found = with_statistics(parameters, written[STATISTICS])["score_term"]["core_tensor"]["head_norm"]
    old = parameters["score_term"]["core_tensor"]["head_norm"]
    real = np.stack([encoded.entities[0, 0], encoded.entities[0, 2], encoded.entities[1, 3]])
    expected = 0.9 * old["running_mean"] + 0.1 * real.mean(axis=0)
    np.testing.assert_allclose(found["running_mean"], expected, rtol=1e-5, atol=1e-6)


CELLS: dict[str, dict[str, Any]] = {
    name: SWITCHES[name] for name in ("defaults", "ablations", "extensions", "printed")
} | {
    "periodic": {"numeric__encoding": "periodic"},
    "skipped": {"numeric__missing": "skip", "attention__operators": choices("attention.operators")},
}


@pytest.mark.parametrize(
    ("name", "without"),
    [*((name, 1) for name in CELLS), ("defaults", slice(None)), ("skipped", slice(None))],
)
def test_observed_cells_alone_equal_the_loops_and_their_gradients_those_of_all_fields(
    name: str, without: int | slice
) -> None:
    """In float64; entities have 0, 2 and 3 of the 3 values, or none has any."""
    config = examples.config_with(**CELLS[name])
    with jax.enable_x64(True):
        model, parameters = examples.model_and_parameters(config)
        observed = np.array(examples.literals().observed)
        observed[without] = False
        by_fields = dataclasses.replace(examples.literals(), observed=jnp.asarray(observed))
        by_cells = dataclasses.replace(by_fields, cells=jnp.asarray(fields_of_cells(observed)))

        @examples.compiled
        def gradient_and_table(parameters: dict, literals: Literals) -> Any:
            def total(parameters: dict) -> Any:
                encoded = examples.apply(model, parameters, RELATIONS, literals, train=False, method="encode")
                return jnp.sin(encoded.entities).sum(), encoded.entities

            return jax.grad(total, has_aux=True)(parameters)

        found = gradient_and_table(parameters, by_cells)
        expected = gradient_and_table(parameters, by_fields)
        for s, relation in enumerate([1, 0]):
            table = oracle.encode(examples.float64(parameters), config, by_fields, relation)
            np.testing.assert_allclose(found[1][s], table, rtol=1e-10, atol=1e-12)
        jax.tree.map(
            lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12), found, expected
        )


def test_a_value_of_a_cell_that_is_not_listed_reaches_no_encoding() -> None:
    """Nor does a stored NaN reach a gradient, by cells as by fields."""
    model, parameters = default_model()
    literals = examples.literals()
    cells = jnp.asarray(fields_of_cells(np.asarray(literals.observed)))
    junk = jnp.where(literals.observed, literals.values, jnp.nan)

    @examples.compiled
    def gradient(parameters: dict, values: jax.Array) -> Any:
        given = dataclasses.replace(literals, values=values, cells=cells)

        def total(parameters: dict) -> jax.Array:
            return examples.apply(model, parameters, RELATIONS, HEADS, given, train=False)[0].sum()

        return jax.value_and_grad(total)(parameters)

    found, expected = gradient(parameters, junk), gradient(parameters, literals.values)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
