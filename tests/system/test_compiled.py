"""Compiled functions that are kept: where, how many, and that they change no bit of a result."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import jax
import pytest

from numcoke_jax.system import compiled
from tests.tiny_runs import REPOSITORY, config_of, flags_of, numcoke, without_times, write_folder


@pytest.fixture
def jaxs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """JAX's settings, of which the test's own JAX does not hear."""
    values = {"jax_compilation_cache_dir": None, "jax_enable_compilation_cache": True}
    monkeypatch.setattr(jax, "config", types.SimpleNamespace(values=values, update=values.__setitem__))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return values


def test_the_folder_is_the_users_and_its_oldest_files_go(
    jaxs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "MOST_BYTES", 10)
    folder = tmp_path / "cache" / "numcoke_jax" / "compiled"
    folder.mkdir(parents=True)
    for age, name in enumerate(("new", "old", "oldest")):
        (folder / name).write_bytes(b"12345")
        os.utime(folder / name, (100 - age, 100 - age))
    compiled.keep_compiled()
    assert jaxs["jax_compilation_cache_dir"] == str(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["new", "old"]


@pytest.mark.parametrize(
    ("name", "value"), [("jax_compilation_cache_dir", "elsewhere"), ("jax_enable_compilation_cache", False)]
)
def test_jaxs_own_settings_come_first(jaxs: dict[str, Any], tmp_path: Path, name: str, value: object) -> None:
    jaxs[name] = value
    before = dict(jaxs)
    compiled.keep_compiled()
    assert jaxs == before and list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_done_without(jaxs: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    compiled.keep_compiled()
    assert jaxs["jax_compilation_cache_dir"] is None


@pytest.mark.slow  # three processes
def test_the_results_are_the_same_with_and_without(tmp_path: Path) -> None:
    """The report and the log, first compiled, then read from the folder, then without it."""
    config = numcoke(config_of(write_folder(tmp_path / "graph"), train__epochs=2))
    environment = os.environ | {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "JAX_ENABLE_COMPILATION_CACHE": "true",
    }
    found = []
    for name, flags in (("compiled", []), ("read", []), ("without", ["--no-cache"])):
        command = [sys.executable, "-m", "numcoke_jax.main", *flags_of(config, tmp_path / name), *flags]
        subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, check=True)
        assert list((tmp_path / "cache" / "numcoke_jax" / "compiled").iterdir())
        report = json.loads((tmp_path / name / "report.json").read_text())
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        found.append((without_times(report), [without_times(json.loads(line)) for line in lines]))
    assert found[0] == found[1] == found[2]
