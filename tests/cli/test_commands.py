"""How every command ends: a reader that stops reading, a disk that takes no output."""

import json
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from numcoke_jax.cli.answer_files import answer_writer
from numcoke_jax.inference.predict import COLUMNS
from tests.tiny_runs import REPOSITORY, write_folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("name,size\n" + "".join(f"e{row},{row}\n" for row in range(6)))
    return path


def ended(stdout: int, module: str, *arguments: object) -> tuple[int, str]:
    """Exit code and errors of a command that writes to the file descriptor `stdout`, which is then closed."""
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=REPOSITORY, env=settings, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(stdout)
    return done.returncode, done.stderr


def nobody() -> int:
    """The end of a pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    return write


def test_a_reader_that_has_had_enough_is_no_error(tmp_path: Path, table: Path) -> None:
    """Neither an error of the data, code 1, nor of the interpreter, code 120."""
    folder = write_folder(tmp_path / "graph")
    built = tmp_path / "built"
    build = ("numcoke_jax.data.build", f"--table={table}", "--name=name", f"--out={built}", "--split=1,0,0")
    assert ended(nobody(), *build) == (141, "") and built.is_dir()
    assert ended(nobody(), "numcoke_jax.data.check", folder) == (141, "")
    assert ended(nobody(), "numcoke_jax.main", "--help") == (0, "")


def test_a_terminal_has_lines_that_fit_it(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    terminal, screen = pty.openpty()
    termios.tcsetwinsize(screen, (24, 80))
    built = tmp_path / "built"
    options = f"--table={table}", "--name=name", f"--out={built}", "--split=1,0,0"
    assert ended(screen, "numcoke_jax.data.build", *options) == (0, "")
    lines = os.read(terminal, 10_000).decode().splitlines()
    os.close(terminal)
    assert " ".join(lines).startswith("built from table table.csv (6 of 6 entities") and len(lines) > 5
    assert max(len(line) for line in lines if str(built) not in line) <= 80


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here to stand for a full disk")
def test_output_that_cannot_be_written_is_one_line(tmp_path: Path, table: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    options = f"--table={table}", "--name=name", f"--out={tmp_path / 'built'}", "--split=1,0,0"
    assert ended(full, "numcoke_jax.data.build", *options) == (
        2,
        "error: the command is done, but its output cannot be written (No space left on device); fix this\n",
    )


def test_a_command_may_start_without_standard_output(tmp_path: Path) -> None:
    """As services and `>&-` do."""
    folder = write_folder(tmp_path / "graph")
    script = f"{sys.executable} -m numcoke_jax.data.check {folder} >&-"
    done = subprocess.run(["bash", "-c", script], cwd=REPOSITORY, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_screen_that_nobody_reads_is_no_fault_of_the_file_of_answers(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), answer_writer(tmp_path / "answers.csv", COLUMNS):
        raise BrokenPipeError
    assert list(tmp_path.iterdir()) == []


def test_json_of_a_comparison_is_json_in_any_locale(tmp_path: Path) -> None:
    metrics = {"count": 1, "mrr": 1.0, "mr": 1.0, "hits@1": 1.0, "hits@3": 1.0, "hits@10": 1.0}
    report = {"seed": 0, "best_epoch": 1, "seconds": 1.0, "valid": metrics, "test": metrics}
    (tmp_path / "report.json").write_text(json.dumps(report | {"relations": {"größer_comp": metrics}}))
    (tmp_path / "config.json").write_text("{}")
    command = [sys.executable, "-m", "numcoke_jax.compare", str(tmp_path), "--json"]
    settings = {**os.environ, "PYTHONIOENCODING": "ascii"}
    out = subprocess.run(command, cwd=REPOSITORY, env=settings, capture_output=True, check=True).stdout
    assert json.loads(out)["relations"] == {"größer_comp": [1.0]}
