"""The command line: what is wrong with flags, keys, values and config files ends in one line."""

import os
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ml_collections import ConfigDict

from numcoke_jax.cli import command_line
from numcoke_jax.cli.command_line import default_workdir, parse_command_line
from numcoke_jax.cli.main import main
from numcoke_jax.cli.parser import COMMANDS
from numcoke_jax.cli.parser import MODES as ALL_MODES
from numcoke_jax.config import files
from numcoke_jax.config.schema import KEYS, choices
from numcoke_jax.data.load import load_folder
from numcoke_jax.runs.workdir import flat_config
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import write_json_atomically

REPOSITORY = Path(__file__).resolve().parents[2]
MODES = ", ".join(ALL_MODES)


@pytest.fixture(autouse=True)
def in_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ConfigDict, Path]]:
    """Replaces the training by one that notes how it was called: (mode, config, workdir)."""
    calls: list[tuple[str, ConfigDict, Path]] = []
    stand_in = types.ModuleType("numcoke_jax.runs.loop")
    stand_in.train_and_evaluate = lambda config, workdir, console, *, overwrite: calls.append(  # type: ignore[attr-defined]
        ("train", config, workdir)
    )
    stand_in.evaluate_only = lambda config, workdir, console: calls.append(  # type: ignore[attr-defined]
        ("eval", config, workdir)
    )
    monkeypatch.setitem(sys.modules, "numcoke_jax.runs.loop", stand_in)
    return calls


@pytest.fixture
def error_line(
    capsys: pytest.CaptureFixture[str], training: list[tuple[str, ConfigDict, Path]]
) -> Callable[..., str]:
    """Runs the program with arguments that must be refused; gives the one line without "error: "."""

    def run(*arguments: str) -> str:
        assert main(list(arguments)) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and training == []
        assert captured.err.startswith("error: ") and captured.err.endswith("\n")
        line = captured.err.removeprefix("error: ").removesuffix("\n")
        assert line.isprintable(), "one line, no control characters"
        return line

    return run


def parse(*arguments: str) -> command_line.Command:
    return parse_command_line(list(arguments))


# Case F04_config_overrides: wrong overrides, with the key or range that the line must name.
WRONG_OVERRIDES = [
    ("learning_rat=0.1", "learning_rat is not a config key; did you mean train.learning_rate?"),
    ("learning_rate=0.1", "learning_rate is not a config key; did you mean train.learning_rate?"),
    ("model.dimm=8", "model.dimm is not a config key; did you mean model.dim?"),
    ("train.batch_size=abc", "train.batch_size=abc has the wrong type: needs an integer >= 1 and <= 1048576"),
    ("train.batch_size=1.5", "train.batch_size=1.5 has the wrong type: needs an integer >= 1 and <= 1048576"),
    ("train.batch_size=0", "train.batch_size=0 is out of range: needs an integer >= 1 and <= 1048576"),
    ("train.epochs=-1", "train.epochs=-1 is out of range: needs an integer >= 0 and <= 1000000"),
    ("score.dropout=1.5", "score.dropout=1.5 is out of range: needs a number >= 0 and < 1"),
    ("train.learning_rate=nan", "train.learning_rate=nan is out of range: needs a number > 0 and <= 1e+09"),
    ("train.learning_rate=1e999", "train.learning_rate=inf is out of range: needs a number > 0 and <= 1e+09"),
    (
        "train.learning_rate=fast",
        "train.learning_rate=fast has the wrong type: needs a number > 0 and <= 1e+09",
    ),
    ("experts.noise=maybe", "experts.noise=maybe has the wrong type: needs true or false"),
    (
        "train.optimizer=adm",
        "train.optimizer=adm is not a choice: needs one of adam, adamw; did you mean adam?",
    ),
    (
        "attention.operators=product,diference",
        "attention.operators=('product', 'diference') has a member that is not a choice: needs one or more, "
        "each once, of product, difference, concatenation, mlp; did you mean difference?",
    ),
    (
        "data.split=0.8,0.1",
        "data.split=(0.8, 0.1) has 2 members: needs 3 numbers >= 0 and <= 1, such as (0.8, 0.1, 0.1)",
    ),
    (
        "data.split=(0.8,0.1",
        "data.split=(0.8,0.1 has the wrong type: needs 3 numbers >= 0 and <= 1, such as (0.8, 0.1, 0.1)",
    ),
    ("train=5", "train is a section of the config, not a key; set a key of it, such as train.epochs"),
    ("train.epochs.x=5", "train.epochs.x is not a config key; did you mean train.epochs?"),
    ("train.epochs=", "train.epochs='' has the wrong type: needs an integer >= 0 and <= 1000000"),
    ("seed=4294967296", "seed=4294967296 is out of range: needs an integer >= 0 and <= 4294967295"),
    (
        "model.name=a\nb\x1b[31m",
        "model.name=a\\nb\\x1b[31m is not a choice: needs one of " + ", ".join(choices("model.name")),
    ),
]


