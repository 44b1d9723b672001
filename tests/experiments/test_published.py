"""Our ports beside PyKEEN's: what is asked, kept, compared and shown; the peer is a script of a few lines."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments import published
from numcoke_jax.config.checks import flatten
from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config
from numcoke_jax.system.errors import UserError

FACTS = {"train": 8, "valid": 1, "test": 2}
ANSWER = {"mrr": {"tails": 0.5, "heads": 0.25, "both": 0.375}, "facts": FACTS, "seconds": 2.0}


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A peer that counts its calls in a file and answers the same each time; returns that file."""
    calls, script = tmp_path / "calls", tmp_path / "peer.py"
    script.write_text(
        f"import json, sys\nopen({str(calls)!r}, 'a').write(json.loads(sys.argv[1])['model'] + ' ')\n"
        f"print({json.dumps(ANSWER)!r})\n"
    )
    monkeypatch.setattr(published, "PEER", script)
    return calls


def options_of(out: Path, *flags: str) -> Any:
    return published.parser().parse_args(["--peer-python=python", f"--out={out}", *flags])


def test_both_sides_are_asked_the_same(tmp_path: Path) -> None:
    options = options_of(tmp_path, "--seeds=3,5", "--models=rotate,tucker", "--epochs=7")
    commands = published.commands_of(options, {"umls": tmp_path / "umls"})
    assert list(commands) == [("umls", name, seed) for name in ("rotate", "tucker") for seed in (3, 5)]
    config = commands["umls", "rotate", 5].config
    asked = published.asked_of(commands["umls", "rotate", 5], "rotate", 8)
    assert (asked["dim"], asked["seed"], asked["epochs"], asked["steps"]) == (64, 5, 7, 8)
    assert (asked["norm"], asked["margin"]) == (config.score.norm, config.score.margin) == (2, 2.0)
    assert config.train.eval_every_epochs == 7 and not config.train.patience, "the last epoch counts"
    assert config.data.inverse and config.model.name == "rotate" and config.model.attributes == "none"
    assert published.asked_of(commands["umls", "tucker", 3], "tucker", 8)["margin"] == 0.0


def test_what_is_compared_does_not_follow_the_shipped_config(tmp_path: Path) -> None:
    """Its sampled candidates and its loss are for a graph a hundred times larger."""
    (tmp_path / "umls").mkdir()
    commands = published.commands_of(options_of(tmp_path, "--seeds=0"), {"umls": tmp_path / "umls"})
    for (_, model, _), command in commands.items():
        expected = default_config()
        apply_preset(expected, model)
        given = {**published.SHARED, **published.OF_MODEL[model]}
        idle = {"data.table", "data.path", "numeric.missing", "score.order", "train.eval_every_epochs"}
        found, plain = flatten(command.config), flatten(expected)
        assert {key for key in found if key not in idle and found[key] != given.get(key, plain[key])} == set()


def test_the_steps_of_an_epoch_are_read_off_the_run(tmp_path: Path) -> None:
    entries = [{"step": 24, "epoch": 3, "kind": "train"}, {"step": 56, "epoch": 7, "kind": "train"}]
    lines = [json.dumps(entry) for entry in [*entries, {"step": 56, "epoch": 7, "kind": "valid"}]]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert published.steps_of(tmp_path) == 8


@pytest.mark.parametrize("flags", [["--models=rotat"], ["--graphs=umsl"]])
def test_a_name_that_is_no_choice_is_refused(tmp_path: Path, flags: list[str]) -> None:
    options = options_of(tmp_path, *flags)
    with pytest.raises(UserError, match="is not a choice; did you mean"):
        published.commands_of(options, dict.fromkeys(options.graphs.split(","), tmp_path))


def test_an_answer_is_kept_and_asked_again_only_for_another_question(tmp_path: Path, peer: Path) -> None:
    kept = tmp_path / "kept" / "a.json"
    for question in ({"model": "a"}, {"model": "a"}, {"model": "b"}):
        found = published.peer_answer(Path(sys.executable), question, kept)
        assert found == {"asked": question, **ANSWER}
    assert peer.read_text() == "a b "
    kept.write_text("{")
    published.peer_answer(Path(sys.executable), {"model": "b"}, kept)
    assert peer.read_text() == "a b b ", "a damaged file is no answer"


