"""The settings of a graph without a config, and what is said about them."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from numcoke_jax import api
from numcoke_jax.api import NumericKG
from numcoke_jax.cli.command_line import parse_command_line
from numcoke_jax.cli.main import main
from numcoke_jax.config.files import graph_folder
from numcoke_jax.data.load import load_folder
from numcoke_jax.runs.chosen import chosen_config
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.resume import PatienceState, chosen_by
from numcoke_jax.system.errors import UserError
from tests.tiny_runs import config_of, numcoke, train, write_folder

STRICT = [(i, j) for i in range(12) for j in range(i) if (i + j) % 3]


def folder_of(path: Path, **relations: list[tuple[int, int]]) -> Path:
    write_folder(path)
    for split, part in (
        ("train", slice(0, None, 2)),
        ("valid", slice(1, None, 4)),
        ("test", slice(3, None, 4)),
    ):
        rows = [f"e{h}\t{name}\te{t}\n" for name, facts in relations.items() for h, t in facts[part]]
        (path / f"{split}.txt").write_text("".join(rows))
    (path / "neg.txt").unlink()
    return path


@pytest.mark.parametrize(
    ("relations", "selection", "said"),
    [
        ({"above": STRICT}, "reversed", "1 strict comparison, 2 fields"),
        (
            {"above": STRICT, "below": [(t, h) for h, t in STRICT]},
            "reversed",
            "2 strict comparisons, 2 fields",
        ),
        (
            {"beat": [*STRICT, (1, 9), (9, 1), (1, 9), (9, 1)]},
            "seen",
            "1 noisy comparison (beat: 3% of pairs both ways), 2 fields",
        ),
        (
            {"beat": [*STRICT, (0, 11), (0, 11), (0, 11)], "above": STRICT},
            "seen",
            "1 strict comparison, 1 noisy comparison (beat: ",
        ),
        (
            {"above": STRICT, "next": [(i, (i + 1) % 12) for i in range(12)] * 2},
            "seen",
            "1 strict comparison, 1 relation of another kind, 2 fields",
        ),
    ],
)
def test_the_training_facts_decide(
    tmp_path: Path, relations: dict[str, list[tuple[int, int]]], selection: str, said: str
) -> None:
    graph = load_folder(str(folder_of(tmp_path / "g", **relations))).graph
    config, line = chosen_config(graph)
    assert config.eval.selection == selection
    assert line.startswith(f"settings: preset numeric, eval.selection={selection}; ") and said in line
    assert config.score.order_core and "\n" not in line


@pytest.mark.parametrize(("values", "trains"), [([1, 2], False), ([1, 2, 2], False), ([1, 2, 3], True)])
def test_facts_that_nothing_can_be_learned_from_are_refused(values: list[int], trains: bool) -> None:
    """Three rows have an order, of which nothing is trained; two rows, or equal ones, have none."""
    table = pd.DataFrame({"name": [f"e{row}" for row in range(len(values))], "size": values})
    kg = NumericKG.from_table(table, name="name")
    if trains:
        assert "1 strict comparison" in chosen_config(kg.graph, compared=kg.compared_relations)[1]
        return
    with pytest.raises(
        UserError, match=r"^the graph has \d facts? for training, too few for an order or for"
    ):
        chosen_config(kg.graph, compared=kg.compared_relations)


def test_few_facts_beside_an_order_are_said_to_be_few(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "graph", above=STRICT, near=[(1, 2), (3, 4), (5, 6)])
    run = create_run(numcoke(config_of(folder, score__order_core=True)))
    assert "2 facts to train on: too few to learn from" in run.loaded.notices


def test_a_validation_fact_that_contradicts_the_training_counts(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "g", above=STRICT)
    head, relation, tail = (folder / "train.txt").read_text().splitlines()[0].split("\t")
    with open(folder / "valid.txt", "a") as file:
        file.write(f"{tail}\t{relation}\t{head}\n")
    assert chosen_config(load_folder(str(folder)).graph)[0].eval.selection == "seen"


def test_a_folder_stands_for_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "mine", above=STRICT)
    command = parse_command_line(["train", str(folder), "--seed=3"])
    assert command.config.data.path == str(folder) and command.config.seed == 3
    assert command.config.eval.selection == "reversed" and command.kg is not None
    assert command.workdir == Path("runs/mine-seed3") and command.chosen.startswith("settings: ")
    paper = parse_command_line(["train", f"{folder}:paper"])
    assert paper.workdir == Path("runs/mine-paper-seed0") and not paper.config.score.order_core
    seen = parse_command_line(["train", str(folder), "--eval.selection=seen"])
    assert seen.config.eval.selection == "seen"
    monkeypatch.chdir(tmp_path)
    assert parse_command_line(["train", "mine"]).config.data.path == "mine"
    for wrong, said in (
        ([f"{folder}:papr"], "there is no preset 'papr'; did you mean paper?"),
        ([str(folder), "--data.path=x"], "and --data.path: give only one graph"),
        ([str(tmp_path)], "is a folder without train.txt: give a config file, such as configs/cars.py"),
    ):
        with pytest.raises(UserError, match=said):
            parse_command_line(["train", *wrong])


def test_a_folder_is_one_with_training_facts(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "g")
    assert graph_folder(str(folder)) == (str(folder), "") and graph_folder(f"{folder}:x") == (
        str(folder),
        "x",
    )
    assert graph_folder(str(tmp_path)) == graph_folder("cars") == graph_folder("") == ("", "")
    (folder / "train.txt").rename(folder / "train.txt.gz")
    assert graph_folder(str(folder)) == (str(folder), "")


def test_a_noisy_graph_trains_without_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of 33 pairs has facts both ways: the shipped eval.selection=reversed is refused."""
    folder = folder_of(tmp_path / "g", beat=[*STRICT, (1, 9), (9, 1), (1, 9), (9, 1)])
    refused = [f"--data.path={folder}", "--eval.selection=reversed", f"--workdir={tmp_path / 'no'}"]
    assert main(["train", "cars", *refused]) == 2
    assert "holds in both directions for some entities" in capsys.readouterr().err
    assert main(["train", str(folder), f"--workdir={tmp_path / 'run'}"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "eval.selection=seen; 1 noisy comparison (beat: 3% of pairs both ways), 2 fields" in shown
    kg = NumericKG.from_folder(folder)
    model = api.train(kg, workdir=tmp_path / "python")
    assert "eval.selection=seen; 1 noisy" in " ".join(capsys.readouterr().out.split())
    assert model.trained.run.config.eval.selection == "seen"
    answers = model.predict("e5", "beat", top=3)
    assert np.isfinite(answers["probability"]).all()
    held_out = pd.read_csv(folder / "test.txt", sep="\t", names=["head", "relation", "tail"])
    surprise = -np.log(model.score(held_out)["probability"]).mean()
    assert model.report["order"]["all"]["log_loss"] == pytest.approx(surprise, rel=1e-5)


def test_the_last_epoch_counts_where_validation_has_no_fact_of_what_is_trained(tmp_path: Path) -> None:
    """Categories are facts for training only: to stop at the first validation would leave them unlearned."""
    names = [f"p{place:02d}" for place in range(12)]
    facts = pd.DataFrame([(names[h], names[t]) for h, t in STRICT], columns=["taller", "smaller"])
    attributes = pd.DataFrame({"name": names, "height": np.arange(12.0), "kind": ["x", "y", "z"] * 4})
    kg = NumericKG.from_facts(
        facts, attributes, head="taller", tail="smaller", relation="above", name="name", categories="kind"
    )
    config = numcoke(config_of(tmp_path, train__patience=1, score__order_core=True))
    run = create_run(config, kg.loaded)
    assert run.blind and any("the last epoch counts, not the best" in line for line in run.loaded.notices)
    report, shown = train(run, tmp_path / "run")
    assert report["best_epoch"] == config.train.epochs and report["selection_mrr"] is None
    assert "stopped early" not in shown and shown.count(" best\n") == config.train.epochs
    metrics = {"mrr": 0.5}
    assert chosen_by(run, metrics, PatienceState()) is None
    assert chosen_by(run, metrics, PatienceState(0.4, 1, 3, 0)) == 0.5, "as an earlier version began it"
    whole = dataclasses.replace(kg.loaded.graph, valid=kg.loaded.graph.train)
    assert not create_run(config, dataclasses.replace(kg.loaded, graph=whole)).blind
