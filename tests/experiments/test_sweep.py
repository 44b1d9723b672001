"""The experiments that change some keys: their settings, their rows, their figures, what they refuse."""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments import (
    ablation,
    attention_fields,
    attention_heatmap,
    fb15k,
    figures,
    hyperparameters,
    literal_use,
    num_experts,
    order_accuracy,
    relation_weight,
    rounds,
    seeds,
    sweep,
    table2,
    tune,
)
from experiments.rounds import round_command
from experiments.sweep import Setting
from numcoke_jax.config.checks import check_config
from numcoke_jax.config.files import load_config
from numcoke_jax.config.schema import KEYS, default_config
from numcoke_jax.system.errors import UserError
from tests import tiny_runs
from tests.experiments.test_table2 import report

ALL = {
    "ablation": (ablation, {}),
    "num_experts": (num_experts, {"experts": "1,2,8"}),
    "relation_weight": (relation_weight, {"percent": "0,40,100"}),
    "hyperparameters": (hyperparameters, {"parameters": ",".join(hyperparameters.PARAMETERS), "data": ""}),
    "fb15k": (fb15k, {"presets": "transe,paper", "config": "configs/fb15k_237.py"}),
}


def settings_of(name: str, **changes: str) -> list[Setting]:
    module, options = ALL[name]
    return module.settings(argparse.Namespace(**{**options, **changes}))


@pytest.mark.parametrize("name", ALL)
def test_every_setting_is_an_allowed_config_and_has_a_folder_of_its_own(name: str) -> None:
    settings = settings_of(name)
    folders = {sweep.folder_name(setting.label) for setting in settings}
    assert len(folders) == len(settings)
    for setting in settings:
        config = default_config()
        for key, value in setting.values.items():
            section, _, entry = key.partition(".")
            config[section][entry] = type(config[section][entry])(value)
        check_config(config)


@pytest.mark.parametrize("values", sweep.VALUES)
@pytest.mark.parametrize("name", ALL)
def test_the_figure_is_a_png_whole_or_not_there(name: str, values: str, tmp_path: Path) -> None:
    reports = {
        (setting.label, control): [report(0.3 + 0.01 * place, seed) for seed in range(2)]
        for place, setting in enumerate(settings_of(name))
        for control in values.split(",")
    }
    ALL[name][0].draw(sweep.rows_of(reports), tmp_path / "figure.png")
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_points_need_no_axis_from_zero_and_panels_share_it() -> None:
    """Bars of 0.85 and 0.76 on an axis from 0.65 look like two to one."""
    figure, panels = figures.new_figure(4, 2, panels=2, columns=2, share_y=True)
    figures.points(panels[0], ["a", "b"], {"MRR": [(0.85, 0.01), (None, None)]})
    figures.points(panels[1], ["a"], {"MRR": [(0.5, None)], "other": [(0.6, 0.1)]})
    assert panels[0].get_ylim() == panels[1].get_ylim() and panels[0].get_ylim()[0] < 0.5
    assert not panels[0].patches and not panels[1].patches, "no bars"
    assert [text.get_text() for text in panels[1].texts] == ["0.500", "0.600"]
    plt.close(figure)


def test_ablations_remove_one_part_or_leave_one() -> None:
    values = {setting.label: dict(setting.values) for setting in ablation.settings()}
    off = {"experts.count": 1, "attention.use_query": False, "okcl.sampling": "random"}
    assert values["full model"] == {} and values["none of the three"] == off
    assert values["without MoE"] == {"experts.count": 1}
    assert values["only MoE"] == {key: value for key, value in off.items() if key != "experts.count"}
    for part in ("MoE", "KA", "OS"):
        assert values[f"without {part}"] | values[f"only {part}"] == off


def test_rows_have_means_deviations_seeds_and_epochs() -> None:
    (row,) = sweep.rows_of({("one", "true"): [report(0.4, 0), report(0.6, 1)]})
    assert row["gap"] is None and list(sweep.series_of([row], "hits@1")) == ["Hits@1", "MRR"]
    assert (row["label"], row["seeds"], row["best_epochs"]) == ("one", [0, 1], [3, 3])
    mean, deviation = sweep.point(row, "mrr")
    assert mean == pytest.approx(0.5) and deviation == pytest.approx(0.1414213562)
    assert sweep.cell(row["mrr"]) == "0.500 ± 0.141" and sweep.cell(row["hits@10"]) == "-"