def test_a_peer_that_ends_without_an_answer_is_named_with_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "peer.py"
    script.write_text("raise MemoryError('no room')")
    monkeypatch.setattr(published, "PEER", script)
    with pytest.raises(UserError, match="PyKEEN ended at conve: MemoryError: no room"):
        published.peer_answer(Path(sys.executable), {"model": "conve"}, tmp_path / "a.json")
    assert not (tmp_path / "a.json").exists()


def test_an_interpreter_without_pykeen_is_told_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file or directory"):
        published.package_of(tmp_path / "nothing")
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(UserError, match="has no PyKEEN: python -m venv ENV && ENV/bin/pip install pykeen"):
        published.package_of(script)


def test_the_files_of_a_graph_are_copied_whole_or_missed_by_name(tmp_path: Path) -> None:
    source = tmp_path / "datasets" / "kinships"
    source.mkdir(parents=True)
    for split in published.SPLITS:
        (source / f"{split}.txt").write_text(f"a\t{split}\tb\n")
    folder = published.folder_of(tmp_path, "kinship", tmp_path / "out")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        f"{split}.txt": f"a\t{split}\tb\n" for split in published.SPLITS
    }
    (source / "valid.txt").unlink()
    with pytest.raises(UserError, match=r"there is no .*valid\.txt"):
        published.folder_of(tmp_path, "kinship", tmp_path / "out")


def report_of(both: float, **changes: Any) -> dict[str, Any]:
    test = {"mrr": both + 0.1, "heads": {"mrr": both - 0.1}, "both": {"mrr": both}}
    return {"test": test, "protocol": {"facts": FACTS}, "seconds": 3.0} | changes


def test_rows_have_means_over_seeds_and_their_difference() -> None:
    """(0.40 + 0.44) / 2 - 0.375 is 0.045: not level; 0.39 - 0.375 is."""
    reports = {("umls", "complex", 0): report_of(0.40), ("umls", "complex", 1): report_of(0.44)}
    reports |= {("umls", "rotate", 0): report_of(0.39), ("umls", "rotate", 1): {"failed": "NaN"}}
    peers = {key: ANSWER for key, report in reports.items() if "failed" not in report}
    first, second = published.rows_of(reports, peers)
    assert first["ours"]["both"]["mean"] == pytest.approx(0.42)
    assert first["ours"]["tails"]["mean"] == pytest.approx(0.52)
    assert first["pykeen"]["heads"]["mean"] == 0.25 and first["seconds"] == [6.0, 4.0]
    assert first["difference"] == pytest.approx(0.045) and not first["level"]
    assert second["seeds"] == [0] and second["level"] and second["ours"]["both"]["std"] is None


def test_figures_of_other_facts_are_refused() -> None:
    key = ("umls", "complex", 0)
    published.check_facts(key, report_of(0.4), ANSWER)
    with pytest.raises(UserError, match="umls: we read .* and PyKEEN .*: the figures would not compare"):
        published.check_facts(key, report_of(0.4), {"facts": FACTS | {"test": 1}})


def test_the_whole_is_printed_written_and_not_made_again(
    tmp_path: Path, peer: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake_rounds(commands: dict, tell: Any) -> dict:
        reports = {key: report_of(0.39) for key in commands}
        for key, report in reports.items():
            workdir = commands[key].workdir
            workdir.mkdir(parents=True, exist_ok=True)
            (workdir / "metrics.jsonl").write_text('{"step": 16, "epoch": 2, "kind": "train"}\n')
            tell(key, report)
        return reports

    package = tmp_path / "package"
    for split in published.SPLITS:
        path = package / "datasets" / "nations" / f"{split}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a\tr\tb\n")
    monkeypatch.setattr(published, "run_rounds", fake_rounds)
    monkeypatch.setattr(published, "package_of", lambda python: package)
    flags = [f"--peer-python={sys.executable}", f"--out={tmp_path / 'out'}", "--graphs=nations"]
    for _ in range(2):
        assert published.main([*flags, "--models=complex", "--seeds=0,1"]) == 0
    assert peer.read_text() == "complex complex ", "once for each seed, none in the second call"
    shown = capsys.readouterr().out
    assert "2/2 nations complex seed 1: 0.3900, PyKEEN 0.3750 (" in shown and "+0.0150" in shown
    assert max(map(len, shown.splitlines())) <= max(80, len(str(tmp_path)) + 70)
    written = json.loads((tmp_path / "out" / "published.json").read_text())
    assert [run["seed"] for run in written["runs"]] == [0, 1] and written["rows"][0]["level"] is True
