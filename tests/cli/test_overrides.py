"""Keys of the config on the command line: the last one counts, and a wrong one ends in one line."""

from collections.abc import Callable
from pathlib import Path

import pytest
from ml_collections import ConfigDict

from numcoke_jax.cli.main import main
from numcoke_jax.config.schema import KEYS, choices
from tests.cli.typed import parse

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
