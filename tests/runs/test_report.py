"""Files of the workdir are whole or absent and read back as written; the environment is described truly."""

import dataclasses
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numcoke_jax.data.graph import NumericGraph, Vocabulary, graph_hash
from numcoke_jax.evaluation.metrics import METRICS
from numcoke_jax.runs.environment import describe_environment, git_revision, package_versions, processor_model
from numcoke_jax.runs.stored import Report, read_report, write_report
from numcoke_jax.runs.workdir import read_vocabulary, write_vocabulary
from numcoke_jax.system import files as files_module
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import read_json, write_json_atomically
from tests.graphs import graph_of

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\n", "Some CPU @ 2.00GHz"),
        ("processor\t: 0\nHardware\t: Some board\n", "Some board"),
        ("model name\t:\n", None),
        (None, None),
    ],
)
def test_the_processor_is_called_as_the_system_calls_it(
    text: str | None, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.processor", lambda: "")
    file = tmp_path / "cpuinfo"
    if text is not None:
        file.write_text(text)
    assert processor_model(file) == name
    monkeypatch.setattr("platform.processor", lambda: "another")
    assert processor_model(file) == (name or "another")


def make_graph(**changes: Any) -> NumericGraph:
    names, facts = Vocabulary(("a", "b", "c"), ("r",), ("x", "y")), ([(0, 0, 1), (1, 0, 2)], [(0, 0, 2)])
    values = [[1, 2], [3, np.nan], [5, 6]]
    graph = graph_of(names, *facts, test=[(2, 0, 1)], negatives=[(1, 0, 0)], values=values)
    return dataclasses.replace(graph, **changes)


# --- JSON files


def test_json_keeps_the_order_of_keys_and_takes_arrays_tuples_and_paths(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_json_atomically(
        path,
        {
            "z": np.float64(0.1),
            "a": (1, np.int32(2)),
            "array": np.array([[1.5, 2.0]]),
            "flag": np.bool_(True),
            "path": Path("runs/x"),
            "none": None,
        },
    )
    assert path.read_bytes() == (
        b'{\n  "z": 0.1,\n  "a": [\n    1,\n    2\n  ],\n'
        b'  "array": [\n    [\n      1.5,\n      2.0\n    ]\n  ],\n'
        b'  "flag": true,\n  "path": "runs/x",\n  "none": null\n}\n'
    )


@settings(max_examples=50)  # every example flushes a file to the disk
@given(
    st.recursive(
        st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES, st.lists
    )
)
def test_json_reads_back_the_same(tmp_path_factory: pytest.TempPathFactory, obj: Any) -> None:
    path = tmp_path_factory.mktemp("json") / "out.json"
    write_json_atomically(path, {"content": obj})
    assert read_json(path) == {"content": obj}


def test_a_path_that_is_not_utf8_reads_back_the_same(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9 \xff")
    write_json_atomically(tmp_path / "out.json", {"data.path": name, "é": 1})
    assert read_json(tmp_path / "out.json") == {"data.path": name, "é": 1}
    assert "é".encode() in (tmp_path / "out.json").read_bytes()


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"valid": {"mrr": float("nan")}}, "out.json: valid.mrr is nan: JSON has no such number"),
        ({"a": [1.0, float("inf")]}, "out.json: a[1] is inf: JSON has no such number"),
        ({"a": np.float32("-inf")}, "out.json: a is -inf: JSON has no such number"),
        ({"a": np.array([0.0, np.nan])}, "out.json: a[1] is nan: JSON has no such number"),
    ],
)
def test_a_number_that_json_lacks_is_refused_by_its_place(tmp_path: Path, obj: Any, message: str) -> None:
    (tmp_path / "out.json").write_text("before")
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        write_json_atomically(tmp_path / "out.json", obj)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out.json": "before"}


def test_a_full_disk_leaves_the_old_file_and_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    write_json_atomically(path, {"old": 1})

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(files_module.os, function, refuse)
            with pytest.raises(UserError) as caught:
                write_json_atomically(path, {"new": 2})
        assert str(caught.value) == (
            f"cannot write {path}: No space left on device; free space or choose another folder"
        )
        assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"], "no temporary file is left"
        assert read_json(path) == {"old": 1}