def test_a_row_has_the_gap_to_the_control_and_the_table_80_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reports = {
        ("one", "true"): [report(0.4, 0), report(0.6, 1)],
        ("one", "shuffled"): [report(0.1, 0), report(0.3, 1)],
        ("two", "true"): [report(0.4, 0)],
    }
    rows = {row["label"]: row for row in sweep.rows_of(reports)}
    assert rows["one"]["gap"] == pytest.approx(0.3) and rows["two"]["gap"] is None
    series = sweep.series_of(list(rows.values()))
    assert series["MRR, shuffled values"] == [pytest.approx((0.2, 0.1414213562)), (None, None)]
    sweep.show(list(rows.values()), "title")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if "│" in line]
    assert ["one", "0.500 ± 0.141", "0.250 ± 0.071", "5.00 ± 1.41", "+0.300"] in cells


def test_controls_have_a_workdir_of_their_own_and_the_true_values_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = {}

    def run_round(command: Any, _: Any) -> dict[str, Any]:
        ran[command.workdir.name] = command.config.data.control
        return report(0.5, command.config.seed)

    monkeypatch.setattr(rounds, "run_round", run_round)
    arguments = ["--seeds=0,1", "--experts=2", f"--out={tmp_path}"]
    assert num_experts.main([*arguments, "--values=true"]) == 0
    assert ran == {"K_2-seed0": "true", "K_2-seed1": "true"}
    assert json.loads((tmp_path / "num_experts.json").read_text())[0]["gap"] is None
    assert num_experts.main(arguments) == 0
    assert ran == {
        "K_2-seed0": "true",
        "K_2-seed1": "true",
        "K_2-shuffled-seed0": "shuffled",
        "K_2-shuffled-seed1": "shuffled",
    }
    assert json.loads((tmp_path / "num_experts.json").read_text())[0]["gap"] == 0.0
    assert "K = 2, shuffled values, seed 1: test MRR 0.5000" in capsys.readouterr().out


def test_keys_and_budget_reach_the_config() -> None:
    command = round_command(
        sweep.flags_of(
            "configs/credit.py:paper",
            {"attention.operators": ("product", "mlp"), "okcl.sampling": "random", "experts.noise": False},
            Path("somewhere"),
            data="folder",
            seed=4,
            epochs=7,
            extra=["--config.model.dim=12"],
        )
    )
    config = command.config
    assert config.attention.operators == ("product", "mlp") and config.okcl.sampling == "random"
    assert not config.experts.noise and config.model.dim == 12 and config.data.path == "folder"
    assert (config.seed, config.train.epochs, config.train.eval_every_epochs) == (4, 7, 7)
    assert command.workdir == Path("somewhere")


