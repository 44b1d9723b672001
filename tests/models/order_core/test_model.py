"""NumCoKE with the order core: what it decides, what steps leave alone, runs that are resumed or sharded."""

import dataclasses
import functools
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from numcoke_jax.data.graph import RELATION
from numcoke_jax.evaluation.ranking import summaries
from numcoke_jax.models import create_model
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.models.numcoke import NumCoKE
from numcoke_jax.models.order_core.core import PER_ENTITY, OrderCore
from numcoke_jax.models.order_core.score import order_logits
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.report import calibration_of
from numcoke_jax.runs.run import Run
from numcoke_jax.training.placement import AXES, Placement
from tests import examples, tiny_runs

ENTITIES = 14


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One relation, an order: the core decides all."""
    return tiny_runs.write_folder(tmp_path_factory.mktemp("order") / "data", entities=ENTITIES)


@pytest.fixture(scope="module")
def mixed_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a second relation: each entity is next to two others round a table."""
    mixed = shutil.copytree(folder, tmp_path_factory.mktemp("mixed") / "data")
    with (mixed / "train.txt").open("a") as file:
        for i in range(ENTITIES):
            file.write("".join(f"e{i}\tnext\te{(i + step) % ENTITIES}\n" for step in (3, 5)))
    with (mixed / "test.txt").open("a") as file:
        file.write("".join(f"e{i}\tnext\te{(i + 4) % ENTITIES}\n" for i in range(4)))
    return mixed


def config_of(data: Path, **changes: Any) -> ConfigDict:
    config = tiny_runs.numcoke(tiny_runs.config_of(data, train__batch_size=4, score__order_core=True))
    for name, value in changes.items():
        section, _, key = name.rpartition("__")
        (config[section] if section else config)[key] = value
    return config


@pytest.fixture(scope="module")
def mixed_run(mixed_folder: Path) -> Run:
    with tiny_runs.compiled_fast():
        return create_run(config_of(mixed_folder))


def of_core(state: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in state.params["order_core"].items()}


def assert_same_bits(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_if_all_relations_compare_there_is_nothing_but_the_core(folder: Path) -> None:
    run = create_run(config_of(folder))
    assert run.nothing_to_train and run.total_steps == 1
    assert set(run.abstract_state.params) == {"order_core"}
    ranked = summaries(run.evaluator.sides(run.fresh_state().params, "test")["tails"])
    assert float(ranked["all"]["mrr"] or 0.0) > 0.9


def test_if_no_relation_compares_there_is_no_core(mixed_folder: Path, tmp_path: Path) -> None:
    data = shutil.copytree(mixed_folder, tmp_path / "data")
    for name in ("train.txt", "valid.txt", "test.txt", "neg.txt"):
        lines = (data / name).read_text().splitlines(keepends=True)
        (data / name).write_text("".join(line for line in lines if "\tnext\t" in line))
    (data / "valid.txt").write_text("e0\tnext\te7\n")
    config = config_of(data, train__unknown_weight=1.0)
    run = create_run(config)
    config.score.order_core = False
    without = create_run(config)
    assert jax.tree.map(jnp.shape, run.abstract_state.params) == jax.tree.map(
        jnp.shape, without.abstract_state.params
    )
    assert not run.nothing_to_train and "order_core" not in run.abstract_state.params


def test_calibration_asks_for_the_direction_of_facts_that_compare(mixed_run: Run) -> None:
    """Of who sits next to whom, validation has no fact, and nothing is measured."""
    found = calibration_of(mixed_run, mixed_run.fresh_state().params)
    assert found is not None and list(found["relations"]) == ["higher"]
    higher = mixed_run.graph.vocabulary.relations.index("higher")
    pairs = np.sum(mixed_run.graph.test[:, RELATION] == higher)
    assert 0 < found["test"]["count"] == 2 * pairs, "each fact and its reverse"


def test_the_core_decides_the_order_and_the_encoder_the_rest(mixed_run: Run) -> None:
    """By slot: logits of the comparative relation are the core's, of the other as without a core."""
    state, model = mixed_run.fresh_state(), mixed_run.programs.model
    assert isinstance(model, NumCoKE)
    names = mixed_run.graph.vocabulary.relations
    higher, beside = names.index("higher"), names.index("next")
    assert model.sizes.ordered == (higher,)
    relations = jnp.array([beside, higher], jnp.int32)
    heads = jnp.array([[0, 3, 5], [1, 2, 13]], jnp.int32)

    def logits(model: Any, params: Any) -> np.ndarray:
        evaluate = functools.partial(examples.apply, model, train=False)
        return np.asarray(examples.compiled(evaluate)(params, relations, heads, mixed_run.literals)[0])

    found = logits(model, state.params)
    plain = dataclasses.replace(model.sizes, ordered=())
    encoder = create_model(mixed_run.config, plain)
    rest = {name: part for name, part in state.params.items() if name != "order_core"}
    expected = logits(encoder, rest)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-5)
    core = OrderCore(model.sizes)
    positions = examples.apply(core, state.params["order_core"], relations)
    np.testing.assert_allclose(
        found[1], examples.compiled(order_logits)(positions, heads)[1], rtol=1e-5, atol=1e-5
    )
    assert np.abs(found[1] - expected[1]).max() > 0.1
    decided = examples.apply(core, state.params["order_core"], relations, method="decides")
    assert np.asarray(decided).tolist() == [False, True]


