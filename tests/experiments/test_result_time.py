"""What `experiments.benchmark.result_time` measures: when 95 % of the best validation MRR was reached."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import numcoke_jax.data.public.sources as sources
import numcoke_jax.runs.screen as screen
from experiments.benchmark import result_time
from experiments.benchmark.result_time import cells, first_within, measure, record
from tests.tiny_runs import compiled_fast, config_of, overrides_of, write_folder

CORE = min(os.sched_getaffinity(0))
# Worth 95 % of 0.8, which is 0.76, from the third validation on; the fourth is the best.
HISTORY: list[dict[str, Any]] = [
    {"epoch": 20, "mrr": 0.2, "best": True, "cpu_seconds": 11.04},
    {"epoch": 40, "mrr": 0.759, "best": True, "cpu_seconds": 12.0},
    {"epoch": 60, "mrr": 0.761, "best": True, "cpu_seconds": 13.0},
    {"epoch": 80, "mrr": 0.8, "best": True, "cpu_seconds": 1014.0},
    {"epoch": 100, "mrr": 0.79, "best": False, "cpu_seconds": 1015.0},
]
RUN = {"config": "a:paper", "history": HISTORY, "ended": "report", "cpu_seconds": 1020.0, "test_mrr": 0.75}


@pytest.fixture
def unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """`record` is made for a process of its own: puts back what it replaces."""
    monkeypatch.setattr(screen, "Screen", screen.Screen)
    monkeypatch.setattr(sources, "download", sources.download)


def test_the_first_validation_within_a_share_of_the_best() -> None:
    assert first_within(HISTORY) == HISTORY[2]
    assert first_within(HISTORY, 0.2) == HISTORY[0]
    assert first_within(HISTORY, 1.0) == HISTORY[3]
    assert first_within(HISTORY[:2]) == HISTORY[1], "a run that ends early has another best one"
    assert first_within([]) is None
    assert first_within([{**HISTORY[0], "mrr": None}]) is None, "no validation facts"


def test_a_line_says_what_is_only_a_bound() -> None:
    assert cells(RUN) == ("a:paper", "100", "13.0", "60", "1,014", "80", "1,020", "0.7500")
    stopped = {**RUN, "history": HISTORY[:2], "ended": "budget", "cpu_seconds": 12.5, "test_mrr": None}
    assert cells(stopped) == ("a:paper", "40+", "≥ 12.0", "40", "≥ 12.0", "40", "≥ 12.5", "unknown")
    at_once = {**stopped, "history": []}
    assert cells(at_once) == ("a:paper", "-", "≥ 12.5", "-", "-", "-", "≥ 12.5", "unknown")
    unjudged = {**RUN, "history": [{**HISTORY[0], "mrr": None}], "test_mrr": None}
    assert cells(unjudged) == ("a:paper", "20", "-", "-", "11.0", "20", "1,020", "unknown")


def test_the_table_fits_a_terminal_and_names_what_was_not_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    longest = {**RUN, "config": "rakge_spotify:paper"}
    result_time.show([longest, {**longest, "ended": "budget"}, {**RUN, "config": "b", "ended": "no b.csv"}])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("rakge_spotify:paper ") for line in lines) == 2
    assert "b: not measured: no b.csv" in lines and any(line.startswith("≥ at least: ") for line in lines)


@pytest.mark.usefixtures("unchanged")
def test_every_validation_is_recorded_with_the_processor_time_so_far(tmp_path: Path) -> None:
    config = config_of(write_folder(tmp_path / "graph"))
    flags = ["train", "cars", "--no-cache", f"--workdir={tmp_path / 'run'}", *overrides_of(config)]
    began = time.process_time()
    with compiled_fast(), pytest.raises(SystemExit) as ended:
        record(flags, str(tmp_path / "history"), None)
    assert ended.value.code == 0
    found = [json.loads(line) for line in (tmp_path / "history").read_text().splitlines()]
    log = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [(row["epoch"], row["mrr"]) for row in found] == [
        (row["epoch"], row["mrr"]) for row in log if row["kind"] == "valid"
    ]
    assert [row["epoch"] for row in found] == [1, 2, 3, 4]
    best = [row["epoch"] for row in found if row["best"]][-1]
    assert best == json.loads((tmp_path / "run" / "report.json").read_text())["best_epoch"]
    times = [began, *(row["cpu_seconds"] for row in found), time.process_time()]
    assert times == sorted(times)


@pytest.mark.usefixtures("unchanged")
def test_what_is_not_there_is_not_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMCOKE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        record(["train", "credit", "--no-cache", f"--workdir={tmp_path / 'run'}"], str(tmp_path / "h"), None)
    assert ended.value.code == 2
    assert "error: credit.csv: not found, and not downloaded here" in capsys.readouterr().err


def test_a_run_beyond_its_budget_is_stopped_and_says_so() -> None:
    """One CPU second does not suffice to load the program."""
    row = measure("cars", [], CORE, budget=1)
    assert (row["ended"], row["history"], row["test_mrr"]) == ("budget", [], None)
    assert row["cpu_seconds"] > 0.5  # the system's ticks are coarser than its accounts


def test_a_run_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_time, "RECORD", "{0!s}; raise SystemExit('error: no such thing')")
    assert measure("cars", [], CORE, None)["ended"] == "no such thing"


def test_times_count_from_the_start_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that works for 0.3 seconds, then writes that down."""
    code = (
        "import json, time\nwhile time.process_time() < 0.3: pass\n"
        "row = dict(epoch=1, mrr=0.5, best=True, cpu_seconds=time.process_time())\n"
        "open({1!r}, 'w').write(json.dumps(row))\nraise SystemExit(3)"
    )
    monkeypatch.setattr(result_time, "RECORD", code)
    row = measure("cars", [], CORE, None)
    (found,) = row["history"]
    assert 0.3 <= found["cpu_seconds"] <= row["cpu_seconds"]
    assert (row["ended"], row["test_mrr"]) == ("exit code 3", None)


def test_each_config_is_measured_alone_and_with_each_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Any, ...]] = []

    def measured(config: str, *rest: Any) -> dict[str, Any]:
        asked.append((config, *rest, os.environ["NUMCOKE_DATA"]))
        return {**RUN, "config": config}

    monkeypatch.setattr(result_time, "measure", measured)
    monkeypatch.setenv("NUMCOKE_DATA", "")  # put back afterwards
    monkeypatch.delenv("NUMCOKE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    flags = ["--configs=cars,credit", "--presets=paper", "--budget=7", f"--core={CORE}", "--seed=3"]
    assert result_time.main([*flags, f"--json={tmp_path / 'times.json'}"]) == 0
    assert asked == [
        (config, ["--seed=3"], CORE, 7, str(tmp_path / "numcoke_jax"))
        for config in ("cars", "credit", "cars:paper", "credit:paper")
    ]
    assert "credit:paper: report after 1,020 CPU s" in capsys.readouterr().out.splitlines()
    written = json.loads((tmp_path / "times.json").read_text())
    assert [row["config"] for row in written["rows"]] == [config for config, *_ in asked]
    assert (written["budget"], written["flags"], written["share"]) == (7, ["--seed=3"], 0.95)
