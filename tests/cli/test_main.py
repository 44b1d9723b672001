"""The command line: what is wrong with flags, keys, values and config files ends in one line."""

import os
import re
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ml_collections import ConfigDict

from numcoke_jax.cli.command_line import default_workdir, parse_command_line
from numcoke_jax.cli.commands import run_command
from numcoke_jax.cli.main import main
from numcoke_jax.cli.parser import COMMANDS
from numcoke_jax.cli.parser import MODES as ALL_MODES
from numcoke_jax.config.schema import KEYS
from numcoke_jax.data.load import load_folder
from numcoke_jax.runs.workdir import flat_config
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import write_json_atomically
from tests.cli.typed import parse

REPOSITORY = Path(__file__).resolve().parents[2]
MODES = ", ".join(ALL_MODES)


@pytest.mark.parametrize("ends", [False, True])
def test_a_second_interrupt_is_ignored_by_a_process_that_ends_and_no_other(
    ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    before = signal.getsignal(signal.SIGINT)
    try:
        assert run_command(interrupted, ends=ends) == 130
        assert signal.getsignal(signal.SIGINT) == (signal.SIG_IGN if ends else before)
        assert left == [130] * ends
    finally:
        signal.signal(signal.SIGINT, before)


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
    with pytest.raises(UserError, match="^credit is no config file, whose name ends in .py, and no table"):
        parse("train", "credit")


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
        (["--config.experts.noise", "maybe"], "experts.noise=maybe has the wrong type: needs true or false"),
        (
            ["audit", "--workdir=x"],
            "--workdir=x is not a flag of numcoke audit; give it without a flag: numcoke audit x",
        ),
        (
            ["--", "--mode=eval"],
            "there is no config file --mode=eval; there are configs/cars.py, configs/credit.py, "
            "configs/fb15k_237.py, configs/rakge_credit.py, configs/rakge_spotify.py, configs/spotify.py, "
            "configs/synthetic.py, configs/us_cities.py; nor is there a table or a folder of that "
            "name",
        ),
        (["--mode=trian"], f"--mode=trian is not a choice: needs one of {MODES}; did you mean train?"),
        (
            ["--mode=predct", "--head=a", "--relation=b", "--workdir=runs/x"],
            f"--mode=predct is not a choice: needs one of {MODES}; did you mean predict?",
        ),
        (["--mode"], f"--mode='' is not a choice: needs one of {MODES}"),
        (["--config.train.epochs"], "--train.epochs: expected one argument; see numcoke train --help"),
        (["--config"], "--config: expected one argument; see numcoke train --help"),
        (["--config="], "--config is empty: give a config, such as --config=cars"),
        (["--workdir="], "--workdir: is empty: give a folder; see numcoke train --help"),
    ],
)
def test_a_wrong_flag_is_one_line(error_line: Callable[..., str], arguments: list[str], line: str) -> None:
    assert error_line(*arguments) == line


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
        (
            KeyboardInterrupt(),
            130,
            "error: interrupted; the same command resumes from the last checkpoint, if there is one\n",
        ),
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
