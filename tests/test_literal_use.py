"""The table of the literal-use experiment: means, deviations and the gap to shuffled values by hand."""

import pytest

from experiments.literal_use import draw, main, rows_of


def report(mrr: float) -> dict:
    return {"test": {"mrr": mrr, "hits@1": mrr / 2, "mr": 10 * mrr}}


REPORTS = {
    ("paper", "true", 0): report(0.8),
    ("paper", "true", 1): report(0.9),
    ("paper", "shuffled", 0): report(0.5),
    ("paper", "shuffled", 1): report(0.7),
    ("numeric", "true", 0): report(1.0),
}


def test_rows_hold_mean_deviation_and_gap():
    rows = {(row["preset"], row["values"]): row for row in rows_of(REPORTS)}
    true = rows["paper", "true"]
    assert true["seeds"] == 2
    assert true["mrr"] == pytest.approx(0.85)
    assert true["mrr std"] == pytest.approx(0.0707106781)  # sqrt((0.05^2 + 0.05^2) / 1)
    assert true["gap to shuffled"] == pytest.approx(0.85 - 0.6)
    assert rows["paper", "shuffled"]["gap to shuffled"] is None


def test_one_seed_has_no_deviation_and_no_control_no_gap():
    row = next(row for row in rows_of(REPORTS) if row["preset"] == "numeric")
    assert row["mrr std"] is None and row["gap to shuffled"] is None


def test_the_figure_is_a_png(tmp_path):
    draw(
        rows_of({key: REPORTS[key] for key in REPORTS if key[0] == "paper"}), "a graph", tmp_path / "bars.png"
    )
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


def test_a_wrong_preset_is_one_line_and_code_two(tmp_path, capsys):
    arguments = ["--config=configs/credit.py", "--presets=papr", "--seeds=0", f"--out={tmp_path}"]
    assert main(arguments) == 2
    assert capsys.readouterr().err == "error: --config: there is no preset 'papr'; did you mean paper?\n"
