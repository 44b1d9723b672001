"""The folder of a run: one process, one config, one vocabulary; archived, never deleted."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numcoke_jax.config.schema import default_config
from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.data.literals import LiteralScale
from numcoke_jax.runs.workdir import (
    RunIdentity,
    archive,
    check_config_of,
    check_vocabulary_of,
    config_differences,
    exclusive,
    flat_config,
    keep_config,
    keep_vocabulary,
)
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.termination import Termination
from tests.disks import small_disk
from tests.tiny_runs import REPOSITORY, snapshot

HOLD = """
import pathlib, sys
from numcoke_jax.runs.workdir import exclusive
with exclusive(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def vocabulary() -> tuple[Vocabulary, LiteralScale]:
    return names("anvil", "kiln"), scale_of([[1.0], [3.0]])


def names(*entities: str) -> Vocabulary:
    return Vocabulary(entities, ("heavier_than",), ("mass",))


def scale_of(values: Any) -> LiteralScale:
    values = np.asarray(values, np.float64)
    vocabulary = names(*(f"e{row}" for row in range(len(values))))
    none = np.zeros((0, 3), np.int32)
    graph = NumericGraph(vocabulary, none, none, none, none, values, np.ones(values.shape, bool))
    return LiteralScale.fit(graph, "minmax")


def test_two_processes_cannot_hold_one_folder(tmp_path: Path) -> None:
    """Two handles of one process exclude each other as two processes do; so does another process."""
    workdir = tmp_path / "run"
    message = f"--workdir={workdir}: another process works there; wait for it or choose another folder"
    with exclusive(workdir), pytest.raises(UserError) as error, exclusive(workdir):
        pass
    assert str(error.value) == message
    command = [sys.executable, "-c", HOLD, str(workdir)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=REPOSITORY, **pipes) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(UserError) as error, exclusive(workdir):
            pass
        assert str(error.value) == message
        holder.kill()  # the system releases what a killed process held
        holder.wait()
    with exclusive(workdir):
        pass


def test_holding_a_folder_changes_no_time_stamp(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        pass
    before = snapshot(tmp_path)
    with exclusive(tmp_path):
        pass
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("kind", ["file", "below a file", "too long"])
def test_a_folder_that_cannot_be_made_is_one_message(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    workdir = {"file": tmp_path / "file", "below a file": tmp_path / "file" / "run"}.get(kind)
    workdir = workdir or tmp_path / ("x" * 300)
    with (
        pytest.raises(UserError, match=r"--workdir=.*: cannot write there \(.*\); choose"),
        exclusive(workdir),
    ):
        pass


def test_a_read_only_folder_is_one_message(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for workdir in (disk, disk / "run"):
            message = r"cannot write there \(Read-only file system\)"
            with pytest.raises(UserError, match=message), exclusive(workdir):
                pass


def test_a_file_system_without_locks_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    message = r"its file system does not support locks \(No locks available\)"
    with pytest.raises(UserError, match=message), exclusive(tmp_path):
        pass


def run_in(workdir: Path, content: str = "{}") -> Path:
    (workdir / "checkpoints" / "10").mkdir(parents=True)
    (workdir / "config.json").write_text(content)
    return workdir


def test_archiving_moves_a_run_aside_and_deletes_nothing(tmp_path: Path) -> None:
    first = run_in(tmp_path / "runs" / "cars", "first")
    assert archive(first) == tmp_path / "runs" / "cars.old-1"
    assert not first.exists()
    run_in(first, "second")
    assert archive(first) == tmp_path / "runs" / "cars.old-2"
    archived = sorted(path.parent.name + ":" + path.read_text() for path in tmp_path.rglob("config.json"))
    assert archived == ["cars.old-1:first", "cars.old-2:second"]


@pytest.mark.parametrize("left", ["metrics.jsonl", "report.json"])
def test_what_is_left_of_a_run_is_archived_too(tmp_path: Path, left: str) -> None:
    """A training refuses such a folder, and names --overwrite as the way out."""
    (tmp_path / "cars").mkdir()
    (tmp_path / "cars" / left).write_text("{}")
    assert archive(tmp_path / "cars") == tmp_path / "cars.old-1"


def test_a_folder_without_a_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    assert archive(tmp_path) is None
    assert archive(tmp_path / "nothing") is None
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_relative_path_is_archived_beside_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_in(Path("run"))
    assert archive(Path("./run")) == tmp_path / "run.old-1"


def test_a_link_is_renamed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    run_in(tmp_path / "disk2" / "run")
    (tmp_path / "run").symlink_to(tmp_path / "disk2" / "run")
    assert archive(tmp_path / "run") == tmp_path / "run.old-1"
    assert (tmp_path / "run.old-1").is_symlink() and (tmp_path / "disk2" / "run" / "config.json").exists()
    with exclusive(tmp_path / "run"):
        assert not (tmp_path / "run").is_symlink()


def test_a_run_that_another_process_works_on_is_not_moved(tmp_path: Path) -> None:
    workdir = run_in(tmp_path / "run")
    with exclusive(workdir), pytest.raises(UserError, match="another process works there"):
        archive(workdir)
    assert workdir.exists()


@pytest.mark.parametrize("below", ["", "checkpoints"])
def test_the_folder_that_the_program_runs_in_is_not_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    workdir = run_in(tmp_path / "run")
    monkeypatch.chdir(workdir / below)
    with pytest.raises(UserError, match=f"--overwrite cannot move {workdir}: the program runs inside it"):
        archive(workdir)


def test_a_mount_point_is_not_moved(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        run_in(disk)
        with pytest.raises(UserError, match=r"cannot move .* to disk.old-1 \(it is a mount point\)"):
            archive(disk)
        assert (disk / "config.json").exists()


def test_the_config_of_a_run_is_kept_and_compared(tmp_path: Path) -> None:
    config = default_config()
    check_config_of(tmp_path, config)
    keep_config(tmp_path, config)
    before = snapshot(tmp_path)
    check_config_of(tmp_path, config)
    keep_config(tmp_path, config)
    assert snapshot(tmp_path) == before, "an equal one is not written again"
    config.score.margin, config.seed = 3.0, 4
    with pytest.raises(UserError) as error:
        check_config_of(tmp_path, config)
    assert str(error.value) == (
        f"{tmp_path / 'config.json'}: this workdir holds a run with another config (score.margin=9.0 there, "
        "3.0 now; seed=0 there, 4 now); give those values, another --workdir, or --overwrite to archive that "
        "run"
    )
    assert snapshot(tmp_path) == before


def test_many_differences_are_counted(tmp_path: Path) -> None:
    keep_config(tmp_path, default_config())
    config = default_config()
    config.model.dim = config.model.attribute_dim = config.experts.hidden = config.attention.hidden = 9
    config.okcl.k, config.experts.count, config.score.norm = 9, 9, 2
    with pytest.raises(UserError, match=r"now and 2 more\)"):
        check_config_of(tmp_path, config)


def test_bookkeeping_may_change_when_a_run_goes_on() -> None:
    before, now = flat_config(default_config()), default_config()
    now.train.patience, now.train.debug_nans, now.eval.chunk = 99, True, 7
    now.checkpoint.keep, now.checkpoint.every_seconds, now.data.path, now.data.dir = 9, 1.0, "there", "here"
    now.train.epochs = 2 * now.train.epochs
    assert config_differences(before, flat_config(now)) == []


@pytest.mark.parametrize(
    ("schedule", "before", "now", "allowed"),
    [
        ("constant", 4, 6, True),
        ("constant", 6, 4, True),
        ("cosine", 4, 6, False),  # the learning rates of the first 4 epochs differ
        (
            "constant",
            3,
            6,
            False,
        ),  # the last, irregular validation of the shorter run is not the longer one's
        ("constant", 6, 3, False),
        ("constant", 0, 6, False),  # the graph decides, and how is not at hand
        ("constant", 6, 0, False),
    ],
)
def test_epochs_may_change_where_the_shorter_run_is_the_beginning_of_the_longer(
    schedule: str, before: int, now: int, allowed: bool
) -> None:
    def config(epochs: int) -> dict[str, Any]:
        config = default_config()
        config.train.schedule, config.train.epochs, config.train.eval_every_epochs = schedule, epochs, 2
        return flat_config(config)

    found = config_differences(config(before), config(now))
    assert found == ([] if allowed else [f"train.epochs={before} there, {now} now"])


def test_a_key_that_came_after_a_run_was_at_its_default_there() -> None:
    before, now = flat_config(default_config()), flat_config(default_config())
    del before["fusion.kind"]
    assert config_differences(before, now) == []
    assert config_differences(before, now | {"fusion.kind": "sum"}) == ["fusion.kind=gate there, sum now"]


def test_a_key_that_is_gone_is_a_difference() -> None:
    now = flat_config(default_config())
    assert config_differences(now | {"fusion.old": 1}, now) == ["fusion.old=1 there, absent now"]


@pytest.mark.parametrize("content", ["{", "\0", "", '{"a": 1', "[1, 2]", "3", "{}", '{"a": 1}'])
def test_a_damaged_config_is_one_message_with_what_to_do(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(
        UserError, match="config.json is (damaged: .*; delete config.json: |not a config written by)"
    ):
        check_config_of(tmp_path, default_config())


def test_names_and_scales_are_kept_and_compared(
    tmp_path: Path, vocabulary: tuple[Vocabulary, LiteralScale]
) -> None:
    known, scale = vocabulary
    check_vocabulary_of(tmp_path, known, scale)
    keep_vocabulary(tmp_path, known, scale)
    before = snapshot(tmp_path)
    check_vocabulary_of(tmp_path, known, scale)
    keep_vocabulary(tmp_path, known, scale)
    assert snapshot(tmp_path) == before
    for other, other_scale, found in (
        (names("anvil", "kilo"), scale, "entities: number 1 was 'kiln', is 'kilo'"),
        (names("anchor", "anvil", "kiln"), scale, "entities: number 0 was 'anvil', is 'anchor'"),
        (names("anvil", "kiln", "vase"), scale, "entities: there were 2, there are 3"),
        (known, scale_of([[1.0], [4.0]]), "their scale differs"),
    ):
        with pytest.raises(UserError, match=found):
            check_vocabulary_of(tmp_path, other, other_scale)


def test_a_damaged_vocabulary_is_one_message_with_what_to_do(
    tmp_path: Path, vocabulary: tuple[Vocabulary, LiteralScale]
) -> None:
    keep_vocabulary(tmp_path, *vocabulary)
    path = tmp_path / "vocabulary.json"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match="vocabulary.json is damaged: .*; delete vocabulary.json: the check"):
        check_vocabulary_of(tmp_path, *vocabulary)


def test_an_identity_survives_json() -> None:
    identity = RunIdentity(flat_config(default_config()), "ab" * 32)
    stored = json.loads(json.dumps(identity.to_json()))
    assert identity.differences(stored) == []
    other = RunIdentity({**identity.config, "model.dim": 7}, "cd" * 32)
    assert other.differences(stored) == [
        "the facts or values it was trained on: sha256 abababababab... there, cdcdcdcdcdcd... now",
        "model.dim=100 there, 7 now",
    ]


def test_outside_the_main_thread_nothing_waits_for_signals() -> None:
    """A program that embeds the training in a thread keeps its own handlers."""
    seen = []

    def work() -> None:
        with Termination().watching() as termination:
            seen.append(termination.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_a_path_that_is_no_text_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """Bytes of a path that the locale cannot read reach Python as lone surrogates, on which Orbax fails."""
    refused = pytest.raises(UserError, match="r.udcfcn: the path is not UTF-8 here; choose another folder")
    with refused, exclusive(tmp_path / "r\udcfcn"):
        pass
    assert list(tmp_path.iterdir()) == []