@pytest.mark.parametrize(
    ("override", "line"), WRONG_OVERRIDES, ids=[repr(case[0]) for case in WRONG_OVERRIDES]
)
def test_a_wrong_override_is_one_line_before_any_data_are_loaded(
    error_line: Callable[..., str], cases_dir: Path, override: str, line: str
) -> None:
    data = f"--config.data.path={cases_dir / 'F04_config_overrides'}"
    assert error_line("--config=configs/cars.py", data, f"--config.{override}") == line
    if not override.endswith("=") and not override.startswith(
        "experts.noise"
    ):  # a switch takes no second word
        key, value = override.split("=", 1)
        assert error_line("--config=configs/cars.py", data, f"-config.{key}", value) == line, "two words"


@pytest.mark.parametrize("value", ["x", "1e999", "-1e999", "nan", "9" * 5000, "None", "", "(", "\udcff\x00"])
def test_no_text_for_any_number_ends_in_a_traceback(error_line: Callable[..., str], value: str) -> None:
    for key, rule in ((name, key.allowed) for name, key in KEYS.items()):
        if rule.kind in ("int", "float"):
            assert error_line(f"--config.{key}={value}").startswith(f"{key}=")


def test_huge_values_of_every_kind_of_key_are_refused(error_line: Callable[..., str]) -> None:
    for key in (name for name, key in KEYS.items() if key.allowed.kind != "str"):
        assert error_line(f"--config.{key}={10**30}").startswith(f"{key}="), key


def test_right_overrides_arrive(training: list[tuple[str, ConfigDict, Path]]) -> None:
    assert main(["--config=configs/cars.py", "--config.train.learning_rate=1e-2"]) == 0
    assert main(["--config=configs/cars.py", "--config.train.learning_rate=1", "--mode=eval"]) == 0
    assert main(["--config.train.learning_rate", "3", "--workdir", "some/where"]) == 0
    assert [(mode, config.train.learning_rate) for mode, config, _ in training] == [
        ("train", 0.01),
        ("eval", 1.0),
        ("train", 3.0),
    ]
    assert type(training[1][1].train.learning_rate) is float
    assert [str(workdir) for _, _, workdir in training] == [
        "runs/cars-seed0",
        "runs/cars-seed0",
        "some/where",
    ]
    assert all(config.is_locked for _, config, _ in training)


