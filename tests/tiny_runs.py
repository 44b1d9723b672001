"""Tiny trainings that several tests share: a graph, a config that compiles fast, what to compare."""

import contextlib
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from numcoke_jax.config.schema import SECTIONS, default_config
from numcoke_jax.evaluation.sides import split_metrics
from numcoke_jax.inference.trained import Trained
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.logs import read_metrics
from numcoke_jax.runs.loop import train_in_workdir
from numcoke_jax.runs.resume import checkpoints_of
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.screen import Screen
from numcoke_jax.system.termination import Termination
from tests.examples import random_like, with_positive_variances

REPOSITORY = Path(__file__).resolve().parents[1]
WALL_CLOCK = ("queries_per_second", "seconds")  # what no two runs share


def write_folder(path: Path, *, entities: int = 6, relation: str = "higher") -> Path:
    """Entities in a strict order under one relation; half of all pairs to train on."""
    path.mkdir(parents=True)
    facts = [f"e{i}\t{relation}\te{j}\n" for i in range(entities) for j in range(i)]
    shuffled = [facts[place] for place in np.random.default_rng(0).permutation(len(facts))]
    half, tenth = len(facts) // 2, max(len(facts) // 10, 1)
    (path / "train.txt").write_text("".join(shuffled[:half]))
    (path / "valid.txt").write_text("".join(shuffled[half : half + tenth]))
    (path / "test.txt").write_text("".join(shuffled[half + tenth :]))
    rows = [fact.rstrip().split("\t") for fact in shuffled[:half:3]]
    (path / "neg.txt").write_text("".join(f"{tail}\t{relation}\t{head}\n" for head, _, tail in rows))
    (path / "literals").mkdir()
    values = [f"e{i}\tsize\t{1.5 * i}\ne{i}\tnoise\t{7 * i % 10}\n" for i in range(entities) if i != 4]
    (path / "literals" / "numerical_literals.txt").write_text("".join(values))
    return path


def config_of(data: Path, **changes: Any) -> ConfigDict:
    """Four validations of a TransE with dropout: three steps each on `write_folder`'s graph.

    A change is section__key=value, or seed=value.
    """
    config = default_config()
    config.data.path = str(data)
    config.model.name = "transe"
    config.model.dim = config.model.attribute_dim = 4
    config.score.dropout = 0.3
    config.train.batch_size = 2
    config.train.relations_per_step = 1
    config.train.epochs = 4
    config.train.eval_every_epochs = 1
    config.train.learning_rate = 0.05
    config.train.patience = 0
    config.eval.chunk = 3
    for name, value in changes.items():
        section, _, key = name.rpartition("__")
        (config[section] if section else config)[key] = value
    return config


def numcoke(config: ConfigDict) -> ConfigDict:
    """The same run with NumCoKE: every random stream in use, the contrastive loss."""
    config.model.name = "numcoke"
    config.experts.count = 2
    config.attention.heads = 2
    config.attention.operators = ("product",)
    config.train.entity_dropout = 0.2
    config.okcl.k = 2
    return config


def untrained(config: ConfigDict, run: Run | None = None) -> Trained:
    """A run whose parameters are random numbers, none of them 0: what reads a model needs no training.

    Those that are named fixed are what the model makes of the graph.
    """
    run = run or create_run(config)
    parameters = with_positive_variances(random_like(run.abstract_state.params, scale=0.4))
    if any(name.startswith("fixed_") for name in parameters):
        fitted = run.refitted(parameters, run.programs.model, run.graph)
        parameters |= {name: leaf for name, leaf in fitted.items() if name.startswith("fixed_")}
    return Trained(run, parameters)


def with_report(trained: Trained) -> Trained:
    """The same with the metrics that the program would report."""
    ranks = {split: trained.run.evaluator.sides(trained.params, split) for split in ("valid", "test")}
    metrics = {split: split_metrics(sides) for split, sides in ranks.items()}
    report: Any = {"seed": 0, "best_epoch": 1, "seconds": 0.0, **metrics}
    return dataclasses.replace(trained, report=report)


