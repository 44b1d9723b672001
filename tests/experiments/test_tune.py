"""The random search: what it draws, that validation alone chooses, what a kill costs, what it refuses."""

import itertools
import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import tune
from numcoke_jax.cli.command_line import parse_command_line
from numcoke_jax.config.checks import check_config
from numcoke_jax.config.presets import PRESETS, apply_preset
from numcoke_jax.config.schema import default_config, looks_at
from numcoke_jax.runs.workdir import flat_config
from tests import tiny_runs


def report(valid: float | None, test: float, data: str = "a") -> dict[str, Any]:
    split = {"count": 9, "mrr": test, "hits@1": test / 2, "mr": 10 * test, "hits@3": test, "hits@10": test}
    return {
        "seed": 0,
        "best_epoch": 3,
        "seconds": 1.5,
        "selection_mrr": valid,
        "valid": split,
        "test": split,
        "environment": {"data_sha256": data * 64},
    }


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders of the runs that were trained, with a stub for the training: see `faked`."""
    made: list[str] = []

    def run_round(command: Any, _: Any) -> dict[str, Any]:
        command.workdir.mkdir(parents=True, exist_ok=True)
        made.append(f"{command.workdir.parent.name}/{command.workdir.name}")
        return faked(command)

    monkeypatch.setattr(tune, "run_round", run_round)
    monkeypatch.setattr(tune, "check_data", lambda *_: None)  # the records are not of real data
    return made


def faked(command: Any) -> dict[str, Any]:
    """Validation is best where the test is worst; learning rates near 0.002 validate best."""
    distance = abs(math.log(command.config.train.learning_rate / 0.002))
    lost = 0.25 if command.config.data.control == "shuffled" else 0.0
    return report(0.9 - 0.1 * distance, 0.5 + 0.1 * distance - lost)


def records_of(out: Path, preset: str) -> dict[int, dict[str, Any]]:
    paths = sorted((out / preset).glob("trial???.json"))
    return {number: json.loads(path.read_text()) for number, path in enumerate(paths)}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_setting_is_one_that_the_model_looks_at_and_takes(preset: str) -> None:
    """Each size with the lowest and the highest value of every other knob."""
    model = PRESETS[preset]["model.name"]
    knobs = {**tune.SHARED, **tune.OWN.get(preset, {})}
    used = {key: knob for key, knob in knobs.items() if looks_at(model, key)}
    assert set(tune.OWN.get(preset, {})) <= set(used)
    assert set(tune.drawn_settings(preset, 1, 0)) - {"model.attribute_dim"} == set(used)
    for dim, share in itertools.product(tune.SIZES, (0.0, 1.0 - 2**-53)):
        config = default_config()
        apply_preset(config, preset)
        values = {key: tune.value_at(knob, share) for key, knob in used.items()}
        for key, value in (values | {"model.dim": dim, "model.attribute_dim": dim}).items():
            section, _, entry = key.partition(".")
            config[section][entry] = value
        check_config(config)


def test_all_models_meet_the_same_shared_settings_and_trial_0_is_the_preset() -> None:
    for preset in PRESETS:
        assert tune.drawn_settings(preset, 0, 7) == {}
    for trial in range(1, 6):
        drawn = {preset: tune.drawn_settings(preset, trial, 7) for preset in PRESETS}
        for key in ("train.learning_rate", "model.dim", "score.dropout", "query.hidden_dropout"):
            assert len({settings[key] for settings in drawn.values() if key in settings}) == 1
        assert drawn["numeric"] == tune.drawn_settings("numeric", trial, 7)
        assert drawn["numeric"] != tune.drawn_settings("numeric", trial, 8)
        assert drawn["numeric"]["model.dim"] == drawn["numeric"]["model.attribute_dim"]


def test_knobs_by_hand_and_their_distribution() -> None:
    """Half way from 1e-4 to 1e-2 on a log scale is 1e-3; thirds of a choice of three."""
    assert tune.value_at(("log", 1e-4, 1e-2), 0.5) == 1e-3
    assert tune.value_at(("uniform", 4.0, 14.0), 0.25) == 6.5
    assert [tune.value_at(("choice", "abc"), share) for share in (0.0, 0.34, 0.99)] == ["a", "b", "c"]
    rates = [tune.drawn_settings("transe", trial, 0)["train.learning_rate"] for trial in range(1, 400)]
    kind, low, high = tune.SHARED["train.learning_rate"]
    assert kind == "log" and low <= min(rates) < 1.1 * low and 0.9 * high < max(rates) <= high
    shares = np.log(np.array(rates) / low) / np.log(high / low)  # uniform in [0, 1]: deviation sqrt(1 / 12)
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)
    assert np.std(shares) == pytest.approx(math.sqrt(1 / 12), abs=0.02)


def test_the_best_is_chosen_by_validation_and_the_first_of_equal_ones() -> None:
    def record(trial: int, valid: float | None, test: float) -> dict[str, Any]:
        failed = None if valid is not None else "the loss was not finite"
        return {"trial": trial, "selection_mrr": valid, "failed": failed, "test": {"mrr": test}}

    records = [record(0, 0.5, 0.9), record(1, 0.7, 0.1), record(2, None, 1.0), record(3, 0.7, 0.8)]
    assert tune.best_of(records) is records[1]
    assert tune.best_of([records[2]]) is None and tune.best_of([]) is None


def test_search_table_files_and_a_second_call_that_trains_nothing(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--presets=numeric,transe", "--trials=3", "--epochs=20", f"--out={tmp_path}"]
    assert tune.main(arguments) == 0
    order = [f"{preset}/trial{trial:03d}" for trial in range(3) for preset in ("numeric", "transe")]
    assert runs[:6] == order, "a search that is stopped has given every model the same budget"
    stored = json.loads((tmp_path / "tune.json").read_text())
    for preset, row in zip(("numeric", "transe"), stored["rows"], strict=True):
        records = records_of(tmp_path, preset)
        best = max(records, key=lambda trial: records[trial]["selection_mrr"])
        worst = min(records, key=lambda trial: records[trial]["test"]["mrr"])
        assert best == worst == row["best"]["trial"], "the stub's test MRR says the opposite"
        assert runs[6:].count(f"{preset}/trial{best:03d}-shuffled") == 1
        assert row["gap"] == pytest.approx(0.25) and row["seconds"] == 4.5
        assert row["as it stands"] == records[0]["selection_mrr"]
    out = capsys.readouterr().out
    table = [line for line in out.splitlines() if line.startswith(("┏", "┃", "│"))]
    assert max(map(len, table)) <= 80 and "…" not in out
    assert "+0.250" in out and "6/6 transe trial 2: validation MRR" in out
    assert (tmp_path / "tune.png").read_bytes().startswith(b"\x89PNG")

    trained = len(runs)
    before = {path: content for path, content in tiny_runs.snapshot(tmp_path).items() if "tune" not in path}
    assert tune.main(arguments) == 0
    assert len(runs) == trained
    after = tiny_runs.snapshot(tmp_path)
    assert {path: after[path] for path in before} == before
    assert json.loads((tmp_path / "tune.json").read_text()) == stored
    assert tune.main([*arguments, "--trials=4"]) == 0
    assert runs[trained : trained + 2] == ["numeric/trial003", "transe/trial003"]


def test_the_printed_command_is_the_best_run(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--presets=rakge", "--trials=3", "--epochs=20", "--values=true", "--seed=5"]
    assert tune.main([*arguments, f"--out={tmp_path}", "--config.train.batch_size=32"]) == 0
    assert len(runs) == 3
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("python -m ")]
    best = json.loads((tmp_path / "tune.json").read_text())["rows"][0]["best"]
    config = parse_command_line(shlex.split(line)[3:]).config
    assert json.loads(json.dumps(flat_config(config))) == best["config"]
    assert (config.seed, config.train.epochs, config.train.batch_size) == (5, 20, 32)


def test_after_a_kill_the_same_command_goes_on_with_the_trial_that_was_stopped(
    runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--presets=numeric,transe", "--trials=2", "--values=true", f"--out={tmp_path}"]

    def killed(command: Any, data: Any) -> dict[str, Any]:
        if command.workdir == tmp_path / "numeric" / "trial001":
            raise KeyboardInterrupt
        return whole(command, data)

    whole = tune.run_round
    monkeypatch.setattr(tune, "run_round", killed)
    assert tune.main(arguments) == 130
    assert capsys.readouterr().err == "error: interrupted; the same command resumes\n"
    assert not (tmp_path / "tune.json").exists()
    monkeypatch.setattr(tune, "run_round", whole)
    assert tune.main(arguments) == 0
    expected = ["numeric/trial000", "transe/trial000", "numeric/trial001", "transe/trial001"]
    assert runs == expected, "no trial is trained twice"


def test_a_diverged_trial_is_recorded_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = []

    def run_round(command: Any, _: Any) -> dict[str, Any]:
        tried.append(command.workdir.name)
        command.workdir.mkdir(parents=True, exist_ok=True)
        if command.workdir.name == "trial001":
            raise FloatingPointError("the loss was NaN at step 7")
        return faked(command)

    monkeypatch.setattr(tune, "run_round", run_round)
    monkeypatch.setattr(tune, "check_data", lambda *_: None)
    arguments = ["--presets=transe", "--trials=3", "--values=true", f"--out={tmp_path}"]
    assert tune.main(arguments) == tune.main(arguments) == 0
    assert tried == ["trial000", "trial001", "trial002"]
    assert "2/3 transe trial 1: failed" in capsys.readouterr().out
    record = records_of(tmp_path, "transe")[1]
    assert record["failed"] == "the loss was NaN at step 7" and record["selection_mrr"] is None
    (row,) = json.loads((tmp_path / "tune.json").read_text())["rows"]
    assert (row["trials"], row["failed"]) == (3, 1) and row["best"]["trial"] != 1


def test_where_all_trials_fail_the_table_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_round(command: Any, _: Any) -> dict[str, Any]:
        command.workdir.mkdir(parents=True, exist_ok=True)
        raise FloatingPointError("the loss was NaN at step 7")

    monkeypatch.setattr(tune, "run_round", run_round)
    assert tune.main(["--presets=transe", "--trials=1", f"--out={tmp_path}"]) == 0
    lines = [line.replace(" ", "") for line in capsys.readouterr().out.splitlines()]
    place = lines.index("│transe│1,1│-│-│-│-│-│-│")
    assert lines[place + 1] == "││failed│││││││"


def test_a_flag_of_the_user_fixes_a_knob_for_every_run() -> None:
    options, extra = tune._options(["--config.model.dim=40", "--config.train.learning_rate=0.004"])
    for trial in range(4):
        config = parse_command_line(tune.flags_of(("numeric", trial), options, extra)).config
        assert (config.model.dim, config.train.learning_rate) == (40, 0.004)
        assert config.model.attribute_dim == default_config().model.attribute_dim


def test_trials_of_different_data_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_round(command: Any, _: Any) -> dict[str, Any]:
        command.workdir.mkdir(parents=True, exist_ok=True)
        return report(0.5, 0.5, data="ab"[command.workdir.name == "trial001"])

    monkeypatch.setattr(tune, "run_round", run_round)
    assert tune.main(["--presets=transe", "--trials=2", f"--out={tmp_path}"]) == 2
    line = capsys.readouterr().err
    assert "trial001 is a run on other data (sha256 bbbbbbbbbbbb... there, aaaaaaaaaaaa... now)" in line
    assert line.count("\n") == 1 and line.endswith("or give another --out\n")


def test_a_graph_without_validation_facts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tune, "run_round", lambda *_: report(None, 0.5))
    assert tune.main(["--presets=transe", "--trials=1", f"--out={tmp_path}"]) == 2
    line = capsys.readouterr().err
    assert line.endswith(
        "trial000: the run has no validation MRR to be judged by; the graph needs validation facts\n"
    )
    assert line.count("\n") == 1


def test_records_that_do_not_fit_are_refused(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--presets=transe", "--trials=1", "--values=true", f"--out={tmp_path}"]
    assert tune.main(arguments) == 0
    capsys.readouterr()
    assert tune.main([*arguments, "--config.score.margin=5.0"]) == 2
    assert "trial000.json is of another config (score.margin=9.0 there, 5.0 now)" in capsys.readouterr().err
    older = json.loads((tmp_path / "transe" / "trial000.json").read_text())
    del older["config"]["model.products"], older["config"]["score.margin"]
    (tmp_path / "transe" / "trial000.json").write_text(json.dumps(older))
    assert tune.main(arguments) == 0, "keys that came later had their defaults"
    (tmp_path / "transe" / "trial000.json").write_text("[]")
    assert tune.main(arguments) == 2
    line = capsys.readouterr().err
    assert line.endswith("trial000.json is not a record of a trial: delete it or give another --out\n")
    (tmp_path / "transe" / "trial000.json").write_text("{")
    assert tune.main(arguments) == 2
    assert "trial000.json is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--trials=0", "--trials=0 is out of range: needs 1 to 1000"),
        ("--trials=many", "--trials: invalid int value: 'many'; see python -m experiments.tune --help"),
        ("--seed=-1", "--seed=-1 is out of range: needs an integer >= 0 and < 4294967296"),
        ("--presets=numeric,rakeg", "--presets=rakeg is not a choice; did you mean rakge?"),
        ("--values=shuffled", "--values: invalid choice: 'shuffled'"),
        ("--workdir=here", "--workdir has no meaning here: see --out"),
        ("--config.seed=3", "--config.seed has no meaning here: see --seed"),
        ("--epochs=-1", "--epochs=-1 is out of range: needs an integer >= 0"),
        ("--config.model.dmi=3", "model.dmi is not a config key"),
    ],
)
def test_what_is_wrong_is_one_line_before_the_first_trial(
    argument: str, said: str, runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune.main([f"--out={tmp_path / 'out'}", argument]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"error: {said}") and line.count("\n") == 1
    assert runs == [] and list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_trials_of_a_tiny_graph_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The record's validation MRR is that of the best validation in the run's own log."""
    folder = tiny_runs.write_folder(tmp_path / "graph")
    arguments = [
        f"--data={folder}",
        "--presets=transe",
        "--trials=2",
        "--epochs=3",
        "--values=true",
        f"--out={tmp_path / 'out'}",
        "--config.model.dim=8",
        "--config.train.batch_size=4",
        "--config.train.eval_every_epochs=1",
    ]
    with tiny_runs.compiled_fast():
        assert tune.main(arguments) == tune.main(arguments) == 0
    for trial, record in records_of(tmp_path / "out", "transe").items():
        log = (tmp_path / "out" / "transe" / f"trial{trial:03d}" / "metrics.jsonl").read_text()
        rows = [row for row in map(json.loads, log.splitlines()) if row["kind"] == "valid"]
        assert record["selection_mrr"] == max(row["mrr"] for row in rows)
        assert len(rows) == 3 and record["best_epoch"] in (1, 2, 3)
    assert "2 trials per preset: graph" in capsys.readouterr().out
    lines = (folder / "test.txt").read_text().splitlines(keepends=True)
    (folder / "test.txt").write_text("".join(lines[1:]))
    assert tune.main(arguments) == 2
    assert "transe/trial000 is a run on other data (sha256 " in capsys.readouterr().err
