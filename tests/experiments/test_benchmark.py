"""The benchmarks' yardstick computes what the package computes."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.benchmark import evaluation, naive, peers, scaling, timing, values
from experiments.benchmark.problem import RELATIONS, Sizes, config_of, random_batch, random_literals
from numcoke_jax.data.synthetic import SyntheticSettings, synthetic_graph
from numcoke_jax.models import GraphSizes, create_model
from numcoke_jax.system import random_streams
from numcoke_jax.training.programs import create_objective
from tests import examples
from tests.tiny_runs import compiled_fast

SIZES = Sizes(entities=7, fields=3, dim=8, queries=6, relations=2)


def test_the_per_query_formulation_has_the_logits_and_the_loss_of_the_package() -> None:
    """Random parameters; without noise, dropout and the contrastive loss, which are not in it."""
    config = config_of(SIZES, "paper")
    config.score.dropout, config.experts.noise, config.okcl.weight = 0.0, False, 0.0
    model = create_model(config, GraphSizes(SIZES.entities, RELATIONS, SIZES.fields))
    literals, batch = random_literals(SIZES), random_batch(SIZES, seed=2)
    one = jnp.zeros((1,), jnp.int32)
    params = examples.parameters_of(model, one, one[:, None], literals, train=False)
    call = examples.compiled(
        lambda p: examples.apply(model, p, batch.relations, batch.heads, literals, train=True)
    )
    expected, _ = call(params)
    alone = examples.compiled(naive.logits)
    for slot, place in np.ndindex(*batch.heads.shape):
        found = alone(params, batch.relations[slot], batch.heads[slot, place], literals)
        np.testing.assert_allclose(found, expected[slot, place], rtol=1e-4, atol=1e-4)
    losses = examples.compiled(
        lambda p: create_objective(config).losses(
            p, batch, literals, model=model, key=random_streams.base_key(0)
        )[0]
    )
    queries = (
        jnp.repeat(batch.relations, batch.heads.shape[1]),
        batch.heads.reshape(-1),
        batch.labels.reshape(-1, SIZES.entities),
    )
    total = examples.compiled(naive.loss)(params, *queries, literals)
    np.testing.assert_allclose(total, losses(params), rtol=1e-5)


def test_xla_counts_the_body_of_a_loop_once_and_the_rates_say_so() -> None:
    """Products of 8 x 8 matrices, 2 * 8^3 = 1,024 FLOP each: ten of them in a loop are counted as one."""

    def products(x: jax.Array, count: int) -> jax.Array:
        return jax.lax.scan(lambda carry, _: (carry @ x, None), x, None, length=count)[0]

    matrix = jnp.ones((8, 8))
    found = [
        timing.rates(jax.jit(products, static_argnums=1).lower(matrix, count).compile(), 1.0)
        for count in (1, 10)
    ]
    assert [rates["loops_counted_once"] for rates in found] == [0, 1]
    for rates in found:
        assert 1e9 * rates["gflops_per_second"] == pytest.approx(1024, abs=10)


@pytest.mark.slow
def test_a_single_query_of_the_per_query_formulation_has_a_time(tmp_path: Path) -> None:
    """The call that compiles is another one: with --naive=1 there was nothing to take the median of."""
    sizes = ["--entities=12", "--fields=2", "--dim=8", "--queries=4", "--chunk=2"]
    with compiled_fast():
        assert evaluation.main([*sizes, "--naive=1", f"--json={tmp_path / 'figures.json'}"]) == 0
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["naive_query_ms"] > 0 and figures["single_query_ms"] > 0


@pytest.mark.slow
def test_a_step_that_cannot_be_is_told_in_its_own_words() -> None:
    sizes = {"entities": 8, "fields": 2, "dim": 8, "queries": 4, "relations": 2, "mesh-data": 2}
    with pytest.raises(
        scaling.UserError,
        match=r"^-m experiments.benchmark.step --entities=8 .*--repeats=1: mesh\.data=2 times .* needs 2",
    ):
        scaling.run_step(sizes, 1)


@pytest.mark.slow
def test_devices_share_the_state_of_a_step() -> None:
    """Of 8 entities with 8 numbers each and their moments, half is on one of two devices."""
    sizes = {"entities": 8, "fields": 2, "dim": 8, "queries": 4, "relations": 2}
    whole, half = (scaling.run_step(sizes | {"mesh-entity": count}, 1) for count in (1, 2))
    assert whole["state_bytes"] - half["state_bytes"] == 3 * 4 * 8 * 8 // 2


def test_the_ways_to_encode_values_that_shall_agree_do() -> None:
    """By all fields and by observed cells: one gradient; without the missing cells another."""
    drawn = SyntheticSettings(entities=12, fields=20, relations=2, triples=60, missing_rate=0.5)
    graph, _ = synthetic_graph(drawn)
    few = graph.observed & (np.cumsum(graph.observed, axis=1) <= 2)
    graph = dataclasses.replace(graph, observed=few, values=np.where(few, graph.values, 0.0))
    config = values.config_of("synthetic", 8)
    found = {}
    for way in ("fields", "cells", "skip"):
        compiled, (params, literals) = values.compiled_way(way, config, graph, 2)
        assert (literals.cells is None) == (way == "fields")
        found[way] = jax.tree.leaves(compiled(params, literals))
    for one, other in zip(found["fields"], found["cells"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert not np.allclose(found["fields"][0], found["skip"][0])


def test_a_peer_that_ends_is_told_with_its_last_line(tmp_path: Path) -> None:
    """An interpreter without PyKEEN."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'pykeen'\" >&2\nexit 1\n")
    program.chmod(0o755)
    run = peers.create(peers.SIZES | {"entities": 20, "triples": 60, "dim": 4, "queries": 4, "chunk": 4})
    with pytest.raises(
        peers.UserError,
        match=r"^--peer-python: PyKEEN ended at 'about': ModuleNotFoundError: No module named 'pykeen'$",
    ):
        peers.Peer(program, run, peers.SIZES, tmp_path)