@pytest.mark.parametrize("left", [0, 1])
def test_the_terms_add_up_to_the_score_and_one_part_decides_a_relation(left: int) -> None:
    """An order, classes, and `left` relations for the encoder; a term of another part is 0."""
    sizes = GraphSizes(5, 2 + left, 3, ordered=(0,), classes=(1,))
    model, parameters = examples.model_and_parameters(examples.config_with(score__order_core=True), sizes)
    core = parameters["order_core"]  # memberships and shares are from 0 to 1
    parameters["order_core"] = {name: 1.0 / (1.5 + jnp.abs(array)) for name, array in core.items()}
    relations = jnp.arange(sizes.relations, dtype=jnp.int32)
    heads = jnp.array([[0, 3], [4, 2], [1, 1]], jnp.int32)[: sizes.relations]

    @examples.compiled
    def terms_and_score(parameters: dict) -> Any:
        literals = examples.literals(sizes)
        encoded = examples.apply(model, parameters, relations, literals, train=False, method="encode")
        both = ("terms", "score")
        return [
            examples.apply(model, parameters, encoded, heads, train=False, method=method) for method in both
        ]

    terms, score = terms_and_score(parameters)
    np.testing.assert_array_equal(functools.reduce(np.add, terms.values()), score)
    deciding = {"order core": [0], "value classes": [1]} | {
        name: [2] for name in ("translation", "order") if left
    }
    assert terms.keys() == deciding.keys()
    for name, term in terms.items():
        assert np.flatnonzero(np.abs(term).max(axis=(1, 2))).tolist() == deciding[name], name


def test_no_batch_holds_a_fact_that_the_core_decides(mixed_run: Run) -> None:
    higher = mixed_run.graph.vocabulary.relations.index("higher")
    assert (mixed_run.graph.train[:, RELATION] == higher).any()
    for step in range(mixed_run.batches.steps_per_epoch):
        batch = mixed_run.batches.batch(step)
        real = np.asarray(batch.mask).any(axis=1)
        assert higher not in np.asarray(batch.relations)[real].tolist()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="adam", marks=pytest.mark.slow),
        pytest.param(
            {"train__optimizer": "adamw", "train__weight_decay": 0.3, "train__clip_norm": 0.1}, id="adamw"
        ),
        pytest.param({"train__candidates": 4}, id="sampled entities", marks=pytest.mark.slow),
    ],
)
def test_steps_leave_the_arrays_of_the_core_bit_for_bit(mixed_folder: Path, changes: dict[str, Any]) -> None:
    with tiny_runs.compiled_fast():
        run = create_run(config_of(mixed_folder, **changes))
        state = run.fresh_state()
        before, table = of_core(state), np.asarray(state.params["relation_embedding"])
        for step in range(2):
            state, loss = run.step(state, run.batch(step))
            assert np.isfinite(loss)
    assert_same_bits(of_core(state), before)
    assert np.abs(np.asarray(state.params["relation_embedding"]) - table).max() > 0


def test_no_gradient_reaches_the_core(mixed_run: Run) -> None:
    model, state = mixed_run.programs.model, mixed_run.fresh_state()
    relations, heads = jnp.array([0, 1], jnp.int32), jnp.zeros((2, 1), jnp.int32)

    def total(params: Any) -> jax.Array:
        logits, _ = model.apply({"params": params}, relations, heads, mixed_run.literals, train=False)
        return jnp.tanh(logits / 100.0).sum()

    gradients = examples.compiled(jax.grad(total))(state.params)
    for name, gradient in gradients["order_core"].items():
        np.testing.assert_array_equal(gradient, 0.0, err_msg=name)
    assert np.abs(np.asarray(gradients["entity_embedding"])).max() > 0


