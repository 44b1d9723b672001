"""Meshes of devices and several processes: the numbers of one device, shares, checkpoints across devices."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh

from numcoke_jax.cli.command_line import parse_command_line
from numcoke_jax.data.batches import Batch, TrainBatches
from numcoke_jax.data.literals import Literals
from numcoke_jax.inference.trained import load_trained
from numcoke_jax.models.interface import SharedVectors
from numcoke_jax.models.padding import PaddedEncoding, unpadded
from numcoke_jax.runs.create import create_run
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.processes import agreed, fetch, join, process_settings
from numcoke_jax.training.placement import AXES, Placement, check_sizes, placement_for
from tests import tiny_runs
from tests.data import test_candidates

ROW = 4 * 4  # bytes of an entity's vector: d = 4 float32


def start(arguments: list[str], devices: int) -> subprocess.Popen[str]:
    """`tests.mesh_runs` on that many CPU devices."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    return subprocess.Popen(
        [sys.executable, "-m", "tests.mesh_runs", *arguments],
        cwd=tiny_runs.REPOSITORY,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err[-2000:]
    return json.loads(out.strip().splitlines()[-1])


def assert_same_numbers(found: dict[str, Any], expected: dict[str, Any]) -> None:
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-5)
    np.testing.assert_allclose(found["table"], expected["table"], rtol=1e-4, atol=1e-5)
    for name, value in expected["metrics"]["all"].items():
        assert found["metrics"]["all"][name] == pytest.approx(value, rel=1e-5), name
    for name in ("mrr", "hits@1", "count"):
        assert found["report"][name] == pytest.approx(expected["report"][name], rel=1e-5), name


