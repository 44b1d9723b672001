"""Entities that come with facts after training: how the folders are read, and a tiny graph that is asked."""

import json

import numpy as np
import pytest

from experiments import new_entities
from experiments.new_entities import graph_of, new_ones
from numcoke_jax.system.errors import UserError
from tests import tiny_runs


def write(folder, first, *, splits):
    """A chain of six entities by value: facts of neighbours in one split, of the others in the next."""
    (folder / "literals").mkdir(parents=True)
    names = [f"e{first + place}" for place in range(6)]
    pairs = [(high, low) for low in range(6) for high in range(low + 1, 6)]
    parts = [[pair for pair in pairs if pair[0] - pair[1] <= 2], [p for p in pairs if p[0] - p[1] > 2]]
    for split, part in zip(splits, parts, strict=True):
        lines = [f"{names[high]}\tweight_comp\t{names[low]}\n" for high, low in part]
        (folder / f"{split}.txt").write_text("".join(lines))
    values = [f"{name}\tweight\t{place + 1}\n{name}\tage\t{place % 2}\n" for place, name in enumerate(names)]
    (folder / "literals" / "numerical_literals.txt").write_text("".join(values))
    return folder


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "some_ind", 6, splits=("train", "test"))
    return write(tmp_path / "some", 0, splits=("train", "valid"))


def test_new_entities_follow_the_known_ones(folder, tmp_path):
    known = graph_of(folder, tmp_path / "a")
    asked = graph_of(folder.with_name("some_ind"), tmp_path / "b")
    assert (len(known.valid), len(known.test), len(asked.valid), len(asked.test)) == (6, 0, 0, 6)
    new, facts = new_ones(known, asked)
    assert new.names[0] not in known.vocabulary.entities and new.values.shape == (6, known.num_fields)
    assert new.facts[:, [0, 2]].min() == 6 and facts[:, [0, 2]].max() == 11
    weight = known.vocabulary.fields.index("weight")
    assert np.all(new.values[facts[:, 0] - 6, weight] > new.values[facts[:, 2] - 6, weight])
    with pytest.raises(UserError, match="'e0' is in both folders"):
        new_ones(known, known)


def test_new_entities_are_asked_with_their_facts_and_without(folder, tmp_path, capsys):
    arguments = [
        f"--data=configs/cars.py@{folder}",
        "--models=bounds,bradley_terry",
        "--values=true,removed",
        f"--out={tmp_path / 'out'}",
    ]
    with tiny_runs.compiled_fast():
        assert new_entities.main(arguments) == 0
        first = (tmp_path / "out" / "new_entities.json").read_bytes()
        assert new_entities.main(arguments) == 0
    assert (tmp_path / "out" / "new_entities.json").read_bytes() == first
    rows = {(row["model"], row["values"], row["facts"]): row for row in json.loads(first)}
    assert len(rows) == 8 and {row["count"] for row in rows.values()} == {6}
    assert rows["bounds", "true", "none"]["order_accuracy"] == 1.0  # values alone say it
    assert rows["bradley_terry", "removed", "none"]["order_accuracy"] == 0.5  # nothing is known
    assert rows["bradley_terry", "removed", "given"]["order_accuracy"] == 1.0  # chains of facts do
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 80


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("configs/cars.py", "needs a folder: CONFIG@DIR/NAME, with DIR/NAME_ind beside it"),
        ("configs/cars.py@nowhere", "nowhere: there is no train.txt, which --data needs there"),
    ],
)
def test_wrong_folders_are_refused(data, complaint, tmp_path, capsys):
    assert new_entities.main([f"--data={data}", f"--out={tmp_path}"]) == 2
    assert complaint in capsys.readouterr().err


def test_a_share_of_the_values_can_be_hidden(folder, tmp_path):
    whole, masked, again, other = (
        graph_of(folder, tmp_path / name, missing, seed)
        for name, missing, seed in (
            ("whole", 0.0, 0),
            ("masked", 0.4, 0),
            ("again", 0.4, 0),
            ("other", 0.4, 1),
        )
    )
    assert (other.observed != masked.observed).any()
    assert whole.observed.all() and 0 < masked.observed.sum() < whole.observed.sum()
    assert (masked.observed == again.observed).all() and (masked.train == whole.train).all()
    for wrong in ("1", "-0.1", "nan", "some"):
        with pytest.raises(UserError, match=f"--missing: needs a number >= 0 and < 1, got '{wrong}'"):
            new_entities.parser().parse_args([f"--data=configs/cars.py@{folder}", f"--missing={wrong}"])


def test_each_seed_hides_other_values_and_the_table_has_their_mean_and_deviation(folder, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = [f"--data=configs/cars.py@{folder}", "--models=bounds", "--values=true", f"--out={out}"]
    with tiny_runs.compiled_fast():
        assert new_entities.main([*arguments, "--missing=0.5", "--seeds=0,1,2"]) == 0
    rows = json.loads((out / "new_entities.json").read_text())
    aucs = [row["auc"] for row in rows if row["facts"] == "none"]
    assert len(aucs) == 3 and len(set(aucs)) > 1
    told = f"| bounds | true | none | {np.mean(aucs):.4f} ±{np.std(aucs, ddof=1):.4f} |"
    assert told in (out / "new_entities.md").read_text()
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 80
