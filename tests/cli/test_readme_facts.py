"""The transcripts of the README: a table, two tables to a probability, a new row, a hidden column."""

import csv
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from vega_datasets import local_data

from numcoke_jax.cli.main import main

REPOSITORY = Path(__file__).parents[2]
FIELDS = ("aces", "birth_year", "first_serves_won", "height", "ranking_points", "right_handed")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """results.csv and players.csv with the columns of the README's: taller players win, most of the time."""
    rng = np.random.default_rng(0)
    names = ["player_0005", "player_0219", *(f"player_1{i:03d}" for i in range(28))]
    heights = rng.normal(185, 8, size=len(names))
    with open(tmp_path / "players.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["player", *FIELDS])
        for player, height in enumerate(heights):
            values = ["" if field == "aces" and player % 3 else round(rng.random(), 3) for field in FIELDS]
            rows.writerow([names[player], *values[:3], round(height, 1), *values[4:]])
    with open(tmp_path / "results.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["winner", "loser", "split"])
        for match in range(600):
            one, other = rng.choice(len(names), size=2, replace=False)
            if heights[one] - heights[other] + rng.normal(0, 6) < 0:
                one, other = other, one
            rows.writerow([names[one], names[other], ("train", "train", "train", "valid", "test")[match % 5]])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shape(line: str) -> str:
    """A line with every number as 0, one space between words, and no rule."""
    return re.sub(r"\s+", " ", re.sub(r"-?\d[\d,.]*", "0", line)).strip(" ─")


def transcript(title: str) -> tuple[list[list[str]], list[str]]:
    """The words of the commands, and the lines that they are said to print, of a section of the README."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    section = readme.partition(f"### {title}\n")[2].partition("\n### ")[0]
    typed, shown = re.findall(r"^```\w*\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE)
    commands = [shlex.split(line) for line in typed.replace("\\\n", " ").splitlines()]
    return commands, [line for line in shown.splitlines() if line != "..."]


def test_a_table_becomes_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a hundred of the cars, for time: all lines but those of the entities, which are others then."""
    monkeypatch.chdir(tmp_path)
    cars = pd.read_json(local_data.cars.filepath)
    cars.assign(Year=cars["Year"].str[:4]).to_csv("cars.csv", index=False)
    commands, shown = transcript("A table of your own")
    commands[0].append("--data.group_size=100")
    for words in commands:
        assert main(words[1:]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = {shape(line) for line in printed.out.splitlines()}
    assert [line for line in map(shape, shown[:-3]) if line not in lines] == []
    assert len([line for line in lines if re.search(r"Horsepower 0 to 0 of 0 ", line)]) == 2


def test_the_readmes_commands_do_what_it_shows(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands, shown = transcript("Facts of your own")
    assert [words[:2] for words in commands] == [
        ["numcoke", "data"],
        ["numcoke", "train"],
        ["numcoke", "predict"],
    ]
    for words in commands:
        assert main(words[1:]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = {shape(line) for line in printed.out.splitlines()}
    assert [line for line in map(shape, shown) if line not in lines] == []
    answer = next(line for line in printed.out.splitlines() if line.startswith("player_0219"))
    assert 0.0 < float(answer.split()[3].rstrip("%")) < 100.0 and (place / "matches" / "train.txt").exists()


def test_the_pair_has_the_probability_that_the_readme_shows(
    shared_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the players themselves."""
    for name in ("results.csv", "players.csv"):
        shutil.copy(shared_dir / "data" / "matches" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    commands, shown = transcript("Facts of your own")
    for words in commands:
        assert main(words[1:]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [
        line for line in shown if line.startswith(("player", "results.csv", "facts")) and line not in lines
    ] == []


def test_a_new_row_has_the_place_that_the_readme_shows_and_a_hidden_column_its_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the cars table itself: figures, too, but for the last digits, which another machine may round."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("name,Horsepower,Year\nmy car,130,1975\n")
    commands, shown = transcript("A new row, and a hidden column")
    for words in commands:
        assert main(words[1:]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith(("my car", "Places")) and line not in lines] == []
    accuracy = {
        line.split()[0]: float(line.split()[2]) for line in lines if re.match(r"Weight\S+_comp  ", line)
    }
    told = {line.split()[0]: float(line.split()[2]) for line in shown if re.match(r"Weight\S+_comp  ", line)}
    assert accuracy["Weight_in_lbs_comp"] == pytest.approx(told["Weight_in_lbs_comp"], abs=0.003)