@pytest.mark.slow
@pytest.mark.parametrize(("entities", "candidates"), [(16, 0), (19, 0), (49, 12)])
def test_eight_devices_and_two_processes_compute_what_one_device_does(
    tmp_path: Path, entities: int, candidates: int
) -> None:
    """Losses and metrics to 1e-5; an eighth of the table, of its moments and of the literals on each of 8.

    Where 8 or 4 do not divide the entities, it is that of the next number that they divide.  The relation has
    a field's name, so that the report has the order accuracy too.
    """
    data = str(tiny_runs.write_folder(tmp_path / "data", entities=entities, relation="size_comp"))

    def arguments(name: str, mesh: str) -> list[str]:
        return [data, str(tmp_path / name), mesh, str(candidates)]

    one = result(start(arguments("one", "1x1"), 1))
    literals = one["literal_bytes"][0] // entities  # of a row
    assert one["bytes"] == [[entities * ROW], [entities * ROW]] and one["share"] == [1, 8]
    for mesh, parts in (("1x8", 8), ("2x4", 4)):
        eight = result(start(arguments(mesh, mesh), 8))
        assert_same_numbers(eight, one)
        rows = -(-entities // parts)
        assert eight["bytes"] == [[rows * ROW] * 8] * 2
        assert eight["literal_bytes"] == [rows * literals] * 8
        assert eight["encoding_bytes"] == [rows * ROW] * 8 and eight["score_columns"] == [rows] * 8
        assert eight["share"] == [1, 8 if mesh == "1x8" else 4]

    for mesh in ("2x2", "1x4"):  # of the queries, of the entities, each process has a half
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        name = f"two-{mesh}"
        both = [
            start([*arguments(name, mesh), f"localhost:{port}", "2", str(number)], 2) for number in range(2)
        ]
        for process in both:
            found = result(process)
            assert found["devices"] == 4
            assert_same_numbers(found, one)
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        assert len(lines) == len((tmp_path / "one" / "metrics.jsonl").read_text().splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(("entities", "devices"), [(16, (8, 2)), (19, (8, 1)), (19, (8, 3)), (19, (1, 8))])
def test_a_run_goes_on_with_another_number_of_devices(
    tmp_path: Path, entities: int, devices: tuple[int, int]
) -> None:
    """The same result as the straight run on one device."""
    from tests.mesh_runs import config_of

    data = tiny_runs.write_folder(tmp_path / "data", entities=entities)
    straight, _ = tiny_runs.train(config_of(data, (1, 1), 0), tmp_path / "straight")
    short = """
import pathlib, sys
from tests import mesh_runs, tiny_runs
data, workdir, epochs, mesh = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *map(int, sys.argv[3:])
config = mesh_runs.config_of(data, (1, mesh), 0)
config.train.epochs = epochs
tiny_runs.train(config, workdir)
"""
    workdir = tmp_path / "run"
    for epochs, count in enumerate(devices, 1):
        flags = f"--xla_force_host_platform_device_count={count} --xla_backend_optimization_level=0"
        command = [sys.executable, "-c", short, str(data), str(workdir), str(epochs), str(count)]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
        subprocess.run(command, cwd=tiny_runs.REPOSITORY, env=environment, check=True, capture_output=True)
    report = json.loads((workdir / "report.json").read_text())
    for name in ("mrr", "mr", "hits@1", "count"):
        assert report["test"][name] == pytest.approx(straight["test"][name], rel=1e-5), name
    assert load_trained(workdir, pytest.fail).params["entity_embedding"].shape == (entities, 4)


@pytest.mark.slow
def test_parts_of_unequal_size_are_not_gathered() -> None:
    """403 entities, worked on in tiles, on 8 devices: what the step needs beside its arguments falls too."""
    program = """
import json
from experiments.benchmark.problem import Sizes, Step
from numcoke_jax.models import numcoke
from numcoke_jax.models.ops import pairwise
from tests import tiny_runs
numcoke.ROWS_ON_CPU, pairwise.TILE_PAIRS = 256, 1024
sizes = {"entities": 403, "fields": 3, "dim": 32, "queries": 16, "relations": 2}
found = {}
for devices in (1, 8):
    with tiny_runs.compiled_fast():
        step = Step(Sizes(**sizes, mesh_entity=devices), "numeric")
    found[devices] = {"bytes": step.temporary_bytes(), "gathers": "all-gather" in step.compiled.as_text()}
print(json.dumps(found))
"""
    flags = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    found = result(
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=tiny_runs.REPOSITORY,
            env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )
    assert not found["8"]["gathers"]
    assert found["8"]["bytes"] < found["1"]["bytes"] / 4, found


@given(st.integers(0, 3), st.sampled_from([0, 5]), st.integers(1, 4))
def test_shares_of_a_batch_are_parts_of_the_whole(seed: int, candidates: int, processes: int) -> None:
    batches = TrainBatches(
        test_candidates.graph(seed), batch_size=12, relations_per_step=1, seed=seed, candidates=candidates
    )
    whole = batches.batch(1)
    size = 12 // processes
    shares = [batches.batch(1, slice(size * part, size * (part + 1))) for part in range(processes)]
    for name in ("heads", "mask", "labels", "negatives"):
        joined = np.concatenate([getattr(share, name) for share in shares], axis=1)
        np.testing.assert_array_equal(joined, getattr(whole, name))
    for share in shares:
        np.testing.assert_array_equal(share.relations, whole.relations)
        if candidates:
            np.testing.assert_array_equal(share.entities, whole.entities)


def test_a_single_process_agrees_with_itself_and_fetches_its_arrays() -> None:
    assert agreed((True, False)) == (True, False)
    found = fetch({"a": jax.numpy.arange(3)})
    assert isinstance(found["a"], np.ndarray) and found["a"].tolist() == [0, 1, 2]


def test_meshes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    config = tiny_runs.config_of(tiny_runs.write_folder(tmp_path / "data"))
    config.mesh.data, config.mesh.entity = 3, 64
    with pytest.raises(
        UserError, match=r"^mesh.data=3 times mesh.entity=64 needs 192 devices, found \d+: set both to fit$"
    ):
        create_run(config)


def test_queries_that_cannot_be_cut_into_equal_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    placement = placement_for(tiny_runs.config_of(Path()).mesh)
    monkeypatch.setattr(type(placement), "shape", (3, 1))
    with pytest.raises(
        UserError, match="^mesh.data=3 must divide the 8 queries of a relation slot .*: choose other sizes$"
    ):
        check_sizes(placement, heads=8)


@settings(max_examples=15)
@given(st.integers(1, 9), st.integers(1, 9))
def test_padding_is_zeros_and_comes_off_again(entities: int, parts: int) -> None:
    """Of the arrays of entities alone: parameters, their moments, literals, the columns of a batch."""
    generator = np.random.default_rng(entities)
    vectors, biases = generator.random((entities, 2), np.float32), generator.random(entities, np.float32)
    params = {"part": {"embedding": vectors}, "tail_bias": biases, "relation_embedding": vectors}
    state = {"params": params, "opt_state": optax.adam(0.1).init(jax.tree.map(jnp.asarray, params))}
    values = generator.random((entities, 3), np.float32)
    literals = Literals(values=values, observed=values > 0.5, facts=np.ones((entities, 3), np.int32))
    pairs = generator.random((2, entities, entities)) > 0.5
    batch = Batch(np.ones(2), np.ones((2, entities)), pairs[..., 0], pairs, ~pairs)
    tree = (state, literals, batch)
    mesh = Mesh(np.full((1, parts), jax.devices()[0]), AXES)  # its sizes are all that counts here
    padded = Placement(mesh).padded(tree)
    rows = -(-entities // parts) * parts
    assert padded[0]["params"]["part"]["embedding"].shape == (rows, 2)
    assert padded[0]["opt_state"][0].nu["tail_bias"].shape == (rows,)
    assert padded[0]["params"]["relation_embedding"].shape == (entities, 2)
    assert padded[1].values.shape == padded[1].observed.shape == (rows, 3)
    assert padded[1].facts.shape == (entities, 3)
    assert padded[2].labels.shape == padded[2].negatives.shape == (2, entities, rows)
    assert padded[2].mask.shape == (2, entities) and not padded[2].negatives[..., entities:].any()
    assert isinstance(padded[2].labels, np.ndarray)  # on the host until every device gets its part
    for whole, leaf in zip(jax.tree.leaves(tree), jax.tree.leaves(unpadded(padded, entities)), strict=True):
        np.testing.assert_array_equal(leaf, whole)


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 3))
def test_an_encoding_loses_its_padding_whatever_its_sizes(entities: int, size: int, more: int) -> None:
    """Also where the vectors have as many entries as there are entities, or as the padded ones."""
    encoded = SharedVectors(entities=jnp.ones((entities, size)), relations=jnp.ones((1, size)))
    padded = PaddedEncoding.of(encoded, entities, entities + more)
    assert padded.arrays.entities.shape[0] == entities + more
    for whole, leaf in zip(jax.tree.leaves(encoded), jax.tree.leaves(padded.unpadded()), strict=True):
        np.testing.assert_array_equal(leaf, whole)


def test_processes_come_from_flags_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMCOKE_PROCESSES", "4")
    monkeypatch.setenv("NUMCOKE_PROCESS", "3")
    found = {"coordinator": "a:1", "processes": "4", "process": "1"}
    for flags in (["--process=1", "--coordinator=a:1"], ["--process", "1", "-coordinator", "a:1"]):
        assert parse_command_line(flags).processes == found
    with pytest.raises(UserError, match="^--process: expected one argument; see numcoke train --help$"):
        parse_command_line(["--process"])
    for name in ("COORDINATOR", "PROCESSES", "PROCESS"):
        monkeypatch.setenv(f"NUMCOKE_{name}", "")
    assert process_settings({"process": None}) == parse_command_line([]).processes == {}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"process": "0"}, "^--process needs --coordinator=HOST:PORT, or --coordinator=auto$"),
        ({"coordinator": "here"}, "^--coordinator=here must be HOST:PORT, or auto; a port is 1 to 65535$"),
        (
            {"coordinator": "a:65536", "processes": "2", "process": "0"},
            "^--coordinator=a:65536 must be HOST:PORT, or auto; a port is 1 to 65535$",
        ),
        ({"coordinator": "a:1", "processes": "²", "process": "0"}, "^--processes=² is not an integer >= 0: "),
        (
            {"coordinator": "a:1", "processes": "2"},
            "^--process is missing: --coordinator=HOST:PORT needs --processes=N and --process=I$",
        ),
        (
            {"coordinator": "a:1", "processes": "two", "process": "0"},
            "^--processes=two is not an integer >= 0: ",
        ),
        (
            {"coordinator": "a:1", "processes": "2", "process": "2"},
            "^--process=2 is out of range: needs an integer >= 0 and < 2$",
        ),
    ],
)
def test_wrong_settings_of_processes_are_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(UserError, match=text):
        join(settings)
