"""The models of the paper's table against loops written from their papers; losses, gradients, effects."""

import dataclasses
import functools
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.config.checks import check_config
from numcoke_jax.config.schema import looks_at
from numcoke_jax.models import MODELS
from numcoke_jax.models.interface import GraphSizes, KnowledgeModel
from numcoke_jax.models.kbln import difference_statistics
from numcoke_jax.models.nrn import dice
from numcoke_jax.models.rgcn import RelationalConvolution, messages_of
from numcoke_jax.models.simgcl import view_contrastive_loss
from numcoke_jax.runs.create import create_run
from numcoke_jax.training.programs import create_objective
from tests import examples, tiny_runs
from tests.oracles import (
    atth,
    bigi,
    complex,
    cone,
    conve,
    dabr,
    distmult,
    gie,
    hake,
    kbln,
    kgdm,
    literale,
    lorentzkg,
    mtkgnn,
    murp,
    nekg,
    nrn,
    rakge,
    rgcn,
    rotate,
    rule,
    simgcl,
    transe,
    tucker,
    wgcn,
)
from tests.oracles import slice as slice_oracle

READS_FACTS = [name for name, model in MODELS.items() if model.reads_facts]
ORACLES: dict[str, Any] = {
    "transe": transe,
    "literale": literale,
    "rakge": types.SimpleNamespace(logit=rakge.logit_of_triple),
    "conve": conve,
    "tucker": tucker,
    "distmult": distmult,
    "complex": complex,
    "rotate": rotate,
    "hake": hake,
    "atth": atth,
    "murp": murp,
    "rgcn": rgcn,
    "kbln": kbln,
    "mtkgnn": mtkgnn,
    "nrn": nrn,
    "simgcl": simgcl,
    "dabr": dabr,
    "gie": gie,
    "cone": cone,
    "nekg": nekg,
    "kgdm": kgdm,
    "rule": rule,
    "bigi": bigi,
    "slice": slice_oracle,
    "lorentzkg": lorentzkg,
    "wgcn": wgcn,
}
WITHOUT_SLOPES = ("running_", "fixed_")  # statistics of a step; what is drawn or fitted before the first
RELATIONS = jnp.array([1, 0], jnp.int32)
HEADS = jnp.array([[0, 2, 4], [3, 1, 3]], jnp.int32)
LOSS_OF_OTHERS = ("mtkgnn", "bigi", "kgdm", "rule")  # their second loss is not of the step's queries
LITERALS_ENTER = [name for name in ORACLES if name != "mtkgnn"]  # there they enter the loss alone


