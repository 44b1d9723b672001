"""Free memory of a container or a job: its limit, less what is used and cannot be given back.

And how much of it a run needs: a device has its own part of the state alone.
"""

import dataclasses
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

from numcoke_jax.cli.main import main
from numcoke_jax.runs import memory
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.loop import evaluate_only, train_and_evaluate
from numcoke_jax.runs.screen import Screen
from numcoke_jax.system import free_memory
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.free_memory import Cgroups
from tests import tiny_runs

V2, V1 = free_memory.CGROUPS


def write_group(folder: Path, group: Cgroups, *, limit: str, use: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / group.limit).write_text(f"{limit}\n")
    (folder / group.use).write_text(f"{use}\n")


@pytest.mark.parametrize("group", [V2, V1], ids=["version 2", "version 1"])
def test_cached_files_of_a_container_count_as_free(
    group: Cgroups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limit 1000, used 900, of which 550 are files that were read: 650 are left."""
    write_group(tmp_path, group, limit="1000", use=900)
    monkeypatch.setattr(free_memory, "CGROUPS", (dataclasses.replace(group, mount=str(tmp_path)),))
    assert free_memory.available_bytes() == 100
    inactive, active = group.cached
    (tmp_path / "memory.stat").write_text(f"anon 350\n{inactive} 400\n{active} 150\nfile_dirty 3\n")
    assert free_memory.available_bytes() == 650
    write_group(tmp_path, group, limit="1000", use=1700)
    assert free_memory.available_bytes() == 0


@pytest.mark.parametrize("group", [V2, V1], ids=["version 2", "version 1"])
def test_the_smallest_limit_of_the_own_group_and_of_those_around_it_counts(
    group: Cgroups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm has it: the limit is of the job, the process is in a task below it."""
    mount, listed = tmp_path / "cgroup", tmp_path / "own"
    line = {"": "0::", "memory": "7:cpu,memory:"}[group.controller]
    listed.write_text(f"3:cpuset:/elsewhere\n{line}/slurm/job_1/task_0\n1:name=systemd:/memory\n")
    write_group(mount, group, limit="max", use=9000)
    write_group(mount / "slurm" / "job_1", group, limit="1000", use=400)
    write_group(mount / "slurm" / "job_1" / "task_0", group, limit="max", use=300)
    write_group(mount / "slurm" / "job_2", group, limit="10", use=10)
    monkeypatch.setattr(free_memory, "OWN_CGROUPS", listed)
    monkeypatch.setattr(free_memory, "CGROUPS", (dataclasses.replace(group, mount=str(mount)),))
    assert free_memory.available_bytes() == 600
    write_group(mount / "slurm" / "job_1" / "task_0", group, limit="350", use=300)
    assert free_memory.available_bytes() == 50
    listed.write_text(f"{line}/../../other\n")  # outside what a container sees
    write_group(mount, group, limit="5000", use=1000)
    assert free_memory.available_bytes() == 4000


def test_without_a_limit_the_machine_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory, "CGROUPS", ())
    of_machine = free_memory.available_bytes()
    write_group(tmp_path, V2, limit="max", use=900)
    groups = (dataclasses.replace(V2, mount=str(tmp_path)), dataclasses.replace(V1, mount="/no/such/folder"))
    monkeypatch.setattr(free_memory, "CGROUPS", groups)
    found = free_memory.available_bytes()
    if of_machine is None:  # a platform that does not tell
        assert found is None
    else:
        assert found is not None and 0.5 < found / of_machine < 2.0


def exhausted(*_: Any, **__: Any) -> None:
    raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.\nMore lines.")


@pytest.mark.parametrize(
    ("failing", "remedy"),
    [
        ("numcoke_jax.runs.loop.create_run", "lower train.batch_size=2 or"),
        ("numcoke_jax.runs.run.Run.random_state", "lower train.batch_size=2 or"),
        ("numcoke_jax.runs.run.Run.step", "lower train.batch_size=2 or"),
        (
            "numcoke_jax.evaluation.evaluator.Evaluator.for_selection",
            "lower eval.chunk=3, or raise mesh.entity=1",
        ),
        ("numcoke_jax.evaluation.evaluator.Evaluator.sides", "lower eval.chunk=3, or raise mesh.entity=1"),
        ("numcoke_jax.runs.report.calibrate", "lower eval.chunk=3, or raise mesh.entity=1"),
        ("numcoke_jax.runs.report.write_html_report", "lower eval.chunk=3, or raise mesh.entity=1"),
    ],
)
def test_a_device_without_memory_is_one_line_wherever_the_training_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, remedy: str
) -> None:
    config = tiny_runs.config_of(tiny_runs.write_folder(tmp_path / "data"), train__epochs=1)
    monkeypatch.setattr(failing, exhausted)
    with tiny_runs.compiled_fast(), pytest.raises(UserError) as error:
        train_and_evaluate(config, tmp_path / "run", Screen(io.StringIO()))
    told = "the device ran out of memory (RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.): "
    assert str(error.value).startswith(told + remedy) and "\n" not in str(error.value)


