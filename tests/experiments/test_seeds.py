"""The seeds experiment: statistics by hand, rounds that are run once, what it refuses before it starts."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from experiments import rounds
from experiments.seeds import SHOWN_ORDER, commands_of, main, show, summary
from numcoke_jax.runs.loop import train_and_evaluate
from tests.tiny_runs import compiled_fast, config_of, overrides_of, snapshot, write_folder

METRICS = ("mrr", "mr", "hits@1", "hits@3", "hits@10")


def report(seed: int, mrr: float | None, data: str = "ab" * 32) -> dict[str, Any]:
    split = {"count": 4, **dict.fromkeys(METRICS, 0.5), "mrr": mrr}
    return {"seed": seed, "valid": split, "test": split, "environment": {"data_sha256": data}}


def test_mean_and_sample_deviation_by_hand() -> None:
    """Of 0.5, 0.7 and 0.9: mean 0.7, deviation sqrt((0.04 + 0 + 0.04) / 2) = 0.2."""
    result = summary([report(0, 0.5), report(1, 0.7), report(2, 0.9)])
    assert result["test"]["mrr"] == {"mean": pytest.approx(0.7), "std": pytest.approx(0.2)}
    assert result["test"]["mr"] == {"mean": 0.5, "std": 0.0} and result["test"]["count"] == 4


def test_order_measures_of_the_test_facts_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    orders = [{"order": {"all": dict.fromkeys(SHOWN_ORDER, share)}} for share in (0.5, 0.75)]
    result = summary([{**report(seed, 0.5), **order} for seed, order in enumerate(orders)])
    assert result["order"]["auc"] == {"mean": 0.625, "std": pytest.approx(0.125 * 2**0.5)}
    show(result, 2, "a graph")
    table = capsys.readouterr().out
    assert table.index("order accuracy") < table.index("order tau") < table.index("MRR")
    older = summary([report(0, 0.5), {**report(1, 0.5), **orders[0]}])
    assert older["order"]["auc"] == {"mean": None, "std": None}, "one of them is older than the measure"
    show(older, 2, "a graph")
    assert "order" not in capsys.readouterr().out


def test_one_round_has_no_deviation_and_no_queries_no_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert summary([report(0, 0.5)])["test"]["mrr"] == {"mean": 0.5, "std": None}
    result = summary([report(0, None), report(1, None)])
    assert result["valid"]["mrr"] == {"mean": None, "std": None}
    show(result, 2, "a graph")
    table = capsys.readouterr().out
    assert [cell.strip() for cell in next(line for line in table.splitlines() if "MRR" in line).split("│")][
        1:4
    ] == ["MRR", "-", "-"]


def test_the_table_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    long = {metric: {"mean": 123456.7891, "std": 98765.4321} for metric in METRICS}
    order = {"order": dict.fromkeys(SHOWN_ORDER, long["mrr"])}
    show({**order, **{split: {"count": 12_345_678, **long} for split in ("valid", "test")}}, 5, "x" * 200)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "123456.7891 ± 98765.4321" in "".join(lines), "nothing is cut"


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Two rounds of a tiny run."""
    config = config_of(write_folder(tmp_path / "graph"), train__epochs=1)
    return ["--config=configs/cars.py", "--seeds=2", f"--out={tmp_path / 'rounds'}", *overrides_of(config)]


def test_rounds_are_run_once_and_a_restart_makes_only_what_is_missing(
    tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = []

    def watched(config: Any, workdir: Path, *rest: Any, **more: Any) -> Any:
        trained.append((config.seed, workdir.name))
        return train_and_evaluate(config, workdir, *rest, **more)

    monkeypatch.setattr(rounds, "train_and_evaluate", watched)
    with compiled_fast():
        assert main(arguments) == 0
        assert trained == [(0, "seed0"), (1, "seed1")]
        out = tmp_path / "rounds"
        stored = json.loads((out / "seeds.json").read_text())
        reports = [json.loads((out / f"seed{seed}" / "report.json").read_text()) for seed in (0, 1)]
        assert stored["rounds"] == reports
        expected = (reports[0]["test"]["mrr"] + reports[1]["test"]["mrr"]) / 2
        assert stored["test"]["mrr"]["mean"] == pytest.approx(expected)
        shown = capsys.readouterr().out
        assert f"seed 1: test MRR {reports[1]['test']['mrr']:.4f}\n" in shown and "rounds: 2 rounds" in shown

        before = snapshot(out)
        assert main(arguments) == 0
        assert len(trained) == 2, "finished rounds are skipped"
        assert {name for name, file in snapshot(out).items() if file != before[name]} == {"seeds.json"}

        (out / "seed1" / "report.json").unlink()
        assert main(arguments) == 0
        assert trained[2:] == [(1, "seed1")]
        assert json.loads((out / "seeds.json").read_text())["test"] == stored["test"]

        capsys.readouterr()
        assert main([*arguments, "--config.score.margin=3.0"]) == 2, "a report of another config is not taken"
    captured = capsys.readouterr()
    assert "another config (score.margin=9.0 there, 3.0 now)" in captured.err
    assert captured.err.count("\n") == 1 and captured.out == ""


def test_the_first_seed_and_the_folder_come_from_the_config(tmp_path: Path) -> None:
    commands, out = commands_of("configs/credit.py:paper", 3, None, ["--config.seed=7"])
    assert out == Path("runs/credit-paper-seeds")
    assert [(command.config.seed, command.workdir) for command in commands] == [
        (seed, out / f"seed{seed}") for seed in (7, 8, 9)
    ]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--seeds=0"], "--seeds=0 is out of range: needs an integer >= 1 and <= 1000"),
        (["--seeds=five"], "--seeds: invalid int value: 'five'; see python -m experiments.seeds --help"),
        (["--config.seed=4294967295"], "seed=4294967296 is out of range"),  # of the second round
        (["--workdir=here"], "--workdir has no meaning here"),
        (["--overwrite"], "--overwrite has no meaning in an experiment"),
        (["--mode=eval"], "--mode=eval has no meaning in an experiment"),
        (["--config.train.epoch=5"], "train.epoch is not a config key; did you mean train.epochs?"),
    ],
)
def test_what_is_wrong_is_one_line_before_the_first_round(
    arguments: list[str], extra: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *extra]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1 and os.listdir(tmp_path) == ["graph"]
