"""Presets: named settings on a config file, spelled after a colon."""

from pathlib import Path

import pytest

from numcoke_jax.cli.command_line import default_workdir, parse_command_line
from numcoke_jax.config.checks import check_config, flatten
from numcoke_jax.config.files import split_preset, stored_config
from numcoke_jax.config.presets import PRESETS, apply_preset
from numcoke_jax.config.schema import default_config
from numcoke_jax.runs.workdir import check_config_of, config_differences, flat_config
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import read_json, write_json_atomically

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("[!_]*.py"))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_its_keys_and_no_others_and_is_valid(name):
    config, before = default_config(), flatten(default_config())
    apply_preset(config, name)
    check_config(config)
    after = flatten(config)
    for key, value in before.items():
        assert after[key] == PRESETS[name].get(key, value), key
    assert PRESETS[name].keys() <= after.keys()


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "numeric"])
def test_the_extensions_of_the_shipped_preset_are_off_in_every_other(name):
    config = default_config()
    apply_preset(config, "numeric")
    apply_preset(config, name)
    assert not config.score.order_core and config.train.entity_dropout == 0.0
    assert config.train.unknown_weight == 1.0


def test_the_command_line_takes_a_preset_and_overrides_come_after_it():
    shipped = parse_command_line(["--config=configs/credit.py"]).config
    paper = parse_command_line(["--config=configs/credit.py:paper"]).config
    assert shipped.score.order_core and not paper.score.order_core
    assert paper.data == shipped.data
    mixed = parse_command_line(["--config=configs/credit.py:paper", "--config.okcl.weight=0.5"]).config
    assert mixed.okcl.weight == 0.5 and not mixed.score.order_core


def test_a_run_of_a_preset_has_a_workdir_of_its_own():
    assert default_workdir("configs/credit.py:paper", default_config(), "cars") == Path(
        "runs/credit-paper-seed0"
    )
    assert default_workdir("configs/credit.py", default_config(), "cars") == Path("runs/credit-seed0")


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("configs/cars.py", ("configs/cars.py", "")),
        ("configs/cars.py:paper", ("configs/cars.py", "paper")),
        ("a:b/cars.py", ("a:b/cars.py", "")),
        ("cars:paper", ("cars", "paper")),  # a shipped config
        ("mine:paper", ("mine:paper", "")),  # no config file before the colon
    ],
)
def test_only_what_follows_a_python_file_is_a_preset(path, parts):
    assert split_preset(path) == parts


def test_an_unknown_preset_names_the_closest():
    with pytest.raises(UserError, match=r"there is no preset 'papr'; did you mean paper\?"):
        parse_command_line(["--config=configs/credit.py:papr"])
    with pytest.raises(
        UserError, match=r"no preset 'zzz'; there are paper, printed, numeric, transe, literale"
    ):
        parse_command_line(["--config=configs/credit.py:zzz"])


def test_the_config_that_a_run_stored_reads_back(tmp_path):
    config = default_config()
    config.data.split = (0.2, 0.3, 0.5)
    flat = {key: list(value) if isinstance(value, tuple) else value for key, value in flatten(config).items()}
    write_json_atomically(tmp_path / "config.json", flat)
    warnings: list[str] = []
    path = tmp_path / "config.json"
    assert flatten(stored_config(path, warnings.append)) == flatten(config)
    assert not warnings


def test_the_config_of_an_older_run_has_the_defaults_of_later_keys_and_a_warning(tmp_path):
    config = default_config()
    config.model.dim = 7
    flat = {key: list(value) if isinstance(value, tuple) else value for key, value in flatten(config).items()}
    del flat["score.margin"], flat["mesh.data"]
    path = tmp_path / "config.json"
    warnings: list[str] = []
    write_json_atomically(path, flat)
    assert flatten(stored_config(path, warnings.append)) == flatten(config)
    assert warnings == [f"{path} is older than mesh.data, score.margin: the default is used"]
    write_json_atomically(path, flat | {"score.magrin": 1.0})
    with pytest.raises(UserError, match=r"config\.json: .*score\.magrin"):
        stored_config(path, warnings.append)
    write_json_atomically(path, {})
    with pytest.raises(UserError, match="is not a config written by this program"):
        stored_config(path, warnings.append)


def test_a_removed_key_is_left_out_where_it_was_off_and_named_where_it_was_on(tmp_path):
    config = default_config()
    path = tmp_path / "config.json"
    for on in (False, True):
        write_json_atomically(path, flat_config(config) | {"score.numeric_order": on})
        if not on:
            assert flatten(stored_config(path, pytest.fail)) == flatten(config)
            check_config_of(tmp_path, config)
            assert not config_differences(read_json(path), flat_config(config))
            continue
        for read in (lambda: stored_config(path, pytest.fail), lambda: check_config_of(tmp_path, config)):
            with pytest.raises(UserError) as caught:
                read()
            assert str(caught.value) == (
                f"{path}: score.numeric_order is not a config key any more: score.order_core replaces it; "
                "a run that has it on needs the version that started it"
            )
    with pytest.raises(UserError, match="^score.numeric_order is not a config key any more"):
        parse_command_line(["--config=configs/credit.py", "--config.score.numeric_order=true"])


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_every_preset_fits_every_config(config: Path, name: str) -> None:
    assert parse_command_line([f"--config={config}:{name}"]).config.model.name == PRESETS[name]["model.name"]