@contextlib.contextmanager
def compiled_fast() -> Iterator[None]:
    """Less time for XLA's optimiser; the same one in every run that a test compares."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


def train(run: Run | ConfigDict, workdir: Path) -> tuple[dict[str, Any], str]:
    """Train to the end or resume: the report and what the screen showed."""
    screen = io.StringIO()
    with compiled_fast(), Termination().watching() as termination:
        run = create_run(run) if isinstance(run, ConfigDict) else run
        report = train_in_workdir(run, workdir, Screen(screen), termination)
    return dict(report), screen.getvalue()


def stopped(run: Run | ConfigDict, workdir: Path) -> str:
    """Train until SIGTERM, which the test has arranged, ends it with code 143: what the screen showed."""
    screen = io.StringIO()
    with compiled_fast(), pytest.raises(SystemExit) as ended, Termination().watching() as termination:
        run = create_run(run) if isinstance(run, ConfigDict) else run
        train_in_workdir(run, workdir, Screen(screen), termination)
    assert ended.value.code == 143
    return screen.getvalue()


def terminate(*_: Any, **__: Any) -> None:
    """Send SIGTERM to this process."""
    signal.raise_signal(signal.SIGTERM)


def call_before(call: int, action: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with `action` before its call number `call` (from 1)."""
    calls = 0

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            action()
        return function(*args, **kwargs)

    return wrapped


def arrays_of(state: Any) -> dict[str, bytes]:
    """The bits of every array of a state, by its path."""
    state = state.replace(key=jax.random.key_data(state.key))
    return {
        jax.tree_util.keystr(path): np.asarray(leaf).tobytes()
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    }


def outcome(run: Run | ConfigDict, workdir: Path) -> dict[str, Any]:
    """All that a run leaves behind and that must not depend on how often it was stopped."""
    run = create_run(run) if isinstance(run, ConfigDict) else run
    with checkpoints_of(run, workdir) as checkpoints:
        newest, faults = checkpoints.restore_newest()
        assert newest is not None and faults == []
        best = checkpoints.usable_at(newest.progress["patience"]["best_step"])
        best_params = checkpoints.restore(best).state
    report = json.loads((workdir / "report.json").read_text())
    return {
        "step": newest.name.step,
        "state": arrays_of(newest.state),
        "best": arrays_of(best_params),
        "progress": without_times(newest.progress),
        "log": [without_times(line) for line in read_metrics(workdir / "metrics.jsonl")],
        "report": without_times(report),
    }


def without_times(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields but those that a clock has measured."""
    return {name: value for name, value in fields.items() if name not in WALL_CLOCK}


def assert_same_outcome(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """To the last bit."""
    for part, value in expected.items():
        assert found[part] == value, part


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time stamp and content of every file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def flags_of(config: ConfigDict, workdir: Path) -> list[str]:
    """The command line that gives this config."""
    return ["--config=configs/cars.py", f"--workdir={workdir}", *overrides_of(config)]


def overrides_of(config: ConfigDict) -> list[str]:
    """The flags that turn any config into this one."""
    flags = [f"--config.seed={config.seed}"]
    for section in SECTIONS:
        for key, value in config[section].items():
            written = ",".join(map(str, value)) if isinstance(value, tuple) else value
            flags.append(f"--config.{section}.{key}={written}")
    return flags


def start_program(arguments: list[str], cache: Path, **environment: str) -> subprocess.Popen[str]:
    """`python -m numcoke_jax.main` with a compilation cache in `cache`: later starts are fast."""
    settings = {
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
        "JAX_ENABLE_COMPILATION_CACHE": "true",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "numcoke_jax.main", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **settings, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_program(arguments: list[str], cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same, waited for."""
    process = start_program(arguments, cache, **environment)
    out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)