def test_a_missing_folder_or_a_folder_in_place_of_the_file_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*/absent/out\.json: No such file or directory"):
        write_json_atomically(tmp_path / "absent" / "out.json", {})
    (tmp_path / "out.json").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*out\.json: Is a directory"):
        write_json_atomically(tmp_path / "out.json", {})


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from numcoke_jax.system.files import write_json_atomically\n"
        "for number in range(10**9):\n"
        "    write_json_atomically(sys.argv[1], {'number': number, 'more': ['x' * 100] * 2000})\n"
        "    if number == 0: print('started', flush=True)\n"
    )
    path = tmp_path / "out.json"
    for attempt in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", script, str(path)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None and writer.stdout.readline() == "started\n"
        time.sleep(0.013 * attempt)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        assert len(read_json(path)["more"]) == 2000


def test_reading_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    with pytest.raises(UserError, match=rf"^cannot read {path}: No such file or directory$"):
        read_json(path)
    for content in (b"", b'{"a": 1', b"\xff\xfe", b'{"a": 1}\n{"a": 2}'):
        path.write_bytes(content)
        with pytest.raises(UserError, match=rf"^{path} is damaged: ") as caught:
            read_json(path)
        assert str(caught.value).isprintable()


# --- vocabulary


@settings(max_examples=50)  # every example flushes a file to the disk
@given(st.lists(NAMES, max_size=5), st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=3))
def test_names_of_a_vocabulary_read_back_to_the_letter(
    tmp_path_factory: pytest.TempPathFactory, entities: list[str], relations: list[str], fields: list[str]
) -> None:
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.json"
    vocabulary = Vocabulary(tuple(entities), tuple(relations), tuple(fields))
    scale = {"kind": "minmax", "fields": [{"minimum": [0.1 + 0.2], "maximum": [1e308]}]}
    write_vocabulary(path, vocabulary, scale)
    assert read_vocabulary(path) == (vocabulary, scale)


def test_a_vocabulary_is_readable_text_in_any_locale(tmp_path: Path) -> None:
    """Case A09: written under LC_ALL=C, names with U+2028, U+0085 and combining marks keep their bytes."""
    script = (
        "import sys\n"
        "from numcoke_jax.data.graph import Vocabulary\n"
        "from numcoke_jax.runs.workdir import write_vocabulary\n"
        "names = ('nai\\u0308ve', 'na\\u00efve', 'a\\u2028b', 'a\\u0085b', '\\U0001f697')\n"
        "write_vocabulary(sys.argv[1], Vocabulary(names, ('r',), ()), {})\n"
    )
    path = tmp_path / "vocabulary.json"
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    subprocess.run(
        [sys.executable, "-c", script, str(path)], cwd=REPOSITORY, env=os.environ | locale, check=True
    )
    content = path.read_bytes()
    for name in ("nai\u0308ve", "na\u00efve", "a\u2028b", "a\u0085b", "\U0001f697"):
        assert b'"' + name.encode("utf-8") + b'"' in content
    assert list(json.loads(content)) == ["entities", "relations", "fields", "normalization"]


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"entities": 3}', '{"entities": [1], "relations": [], "fields": []}']
)
def test_another_file_is_no_vocabulary(tmp_path: Path, content: str) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text(content)
    with pytest.raises(UserError, match=rf"^{path} is not a vocabulary written by this program$"):
        read_vocabulary(path)


# --- report


def test_a_report_reads_as_it_was_written(tmp_path: Path) -> None:
    """A whole number is a float too, a metric without facts null; entries that are newer are kept."""
    written = {**finished_report(), "order": None, "newer": [1]}
    write_report(tmp_path, cast(Report, written))
    assert read_report(tmp_path) == written


def finished_report() -> dict[str, Any]:
    metrics = dict.fromkeys(METRICS, 1)
    none = {**dict.fromkeys(METRICS), "count": 0}
    return {"seed": 3, "best_epoch": 20, "seconds": 12, "valid": none, "test": metrics}


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("seed", {"seed": None}),
        ("seconds", {"seconds": "12"}),
        ("test.hits@3", {"test": {"count": 1, "mrr": 1.0, "mr": 1.0, "hits@1": 1.0}}),
        ("valid", {"valid": [1.0]}),
        ("relations.higher.count", {"relations": {"higher": {"mrr": 0.5}}}),
        ("order.narrowest_quarter", {"order": {"all": {"count": 0}, "relations": {}}}),
        ("calibration", {"calibration": 0.5}),
    ],
)
def test_a_report_of_another_form_is_refused_with_the_place(
    tmp_path: Path, place: str, change: dict[str, Any]
) -> None:
    write_json_atomically(tmp_path / "report.json", finished_report() | change)
    refused = rf"report\.json is not a report of this program: {place} is missing or has another form; write"
    with pytest.raises(UserError, match=refused):
        read_report(tmp_path)


