"""Runs side by side: their metrics, the keys that differ, 80 columns, one line for what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numcoke_jax.cli.compare import RUNS_A_BLOCK
from numcoke_jax.cli.main import main
from numcoke_jax.config.checks import flatten
from numcoke_jax.config.schema import default_config
from numcoke_jax.evaluation.metrics import METRICS
from numcoke_jax.runs.compare import differing

Run = Callable[..., Path]


@pytest.fixture
def finished(tmp_path: Path) -> Run:
    """Writes the two files of a finished run with this test MRR and these changes of the config."""

    def write(name: str, mrr: float, data: str = "aa", **changes: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        metrics = {**dict.fromkeys(METRICS, 0.25), "count": 1200, "mrr": mrr, "mr": 3.5}
        report = {
            **{"seed": 7, "best_epoch": 20, "seconds": 75.0, "valid": metrics, "test": metrics},
            "relations": {"weight_comp": metrics, "power_comp": {**metrics, "mrr": mrr / 2}},
            "calibration": {"test": {"after": {"ece": 0.0625}}},
            "environment": {"data_sha256": data},
        }
        config = flatten(default_config()) | {key.replace("__", "."): v for key, v in changes.items()}
        (folder / "report.json").write_text(json.dumps(report))
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    return write


def output(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code, (out, err) = main(["compare", *map(str, arguments)]), capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def test_metrics_and_differing_keys_stand_side_by_side(
    finished: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    one = finished("one", 0.5, model__name="transe", data__path="/a/long/place/of/data/one")
    two = finished("two", 0.75, model__name="rakge", train__entity_dropout=0.5)
    out = output(capsys, one, two)
    lines = [line.split() for line in out.splitlines()]
    assert ["1", "one", "1,200", "0.5000", "3.50", "0.2500", "0.2500", "0.2500"] in lines
    assert ["2", "two", "7", "20", "1:15", "0.7500", "0.0625", "-"] in lines
    assert lines.index(["power_comp", "0.2500", "0.3750"]) < lines.index(["weight_comp", "0.5000", "0.7500"])
    assert ["model.name", "transe", "rakge"] in lines and ["train.entity_dropout", "0.0", "0.5"] in lines
    assert "...of/data/one" in out and "model.dim" not in out and "different data" not in out


def test_json_has_the_same(finished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    runs = finished("a/run", 0.5), finished("b/run", 0.75, data="bb", seed=8)
    found = json.loads(output(capsys, *runs, "--json"))
    assert [run["run"] for run in found["runs"]] == [str(run) for run in runs], "one folder name, two paths"
    assert [run["test"]["mrr"] for run in found["runs"]] == [0.5, 0.75]
    assert found["relations"] == {"weight_comp": [0.5, 0.75], "power_comp": [0.25, 0.375]}
    assert found["config"] == {"seed": [0, 8]} and found["same_data"] is False
    assert main(["compare", *map(str, runs)]) == 0
    assert "different data" in "".join(capsys.readouterr())


def test_order_measures_come_first(finished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [finished(name, 0.5) for name in ("a-run-with-a-rather-long-name", "new", "older")]
    for run, accuracy in zip(runs[:2], (0.75, 0.5), strict=True):
        row: dict[str, Any] = {"count": 1_200_000, "order_accuracy": accuracy, "auc": 0.8}
        row |= {"log_loss": 0.5, "tau": -0.125, "tau_values": None}
        found = {"all": row, "narrowest_quarter": {**row, "order_accuracy": accuracy / 2}}
        relations = {"weight_comp": row, "power_comp": {**row, "order_accuracy": accuracy / 4}}
        report = json.loads((run / "report.json").read_text())
        (run / "report.json").write_text(json.dumps({**report, "order": {**found, "relations": relations}}))
    out = output(capsys, *runs)
    assert max(map(len, out.splitlines())) <= 80
    assert out.startswith("Order") and out.index("Order") < out.index("Test  tails ranked")
    lines = [line.split() for line in out.splitlines()]
    assert ["2", "new", "1,200,000", "0.5000", "0.8000", "0.5000", "-0.1250", "0.2500"] in lines
    assert lines.index(["power_comp", "0.1875", "0.1250", "-"]) < lines.index(
        ["power_comp", "0.2500", "0.2500", "0.2500"]
    )
    found = json.loads(output(capsys, *runs, "--json"))
    assert [run["order"] and run["order"]["order_accuracy"] for run in found["runs"]] == [0.75, 0.5, None]
    assert found["order_relations"]["weight_comp"] == [0.75, 0.5, None]


def test_a_run_that_is_older_than_a_key_has_its_default(
    finished: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    older, newer = finished("older", 0.5), finished("newer", 0.5, model__products="bfloat16")
    config = json.loads((older / "config.json").read_text())
    del config["model.products"], config["attention.operators"]
    (older / "config.json").write_text(json.dumps(config))
    found = json.loads(output(capsys, older, newer, "--json"))["config"]
    assert found == {"model.products": ["float32", "bfloat16"]}


def test_a_run_that_is_not_trained_to_its_end_is_named(
    finished: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [finished(name, 0.5) for name in ("older", "whole", "stopped")]
    for run, complete in zip(runs[1:], (True, False), strict=True):
        report = json.loads((run / "report.json").read_text())
        (run / "report.json").write_text(json.dumps({**report, "complete": complete}))
    found = json.loads(output(capsys, *runs, "--json"))
    assert [run["complete"] for run in found["runs"]] == [None, True, False]
    assert main(["compare", *map(str, runs)]) == 0
    shown = " ".join("".join(capsys.readouterr()).split())
    assert "not trained to the end, evaluated on the way: 3 stopped" in shown


@pytest.mark.parametrize("count", [1, RUNS_A_BLOCK, 2 * RUNS_A_BLOCK + 1])
def test_any_number_of_runs_fits_80_columns(
    count: int, finished: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [finished(f"a-run-with-a-rather-long-name-{n}", 0.5, seed=n) for n in range(count)]
    out = output(capsys, *runs)
    assert max(map(len, out.splitlines())) <= 80
    assert out.count("Config keys that differ") == (0 if count == 1 else -(-count // RUNS_A_BLOCK))
    seeds = [line.split()[1:] for line in out.splitlines() if line.startswith("seed")]
    assert [seed for row in seeds for seed in row] == ([] if count == 1 else [str(n) for n in range(count)])


def test_keys_that_one_config_lacks_differ() -> None:
    assert differing([{"a": 1, "b": None}, {"a": 1}]) == {"b": [None, None]}
    assert differing([{"a": [1, 2]}, {"a": [1, 2]}]) == {}


def test_mistakes_are_one_line(finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = finished("run", 0.5)
    (tmp_path / "empty").mkdir()
    broken, other = finished("broken", 0.5), finished("other", 0.5)
    (broken / "report.json").write_text("{")
    (other / "report.json").write_text('{"seed": 0}')
    strange = finished("strange", 0.5)
    report = json.loads((strange / "report.json").read_text())
    (strange / "report.json").write_text(json.dumps({**report, "environment": None}))
    for arguments, message in (
        ([], "missing: RUN"),
        ([run, "--jsn"], "--jsn is not a flag of numcoke compare; did you mean --json?"),
        ([tmp_path / "nowhere"], "there is no such folder; give workdirs of finished runs"),
        ([tmp_path / "empty"], "has no report.json: the run is not finished, or this is not a workdir"),
        ([run, run], "is given twice; name every run once"),
        ([run, broken], "report.json"),
        ([run, strange], "report.json is not a report of this program: environment is missing or"),
        ([run, other], "report.json is not a report of this program: best_epoch is missing or has"),
    ):
        assert main(["compare", *map(str, arguments)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and message in err
