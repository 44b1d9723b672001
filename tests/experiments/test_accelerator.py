"""The script for accelerators, whole and small on the CPU; and what it says if something does not hold."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments.benchmark import accelerator
from experiments.benchmark.accelerator import Machine, NotDoneError
from numcoke_jax.runs.stored import Metrics, Report, write_report

LOG = [
    {"step": 3, "kind": "train", "bce": 0.5, "contrastive": 0.25, "queries_per_second": 10.0},
    {"step": 3, "kind": "valid", "mrr": 0.75},
]
METRICS: Metrics = {"count": 1, "mrr": 0.75, "mr": 1.5, "hits@1": 0.5, "hits@3": 1.0, "hits@10": 1.0}
REPORT: Report = {
    "seed": 0,
    "best_epoch": 1,
    "seconds": 2.0,
    "valid": {**METRICS},
    "test": {**METRICS},
    "environment": {"device_kind": "card"},
}


def logged(monkeypatch: pytest.MonkeyPatch, **changes: dict[str, float]) -> Machine:
    """A machine whose runs write LOG, with other losses or metrics in the runs that are named."""

    def write(self: Machine, command: Sequence[str], **_: str) -> None:
        (flag,) = [word for word in command if word.startswith("--workdir=")]
        workdir = Path(flag.removeprefix("--workdir="))
        workdir.mkdir()
        rows = [row | {k: v for k, v in changes.get(workdir.name, {}).items() if k in row} for row in LOG]
        (workdir / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        write_report(workdir, REPORT)

    monkeypatch.setattr(Machine, "run", write)
    return Machine(Path(), accelerator.SMALL, 0.0)


def test_a_last_bit_is_noticed_and_a_time_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, changes, same in (
        ("a", {"second": {"queries_per_second": 11.0}}, True),
        ("b", {"second": {"bce": 0.5 + 2**-53}}, False),
    ):
        machine = logged(monkeypatch, **changes)
        machine.place = tmp_path / name
        machine.place.mkdir()
        found = accelerator.same_bits(machine)
        assert found == {"ok": same, "rows": 2, "device": "card", "xla_flags": accelerator.DETERMINISTIC}


@pytest.mark.parametrize(("share", "ok"), [(9e-4, True), (1.1e-3, False)])
def test_the_losses_may_differ_by_the_tolerance(
    share: float, ok: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = logged(monkeypatch, first={"contrastive": 0.25 * (1 - share), "mrr": 0.5})
    machine.place = tmp_path
    found = accelerator.agreement(machine)
    assert found["ok"] is ok and found["largest_share"] == pytest.approx(share)
    assert found["largest_mrr_gap"] == 0.25


def test_what_fails_or_is_late_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(tmp_path, accelerator.SMALL, time.monotonic() + 60)
    with pytest.raises(NotDoneError, match="^no such table$"):
        machine.run(["-c", "import sys; print('error: no such table', file=sys.stderr); sys.exit(2)"])
    machine.deadline = time.monotonic() + 0.3
    with pytest.raises(NotDoneError, match="^the time was over before it ended$"):
        machine.run(["-c", "import time; time.sleep(20)"])
    with pytest.raises(NotDoneError, match="^the time was over before it began$"):
        machine.run(["-c", ""])

    def lacks(_: Machine) -> Any:
        raise NotDoneError("no such table")

    monkeypatch.setattr(accelerator, "PARTS", {"bits": lambda _: {"rows": 2}, "table": lacks})
    assert accelerator.main([f"--json={tmp_path / 'found.json'}"]) == 1
    parts = json.loads((tmp_path / "found.json").read_text())["parts"]
    assert parts == {"bits": {"ok": True, "rows": 2}, "table": {"ok": False, "why": "no such table"}}
    assert "NO" in capsys.readouterr().out


@pytest.mark.slow  # eight processes that compile
def test_the_whole_script_on_the_cpu(tmp_path: Path) -> None:
    assert accelerator.main(["--small", "--minutes=60", f"--json={tmp_path / 'found.json'}"]) == 0
    parts = json.loads((tmp_path / "found.json").read_text())["parts"]
    assert list(parts) == list(accelerator.PARTS)
    assert parts["agreement"]["largest_share"] == 0.0  # the same device
    assert parts["same bits"]["rows"] == 6
    assert parts["bfloat16"]["products"] == "bfloat16" and parts["step"]["products"] == "float32"
    assert 0 < parts["fb15k_237"]["mrr"] <= 1
