"""Bad input to every command: exit code 2, one line on stderr, no traceback, nothing written."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from experiments import literal_use, order_accuracy, seeds
from experiments.benchmark import step
from numcoke_jax.cli import main
from numcoke_jax.config.schema import KEYS
from tests.tiny_runs import REPOSITORY, run_program, write_folder

Command = Callable[[list[str]], int]
CONFIG = f"--config={REPOSITORY / 'configs' / 'cars.py'}"
LONG = "x" * 5000

# What stands where a path is expected; `bad` holds the first three.
PATHS = {
    "missing": "bad/missing",
    "a folder": "bad/folder",
    "an empty file": "bad/empty",
    "below a file": "bad/empty/below",
    "noise": "bad/noise.zip",
    "too long": LONG,
    "a null character": "a\0b",
    "a closed file": "bad/closed",
}
FOLDERS = ("a folder", "an empty folder")

# Commands by the argument that a path is put into; {} is the path.
COMMANDS: dict[str, tuple[Command, Sequence[str]]] = {
    "train, config": (main.main, ["--config={}"]),
    "train, data": (main.main, [CONFIG, "--config.data.path={}"]),
    "train, flagfile": (main.main, [CONFIG, "--flagfile={}"]),
    "eval, config": (main.main, ["--mode=eval", "--config={}"]),
    "eval, workdir": (main.main, ["--mode=eval", CONFIG, "--config.data.path=graph", "--workdir={}"]),
    "data.check": (main.main, ["data", "check", "{}"]),
    "data.build": (main.main, ["data", "build", "--table={}", "--name=Name", "--out=written"]),
    "data.build, csv": (main.main, ["data", "build", "--table={}.csv", "--name=Name", "--out=written"]),
    "data.rdf": (main.main, ["data", "rdf", "{}", "--out=written"]),
    "data.rdf, ttl": (main.main, ["data", "rdf", "{}.ttl", "--out=written"]),
    "seeds, config": (seeds.main, ["--config={}", "--out=written"]),
    "seeds, data": (seeds.main, [CONFIG, "--config.data.path={}", "--out=written"]),
    "literal_use, config": (literal_use.main, ["--config={}", "--out=written"]),
    "literal_use, data": (literal_use.main, [CONFIG, "--data={}", "--out=written"]),
    "order_accuracy": (order_accuracy.main, ["--workdir={}"]),
}
# A path there that may well be empty or a folder: no mistake.
ALLOWED = {("train, flagfile", "an empty file")}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with bad things in it and one good graph."""
    bad = tmp_path / "bad"
    (bad / "folder").mkdir(parents=True)
    (bad / "empty").touch()
    (bad / "empty.csv").touch()
    (bad / "empty.ttl").touch()
    for name in ("folder.csv", "folder.ttl"):
        (bad / name).mkdir()
    for name in ("noise.zip", "noise.zip.csv", "noise.zip.ttl"):
        (bad / name).write_bytes(bytes(range(256)) * 9)
    for name in ("closed", "closed.csv", "closed.ttl"):
        (bad / name).write_text("a\tb\tc\n")
        (bad / name).chmod(0)
    write_folder(tmp_path / "graph")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listing(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path.relative_to(folder)), path.lstat().st_mtime_ns) for path in folder.rglob("*"))


def refused(command: Command, arguments: list[str], place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line about arguments that must be refused."""
    before = listing(place)
    assert command(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.endswith("\n") and captured.err.count("\n") == 1, captured.err
    line = captured.err[:-1]
    assert line.isprintable() and "Traceback" not in line and len(line) > 20
    assert listing(place) == before, "nothing is written"
    return line


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_path_that_is_not_what_is_needed(
    name: str, path: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if path == "a closed file" and os.geteuid() == 0:
        pytest.skip("root may read every file: permissions cannot be tested")
    if path == "a null character" and not name.endswith((", config", ", data")):
        pytest.skip("no shell can give this; a config file can")
    if (name, path) in ALLOWED:
        pytest.skip("this is allowed there")
    command, arguments = COMMANDS[name]
    filled = [argument.format(PATHS[path]) for argument in arguments]
    refused(command, filled, place, capsys)


@pytest.mark.parametrize("kind", ["empty files", "folders for files", "noise in files", "no training facts"])
@pytest.mark.parametrize("name", ["train, data", "seeds, data", "literal_use, data"])
def test_a_graph_folder_with_bad_files(
    kind: str, name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = place / "bad" / "graph"
    graph.mkdir()
    for file in ("train.txt", "valid.txt", "test.txt"):
        if kind == "folders for files":
            (graph / file).mkdir()
        else:
            content = bytes(range(256)) * 9 if kind == "noise in files" else b""
            facts = kind == "no training facts" and file != "train.txt"
            (graph / file).write_bytes(b"a\tr\tb\n" if facts else content)
    command, arguments = COMMANDS[name]
    line = refused(command, [argument.format("bad/graph") for argument in arguments], place, capsys)
    assert "train.txt" in line or "train" in line


@pytest.mark.parametrize("path", ["bad/empty", "bad/empty/below", LONG])
@pytest.mark.parametrize("name", ["train", "seeds", "literal_use", "data.build", "data.rdf"])
def test_a_place_to_write_that_cannot_be_one(
    name: str, path: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "table.csv").write_text("Name,Weight\na,1\nb,2\nc,3\n")
    (place / "facts.ttl").write_text("<http://e/a> <http://e/r> <http://e/b> .\n")
    data = "--config.data.path=graph"
    commands: dict[str, tuple[Command, list[str]]] = {
        "train": (main.main, [CONFIG, data, f"--workdir={path}"]),
        "seeds": (seeds.main, [CONFIG, data, f"--out={path}"]),
        "literal_use": (literal_use.main, [CONFIG, data, f"--out={path}"]),
        "data.build": (main.main, ["data", "build", "--table=table.csv", "--name=Name", f"--out={path}"]),
        "data.rdf": (main.main, ["data", "rdf", "facts.ttl", f"--out={path}"]),
    }
    refused(*commands[name], place, capsys)


@pytest.mark.parametrize("key", KEYS)
def test_a_huge_a_negative_and_a_wrong_value_of_every_key(
    key: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts may be anything; those of paths are tried above."""
    numbers = [str(10**30), str(-(10**30)), "[1, {}"]
    for value in [LONG] if KEYS[key].allowed.kind == "str" else numbers:
        line = refused(main.main, [CONFIG, f"--config.{key}={value}"], place, capsys)
        assert line.startswith(f"error: {key}=") or KEYS[key].allowed.kind == "str"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--entities=0"],
        ["--dim=-1"],
        ["--queries=7"],
        ["--repeats=0"],
        ["--fields=many"],
        ["--relations=0"],
        ["--json="],
        ["--json=."],
        ["--what"],
    ],
)
def test_wrong_sizes_of_the_benchmark(
    arguments: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(step.main, arguments, place, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--mode=eval"], ["--config.data.path=bad/missing"], ["--config=bad"]])
def test_the_program_itself_is_as_polite(arguments: list[str], place: Path) -> None:
    before = listing(place)
    run = run_program([CONFIG, f"--workdir={place / 'run'}", *arguments], place.parent / "cache")
    assert run.returncode == 2 and run.stderr.startswith("error: ") and run.stderr.count("\n") == 1
    assert listing(place) == before