def test_a_seed_has_no_say_in_the_core_and_the_same_seed_gives_the_same_bits(mixed_folder: Path) -> None:
    with tiny_runs.compiled_fast():
        states = [create_run(config_of(mixed_folder, seed=seed)).fresh_state() for seed in (0, 0, 1)]
    assert tiny_runs.arrays_of(states[0]) == tiny_runs.arrays_of(states[1])
    assert_same_bits(of_core(states[2]), of_core(states[0]))


def test_arrays_of_the_core_are_finite_float32_in_their_ranges(mixed_run: Run) -> None:
    found = of_core(mixed_run.fresh_state())
    for name, array in found.items():
        assert array.dtype == np.float32 and np.isfinite(array).all(), name
    assert (found["noise"] > 0).all() and (found["entity_width"] >= 0).all()
    assert ((found["entity_membership"] > 0) & (found["entity_membership"] <= 1)).all()


def test_no_test_fact_reaches_the_core(mixed_run: Run) -> None:
    model = mixed_run.programs.model
    assert isinstance(model, NumCoKE)
    graph, none = mixed_run.graph, np.zeros((0, 3), np.int32)
    positions = np.full(graph.values.shape, np.nan)
    found = model.fit(graph, positions, seed=0)["order_core"]
    blind = model.fit(dataclasses.replace(graph, test=none), positions, seed=1)["order_core"]
    assert_same_bits(blind, found)


def test_arrays_with_a_row_per_entity_are_named_as_such(mixed_run: Run) -> None:
    """What is padded on a mesh, extended for new entities and sampled with them; and nothing else."""
    for name, array in of_core(mixed_run.fresh_state()).items():
        assert (name in PER_ENTITY) == (array.shape[0] == ENTITIES), name


@pytest.mark.parametrize("parts", [3, 4, 14])
def test_rows_that_a_mesh_pads_come_off_again(mixed_run: Run, parts: int) -> None:
    mesh = jax.sharding.Mesh(np.full((1, parts), jax.devices()[0]), AXES)  # only its sizes count here
    params = {"order_core": of_core(mixed_run.fresh_state())}
    padded = Placement(mesh).padded(params)["order_core"]
    rows = -(-ENTITIES // parts) * parts
    for name, array in params["order_core"].items():
        assert len(padded[name]) == (rows if name in PER_ENTITY else len(array))
        np.testing.assert_array_equal(padded[name][: len(array)], array)


def test_a_graph_of_sizes_alone_makes_a_core_for_its_relations_that_compare() -> None:
    sizes = GraphSizes(entities=5, relations=4, fields=2, ordered=(3, 1))
    core = OrderCore(sizes)
    shapes = jax.eval_shape(lambda key: core.init(key, jnp.zeros(1, jnp.int32)), jax.random.key(0))["params"]
    assert shapes["entity_position"].shape == (5, 2) and shapes["field_weight"].shape == (4, 2)
    params = examples.random_like(shapes)
    relations = jnp.array([0, 1, 2, 3], jnp.int32)
    decided = examples.apply(core, params, relations, method="decides")
    assert np.asarray(decided).tolist() == [False, True, False, True]
    means = examples.apply(core, params, relations).mean
    np.testing.assert_array_equal(means[3], params["entity_position"][:, 0])
    np.testing.assert_array_equal(means[1], params["entity_position"][:, 1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all", "mixed"])
def test_a_resumed_run_equals_the_straight_one(
    folder: Path, mixed_folder: Path, tmp_path: Path, kind: str
) -> None:
    """Stopped after its first steps (all decided: before its only one), then started again."""

    @dataclasses.dataclass(frozen=True)
    class Stopping(Run):
        def batch(self, step: int) -> Any:
            if step == 4:
                tiny_runs.terminate()
            return super().batch(step)

        def fitted_step(self, state: Any) -> Any:
            tiny_runs.terminate()
            return super().fitted_step(state)

    config = config_of(folder if kind == "all" else mixed_folder)
    run = create_run(config)
    tiny_runs.train(run, tmp_path / "straight")
    fields = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    tiny_runs.stopped(Stopping(**fields), tmp_path / "resumed")
    tiny_runs.train(run, tmp_path / "resumed")
    tiny_runs.assert_same_outcome(
        tiny_runs.outcome(run, tmp_path / "resumed"), tiny_runs.outcome(run, tmp_path / "straight")
    )
