"""Steps on sampled candidates: which entities they have, and that no others are read or changed."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_collections import ConfigDict

from numcoke_jax.data.batches import Batch, TrainBatches, entities_per_step, own_tail_limit, step_entities
from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.models import MODELS, create_model
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.runs.create import create_run
from numcoke_jax.system import random_streams
from numcoke_jax.system.errors import UserError
from numcoke_jax.training.programs import create_objective
from numcoke_jax.training.step import LossSums, TrainState, train_step
from numcoke_jax.training.touched_rows import put_rows, take_rows
from tests import examples, tiny_runs
from tests.graphs import graph_of, numbered

pytestmark = pytest.mark.usefixtures("short_blocks")

SIZES = GraphSizes(entities=9, relations=2, fields=3)
CONFIG = examples.config_with(score__dropout=0.0, experts__noise=False, okcl__weight=0.5)


@st.composite
def draws(draw: Any) -> dict[str, Any]:
    num_entities = draw(st.integers(4, 40))
    ids = st.lists(st.integers(0, num_entities - 1), min_size=1, max_size=num_entities)
    heads, tails, negatives = draw(ids), draw(ids), draw(ids)
    limit, negative_limit = draw(st.integers(0, num_entities)), draw(st.integers(0, num_entities))
    needed = len(set(heads)) + min(limit, len(set(tails) - set(heads)))
    needed += min(negative_limit, len(set(negatives) - set(heads)))
    size = draw(st.integers(min(needed, num_entities), num_entities))
    return {
        "heads": np.array(heads),
        "tails": np.array(tails),
        "negatives": np.array(negatives),
        "tail_limit": limit,
        "negative_limit": negative_limit,
        "size": size,
        "num_entities": num_entities,
        "seed": (draw(st.integers(0, 3)), 5),
    }


@given(draws())
def test_the_entities_are_distinct_and_hold_the_heads_and_the_tails_up_to_the_limit(case: dict) -> None:
    found = step_entities(**case)
    assert found.dtype == np.int32 and found.shape == (case["size"],)
    assert np.all(np.diff(found) > 0) and found[0] >= 0 and found[-1] < case["num_entities"]
    assert set(case["heads"].tolist()) <= set(found.tolist())
    other_tails = set(case["tails"].tolist()) - set(case["heads"].tolist())
    if len(other_tails) <= case["tail_limit"]:
        assert other_tails <= set(found.tolist())
        known_false = set(case["negatives"].tolist()) - set(case["heads"].tolist()) - other_tails
        kept = len(known_false & set(found.tolist()))
        assert kept >= min(case["negative_limit"], len(known_false))
    np.testing.assert_array_equal(found, step_entities(**case))


@pytest.mark.parametrize("kind", ["tails", "negatives"])
def test_others_are_as_likely_and_so_are_tails_beyond_the_limit(kind: str) -> None:
    """4,000 steps with head 2, one of the tails 5 and 7, and 3 of the other 8 or 9 entities of 11.

    The tail that is not kept may still be drawn: 5 and 7 have 1/2 + 1/2 3/9 = 2/3, others 3/9; standard
    deviations are at most 30, five of them either way.  The same with known-false tails for tails.
    """
    counts = np.zeros(11)
    given = {"tails": np.array([2]), "negatives": np.array([2]), kind: np.array([5, 7, 2])}
    for step in range(4000):
        found = step_entities(
            np.array([2, 2]), **given, tail_limit=1, negative_limit=1, size=5, num_entities=11, seed=(0, step)
        )
        counts[found] += 1
    expected = np.full(11, 4000 / 3)
    expected[2], expected[[5, 7]] = 4000, 8000 / 3
    assert counts[2] == 4000
    assert np.abs(counts - expected).max() < 150, counts


@pytest.mark.parametrize(("candidates", "kept"), [(400, 160), (200, 100)])
def test_a_step_has_the_known_false_tails_of_its_queries(candidates: int, kept: int) -> None:
    """32 queries of 2,000 entities know 5 false tails each; at most half of the candidates are of them."""
    entities = np.arange(2000)
    facts, false = (np.stack([entities, 0 * entities, (entities + by) % 2000], axis=1) for by in (1, 2))
    false = np.concatenate([(false + [0, 0, 400 * number]) % [2000, 1, 2000] for number in range(5)])
    whole = graph_of(numbered(2000, digits=4), train=facts, negatives=false)
    create = functools.partial(TrainBatches, whole, batch_size=32, relations_per_step=1, seed=0)
    assert create().batch(0).negatives.sum() == 160
    found = int(create(candidates=candidates).batch(0).negatives.sum())
    assert kept <= found <= min(160, kept + 32)  # some are heads, tails or drawn all the same


def test_places_for_tails_and_entities_by_hand() -> None:
    """10 facts of 4 queries: 2.5 tails per query, 3 places each; never more than C."""
    assert own_tail_limit(100, 8, num_facts=10, num_queries=4) == 24
    assert own_tail_limit(20, 8, num_facts=10, num_queries=4) == 20
    assert entities_per_step(20, 8, 20, 48) == 48
    with pytest.raises(
        UserError,
        match=r"^train.candidates=20 with train.batch_size=8 needs 48 entities per step, but the graph "
        r"has 47: set train.candidates=0 to score all of them$",
    ):
        entities_per_step(20, 8, 20, 47)


def graph(seed: int = 0) -> NumericGraph:
    """40 entities, 3 relations, 60 facts, 30 known-false triples."""
    rng = np.random.default_rng(seed)
    triples = np.unique(
        np.stack([rng.integers(size, size=90) for size in (40, 3, 40)], axis=1).astype(np.int32), axis=0
    )
    triples = rng.permutation(triples)
    return graph_of(numbered(40, 3), train=triples[:60], negatives=triples[60:])


@settings(max_examples=20)
@given(st.integers(0, 3), st.integers(1, 20), st.sampled_from([(4, 2), (6, 3), (5, 1)]))
def test_labels_and_negatives_are_the_facts_about_the_steps_entities(
    seed: int, candidates: int, sizes: tuple[int, int]
) -> None:
    """No known positive is a negative, every query comes once an epoch, shapes are static."""
    whole = graph(seed)
    batches = TrainBatches(
        whole, batch_size=sizes[0], relations_per_step=sizes[1], seed=seed, candidates=candidates
    )
    dense = TrainBatches(whole, batch_size=sizes[0], relations_per_step=sizes[1], seed=seed)
    facts, false = (set(map(tuple, part.tolist())) for part in (whole.train, whole.negatives))
    sampled = set()
    for step in range(batches.steps_per_epoch):
        batch, exact = batches.batch(step), dense.batch(step)
        assert batch.entities.shape == (batches.entities_per_step,)
        assert batch.labels.shape == batch.negatives.shape == (*batch.heads.shape, len(batch.entities))
        np.testing.assert_array_equal(batch.mask, exact.mask)
        np.testing.assert_array_equal(batch.relations, exact.relations)
        np.testing.assert_array_equal(batch.entities[batch.heads][batch.mask], exact.heads[exact.mask])
        for s, h in np.ndindex(*batch.heads.shape):
            query = int(exact.heads[s, h]), int(batch.relations[s])
            for place, entity in enumerate(batch.entities.tolist()):
                real = bool(batch.mask[s, h])
                assert batch.labels[s, h, place] == (real and (*query, entity) in facts)
                assert batch.negatives[s, h, place] == (real and (*query, entity) in false)
        sampled.add(tuple(batch.entities.tolist()))
        again = batches.batch(step)
        jax.tree.map(np.testing.assert_array_equal, batch, again)
    assert len(sampled) == batches.steps_per_epoch  # another sample in every step


def test_rows_are_taken_from_and_put_into_entity_tables_alone() -> None:
    params = {"entity_embedding": jnp.arange(10.0).reshape(5, 2), "other": jnp.arange(5.0)}
    tree = {"params": params, "opt_state": optax.adam(0.1).init(params)}
    entities = jnp.array([1, 4], jnp.int32)
    part = take_rows(tree, entities)
    np.testing.assert_array_equal(part["params"]["entity_embedding"], [[2.0, 3.0], [8.0, 9.0]])
    assert part["opt_state"][0].mu["entity_embedding"].shape == (2, 2)
    assert part["params"]["other"].shape == part["opt_state"][0].nu["other"].shape == (5,)
    back = put_rows(tree, jax.tree.map(lambda leaf: leaf + 1, part), entities)
    expected = [[0.0, 1.0], [3.0, 4.0], [4.0, 5.0], [6.0, 7.0], [9.0, 10.0]]
    np.testing.assert_array_equal(back["params"]["entity_embedding"], expected)
    np.testing.assert_array_equal(back["params"]["other"], np.arange(5.0) + 1)


def sampled_batch() -> Batch:
    """`examples.batch` on five of the nine entities."""
    return dataclasses.replace(examples.batch(), entities=jnp.array([0, 2, 3, 6, 8], jnp.int32))


@functools.cache
def optimizer() -> optax.GradientTransformation:
    return optax.adam(0.03)


@functools.cache
def compiled_step(entities: int) -> Any:
    """A step on that many entities."""
    model = create_model(CONFIG, dataclasses.replace(SIZES, entities=entities))
    objective = create_objective(CONFIG)
    return examples.compiled(
        functools.partial(
            train_step, model=model, optimizer=optimizer(), loss_fn=objective.losses_and_statistics
        )
    )


def fresh_state() -> TrainState:
    create = functools.partial(examples.created_state, create_model(CONFIG, SIZES), optimizer())
    return examples.compiled(create)(examples.literals(SIZES), key=random_streams.base_key(0))


def test_a_step_on_a_sample_is_the_step_of_the_graph_that_has_only_these_entities() -> None:
    """Loss, parameters and moments after three steps, and what other rows were they stay."""
    batch, literals, whole = sampled_batch(), examples.literals(SIZES), fresh_state()
    chosen = np.asarray(batch.entities)
    small = whole.replace(
        params=whole.params | {"entity_embedding": whole.params["entity_embedding"][chosen]}
    )
    small = small.replace(opt_state=optimizer().init(small.params))
    small_literals = jax.tree.map(lambda table: table[chosen], literals)
    before = np.array(whole.params["entity_embedding"])
    for _ in range(3):
        whole, loss = compiled_step(5)(whole, batch, literals)
        small, expected = compiled_step(5)(small, dataclasses.replace(batch, entities=None), small_literals)
        np.testing.assert_allclose(loss, expected, rtol=1e-6)
    for found, alone in ((whole.params, small.params), (whole.opt_state, small.opt_state)):
        close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
        jax.tree.map(close, take_rows(found, batch.entities), alone)
    rest = np.setdiff1d(np.arange(9), chosen)
    np.testing.assert_array_equal(whole.params["entity_embedding"][rest], before[rest])
    for moments in (whole.opt_state[0].mu, whole.opt_state[0].nu):
        np.testing.assert_array_equal(moments["entity_embedding"][rest], 0.0)
        assert np.abs(moments["entity_embedding"][chosen]).max() > 0


def test_adam_is_lazy_in_the_rows_that_a_step_does_not_touch() -> None:
    """Row 8 in steps 1 and 3: its moments decay twice, the bias correction is that of steps 1 and 3."""
    literals, state = examples.literals(SIZES), fresh_state()
    elsewhere = dataclasses.replace(sampled_batch(), entities=jnp.array([0, 1, 2, 3, 6], jnp.int32))
    moment, variance, row = np.zeros(4), np.zeros(4), np.array(state.params["entity_embedding"][8], float)
    for count, batch in enumerate((sampled_batch(), elsewhere, sampled_batch()), start=1):
        before = state.opt_state[0].mu["entity_embedding"][8]
        state, _ = compiled_step(5)(state, batch, literals)
        after = state.opt_state[0].mu["entity_embedding"][8]
        if batch is elsewhere:
            np.testing.assert_array_equal(after, before)
            continue
        gradient = (np.asarray(after, float) - 0.9 * np.asarray(before, float)) / 0.1
        moment, variance = 0.9 * moment + 0.1 * gradient, 0.999 * variance + 0.001 * gradient**2
        step = moment / (1 - 0.9**count) / (np.sqrt(variance / (1 - 0.999**count)) + 1e-8)
        row = row - 0.03 * step
        np.testing.assert_allclose(state.params["entity_embedding"][8], row, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("numcoke", "conve", "murp") else pytest.mark.slow)
        for name in sorted(name for name, model in MODELS.items() if not (model.reads_facts or model.fitted))
    ],
)
def test_logits_of_a_sample_are_those_of_all_entities_in_its_columns(name: str) -> None:
    """Every model keeps its entities in the tables that are known to have a row an entity."""
    config = examples.config_with(model__name=name, model__dim=12, score__dropout=0.0)  # ConvE needs 3 x 3
    model, parameters = examples.model_and_parameters(config, SIZES)
    small = create_model(config, dataclasses.replace(SIZES, entities=5))
    entities, literals = sampled_batch().entities, examples.literals(SIZES)
    relations, heads = jnp.array([1, 0], jnp.int32), jnp.array([[0, 2, 4], [3, 1, 0]], jnp.int32)
    call = functools.partial(examples.apply, train=False)
    found, _ = examples.compiled(functools.partial(call, small))(
        take_rows(parameters, entities), relations, heads, jax.tree.map(lambda x: x[entities], literals)
    )
    expected, _ = examples.compiled(functools.partial(call, model))(
        parameters, relations, entities[heads], literals
    )
    np.testing.assert_allclose(found, expected[..., entities], rtol=1e-4, atol=1e-5)


def test_memory_of_a_step_does_not_grow_with_the_graph() -> None:
    """The tables are updated in place; a dense step would need temporaries of their size."""
    temporary = []
    config = examples.config_with(model__name="transe")
    objective = create_objective(config)
    for entities in (1_000, 50_000):
        sizes = GraphSizes(entities=entities, relations=2, fields=3)
        new_state = functools.partial(examples.created_state, create_model(config, sizes), optimizer())
        literals = examples.literals(sizes)
        state = jax.eval_shape(lambda key: new_state(literals, key=key), random_streams.base_key(0))  # noqa: B023
        step = functools.partial(
            train_step,
            model=create_model(config, dataclasses.replace(sizes, entities=5)),
            optimizer=optimizer(),
            loss_fn=objective.losses_and_statistics,
        )
        compiled = jax.jit(step, donate_argnums=0).lower(state, sampled_batch(), literals).compile()
        analysis = compiled.memory_analysis()
        assert analysis is not None
        tables = 3 * 4 * 4 * entities  # parameters and two moments of 4 float32 each
        assert analysis.alias_size_in_bytes >= tables
        temporary.append(analysis.temp_size_in_bytes)
    assert temporary[1] <= temporary[0] + 1024


def test_loss_sums_start_with_the_state() -> None:
    """A step on a sample sums BCE over E entities a real query: 5 pairs, 5 entities."""
    state, _ = compiled_step(5)(fresh_state(), sampled_batch(), examples.literals(SIZES))
    assert isinstance(state.losses, LossSums)
    assert state.losses.bce_count == 25.0


def sampled_config(tmp_path: Path, **changes: Any) -> ConfigDict:
    """30 entities; two queries, up to 8 tails of theirs and 4 other entities per step."""
    data = tiny_runs.write_folder(tmp_path / "data", entities=30)
    return tiny_runs.config_of(data, **({"train__candidates": 4, "train__epochs": 2} | changes))


def test_a_run_on_samples_trains_ranks_all_entities_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    config = sampled_config(tmp_path)
    report, _ = tiny_runs.train(config, tmp_path / "straight")
    assert report["test"]["count"] > 0 and report["test"]["mr"] <= 30
    shorter = config.copy_and_resolve_references()
    shorter.train.epochs = 1
    tiny_runs.train(shorter, tmp_path / "resumed")
    tiny_runs.train(config, tmp_path / "resumed")
    straight, resumed = (tiny_runs.outcome(config, tmp_path / name) for name in ("straight", "resumed"))
    tiny_runs.assert_same_outcome(resumed, straight)


def test_a_step_on_samples_that_is_not_finite_is_traced_to_its_module(tmp_path: Path) -> None:
    """After a step of 1e30 the squares of differences overflow float32."""
    config = sampled_config(tmp_path, train__learning_rate=1e30, score__norm=2, train__debug_nans=True)
    with pytest.raises(FloatingPointError, match="first not finite, forward: the output of score_term"):
        tiny_runs.train(config, tmp_path / "run")


def test_models_that_read_all_facts_cannot_work_on_samples(tmp_path: Path) -> None:
    config = sampled_config(tmp_path, model__name="rgcn")
    with pytest.raises(
        UserError,
        match="^train.candidates=4 has no meaning with model.name=rgcn, which reads all training facts in "
        "every step: set train.candidates=0$",
    ):
        create_run(config)
