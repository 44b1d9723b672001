"""Compiled functions that are kept: where, how many, and that they change no bit of a result."""

import errno
import json
import os
import subprocess
import sys
import types
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.config.presets import apply_preset
from numcoke_jax.runs.create import create_run
from numcoke_jax.system import compiled
from numcoke_jax.training import programs
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


class Clock:
    """Seconds that pass only when told."""

    now = 10.0

    def __call__(self) -> float:
        return self.now


def told(seconds: float, settings: str = "paper", shapes: str = "60 entities") -> str:
    """What a person is told of a block of so many seconds."""
    clock = Clock()
    with compiled.timed(settings, shapes, clock) as text:
        clock.now += seconds
    return text


FIRST = "compiling: the first start takes a while"


def test_a_number_is_that_of_an_earlier_wait_of_the_same_kind(jaxs: dict[str, Any]) -> None:
    compiled.keep_compiled()
    assert told(71.4) == FIRST
    assert told(5.3) == "loading what was compiled before"
    assert told(4.4) == "loading what was compiled before, about 5 s"
    assert told(1.4) == "loading what was compiled before, about 4 s"
    assert told(1.4) == "loading what was compiled before"  # too short for a number
    assert told(50.2, shapes="70 entities") == "compiling, about 71 s"
    assert told(9.0, shapes="80 entities") == "compiling, about 50 s"
    assert told(9.0, settings="numeric") == FIRST


def test_without_the_cache_all_is_compiled_and_no_time_is_kept(jaxs: dict[str, Any]) -> None:
    assert told(3.0) == told(3.0) == "compiling"
    compiled.keep_compiled()
    assert told(71.0) == FIRST
    jaxs["jax_compilation_cache_dir"] = None  # --no-cache
    assert told(30.0) == told(30.0) == "compiling, about 71 s"


