"""Meshes of devices and several processes: the numbers of one device, shares, checkpoints across devices."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.batches import TrainBatches
from numcoke_jax.errors import UserError
from numcoke_jax.placement import agreed, check_sizes, fetch, placement_for
from numcoke_jax.processes import join, take_process_flags
from numcoke_jax.run import create_run
from tests import test_candidates, tiny_runs


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
@pytest.mark.parametrize(("entities", "candidates"), [(16, 0), (48, 12)])
def test_eight_devices_and_two_processes_compute_what_one_device_does(
    tmp_path: Path, entities: int, candidates: int
) -> None:
    """Losses and metrics to 1e-5; an eighth of the table, of its moments and of the literals on each of 8.

    The relation has a field's name, so that the report has the order accuracy too.
    """
    data = str(tiny_runs.write_folder(tmp_path / "data", entities=entities, relation="size_comp"))

    def arguments(name: str, mesh: str) -> list[str]:
        return [data, str(tmp_path / name), mesh, str(candidates)]

    one = result(start(arguments("one", "1x1"), 1))
    table = entities * 4 * 4  # N rows of d = 4 float32
    assert one["bytes"] == [[table], [table]] and one["share"] == [1, 8]
    for mesh, share in (("1x8", 8), ("2x4", 4)):
        eight = result(start(arguments(mesh, mesh), 8))
        assert_same_numbers(eight, one)
        assert eight["bytes"] == [[table / share] * 8] * 2
        assert sum(eight["literal_bytes"]) * share / 8 == sum(one["literal_bytes"])
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
def test_a_run_of_eight_devices_goes_on_with_one_and_with_two(tmp_path: Path) -> None:
    """The same result as the straight run on one device."""
    from tests.mesh_runs import config_of

    data = tiny_runs.write_folder(tmp_path / "data", entities=16)
    straight, _ = tiny_runs.train(config_of(data, (1, 1), 0), tmp_path / "straight")
    short = """
import pathlib, sys
from tests import mesh_runs, tiny_runs
data, workdir, epochs, mesh = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *map(int, sys.argv[3:])
config = mesh_runs.config_of(data, (1, mesh), 0)
config.train.epochs = epochs
tiny_runs.train(config, workdir)
"""

    def train(workdir: Path, epochs: int, devices: int) -> None:
        flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
        command = [sys.executable, "-c", short, str(data), str(workdir), str(epochs), str(devices)]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
        subprocess.run(command, cwd=tiny_runs.REPOSITORY, env=environment, check=True, capture_output=True)

    for devices in (1, 2):
        workdir = tmp_path / str(devices)
        train(workdir, 1, 8)
        train(workdir, 2, devices)
        report = json.loads((workdir / "report.json").read_text())
        for name in ("mrr", "mr", "hits@1", "count"):
            assert report["test"][name] == pytest.approx(straight["test"][name], rel=1e-5), (devices, name)


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
        UserError,
        match=r"^mesh.data=3 times mesh.entity=64 needs 192 devices, found \d+: set both to fit$",
    ):
        create_run(config)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((1, 4), "^mesh.entity=4 must divide the 6 entities of the graph: take 3$"),
        ((3, 1), "^mesh.data=3 must divide the 8 queries of a relation slot .*: choose other sizes$"),
    ],
)
def test_sizes_that_cannot_be_cut_into_equal_parts(
    shape: tuple[int, int], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    placement = placement_for(tiny_runs.config_of(Path()).mesh)
    monkeypatch.setattr(type(placement), "shape", shape)
    with pytest.raises(UserError, match=text):
        check_sizes(placement, entities=6, heads=8)


def test_processes_come_from_flags_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMCOKE_PROCESSES", "4")
    monkeypatch.setenv("NUMCOKE_PROCESS", "3")
    found, others = take_process_flags(["--config=x.py", "--process=1", "--coordinator=a:1"])
    assert found == {"coordinator": "a:1", "processes": "4", "process": "1"} and others == ["--config=x.py"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"process": "0"}, "^--process needs --coordinator=HOST:PORT, or --coordinator=auto$"),
        ({"coordinator": "here"}, "^--coordinator=here must be HOST:PORT, or auto$"),
        (
            {"coordinator": "a:1", "processes": "2"},
            "^--process is missing: --coordinator=HOST:PORT needs --processes=N and --process=I$",
        ),
        ({"coordinator": "a:1", "processes": "two", "process": "0"}, "^--processes=two is no integer >= 0: "),
        (
            {"coordinator": "a:1", "processes": "2", "process": "2"},
            "^--process=2 is out of range: needs an integer >= 0 and < 2$",
        ),
    ],
)
def test_wrong_settings_of_processes_are_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(UserError, match=text):
        join(settings)