@pytest.fixture(autouse=True)
def half_hidden(short_blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of SLiCE's entities that one of the step's heads is."""
    monkeypatch.setattr("numcoke_jax.models.slice.HIDDEN", 0.5)


def config_of(name: str, **changes: Any) -> Any:
    """Tiny sizes, values joined where the model knows none; ConvE's filters need an image to fit into."""
    if looks_at(name, "model.attributes"):
        changes = {"model__attributes": "concat"} | changes
    if name == "conve":
        changes = {"model__dim": 12, "query__filters": 2} | changes
    config = examples.config_with(model__name=name, **{"score__norm": 2} | changes)
    check_config(config)
    return config


@functools.cache
def evaluation(name: str, **changes: Any) -> Any:
    """Literals -> logits, compiled once for all tests of that model."""
    model, parameters = examples.model_and_parameters(config_of(name, **changes))
    call = examples.compiled(functools.partial(examples.apply, model, train=False))
    return lambda literals: call(parameters, RELATIONS, HEADS, literals)[0]


def evaluated(name: str, literals: Any, **changes: Any) -> jax.Array:
    return evaluation(name, **changes)(literals)


def assert_equals_the_loops(name: str, **changes: Any) -> None:
    config = config_of(name, **changes)
    with jax.enable_x64(True):
        model, parameters = examples.model_and_parameters(config)
        assert isinstance(model, KnowledgeModel)
        call = examples.compiled(functools.partial(examples.apply, model, train=False))
        literals = examples.literals()
        found = call(parameters, RELATIONS, HEADS, literals)[0]
        exact = examples.float64(parameters)
        for s, h, tail in np.ndindex(2, 3, 5):
            triple = int(HEADS[s, h]), int(RELATIONS[s]), tail
            expected = ORACLES[name].logit(exact, config, literals, *triple)
            np.testing.assert_allclose(found[s, h, tail], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ORACLES)
def test_evaluation_equals_the_loops(name: str) -> None:
    assert_equals_the_loops(name)


def test_every_norm_way_to_encode_and_depth_equals_the_loops() -> None:
    for name in ("transe", "literale", "rakge"):
        assert_equals_the_loops(name, score__norm=1)
    for decoder in ("distmult", "complex"):
        assert_equals_the_loops("literale", score__decoder=decoder)
    assert_equals_the_loops("rakge", attention__heads=3, score__order_weight=0.4)
    assert_equals_the_loops("transe", model__attributes="none")
    assert_equals_the_loops("nrn", model__value_encoding="sinusoidal")
    assert_equals_the_loops("rgcn", graph__layers=1, graph__bases=1, model__attributes="none")
    for norm in (1, 2):
        assert_equals_the_loops("rgcn", graph__decoder="translation", score__norm=norm)
    assert_equals_the_loops("simgcl", graph__layers=3, model__attributes="none")
    assert_equals_the_loops("rotate", score__norm=1)


@functools.cache
def gradient_in_float64(name: str) -> Any:
    config = config_of(name, score__dropout=0.0, **without_draws(name))
    model, _ = examples.model_and_parameters(config)
    loss = functools.partial(create_objective(config).losses, model=model)
    return examples.compiled(jax.value_and_grad(lambda *args, **kwargs: loss(*args, **kwargs)[0]))


def without_draws(name: str) -> dict[str, Any]:
    """Dropout switched off: with two draws the same key would still give the same mask, but fewer kinks."""
    if name in ("conve", "tucker", "wgcn"):
        return {f"query__{part}_dropout": 0.0 for part in ("input", "feature", "hidden")}
    return {"graph__edge_dropout": 0.0} if name == "rgcn" else {}


@pytest.mark.parametrize("name", ORACLES)
def test_the_gradient_of_the_loss_is_its_slope(name: str) -> None:
    """In training, both losses together, along a random direction; batch statistics move with it."""
    with jax.enable_x64(True):
        config = config_of(name)
        _, parameters = examples.model_and_parameters(config)
        # Neither what is fixed nor the table whose shuffled rows BiGI takes no gradient to.
        held = ("fixed_", "entities") if name == "bigi" else ("fixed_",)
        direction = jax.tree.map_with_path(
            lambda path, leaf: (
                0.0 * leaf if any(part in jax.tree_util.keystr(path) for part in held) else leaf
            ),
            examples.random_like(parameters, seed=5),
        )
        call = functools.partial(gradient_in_float64(name), key=jax.random.key(3))
        batch, literals, width = examples.batch(), examples.literals(), 1e-6

        def moved(sign: float) -> Any:
            return jax.tree.map(lambda leaf, by: leaf + sign * width * by, parameters, direction)

        _, gradient = call(parameters, batch, literals)
        above, below = (call(moved(sign), batch, literals)[0] for sign in (1.0, -1.0))
        products = jax.tree.map(lambda left, right: (left * right).sum(), gradient, direction)
        expected = (above - below) / (2.0 * width)
        np.testing.assert_allclose(sum(jax.tree.leaves(products)), expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", ORACLES)
def test_what_stands_in_padding_changes_neither_loss_nor_gradient(name: str) -> None:
    """Batch normalisation, which takes the mean of a step's queries, is where it could."""
    with jax.enable_x64(True):
        _, parameters = examples.model_and_parameters(config_of(name))
        batch, literals = examples.batch(), examples.literals()
        call = functools.partial(gradient_in_float64(name), key=jax.random.key(3))
        junk = dataclasses.replace(batch, heads=jnp.where(batch.mask, batch.heads, 3))
        assert (junk.heads != batch.heads).any()
        close = functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12)
        jax.tree.map(close, call(parameters, junk, literals), call(parameters, batch, literals))


@pytest.mark.parametrize("name", ORACLES)
def test_a_number_stored_for_a_missing_value_reaches_neither_loss_nor_gradient(name: str) -> None:
    with jax.enable_x64(True):
        _, parameters = examples.model_and_parameters(config_of(name))
        batch, literals = examples.batch(), examples.literals()
        call = functools.partial(gradient_in_float64(name), key=jax.random.key(3))
        stored = dataclasses.replace(literals, values=jnp.where(literals.observed, literals.values, jnp.nan))
        same = np.testing.assert_array_equal
        jax.tree.map(same, call(parameters, batch, stored), call(parameters, batch, literals))


@functools.cache
def compiled_gradient(name: str) -> Any:
    """(parameters, batch, literals, key=...) -> ((total, terms), gradients) in training."""
    config = config_of(name)
    model, _ = examples.model_and_parameters(config)
    loss = functools.partial(create_objective(config).losses, model=model)
    return examples.compiled(jax.value_and_grad(loss, has_aux=True))


@pytest.mark.parametrize("name", ORACLES)
def test_losses_and_gradients_are_finite_and_reach_every_parameter(name: str) -> None:
    _, parameters = examples.model_and_parameters(config_of(name))
    everything_masked = dataclasses.replace(examples.batch(), mask=jnp.zeros_like(examples.batch().mask))
    without_negatives = dataclasses.replace(examples.batch(), negatives=jnp.zeros((2, 3, 5), bool))
    zero = jax.tree.map(jnp.zeros_like, parameters)
    huge = jax.tree.map(lambda leaf: 30.0 * leaf, parameters)  # R-GCN's logits are of degree 13 in them
    literals, call = examples.literals(), functools.partial(compiled_gradient(name), key=jax.random.key(3))
    cases = {
        "random": (parameters, examples.batch()),
        "zero": (zero, examples.batch()),
        "huge": (huge, examples.batch()),
        "masked": (parameters, everything_masked),
        "no negatives": (parameters, without_negatives),
    }
    for case, (values, batch) in cases.items():
        (total, _), gradients = call(values, batch, literals)
        assert np.isfinite(total), case
        for path, leaf in jax.tree.leaves_with_path(gradients):
            name_of_leaf = jax.tree_util.keystr(path)
            assert np.isfinite(leaf).all(), (case, name_of_leaf)
            if case == "random" and not any(kind in name_of_leaf for kind in WITHOUT_SLOPES):
                assert np.abs(leaf).max() > 1e-9, name_of_leaf
            if case == "masked" and name not in LOSS_OF_OTHERS:
                assert not leaf.any(), name_of_leaf


@pytest.mark.parametrize("name", ORACLES)
def test_encoding_a_relation_at_a_time_is_the_model(name: str) -> None:
    """What the ranking calls equals what evaluation of a whole batch gives."""
    model, parameters = examples.model_and_parameters(config_of(name))

    @examples.compiled
    def both_ways(parameters: dict, literals: Any) -> tuple[jax.Array, list[jax.Array]]:
        call = functools.partial(examples.apply, model, parameters, train=False)
        slots = []
        for slot in range(2):
            encoded = call(RELATIONS[slot : slot + 1], literals, method="encode")
            slots.append(call(encoded, HEADS[slot : slot + 1], method="score")[0])
        return call(RELATIONS, HEADS, literals)[0], slots

    whole, slots = both_ways(parameters, examples.literals())
    np.testing.assert_allclose(slots, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LITERALS_ENTER)
def test_the_values_have_an_effect_and_missing_cells_none(name: str) -> None:
    literals = examples.literals()
    found = evaluated(name, literals)
    garbage = dataclasses.replace(literals, values=jnp.where(literals.observed, literals.values, 7.0))
    np.testing.assert_array_equal(evaluated(name, garbage), found)
    # No mirror image: a basis function of differences is the same when they and its centre change sign.
    other = dataclasses.replace(literals, values=jnp.roll(literals.values, 1, axis=0))
    assert np.abs(evaluated(name, other) - found).max() > 1e-3


@pytest.mark.parametrize("name", [name for name in ORACLES if looks_at(name, "model.attributes")])
def test_without_joined_attributes_the_values_have_no_effect(name: str) -> None:
    literals = examples.literals()
    other = dataclasses.replace(literals, values=1.0 - literals.values)
    found, changed = (evaluated(name, values, model__attributes="none") for values in (literals, other))
    np.testing.assert_array_equal(found, changed)


@pytest.mark.parametrize("name", ["conve", "rgcn", "kbln", "mtkgnn", "nekg", "nrn", "simgcl"])
def test_a_graph_without_fields_can_be_scored(name: str) -> None:
    sizes = GraphSizes(entities=5, relations=2, fields=0)
    config = config_of(name)
    model, parameters = examples.model_and_parameters(config, sizes)
    losses = create_objective(config).losses
    total, _ = losses(
        parameters, examples.batch(), examples.literals(sizes), model=model, key=jax.random.key(0)
    )
    assert np.isfinite(total)


@pytest.mark.parametrize("name", [name for name in READS_FACTS if name != "kgdm"])  # in its loss alone
def test_the_facts_have_an_effect(name: str) -> None:
    literals = examples.literals()
    fewer = dataclasses.replace(literals, facts=literals.facts[::2])
    assert np.abs(evaluated(name, literals) - evaluated(name, fewer)).max() > 1e-3


@pytest.mark.parametrize("name", [*READS_FACTS, "mtkgnn"])
def test_a_run_tells_its_model_the_training_facts_alone(name: str, tmp_path: Path) -> None:
    """Neither validation nor test facts: messages along them would be the answers."""
    run = create_run(tiny_runs.config_of(tiny_runs.write_folder(tmp_path / "data"), model__name=name))
    if name not in READS_FACTS:
        assert run.literals.facts is None
        return
    assert sorted(run.literals.facts.tolist()) == sorted(run.graph.train.tolist())


def test_rgcn_drops_facts_before_it_counts_them() -> None:
    """With half of the facts dropped, the one fact is heard whole or not at all, in both directions alike."""
    sizes = GraphSizes(entities=2, relations=1, fields=0)
    config = config_of("rgcn", graph__layers=1, graph__edge_dropout=0.5, score__dropout=0.0)
    model, parameters = examples.model_and_parameters(config, sizes)
    literals = dataclasses.replace(examples.literals(sizes), facts=jnp.array([[0, 0, 1]], jnp.int32))

    @examples.compiled
    @jax.vmap
    def encoded(key: jax.Array) -> jax.Array:
        call = functools.partial(examples.apply, model, parameters, method="encode", train=True)
        return call(jnp.zeros((1,), jnp.int32), literals, rngs={"dropout": key}).entities

    found = np.asarray(encoded(jax.random.split(jax.random.key(0), 64)))
    exact = examples.float64(parameters)
    table, layer = exact["entities"]["embedding"], exact["convolutions_0"]
    alone = [rgcn.layer(layer, np.zeros((0, 3), int), list(table), 1)[i] for i in range(2)]
    whole = [rgcn.layer(layer, np.array([[0, 0, 1]]), list(table), 1)[i] for i in range(2)]
    heard = []
    for entity in range(2):
        far = [np.abs(found[:, entity] - rows[entity]).max(-1) for rows in (alone, whole)]
        np.testing.assert_allclose(np.minimum(*far), 0.0, atol=1e-4)
        heard.append(far[1] < 1e-4)
    assert 16 <= heard[0].sum() <= 48  # half of 64 draws, four deviations either way
    np.testing.assert_array_equal(*heard)


@pytest.mark.parametrize(("entities", "facts", "absent"), [(6, 300, "[600,4]"), (40, 30, "[40,40")])
def test_rgcn_makes_the_smaller_of_all_messages_and_all_links(entities: int, facts: int, absent: str) -> None:
    """A layer equals the loops either way; the larger array is not made, forward or backward."""
    draw = np.random.default_rng(2).integers
    many = np.stack([draw(0, size, facts) for size in (entities, 2, entities)], axis=1)
    messages = messages_of(jnp.asarray(many, jnp.int32), jnp.ones(facts), 2, entities)
    layer, vectors = RelationalConvolution(relations=2, bases=3), examples.normal(entities, 4, seed=3)
    parameters = examples.parameters_of(layer, vectors, messages)

    def total(parameters: dict, vectors: jax.Array) -> jax.Array:
        return jnp.square(examples.apply(layer, parameters, vectors, messages)).sum()

    found = examples.apply(layer, parameters, vectors, messages)
    expected = rgcn.layer(examples.float64(parameters), many, list(np.asarray(vectors, np.float64)), 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    made = str(jax.make_jaxpr(jax.grad(total, argnums=(0, 1)))(parameters, vectors))
    assert f"f32{absent}" not in made


def test_kbln_centres_and_widths_are_those_of_the_facts() -> None:
    literals = examples.literals()
    centre, width = difference_statistics(literals.values, literals.observed, literals.facts, 2)
    for relation, field in np.ndindex(2, 3):
        expected = kbln.centre_and_width(literals, relation, field)
        np.testing.assert_allclose([centre[relation, field], width[relation, field]], expected, rtol=1e-4)
    nothing = jnp.zeros_like(literals.observed)
    centre, width = difference_statistics(literals.values, nothing, literals.facts, 2)
    np.testing.assert_array_equal(centre, 0.0)
    np.testing.assert_array_equal(width, 1.0)


def test_mtkgnn_predicts_every_observed_value_twice() -> None:
    config = config_of("mtkgnn", score__dropout=0.0)
    with jax.enable_x64(True):
        model, parameters = examples.model_and_parameters(config)
        literals = examples.literals()
        call = examples.compiled(functools.partial(examples.apply, model, train=True))
        encoded = call(parameters, RELATIONS, HEADS, literals)[1]
        total, count = mtkgnn.squared_error(examples.float64(parameters), literals)
        np.testing.assert_allclose(encoded.second_loss[0], total, rtol=1e-10)
        assert encoded.second_loss[1] == count == 2 * literals.observed.sum()


def test_mtkgnn_starts_with_tails_ranked_otherwise_under_each_relation() -> None:
    """Of what tells tails apart a good part is left when each tail's mean over relations is taken off."""
    sizes, config = GraphSizes(entities=400, relations=8, fields=3), config_of("mtkgnn", model__dim=50)
    model, _ = examples.model_and_parameters(config, sizes)
    relations, heads = jnp.arange(8, dtype=jnp.int32), jnp.zeros((8, 1), jnp.int32)
    inputs = relations, heads, examples.literals(sizes)
    parameters = model.init(jax.random.key(0), *inputs, train=False)["params"]
    logits = np.asarray(examples.apply(model, parameters, *inputs, train=False)[0])[:, 0]
    of_tails = logits - logits.mean(1, keepdims=True)
    of_pairs = of_tails - of_tails.mean(0)
    assert of_pairs.std() > 0.2 * of_tails.std()


def test_hake_drops_moduli_and_leaves_the_phases_as_they_are() -> None:
    """Kept moduli are doubled; an angle that was doubled would be another one."""
    model, parameters = examples.model_and_parameters(config_of("hake", score__dropout=0.5))
    call = functools.partial(examples.apply, model, parameters, RELATIONS, examples.literals())
    whole = call(method="encode", train=False)
    found = call(method="encode", train=True, rngs={"dropout": jax.random.key(0)})
    np.testing.assert_array_equal(found.phase, whole.phase)
    kept = np.asarray(found.modulus != 0.0)
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(found.modulus, np.where(kept, 2.0 * whole.modulus, 0.0), rtol=1e-6)


def test_dice_turns_differences_into_angles() -> None:
    """The angle between two encodings is pi times the difference of their values."""
    values = jnp.linspace(0.0, 1.0, 21)
    points = np.asarray(dice(values, 8), np.float64)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-5)
    angles = np.arccos(np.clip(points @ points[0], -1.0, 1.0))
    np.testing.assert_allclose(angles, np.pi * np.asarray(values), atol=1e-3)


def test_the_view_loss_equals_the_loops_and_leaves_padding_out() -> None:
    views = examples.normal(2, 5, 4, seed=4)
    batch = examples.batch()
    total, count = view_contrastive_loss(views, batch, temperature=0.2)
    first, second = np.asarray(views, np.float64)
    expected = 0.0
    for s, h in np.ndindex(2, 3):
        if batch.mask[s, h]:
            expected += simgcl.view_loss(first, second, int(batch.heads[s, h]), 0.2)
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    assert count == 5.0


def test_simgcl_views_are_noisy_by_epsilon_in_training_alone() -> None:
    """After one layer a view differs from the scored vectors by a step of length epsilon with their signs."""
    config = config_of("simgcl", graph__layers=1, graph__noise=0.3, score__dropout=0.0)
    model, parameters = examples.model_and_parameters(config)
    call = functools.partial(examples.apply, model, parameters, RELATIONS, HEADS, examples.literals())
    assert call(train=False)[1].noisy is None
    encoded = call(train=True, rngs={"view_noise": jax.random.key(0)})[1]
    steps = np.asarray(encoded.noisy - encoded.scored.entities)
    np.testing.assert_allclose(np.linalg.norm(steps, axis=-1), 0.3, rtol=1e-3)
    signs = np.sign(encoded.scored.entities)
    assert (steps * signs >= -1e-6).all()
    assert np.abs(steps[0] - steps[1]).max() > 1e-2
