"""The check command: exit codes, one line on stderr, width, machine output, hostile names."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from numcoke_jax.cli import check
from numcoke_jax.cli.main import main

FILES = {"train.txt": "a\tr\tb\nb\tr\tc\n", "valid.txt": "a\tr\tc\n", "test.txt": "c\tr\ta\n"}


def make_folder(path: Path, literals: str = "a\tmass\t1\nb\tmass\t-2.5\n", **changes: str | None) -> Path:
    (path / "literals").mkdir(parents=True)
    (path / "literals" / "numerical_literals.txt").write_text(literals, encoding="utf-8")
    for name, content in FILES.items():
        changed = changes.get(name.removesuffix(".txt"), content)
        if changed is not None:
            (path / name).write_text(changed, encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["data", "check", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_good_folder_exits_0_and_shows_counts_and_ranges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, make_folder(tmp_path / "graph"))
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert ["train", "valid", "test"] in rows
    assert ["facts", "2", "1", "1"] in rows
    assert ["also", "in", "train", "0", "0"] in rows
    assert ["also", "in", "valid", "0"] in rows
    assert ["mass", "2", "66.7%", "-2.5", "1"] in rows
    assert "3 entities, 1 relation, 1 numeric field, 0 negatives" in out
    assert "- literals: 1 entity (c) without any value" in out
    assert out.endswith("No errors.\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": "a r b\n"}, "train.txt:1: expected 3 tab-separated fields, found 1"),
        ({"valid": None}, "missing valid.txt"),
        ({"train": ""}, "train.txt holds no facts"),
        ({"literals": "a\tmass\theavy\n"}, "numerical_literals.txt:1:heavy: not a number"),
    ],
)
def test_faulty_data_exit_1_and_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str | None], message: str
) -> None:
    folder = make_folder(tmp_path / "graph", **changes)  # type: ignore[arg-type]
    code, out, err = run(capsys, folder)
    assert (code, err) == (1, "")
    assert message in " ".join(out.split())
    assert out.endswith("The data have errors.\n")
    code, out, err = run(capsys, folder, "--json")
    assert (code, err) == (1, "")
    report = json.loads(out)
    assert report["ok"] is False
    assert any(message in error for error in report["errors"])


def test_bad_values_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_folder(tmp_path / "graph", literals="a\tmass\theavy\nb\tmass\t2\n")
    code, out, _ = run(capsys, folder, "--bad-values=missing", "--json")
    report = json.loads(out)
    assert (code, report["ok"], report["literals_bad"]) == (0, True, 1)


def test_a_graph_with_errors_in_literals_alone_still_shows_its_facts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, make_folder(tmp_path / "graph", literals="a\tmass\t1\nb\tmass\tnan\n"))
    assert code == 1
    assert ["facts", "2", "1", "1"] in [line.split() for line in out.splitlines()]
    assert ["mass", "1", "33.3%", "1", "1"] in [line.split() for line in out.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing: DIR"),
        (["{tmp}/absent"], "absent: no such folder; expected one with train.txt, valid.txt and test.txt"),
        (["{tmp}/empty"], "empty: no graph here, train.txt, valid.txt and test.txt are all missing"),
        (["{tmp}/file"], "file: expected a folder or a zip archive of one (File is not a zip file)"),
        (
            ["{tmp}/t.csv"],
            "of a table, numcoke data build --table={tmp}/t.csv --name=COLUMN --out=DIR writes",
        ),
        (["{tmp}/graph", "--jason"], "--jason is not a flag of numcoke data check; did you mean --json?"),
        (["{tmp}/graph", "--bad-values=skip"], "--bad-values: invalid choice: 'skip'"),
    ],
)
def test_wrong_arguments_and_paths_exit_2_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    make_folder(tmp_path / "graph")
    (tmp_path / "empty").mkdir()
    for name in ("file", "t.csv"):
        (tmp_path / name).write_text("text")
    code, out, err = run(capsys, *(argument.format(tmp=tmp_path) for argument in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1
    assert message.format(tmp=tmp_path) in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here to stand for a full disk")
@pytest.mark.parametrize("option", ["--json", "--bad-values=error"])
def test_a_full_disk_ends_in_one_line(tmp_path: Path, option: str) -> None:
    command = [sys.executable, "-m", "numcoke_jax.data.check", str(make_folder(tmp_path / "graph")), option]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: cannot write the report (No space left on device)\n"


def test_long_and_hostile_names_fit_80_columns_and_run_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = [
        "[bold]x[/bold]",
        "[/m/02]",
        ":smile:",
        "\x1b[31mred",
        "naïve" * 30,
        "二" * 60,
        "\u202eflipped",
    ]
    train = "".join(f"{name}\tr\t{name} \n" for name in hostile)
    literals = "".join(f"{name}\t{name}\t{number}e300\n" for number, name in enumerate(hostile, 1))
    code, out, err = run(capsys, make_folder(tmp_path / "graph", literals=literals, train=train))
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[bold]x[/bold]" in out
    assert ":smile:" in out
    wide = [
        sum(2 if "\u2e80" < character < "\ua000" else 1 for character in line) for line in out.split("\n")
    ]
    assert max(wide) <= 80


def test_large_counts_fit_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_folder(tmp_path / "graph")
    _, report = check.inspect_folder(folder)
    for name in ("rows", "repeated", "facts", "self_loops", "unseen_facts"):
        setattr(report, name, dict.fromkeys(("train", "valid", "test"), 10_000_000))
    report.overlaps = dict.fromkeys(report.overlaps, 10_000_000)
    check.print_report(check.Console(), str(folder), report)
    out = capsys.readouterr().out
    assert out.split("Findings:")[0].count("10,000,000") == 3 * 5 + 3
    assert max(map(len, out.splitlines())) <= 80


def test_a_field_that_few_have_is_not_shown_as_one_that_nobody_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on the screen of a training: 100% and 0% mean all and none."""
    folder = make_folder(tmp_path / "graph")
    _, report = check.inspect_folder(folder)
    report.num_entities, few, most = 20_000, report.fields[0], report.fields[0]
    report.fields = (dataclasses.replace(few, observed=1), dataclasses.replace(most, observed=19_999))
    check.print_report(check.Console(), str(folder), report)
    out = capsys.readouterr().out.split()
    assert "0.1%" in out and "99.9%" in out


def test_json_holds_every_count_and_cuts_long_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = "".join(f"new{number:03}\tr\ta\n" for number in range(150))
    folder = make_folder(tmp_path / "graph", test=test, train=FILES["train.txt"] + "a\tr\tb\na\tr\ta\n")
    code, out, _ = run(capsys, folder, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["rows"] == {"train": 4, "valid": 1, "test": 150}
    assert report["repeated"] == {"train": 1, "valid": 0, "test": 0}
    assert report["self_loops"] == {"train": 1, "valid": 0, "test": 0}
    assert report["unseen_entities"]["count"] == 150
    assert report["unseen_entities"]["first"][:2] == ["new000", "new001"]
    assert len(report["unseen_entities"]["first"]) == check.JSON_NAMES
    assert report["fields"] == [{"name": "mass", "observed": 2, "minimum": -2.5, "maximum": 1.0}]
    assert report["notices"][0] == "no neg.txt: no negatives are given"
    assert set(report) >= {"errors", "overlaps", "inverse_pairs", "look_alikes", "literals_conflicting"}


def test_json_is_ascii_whatever_the_locale(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "graph", train="é\tr\t\U0001f9ea\n")
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "numcoke_jax.data.check", "--json", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout.decode("ascii"))["entities_without_literals"]["count"] == 3