def test_other_errors_of_the_device_stay_what_they_are() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"), memory.out_of_memory_told("mend it"):
        raise jax.errors.JaxRuntimeError("INTERNAL: a defect")


@pytest.mark.parametrize("mode", ["predict", "explain", "impute"])
def test_a_device_without_memory_is_one_line_of_the_modes_that_use_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    monkeypatch.setattr("numcoke_jax.cli.use.load_trained", exhausted)
    query = {"predict": ["--head=a", "--relation=r"], "explain": ["--head=a", "--relation=r", "--tail=b"]}
    assert main([f"--mode={mode}", f"--workdir={tmp_path}", *query.get(mode, [])]) == 2
    told = capsys.readouterr().err
    assert "ran out of memory" in told and "a smaller --eval.chunk" in told and told.count("\n") == 1


def test_an_evaluation_that_does_not_fit_is_refused_before_the_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_runs.config_of(tiny_runs.write_folder(tmp_path / "data"), train__epochs=1)
    tiny_runs.train(config, tmp_path / "run")
    (tmp_path / "run" / "report.json").unlink()
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)
    refused = r"^ranking needs about .* are free: lower eval.chunk=3, or raise mesh.entity=1 to"
    with tiny_runs.compiled_fast():
        for again in (evaluate_only, train_and_evaluate):
            with pytest.raises(UserError, match=refused):
                again(config, tmp_path / "run", Screen(io.StringIO()))


def test_a_resumed_run_needs_its_state_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free at the start: just what a step needs.  Free with the state restored: so much less."""
    config = tiny_runs.config_of(tiny_runs.write_folder(tmp_path / "data"), train__epochs=1)
    with tiny_runs.compiled_fast():
        run = create_run(config)
        need = memory.check_memory(run, Screen(io.StringIO()))
        free = max(need.step, need.ranking) - need.state
        monkeypatch.setattr(memory, "available_bytes", lambda: free)
        assert memory.check_memory(run, Screen(io.StringIO()), restored=True) == need
        with pytest.raises(UserError, match="are free"):
            memory.check_memory(run, Screen(io.StringIO()))


PROGRAM = """
import io, json, pathlib, sys
import jax
from numcoke_jax.runs import memory
from numcoke_jax.runs.screen import Screen as Console
from numcoke_jax.system.errors import UserError
from numcoke_jax.runs.create import create_run
from tests import tiny_runs
config = tiny_runs.config_of(pathlib.Path(sys.argv[1]), mesh__entity=8, model__dim=64)
found = {}
with tiny_runs.compiled_fast():
    run = create_run(config)
    for sharing in (None, 1):  # as they are: one memory; and as eight accelerators
        if sharing:
            memory._devices_in_one_memory = lambda run: sharing
        screen = io.StringIO()
        memory.available_bytes = lambda: None
        need = memory.check_memory(run, Console(screen))
        found[str(sharing)] = [need.parameters, need.state, need.step, need.ranking, screen.getvalue()]
    memory.available_bytes = lambda: max(need.step, need.ranking)
    memory.check_memory(run, Console(io.StringIO()))
    found["refused"] = []
    for free in (need.state - 1, need.step - 1):
        memory.available_bytes = lambda: free
        try:
            memory.check_memory(run, Console(io.StringIO()))
        except UserError as error:
            found["refused"].append(str(error))
    params = run.fresh_state().params
found["held"] = [
    sum(leaf.addressable_shards[part].data.nbytes for leaf in jax.tree.leaves(params)) for part in range(8)
]
print(json.dumps(found))
"""


def test_eight_devices_need_their_parts_and_share_the_memory_of_a_cpu(tmp_path: Path) -> None:
    """40 entities, d = 64, in 8 parts of 5 rows, and 1 relation: (5 + 1) x 64 x 4 B of parameters each."""
    data = tiny_runs.write_folder(tmp_path / "data", entities=40)
    flags = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(data)],
        cwd=tiny_runs.REPOSITORY,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    *each, screen = found["1"]
    assert found["held"] == [each[0]] * 8 == [(5 + 1) * 64 * 4] * 8
    assert each[1] > 3 * each[0] and min(each[2:]) > each[1]
    assert "on each of 8 devices" in " ".join(screen.split())
    *together, screen = found["None"]
    assert together == [8 * need for need in each] and "on each of" not in screen
    state, step = found["refused"]
    devices = "raise mesh.entity=8 to divide the entity tables among more devices with memory of their own"
    assert f"are free: lower model.dim=64, or {devices}" in state
    assert "a training step needs about" in step and step.endswith(
        "lower train.batch_size=2 or train.relations_per_step=1 or model.dim=64, or set "
        "train.candidates=0 (all entities in every step) to a number of sampled entities, or " + devices
    )
