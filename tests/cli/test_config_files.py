"""Config files: what is wrong with one ends in one line, and an edited one is read anew."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from numcoke_jax.config import files
from numcoke_jax.system.errors import UserError
from tests.cli.typed import parse

GOOD_CONFIG = (
    "from numcoke_jax.config.schema import default_config\ndef get_config():\n  config = default_config()\n"
)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("", "{path} has no function get_config(): a config file must define one"),
        ("get_config = 3", "{path} has no function get_config(): a config file must define one"),
        ("def get_config(", "{path}:1: the config file fails with SyntaxError: '(' was never closed"),
        (
            b"\xff\xfe\x00",
            "{path}: the config file fails with SyntaxError: source code string cannot contain null",
        ),
        (b"# \xff\n", "{path}"),
        (
            "import no_such_module",
            "{path}:1: the config file fails with ModuleNotFoundError: No module named",
        ),
        ("import sys\nsys.exit(3)", "{path}:2: the config file fails with SystemExit: 3"),
        (
            "def get_config():\n  raise ValueError('two\\nlines')",
            "{path}:2: the config file fails with ValueError: two\\nlines",
        ),
        ("def get_config():\n  return {}['dim']", "{path}:2: the config file fails with KeyError: dim"),
        ("def get_config():\n  return get_config()", "{path}:2: the config file fails with RecursionError: "),
        (
            "from numcoke_jax.system.errors import UserError\n"
            "def get_config():\n  raise UserError('set $DATA')",
            "{path}:3: the config file fails with set $DATA",
        ),
        (
            "def get_config():\n  pass",
            "{path}: the config is of type NoneType: get_config() must return a ConfigDict",
        ),
        (
            "def get_config(name):\n  pass",
            "{path}: the config file fails with TypeError: get_config() missing 1",
        ),
        (
            GOOD_CONFIG + "  config.train.learning_rat = 1\n  return config",
            "{path}: train.learning_rat is not a config key; did you mean train.learning_rate?",
        ),
        (
            GOOD_CONFIG + "  config.train.epochs = -1\n  return config",
            "{path}: train.epochs=-1 is out of range",
        ),
        (
            GOOD_CONFIG + "  config.train.epochs = 'x'\n  return config",
            "{path}:4: the config file fails with TypeError",
        ),
        (
            GOOD_CONFIG + "  del config.eval\n  return config",
            "{path}: eval.chunk is missing: it needs an integer",
        ),
    ],
)
def test_a_wrong_config_file_is_one_line(
    error_line: Callable[..., str], tmp_path: Path, source: str | bytes, line: str
) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(source.encode() if isinstance(source, str) else source)
    assert error_line(f"--config={path}").startswith(line.format(path=path))
    assert sorted(tmp_path.iterdir()) == [path], "nothing is written, no compiled module either"


@pytest.mark.parametrize("name", ["config", "x.json", "table.PY.txt2"])
def test_what_is_no_python_file_is_never_run(
    error_line: Callable[..., str], tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_text("raise SystemExit(0)")
    no_config = f"{path} is no config file, whose name ends in .py"
    assert error_line(f"--config={path}").startswith(f"{no_config}, and no table, whose name ends in .csv, ")
    with pytest.raises(UserError, match=f"^{no_config}$"):
        files.load_config(str(path))


def test_a_config_file_that_is_not_there_is_one_line(error_line: Callable[..., str], tmp_path: Path) -> None:
    assert (
        error_line("--config=config/car.py")
        == "there is no config file config/car.py; did you mean configs/cars.py?"
    )
    assert error_line("--config=carz") == "there is no config file carz; did you mean configs/cars.py?"
    assert error_line("--config=zzz").startswith(
        "there is no config file zzz; there are configs/cars.py, configs/"
    )
    assert (
        error_line(f"--config={tmp_path}")
        == f"{tmp_path} is a folder without train.txt: give a config file, such as configs/cars.py, or a "
        "folder with train.txt, valid.txt and test.txt"
    )
    (tmp_path / "config.json").touch()
    assert error_line(f"--config={tmp_path}").startswith(
        f"{tmp_path} is the workdir of a run: give --workdir="
    )
    assert error_line("--config=configs/cars.py/x").startswith("there is no config file configs/cars.py/x")
    assert re.fullmatch(
        r"cannot read the config file \.\.\.x+: File name too long", error_line("--config=" + "x" * 5000)
    )
    assert error_line("--config=a\x00b").startswith("there is no config file a\\x00b")


def test_an_unreadable_config_file_is_one_line(
    error_line: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.py"
    path.write_text("")

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)  # root may read everything
    assert error_line(f"--config={path}") == f"cannot read the config file {path}: Permission denied"


def test_an_edited_config_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    for seed in (1, 2):  # equal size, equal second
        path.write_text(GOOD_CONFIG + f"  config.seed = {seed}\n  return config")
        os.utime(path, (1e9, 1e9))
        assert files.load_config(str(path)).seed == seed


def test_overrides_can_fix_a_config_whose_keys_do_not_fit_together(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(GOOD_CONFIG + "  config.attention.heads = 3\n  return config")
    assert parse(f"--config={path}", "--config.model.attribute_dim=99").config.attention.heads == 3
    with pytest.raises(UserError, match="attribute_dim=100 is not a multiple of attention.heads=3"):
        parse(f"--config={path}")


def test_an_integer_in_a_config_file_can_be_overridden_by_a_float(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from ml_collections import ConfigDict\nfrom numcoke_jax.config.schema import default_config\n"
        "def get_config():\n  nested = default_config().to_dict()\n  nested['train']['learning_rate'] = 1\n"
        "  return ConfigDict(nested)"
    )
    assert parse(f"--config={path}", "--config.train.learning_rate=1e-3").config.train.learning_rate == 1e-3