def test_a_missing_report_and_a_file_of_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no report\.json: the run is not finished, or this is not a"):
        read_report(tmp_path)
    write_json_atomically(tmp_path / "report.json", [])
    with pytest.raises(UserError, match=r"is not a report of this program; write it again with numcoke eval"):
        read_report(tmp_path)


# --- environment


def test_the_environment_names_versions_device_random_numbers_code_and_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jax.devices()  # XLA ends a process that starts it with a flag that it does not know
    monkeypatch.setenv("XLA_FLAGS", "--xla_some_flag=1")
    environment = describe_environment(make_graph())
    assert environment["packages"]["jax"] == jax.__version__
    assert environment["packages"]["numpy"] == np.__version__
    assert environment["python"] == ".".join(map(str, sys.version_info[:3]))
    assert environment["device_kind"] == jax.devices()[0].device_kind
    assert environment["cpu_cores"] == len(os.sched_getaffinity(0))
    assert environment["processor"] == processor_model()
    assert environment["devices"] == jax.device_count() and environment["processes"] == 1
    assert environment["xla_flags"] == "--xla_some_flag=1"
    assert environment["prng_implementation"] == str(jax.random.key_impl(jax.random.key(0))).split("(")[
        -1
    ].strip("')")
    assert environment["prng_partitionable"] == jax.config.values["jax_threefry_partitionable"]
    assert environment["data_sha256"] == graph_hash(make_graph())
    assert json.loads(json.dumps(environment)) == environment


def test_a_package_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numcoke_jax.runs.environment.PACKAGES", ("jax", "no-such-package"))
    assert package_versions() == {"jax": jax.__version__, "no-such-package": None}


CHANGES: dict[str, dict[str, Any]] = {
    "entity name": {"vocabulary": Vocabulary(("a", "b", "d"), ("r",), ("x", "y"))},
    "name moved to the next list": {"vocabulary": Vocabulary(("a", "b"), ("c", "r"), ("x", "y"))},
    "names joined": {"vocabulary": Vocabulary(("a", "bc"), ("r",), ("x", "y"))},
    "digits that look like a length": {"vocabulary": Vocabulary(("a", "b", "c"), ("r",), ("x1 y",))},
    "field name": {"vocabulary": Vocabulary(("a", "b", "c"), ("r",), ("x", "z"))},
    "fact": {"train": np.array([[0, 0, 2], [1, 0, 2]], np.int32)},
    "fact moved to valid": {
        "train": np.array([[0, 0, 1]], np.int32),
        "valid": np.array([[1, 0, 2], [0, 0, 2]], np.int32),
    },
    "test": {"test": np.array([[2, 0, 0]], np.int32)},
    "negative": {"negatives": np.zeros((0, 3), np.int32)},
    "value": {"values": np.array([[1.0, 2.0], [3.0, 0.0], [5.0, np.nextafter(6.0, 7.0)]])},
    "true zero instead of missing": {"observed": np.ones((3, 2), bool)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_hash_sees_every_change_of_the_data(change: str) -> None:
    assert graph_hash(make_graph(**CHANGES[change])) != graph_hash(make_graph())


def test_the_hash_does_not_see_what_is_no_data() -> None:
    hidden = make_graph(values=np.array([[1.0, 2.0], [3.0, 99.0], [5.0, 6.0]]))  # a cell that is not observed
    other_layout = make_graph(
        train=np.asfortranarray(make_graph().train), values=make_graph().values.astype(">f8")
    )
    for graph in (make_graph(), hidden, other_layout):
        assert graph_hash(graph) == graph_hash(make_graph())


def test_hashes_of_all_changes_differ() -> None:
    hashes = {graph_hash(make_graph(**change)) for change in CHANGES.values()}
    assert len(hashes) == len(CHANGES)


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false"]
    answer = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()


def test_the_git_revision_is_that_of_the_repository_that_tracks_the_file(tmp_path: Path) -> None:
    file = tmp_path / "package" / "module.py"
    file.parent.mkdir()
    file.write_text("one = 1\n")
    assert git_revision(file) is None, "no repository"
    git(tmp_path, "init", "-q")
    assert git_revision(file) is None, "not tracked: such as a package installed inside another project"
    git(tmp_path, "add", "package")
    assert git_revision(file) is None, "no commit yet"
    git(tmp_path, "commit", "-q", "-m", "first")
    revision = git(tmp_path, "rev-parse", "HEAD")
    assert re.fullmatch("[0-9a-f]{40}", revision) and git_revision(file) == revision
    (tmp_path / "notes.txt").write_text("untracked")
    assert git_revision(file) == revision
    file.write_text("one = 2\n")
    assert git_revision(file) == f"{revision}-dirty"


def test_without_git_there_is_no_revision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_revision() is None
