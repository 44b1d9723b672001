"""The literal-use experiment: which runs it makes; means, deviations, gap to shuffled values by hand."""

from typing import Any

import pytest

from experiments import literal_use
from experiments.literal_use import draw, main, rows_of, shares_of, show
from numcoke_jax.system.errors import UserError


def report(mrr: float) -> dict[str, Any]:
    metrics = {"count": 4, "mrr": mrr, "hits@1": mrr / 2, "hits@3": None, "hits@10": 1.0, "mr": 10 * mrr}
    return {"seed": 0, "valid": metrics, "test": metrics, "environment": {"data_sha256": "a" * 64}}


REPORTS = {
    ("", "paper", "true"): [report(0.8), report(0.9)],
    ("", "paper", "shuffled"): [report(0.5), report(0.7)],
    ("", "numeric", "true"): [report(1.0)],
}
SPLIT_REPORTS = {
    (split, *key[1:]): of_key for key, of_key in REPORTS.items() for split in ("10/10/80", "80/10/10")
}


def test_rows_hold_mean_deviation_and_gap():
    rows = {(row["preset"], row["values"]): row for row in rows_of(REPORTS)}
    true = rows["paper", "true"]
    assert true["seeds"] == 2
    assert true["mrr"]["mean"] == pytest.approx(0.85)
    assert true["mrr"]["std"] == pytest.approx(0.0707106781)  # sqrt((0.05^2 + 0.05^2) / 1)
    assert true["gap to shuffled"] == pytest.approx(0.85 - 0.6)
    assert rows["paper", "shuffled"]["gap to shuffled"] is None


def test_one_seed_has_no_deviation_and_no_control_no_gap():
    row = next(row for row in rows_of(REPORTS) if row["preset"] == "numeric")
    assert row["mrr"]["std"] is None and row["gap to shuffled"] is None


@pytest.mark.parametrize("reports", [REPORTS, SPLIT_REPORTS])
def test_the_table_fits_80_columns_and_the_figure_is_a_png(reports, tmp_path, capsys):
    rows = [row for row in rows_of(reports) if row["preset"] == "paper"]
    show(rows, "a graph")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
    assert sum("+0.250" in line for line in lines) == len(rows) // 2
    draw(rows, "a graph", tmp_path / "bars.png")
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


def test_every_split_has_runs_of_its_own():
    flags = ["--config=configs/credit.py", "--presets=paper", "--seeds=3", "--out=o"]
    commands = literal_use.commands_of(
        *literal_use.parser().parse_known_args([*flags, "--splits=10/10/80,80/10/10"])
    )
    assert len(commands) == 4 == len({command.workdir for command in commands.values()})
    command = commands[("80/10/10", "paper", "shuffled"), 3]
    assert command.config.data.split == (0.8, 0.1, 0.1)
    assert (command.config.data.control, command.config.seed) == ("shuffled", 3)
    capped = literal_use.commands_of(*literal_use.parser().parse_known_args([*flags, "--epochs=7"]))
    assert {command.config.train.epochs for command in capped.values()} == {7}
    given = literal_use.commands_of(*literal_use.parser().parse_known_args(flags))
    assert given[("", "paper", "true"), 3].config.data.split == (0.1, 0.1, 0.8)


@pytest.mark.parametrize(
    ("split", "complaint"),
    [
        ("80/20", "must be percentages of train/valid/test, such as 80/10/10"),
        ("0.8/0.1/0.1", "must be percentages of train/valid/test, such as 80/10/10"),
        ("80/10/20", "adds up to 110, must be 100"),
    ],
)
def test_a_split_that_is_none(split, complaint):
    with pytest.raises(UserError) as caught:
        shares_of(split)
    assert str(caught.value) == f"--splits={split} {complaint}"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--presets=papr"], "--config: there is no preset 'papr'; did you mean paper?"),
        (
            ["--splits=80/10/10", "--data=x"],
            "--splits divides the facts of a table, but a folder of --data has its own split: leave one out",
        ),
    ],
)
def test_a_wrong_flag_is_one_line_and_code_two(flags, complaint, tmp_path, capsys):
    assert main(["--config=configs/credit.py", "--seeds=0", f"--out={tmp_path}", *flags]) == 2
    assert capsys.readouterr().err == f"error: {complaint}\n"