def test_another_version_or_other_flags_compile_anew(
    jaxs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled.keep_compiled()
    told(71.0)
    with monkeypatch.context() as changed:
        changed.setattr(jax, "__version__", "0.0.1")
        assert told(3.0) == FIRST
    with monkeypatch.context() as changed:
        changed.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
        assert told(3.0) == FIRST
    assert told(3.0) == "loading what was compiled before"


def test_what_failed_has_no_time(jaxs: dict[str, Any]) -> None:
    compiled.keep_compiled()
    with pytest.raises(KeyboardInterrupt), compiled.timed("paper", "60 entities"):
        raise KeyboardInterrupt
    assert told(3.0) == FIRST


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a": "long"}', b"\xff", b'{"a": [1.0]}'])
def test_a_damaged_file_of_times_is_begun_anew(jaxs: dict[str, Any], tmp_path: Path, content: bytes) -> None:
    compiled.keep_compiled()
    file = tmp_path / "cache" / "numcoke_jax" / "compiled" / compiled.TIMES_FILE
    file.write_bytes(content)
    assert told(3.0) == FIRST
    assert told(3.0) == "loading what was compiled before"
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_the_newest_times_are_kept(jaxs: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MOST_TIMES", 4)  # two for each program
    compiled.keep_compiled()
    assert [told(9.0, settings=name) for name in ("a", "b", "c")] == [FIRST] * 3
    assert told(9.0, settings="c") == "loading what was compiled before"
    assert told(9.0, settings="a") == FIRST


def test_with_dropped_functions_go_the_times_of_loading(
    jaxs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled.keep_compiled()
    told(71.0)
    (tmp_path / "cache" / "numcoke_jax" / "compiled" / "function").write_bytes(b"12345")
    jaxs["jax_compilation_cache_dir"] = None
    monkeypatch.setattr(compiled, "MOST_BYTES", 4)
    compiled.keep_compiled()
    assert told(71.0) == FIRST


def test_a_file_that_was_cut_short_is_removed_and_the_older_ones_stay(
    jaxs: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "cache" / "numcoke_jax" / "compiled"
    folder.mkdir(parents=True)
    whole = zlib.compress(b"function" * 9)
    contents = {"torn": whole[:-1], "empty": b"", "whole": whole, "older": whole[:9], "seconds": b"{}"}
    for age, (name, content) in enumerate(contents.items()):
        file = folder / f"{name}-cache" if name != "seconds" else folder / compiled.TIMES_FILE
        file.write_bytes(content)
        os.utime(file, (100 - age, 100 - age))
    compiled.keep_compiled()
    left = {"older-cache", "seconds.json", "whole-cache"}  # no older one is looked at: it would take long
    assert {path.name for path in folder.iterdir()} == left
    (folder / "new-cache").write_bytes(compiled.OTHERWISE_PACKED + b"torn or not")
    compiled.keep_compiled()
    assert {path.name for path in folder.iterdir()} == {*left, "new-cache"}


def test_a_full_disk_leaves_no_part_of_the_times(
    jaxs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    compiled.keep_compiled()
    monkeypatch.setattr(compiled.os, "replace", full)
    assert told(3.0) == FIRST
    assert list((tmp_path / "cache" / "numcoke_jax" / "compiled").iterdir()) == []


class Traced:
    """A function that counts how often Python runs it."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, tree: dict[str, Any], key: Any) -> Any:
        self.times += 1
        return {"sum": tree["a"] + tree["b"]}, [jax.random.normal(key, tree["a"].shape)]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder in which traces are kept, for JAX as it is, which keeps nothing itself."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "numcoke_jax" / "compiled"
    kept.mkdir(parents=True)
    monkeypatch.setattr(compiled, "_in_use", lambda folder: folder == kept)
    return kept


def numbers(shape: tuple[int, ...] = (3,)) -> tuple[dict[str, Any], Any]:
    return {"a": jnp.full(shape, 0.1), "b": jnp.arange(3.0)}, jax.random.key(1)


def test_a_trace_is_made_once_and_gives_the_bits_of_the_function(folder: Path) -> None:
    function = Traced()
    expected = jax.jit(function)(*numbers())
    for _ in range(3):  # as in three processes: nothing is left of an earlier trace
        jax.clear_caches()
        found = jax.jit(compiled.kept_trace(function, "paper"), donate_argnums=0)(*numbers())
        assert str(jax.tree.structure(found)) == str(jax.tree.structure(expected))
        assert all(map(np.array_equal, jax.tree.leaves(found), jax.tree.leaves(expected)))
    assert function.times == 2
    assert [path.suffix for path in folder.iterdir()] == [""] and len(list(folder.glob("*-trace"))) == 1


def test_other_settings_shapes_flags_or_sources_are_traced_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = Traced()

    def traced_anew(settings: str = "paper", shape: tuple[int, ...] = (3,)) -> bool:
        before = function.times
        jax.jit(compiled.kept_trace(function, settings))(*numbers(shape))
        return function.times > before

    assert traced_anew() and not traced_anew()
    assert traced_anew(settings="numeric") and traced_anew(shape=(2, 3))
    monkeypatch.setattr(compiled, "_flags", lambda: [("jax_default_matmul_precision", "highest")])
    assert traced_anew()
    monkeypatch.setattr(compiled, "_sources", lambda: "of another version")
    assert traced_anew() and not traced_anew()
    assert len(list(folder.glob("*-trace"))) == 5


def test_settings_of_jax_are_looked_at_but_those_of_its_files_are_not() -> None:
    names = {name for name, _ in compiled._flags()}
    assert {"jax_enable_x64", "jax_default_matmul_precision", "jax_threefry_partitionable"} <= names
    assert not any("cache" in name for name in names)


def test_the_sources_of_the_package_and_versions_are_hashed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "package"
    (package / "system").mkdir(parents=True)
    monkeypatch.setattr(compiled, "__file__", str(package / "system" / "compiled.py"))
    (package / "model.py").write_text("1")

    def sources() -> str:
        return compiled._sources.__wrapped__()

    found = [sources(), sources()]
    assert found[0] == found[1]
    (package / "model.py").write_text("2")
    found.append(sources())
    (package / "model.py").rename(package / "other.py")
    found.append(sources())
    monkeypatch.setattr(compiled.importlib.metadata, "version", lambda package: f"{package} 0.0.1")
    found.append(sources())
    assert len(set(found)) == 4


@pytest.mark.parametrize(
    "damage", [lambda trace: trace[:-1], lambda _: b"", lambda trace: trace[:40] + b"x" * 9]
)
def test_a_damaged_trace_is_made_again(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    function = Traced()
    for times in (1, 2, 2):
        jax.jit(compiled.kept_trace(function, "paper"))(*numbers())
        assert function.times == times
        (trace,) = folder.iterdir()
        if times == 1:
            trace.write_bytes(damage(trace.read_bytes()))


def test_a_full_disk_leaves_no_part_of_a_trace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(compiled.os, "replace", full)
    jax.jit(compiled.kept_trace(Traced(), "paper"))(*numbers())
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("preset", ["distmult", pytest.param("paper", marks=pytest.mark.slow), "rule"])
def test_a_step_from_a_kept_trace_gives_the_bits_of_one_without(folder: Path, preset: str) -> None:
    """Parameters, moments and losses; of the paper's model and of one that reads facts, too."""
    config = config_of(write_folder(folder.parent / "graph", entities=9))
    apply_preset(config, preset)
    config.model.dim, config.model.attribute_dim, config.query.filters = 12, 20, 2
    found, files = [], []
    for kept in (False, True, True):
        programs._programs.cache_clear()
        jax.clear_caches()
        with pytest.MonkeyPatch.context() as patch:
            if not kept:
                patch.setattr(compiled, "_in_use", lambda folder: False)
            run = create_run(config)
            state, loss = run.programs.step(run.random_state(), run.batch(0), run.literals)
        found.append([np.asarray(leaf) for leaf in jax.tree.leaves((state.replace(key=None), loss))])
        files.append({path.name for path in folder.glob("*-trace")})
    programs._programs.cache_clear()
    assert not files[0] and files[1] == files[2] and len(files[1]) >= 2
    for other in found[1:]:
        assert all(map(np.array_equal, found[0], other))


@pytest.mark.slow  # three processes
def test_the_results_are_the_same_with_and_without(tmp_path: Path) -> None:
    """The report and the log, first compiled, then read from the folder, then without it."""
    config = numcoke(config_of(write_folder(tmp_path / "graph"), train__epochs=2))
    environment = os.environ | {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "JAX_ENABLE_COMPILATION_CACHE": "true",
    }
    found, folder = [], tmp_path / "cache" / "numcoke_jax" / "compiled"
    for name, flags in (("compiled", []), ("read", []), ("without", ["--no-cache"])):
        command = [sys.executable, "-m", "numcoke_jax.main", *flags_of(config, tmp_path / name), *flags]
        subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, check=True)
        entries = sorted(folder.glob(compiled.ENTRY), key=lambda path: path.stat().st_mtime)
        assert all(zlib.decompress(entry.read_bytes()) for entry in entries)
        if name == "compiled":  # and the next process finds one cut short, which it writes again
            entries[-1].write_bytes(entries[-1].read_bytes()[:-100])
        report = json.loads((tmp_path / name / "report.json").read_text())
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        found.append((without_times(report), [without_times(json.loads(line)) for line in lines]))
    assert found[0] == found[1] == found[2]