def test_commands_are_the_modes_of_before(training: list[tuple[str, ConfigDict, Path]]) -> None:
    """By the same parser: what users typed, and what is shorter now."""
    pairs = [
        (
            ["--config=configs/credit.py:paper", "--config.model.dim=200"],
            ["train", "credit:paper", "--model.dim=200"],
        ),
        (["--config.seed=1", "--mode", "eval"], ["eval", "--config=cars", "--config.seed=1"]),
        (
            ["-config.seed", "2", "--noconfig.experts.noise"],
            ["train", "--seed=2", "--experts.noise=false", "cars"],
        ),
        (
            ["--workdir=there", "--overwrite"],
            ["train", "configs/cars.py", "--overwrite", "--workdir", "there"],
        ),
    ]
    for before, now in pairs:
        assert main(before) == main(now) == 0
        assert training[-1] == training[-2]
    with pytest.raises(UserError, match="predict .*: neither trains nor evaluates a run"):
        parse("predict", "--workdir=x", "--head=a", "--relation=b")


def test_an_evaluation_needs_the_workdir_alone(
    training: list[tuple[str, ConfigDict, Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys of the run come from its config.json, and may be changed."""
    stored = parse("train", "credit:paper", "--seed=3").config
    write_json_atomically(tmp_path / "config.json", flat_config(stored))
    assert main(["eval", f"--workdir={tmp_path}"]) == 0
    assert main(["--mode=eval", f"--workdir={tmp_path}", "--config.eval.chunk=7"]) == 0
    assert training[0] == ("eval", stored, tmp_path)
    assert (training[1][1].seed, training[1][1].eval.chunk, training[1][1].is_locked) == (3, 7, True)
    assert main(["train", f"--workdir={tmp_path}"]) == 0
    assert training[2][1].seed == 0, "the config of the command, which train_and_evaluate then compares"
    (tmp_path / "config.json").write_text("{")
    assert main(["eval", f"--workdir={tmp_path}"]) == 2
    assert "config.json" in capsys.readouterr().err


def test_shipped_configs_go_by_name_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = parse("train", "credit:paper")
    assert (command.config.data.table, str(command.workdir)) == ("credit", "runs/credit-paper-seed0")
    (tmp_path / "credit").write_text("")  # a file of one's own comes first
    with pytest.raises(UserError, match="^credit has no function get_config"):
        parse("train", "credit")


def test_the_last_of_repeated_flags_counts_and_the_order_does_not() -> None:
    command = parse(
        "--config.seed=1", "--config=configs/credit.py", "--config.seed=2", "--config=configs/cars.py"
    )
    assert (command.config.data.table, command.config.seed) == ("cars", 2)


@pytest.mark.parametrize(
    ("arguments", "relations"),
    [
        (["--config.data.relations=weight,power"], ("weight", "power")),
        (["--config.data.relations= weight , is longer than "], ("weight", "is longer than")),
        (["--config.data.relations=('weight','a, b')"], ("weight", "a, b")),
        (["--config.data.relations=['1']"], ("1",)),
        (["--config.data.relations=weight"], ("weight",)),
        (["--config.data.relations=weight", "--config.data.relations=power"], ("weight", "power")),
        (["--config.data.relations="], ()),
        (["--config.data.relations=()"], ()),
        (["--config.data.relations=née,naïve"], ("née", "naïve")),
    ],
)
def test_tuples_can_be_written_plainly(arguments: list[str], relations: tuple[str, ...]) -> None:
    assert parse(*arguments).config.data.relations == relations


def test_numbers_of_a_tuple_become_floats() -> None:
    split = parse("--config.data.split=1,0,0").config.data.split
    assert split == (1.0, 0.0, 0.0) and {type(share) for share in split} == {float}


@pytest.mark.parametrize(
    ("arguments", "noise"),
    [
        ([], True),
        (["--noconfig.experts.noise"], False),
        (["--config.experts.noise"], True),
        (["--config.experts.noise=false"], False),
        (["--config.experts.noise=0"], False),
        (["--experts.noise", "false"], False),
        (["--no-experts.noise"], False),
    ],
)
def test_switches(arguments: list[str], noise: bool) -> None:
    assert parse(*arguments).config.experts.noise is noise


def test_overrides_in_a_flag_file_are_seen(tmp_path: Path, error_line: Callable[..., str]) -> None:
    flags = tmp_path / "flags.txt"
    flags.write_text("--config=configs/credit.py\n--config.train.epochs=7\n# a comment\n")
    command = parse(f"--flagfile={flags}", "--config.seed=3")
    assert (command.config.data.table, command.config.train.epochs, command.config.seed) == ("credit", 7, 3)
    flags.write_text("--config.learning_rat=7\n")
    assert error_line(f"--flagfile={flags}").startswith("learning_rat is not a config key")
    assert error_line(f"--flagfile={tmp_path}/absent").endswith(
        "/absent: cannot be read (No such file or directory)"
    )


def test_a_flag_file_may_say_which_process_this_is(tmp_path: Path, error_line: Callable[..., str]) -> None:
    """As any other flag that --help lists."""
    flags = tmp_path / "flags"
    flags.write_text("--coordinator=here\n--processes=2\n--process=0\n--config.seed=7\n")
    assert error_line(f"--flagfile={flags}").startswith("--coordinator=here must be HOST:PORT, or auto")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--confg=x.py"], "--confg=x.py is not a flag of numcoke train; did you mean --config?"),
        (["--work_dir=x"], "--work_dir=x is not a flag of numcoke train; did you mean --workdir?"),
        (
            ["--learning_rate=1"],
            "--learning_rate=1 is not a flag of numcoke train; did you mean --train.learning_rate=1?",
        ),
        (["--sed=1"], "--sed=1 is not a flag of numcoke train; did you mean --seed=1?"),
        (["--zzz"], "--zzz is not a flag of numcoke train; see numcoke train --help"),
        (
            ["--noconfig.train.epochs"],
            "--noconfig.train.epochs is not a flag of numcoke train; did you mean --train.epochs?",
        ),
        (
            ["train", "learning_rat=0.1"],
            "learning_rat=0.1 is not a flag; did you mean --train.learning_rate=0.1?",
        ),
        (["train", "model.dimm=8"], "model.dimm=8 is not a flag; did you mean --model.dim=8?"),
        (["train=8"], "train=8 is not a command; did you mean train?"),
        (["trian", "cars"], "trian is not a command; did you mean train?"),
        (["trian", "--help"], "trian is not a command; did you mean train?"),
        (["data", "biuld", "--help"], "data biuld is not a command; did you mean data build?"),
        (["data", "biuld"], "data biuld is not a command; did you mean data build?"),
        (["data"], f"data is not a command; there are {', '.join(COMMANDS)}"),
        (["zzz"], f"zzz is not a command; there are {', '.join(COMMANDS)}"),
        (["train", "cars", "credit"], "credit is not a flag of numcoke train; see numcoke train --help"),
        (["train", "cars", "--config=credit"], "cars and --config=credit: give only one config"),
        (["predict", "--wrokdir=x"], "--wrokdir=x is not a flag of numcoke predict; did you mean --workdir?"),
        (
            ["predict", "--workdir=x", "--config.seed=1"],
            "--config.seed has no meaning with numcoke predict: the run's config is in its workdir",
        ),
        (
            ["eval", "--workdir=x", "--overwrite"],
            "--overwrite has no meaning with eval, which only reads the workdir",
        ),
        (
            ["configs/cars.py"],
            "configs/cars.py is not a command; did you mean numcoke train configs/cars.py?",
        ),
        (
            ["--config.experts.noise", "maybe"],
            "experts.noise=maybe has the wrong type: needs true or false",
        ),
        (
            ["--", "--mode=eval"],
            "there is no config file --mode=eval; there are configs/cars.py, configs/credit.py, "
            "configs/fb15k_237.py, configs/rakge_credit.py, configs/rakge_spotify.py, configs/spotify.py, "
            "configs/us_cities.py",
        ),
        (
            ["--mode=trian"],
            f"--mode=trian is not a choice: needs one of {MODES}; did you mean train?",
        ),
        (
            ["--mode=predct", "--head=a", "--relation=b", "--workdir=runs/x"],
            f"--mode=predct is not a choice: needs one of {MODES}; did you mean predict?",
        ),
        (["--mode"], f"--mode='' is not a choice: needs one of {MODES}"),
        (["--config.train.epochs"], "--train.epochs: expected one argument; see numcoke train --help"),
        (["--config"], "--config: expected one argument; see numcoke train --help"),
        (["--config="], "--config is empty: give a config, such as --config=cars"),
        (
            ["--workdir="],
            "--workdir: is empty: give a folder; see numcoke train --help",
        ),
    ],
)
def test_a_wrong_flag_is_one_line(error_line: Callable[..., str], arguments: list[str], line: str) -> None:
    assert error_line(*arguments) == line


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


@pytest.mark.parametrize(
    ("config", "data_path", "seed", "workdir"),
    [
        ("configs/cars.py", "", 0, "runs/cars-seed0"),
        ("/elsewhere/my config.py", "", 7, "runs/my config-seed7"),
        ("configs/credit.py", "../shared/data/kg/credit_mini", 2, "runs/credit-credit_mini-seed2"),
        ("configs/credit.py", "kg/credit_mini/", 2, "runs/credit-credit_mini-seed2"),
        ("configs/credit.py", "configs/..", 2, f"runs/credit-{REPOSITORY.name}-seed2"),
    ],
)
def test_runs_of_other_configs_data_and_seeds_get_workdirs_of_their_own(
    config: str, data_path: str, seed: int, workdir: str
) -> None:
    resolved = parse(f"--config.data.path={data_path}", f"--config.seed={seed}").config
    assert str(default_workdir(config, resolved, "cars")) == workdir


def test_a_run_on_another_table_gets_a_workdir_of_its_own() -> None:
    """One that the config file does not name; with a folder of data no table is read."""
    assert str(parse("--config.data.table=cars").workdir) == "runs/cars-seed0"
    assert str(parse("--config.data.table=synthetic").workdir) == "runs/cars-synthetic-seed0"
    paper = parse("--config=configs/credit.py:paper", "--config.data.table=cars", "--config.seed=3")
    assert str(paper.workdir) == "runs/credit-paper-cars-seed3"
    folder = parse("--config.data.table=synthetic", "--config.data.path=kg/mine")
    assert str(folder.workdir) == "runs/cars-mine-seed0"
    assert str(parse("--config.data.table=synthetic", "--workdir=there").workdir) == "there"


def test_keys_of_a_table_beside_a_folder_are_told(
    training: list[tuple[str, ConfigDict, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Only those of the command line: a config file names its own table."""
    given = [
        "--config=configs/credit.py",
        "--config.data.missing_rate=0.5",
        "--config.data.split=0.8,0.1,0.1",
    ]
    assert main([*given, "--config.data.seed=3"]) == 0
    assert "warning" not in capsys.readouterr().out
    assert main([*given, "--config.data.seed=3", "--config.data.path=kg/mine"]) == 0
    assert " ".join(capsys.readouterr().out.split()) == (
        "warning: no effect with data.path, whose graph is used as it is: data.missing_rate, data.split"
    )
    assert main(["--config=configs/credit.py", "--config.data.path=kg/mine"]) == 0
    assert "warning" not in capsys.readouterr().out and len(training) == 3


def test_a_home_folder_in_the_workdir_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert str(parse("--workdir=~/run").workdir) == "/home/someone/run"
    assert str(parse("--workdir=~no-one-here/run").workdir) == "~no-one-here/run", "no traceback"


def test_a_home_folder_is_resolved_in_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell leaves ~ as it is in --flag=~/file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.py").write_text((REPOSITORY / "configs" / "cars.py").read_text())
    assert parse_command_line(["--config=~/mine.py"]).config == parse().config
    with pytest.raises(UserError, match=re.escape(f"there is no config file {tmp_path}/absent.py")):
        parse_command_line(["--config=~/absent.py"])
    (tmp_path / "table.csv").write_text("name,size\na,1\nb,2\nc,3\n")
    assert (
        main(["data", "build", "--table=~/table.csv", "--name=name", "--out=~/graph", "--split=1,0,0"]) == 0
    )
    loaded = load_folder("~/graph")
    assert (loaded.name, loaded.graph.num_entities) == ("graph", 3)
    assert (
        str(default_workdir("mine.py", parse("--config.data.path=~").config, "")).split("-")[1]
        == tmp_path.name
    )


@pytest.mark.parametrize("flag", ["--help", "-h", "-help", "--helpfull", "--helpshort"])
def test_help_explains_flags_and_every_key(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--config.wrong=1", flag])
    text = capsys.readouterr().out
    squeezed = re.sub(r"\s", "", text)
    for word in (
        "--config ",
        "--workdir ",
        "--flagfile ",
        "runs/CONFIG-seedSEED",
        *(key.meaning for key in KEYS.values()),
    ):
        assert re.sub(r"\s", "", word) in squeezed
    for name, key in KEYS.items():
        assert re.search(rf"^  --{re.escape(name)} \S", text, flags=re.MULTILINE), name
        assert re.sub(r"\s", "", f"[{key.allowed.needs()}]") in squeezed, name


@pytest.mark.parametrize("command", ["", *COMMANDS, "data"])
def test_help_fits_a_terminal(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*command.split(), "--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: numcoke {command}".rstrip()) and max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("train.txt:3: two fields\nfound 'a'"), 2, "error: train.txt:3: two fields\\nfound 'a'\n"),
        (FloatingPointError("step 7: bce is nan"), 1, "error: step 7: bce is nan\n"),
        (KeyboardInterrupt(), 130, "error: interrupted; the same command resumes from the last checkpoint\n"),
    ],
)
def test_an_error_of_the_training_is_one_line_and_a_code(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    stand_in = types.ModuleType("numcoke_jax.runs.loop")
    stand_in.train_and_evaluate = stand_in.evaluate_only = fail  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "numcoke_jax.runs.loop", stand_in)
    assert main(["train"]) == code
    assert capsys.readouterr().err == line


def test_an_error_of_the_program_itself_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = types.ModuleType("numcoke_jax.runs.loop")
    stand_in.train_and_evaluate = lambda *_, **__: 1 / 0  # type: ignore[attr-defined]
    stand_in.evaluate_only = None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "numcoke_jax.runs.loop", stand_in)
    with pytest.raises(ZeroDivisionError):
        main(["train"])


def run_program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "numcoke_jax.main", *arguments],
        cwd=REPOSITORY,
        env=os.environ | environment,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_the_program_answers_a_wrong_flag_in_an_ascii_locale() -> None:
    run = run_program(
        "--config.naïve=1", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii"
    )
    assert run.returncode == 2 and run.stdout == b""
    assert re.fullmatch(rb"error: na[\x21-\x7e]+ is not a config key; [\x20-\x7e]+\n", run.stderr)


def test_wrong_flags_are_answered_without_waiting_for_jax() -> None:
    script = (
        "import sys\n"
        "from numcoke_jax.cli.main import main\n"
        "assert main(['--config.learning_rat=1']) == 2\n"
        "for words in (['train', '--help'], ['--help']):\n"
        "    try: main(words)\n"
        "    except SystemExit as done: assert done.code == 0\n"
        "slow = {'jax', 'flax', 'pandas', 'pyarrow', 'orbax', 'tensorboardX'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()


def test_a_reader_that_stops_reading_is_no_error() -> None:
    script = f"{sys.executable} -m numcoke_jax.main --help | true; exit ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", script], cwd=REPOSITORY, capture_output=True, check=False)
    assert run.stderr == b"" and run.returncode in (0, 141)