@pytest.mark.parametrize(
    "flag", ["--config.data.control=zeroed", "-config.data.control", "--config.experts.count=2"]
)
def test_a_flag_for_a_key_that_the_experiment_gives_is_refused_before_any_run(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else zeroed values would stand in the table as the true ones."""
    assert num_experts.main(["--experts=1", "--seeds=0", f"--out={tmp_path}", flag]) == 2
    key = flag.lstrip("-").partition("=")[0]
    said = f"error: --{key}: the experiment sets {key.removeprefix('config.')} itself; leave the flag out\n"
    assert capsys.readouterr().err == said and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--config.seed=7"], "--config.seed has no meaning here: see --seeds"),
        (["--flagfile=FILE"], "--config.seed has no meaning here: see --seeds"),
        (["--workdir=elsewhere"], "--workdir has no meaning here: see --out"),
        (["--config.data.path=other"], "--config.data.path has no meaning here: see --data"),
        (["-config=configs/cars.py"], "--config has no meaning here: see --config, with two dashes"),
        (["--noconfig.experts.noise"], "--config.experts.noise: the experiment sets experts.noise itself;"),
    ],
)
def test_what_an_experiment_gives_is_refused_however_it_is_spelled(
    flags: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "flags").write_text("--config.seed=7\n")
    extra = [flag.replace("FILE", str(tmp_path / "flags")) for flag in flags]
    with pytest.raises(UserError, match=f"^{said}"):
        sweep.flags_of("configs/credit.py:paper", {"experts.noise": True}, tmp_path, extra=extra)


def test_a_value_that_only_a_table_takes_is_refused_for_a_folder(tmp_path: Path) -> None:
    """A folder of the config's own included: its split is as it is."""
    config = tmp_path / "mine.py"
    text = Path("configs/credit.py").read_text()
    config.write_text(text.replace("    return", "    config.data.path = 'somewhere'\n    return"))
    with pytest.raises(UserError, match=r"^data.missing_rate is of a table: the folder data.path=somewhere"):
        sweep.flags_of(str(config), {"data.missing_rate": 0.2}, tmp_path)


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (ablation, ["--out=~/x"]),
        (table2, ["--out=~/x"]),
        (literal_use, ["--config=c.py", "--out=~/x"]),
        (tune, ["--out=~/x"]),
        (seeds, ["--config=c.py", "--out=~/x"]),
        (attention_heatmap, ["--numcoke=~/x", "--rakge=~/x", "--out=~/x"]),
        (attention_fields, ["--workdir=~/x", "--json=~/x"]),
        (order_accuracy, ["--workdir=~/x", "--json=~/x"]),
    ],
)
def test_a_tilde_is_the_home_folder_in_every_path(
    command: Any, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell leaves it to the program in --out=~/x: runs went to one folder, tables to another called ~."""
    monkeypatch.setenv("HOME", str(tmp_path))
    options, extra = command.parser().parse_known_args(flags)
    assert extra == []
    for flag in flags:
        name = flag.removeprefix("--").partition("=")[0]
        if flag.endswith("~/x"):
            assert getattr(options, name) in (tmp_path / "x", [tmp_path / "x"])


@pytest.mark.parametrize("text", ["", "1,", "a", "-1", "1.5", "0,0"])
def test_seeds_are_different_integers(text: str) -> None:
    with pytest.raises(UserError, match="must be different integers joined by commas"):
        sweep.seeds_of(text)
    assert sweep.seeds_of("3,0") == [3, 0]


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("relation_weight", {"percent": "0,101"}, "must be integers from 0 to 100 joined by commas"),
        ("hyperparameters", {"parameters": "lambda,foo"}, "needs some of lambda,tau,k,delta,d,heads,missing"),
        ("hyperparameters", {"parameters": "missing", "data": "folder"}, "leave out --data or missing"),
    ],
)
def test_wrong_values_are_refused(name: str, changes: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        settings_of(name, **changes)


@pytest.mark.parametrize(
    ("command", "runs", "flags"),
    [
        (num_experts, rounds, ["--seeds=0", "--experts=1"]),
        (table2, rounds, ["--quick", "--models=transe"]),
        (literal_use, rounds, ["--config=configs/cars.py", "--presets=transe", "--seeds=0"]),
        (tune, tune, ["--config=configs/cars.py", "--presets=transe", "--trials=1"]),
    ],
)
def test_a_graph_without_test_facts_is_refused_in_one_line(
    command: Any,
    runs: Any,
    flags: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Such as --config.data.split=0.9,0.1,0: a folder or a table may have none, and its test MRR is null."""
    untested = {**report(0.5, 0), "selection_mrr": 0.5, "best_epoch": 1, "seconds": 1.0}
    untested["test"] = dict.fromkeys(untested["test"])
    monkeypatch.setattr(runs, "run_round", lambda *_: untested)
    assert command.main([*flags, f"--out={tmp_path}"]) == 2
    said = "error: the graph has no test facts, which this experiment needs for its figures\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("command", "flags", "failing", "shown"),
    [
        (num_experts, ["--experts=2"], "K_2-seed1", "K = 2, seed 1: failed"),
        (num_experts, ["--experts=2"], "K_2-shuffled-seed1", "2 of 3 seeds"),
        (table2, ["--quick", "--models=transe"], "transe-true-seed1", "true seed 1: failed"),
        (literal_use, ["--config=configs/cars.py", "--presets=transe"], "transe-true-seed1", "2 of 3 seeds"),
        (seeds, ["--config=configs/cars.py"], "seed1", ": 2 rounds"),
    ],
)
def test_a_run_that_diverges_is_recorded_left_out_and_named(
    command: Any,
    flags: list[str],
    failing: str,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tried = []

    def run_round(run: Any, _: Any) -> dict[str, Any]:
        tried.append(run.workdir.name)
        if run.workdir.name == failing:
            raise FloatingPointError("the loss was NaN at step 7")
        return {**report(0.2 * (1 + run.config.seed), run.config.seed)}

    monkeypatch.setattr(rounds, "run_round", run_round)
    monkeypatch.setattr(rounds.Data, "sha256", lambda *_: "a" * 64)
    arguments = [*flags, "--seeds=3" if command is seeds else "--seeds=0,1,2", f"--out={tmp_path}"]
    assert command.main(arguments) == 1
    captured = capsys.readouterr()
    said = f"1 of {len(tried)} runs failed and are in no mean: "
    assert captured.err.startswith(f"error: {said}") and captured.err.count("\n") == 1
    assert f"{failing}; failed.json there says why, delete it to try again" in captured.err
    assert shown in captured.out and max(map(len, captured.out.splitlines())) <= 80 + len(str(tmp_path))
    (record,) = tmp_path.rglob("failed.json")
    assert json.loads(record.read_text())["failed"] == "the loss was NaN at step 7"
    (path,) = tmp_path.glob("*.json")
    stored = json.loads(path.read_text())
    row = stored["rows"][0] if command is table2 else stored["test"] if command is seeds else stored[0]
    of_true = "shuffled" not in failing
    assert row["mrr"]["mean"] == pytest.approx((0.2 + 0.6) / 2 if of_true else 0.4)
    if command is not seeds:
        assert row["failed"] == ([1] if of_true else [])
    assert command.main(arguments) == 1
    assert tried.count(failing) == 1, "not tried again"
    record.unlink()
    assert command.main(arguments) == 1
    assert tried.count(failing) == 2


def test_a_setting_without_a_run_that_did_not_fail_has_no_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = [{"seed": seed, "failed": "why", "environment": {}} for seed in range(2)]
    reports = {
        (setting.label, control): failed if setting.label == "full model" else [report(0.5)]
        for setting in ablation.settings()
        for control in ("true", "shuffled")
    }
    rows = sweep.rows_of(reports)
    assert rows[0]["mrr"] == {"mean": None, "std": None} and rows[0]["gap"] is None
    ablation.draw(rows, tmp_path / "figure.png")
    sweep.show(rows, "title")
    assert capsys.readouterr().out.count("failed") == 3 + 1


def test_fb15k_trains_the_epochs_of_its_config_file_unless_told_otherwise() -> None:
    """A preset named on the command line comes after the file, and would have its own 700."""

    def epochs(*flags: str) -> list[int]:
        options, extra = fb15k.parser().parse_known_args(["--presets=transe,paper", "--seeds=0", *flags])
        commands = sweep.commands_of(fb15k.settings(options), options, extra).values()
        assert {command.config.train.eval_every_epochs for command in commands} == {5}
        return [command.config.train.epochs for command in commands]

    assert epochs() == [load_config("configs/fb15k_237.py").train.epochs] * 4 == [40] * 4
    assert epochs("--epochs=20") == [20] * 4 and epochs("--epochs=0") == [700] * 4


def test_the_hyperparameters_are_keys() -> None:
    for parameter in hyperparameters.PARAMETERS.values():
        assert all(key in KEYS for key in parameter.keys)


def test_selectivity_is_0_for_equal_and_1_for_single_fields() -> None:
    assert attention_heatmap.selectivity(np.full((3, 4), 0.25)) == pytest.approx(0.0)
    assert attention_heatmap.selectivity(np.eye(4)) == pytest.approx(1.0)
    # Half of the weight on each of two of four fields: entropy log 2 = log 4 / 2.
    assert attention_heatmap.selectivity(np.array([[0.5, 0.5, 0.0, 0.0]])) == pytest.approx(0.5)
    assert attention_heatmap.selectivity(np.ones((3, 1))) == 0.0


@pytest.mark.slow
def test_a_sweep_and_a_heat_map_from_training_to_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_runs.write_folder(tmp_path / "graph")
    small = [
        f"--data={folder}",
        "--epochs=2",
        "--seeds=0",
        "--config.model.dim=8",
        "--config.model.attribute_dim=20",
        "--config.train.batch_size=4",
    ]
    rows: list[dict[str, Any]] = []
    with tiny_runs.compiled_fast():
        arguments = [*small, "--percent=0,100", f"--out={tmp_path / 'weight'}"]
        assert relation_weight.main(arguments) == 0
        rows = json.loads((tmp_path / "weight" / "relation_weight.json").read_text())
        before = tiny_runs.snapshot(tmp_path / "weight" / "0-seed0")
        assert relation_weight.main(arguments) == 0
        assert tiny_runs.snapshot(tmp_path / "weight" / "0-seed0") == before
        presets = [
            *small,
            "--config=configs/credit.py",
            "--presets=paper,rakge",
            f"--out={tmp_path / 'models'}",
        ]
        assert fb15k.main([*presets, "--values=true"]) == 0
        workdirs = [
            f"--{flag}={tmp_path / 'models' / name}-seed0"
            for flag, name in (("numcoke", "paper"), ("rakge", "rakge"))
        ]
        assert attention_heatmap.main([*workdirs, f"--out={tmp_path / 'map'}"]) == 0
        wrong = attention_heatmap.main([*workdirs, "--relation=hgher", f"--out={tmp_path / 'map'}"])
    assert [row["label"] for row in rows] == ["0 %", "100 %"]
    assert all(row["gap"] == row["mrr"]["mean"] - row["shuffled mrr"]["mean"] for row in rows)
    assert (tmp_path / "weight" / "relation_weight.png").exists()
    result = json.loads((tmp_path / "map" / "attention_heatmap.json").read_text())
    assert result["relation"] == "higher" and result["fields"] == ["noise", "size"]
    for name in ("NumCoKE", "RAKGE"):
        weights = np.array(result[name]["weights"])
        assert weights.shape == (len(result["entities"]), 2)
        np.testing.assert_allclose(weights.sum(1), 1.0, rtol=1e-5)
    assert wrong == 2
    assert "--relation=hgher is not in the graph; did you mean higher?" in capsys.readouterr().err
