"""A finished run and finished checkpoints; each test has a copy of its own."""

import shutil
from pathlib import Path

import pytest

from numcoke_jax.runs.create import create_run
from tests.saved_states import PROGRESS, opened, state_at
from tests.straight_runs import Straight, straight_run
from tests.tiny_runs import config_of, write_folder


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("data") / "graph")


@pytest.fixture(scope="session")
def straight(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Straight:
    return straight_run(create_run(config_of(data)), tmp_path_factory.mktemp("straight"))


@pytest.fixture
def finished(straight: Straight, tmp_path: Path) -> Path:
    """A copy of the finished run's folder."""
    return shutil.copytree(straight.workdir, tmp_path / "run")


@pytest.fixture(scope="session")
def saved_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    with opened(folder) as checkpoints:
        for step in (10, 20):
            checkpoints.save(state_at(step), PROGRESS, best_step=10)
    return folder


@pytest.fixture
def saved(saved_once: Path, tmp_path: Path) -> Path:
    """Checkpoints of the steps 10 and 20."""
    return shutil.copytree(saved_once, tmp_path / "checkpoints")
