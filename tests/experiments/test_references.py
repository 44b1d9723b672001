"""The references experiment: which runs it makes, measures and means by hand, what is left, a tiny graph."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from experiments import references
from experiments.references import MODELS, REFERENCES, csv_of, markdown_of, rows_of
from numcoke_jax.system.errors import UserError
from tests import tiny_runs


def report(accuracy: float | None, seed: int = 0) -> dict[str, Any]:
    metrics = {"count": 4, "mrr": 0.5, "hits@1": 0.25, "hits@3": None, "hits@10": 1.0, "mr": 2.0}
    order = {
        "all": {"count": 4, "order_accuracy": accuracy, "auc": 0.9, "log_loss": 0.3, "tau": 0.8},
        "narrowest_quarter": {"gap": 0.1, "count": 1, "order_accuracy": 0.75},
    }
    return {
        "seed": seed,
        "seconds": 2.0,
        "test": metrics,
        "order": None if accuracy is None else order,
        "order_accuracy": [{"pairs": "both values observed", "model": 0.875}] if accuracy else [],
        "calibration": {"test": {"after": {"ece": 0.01, "nll": 0.2}}},
    }


REPORTS = {
    ("cars", "given", "numeric", "true"): [report(0.96), report(0.98, 1)],
    ("cars", "given", "bounds", "true"): [report(0.90)],
    ("cars", "given", "posterior", "true"): [report(0.95)],
    ("cars", "given", "numeric", "removed"): [report(0.8), {"seed": 1, "failed": "why"}],
    ("cars", "noisy", "numeric", "true"): [report(None)],
}


def test_rows_have_means_and_deviations_and_what_is_left():
    rows = rows_of(REPORTS)
    first = rows[0]
    assert first["seeds"] == [0, 1] and first["order_accuracy"]["mean"] == pytest.approx(0.97)
    assert first["order_accuracy"]["std"] == pytest.approx(0.0141421356)  # sqrt(2 * 0.01^2)
    others = [first[name]["mean"] for name in ("narrowest", "both observed", "ece", "nll")]
    assert others == [0.75, 0.875, 0.01, 0.2]
    assert first["left"] == pytest.approx(-0.4)  # (0.95 - 0.97) / (0.95 - 0.90)
    assert first["left to 1"] == pytest.approx(0.3)  # 0.03 of 0.10
    assert (rows[1]["left"], rows[2]["left"]) == (pytest.approx(1.0), pytest.approx(0.0))
    assert rows[3]["left"] is None and rows[3]["failed"] == [1]  # no bounds with these values
    assert rows[4]["order_accuracy"]["mean"] is None


def test_markdown_and_csv_hold_the_rows():
    rows = rows_of(REPORTS)
    lines = markdown_of(rows).splitlines()
    assert lines[0] == "## cars, given; seeds 0, 1"
    assert lines[4].startswith("| NumCoKE, shipped | true | 0.9700 ± 0.0141 | 0.8750 ± 0.0000 |")
    assert lines[4].endswith("| 2 ± 0 | -0.40 | 0.30 |")
    assert lines[7].startswith("| NumCoKE, shipped, 1 of 2 seeds | removed | 0.8000 |")
    table = list(csv.DictReader(io.StringIO(csv_of(rows))))
    assert (table[0]["seeds"], table[3]["failed"], table[4]["order_accuracy mean"]) == ("0 1", "1", "")
    assert float(table[0]["left"]) == pytest.approx(-0.4)


def test_each_case_changes_its_keys_and_seeds_change_the_data():
    options, extra = references._options(["--quick", "--cases=given,hidden,noisy,held_out", "--seeds=3"])
    data_sets = references.data_sets_of(options.data)
    commands = references.commands_of(options, data_sets, extra)
    assert len({command.workdir for command in commands.values()}) == len(commands)
    chosen = {
        case: commands[("cars", case, "numeric", "removed"), 3].config for case in options.cases.split(",")
    }
    assert {config.data.seed for config in chosen.values()} == {3} == {c.seed for c in chosen.values()}
    assert chosen["noisy"].data.reversed == 0.1 and chosen["held_out"].eval.inductive == 0.2
    assert chosen["given"].data.hide == () and "Horsepower" in chosen["hidden"].data.hide
    assert {key[2] for key, _ in commands if key[1] == "given"} == {"numeric", *REFERENCES}
    compared = commands[("cars", "given", "bradley_terry_compared", "true"), 3].config
    assert compared.references.covariates == "compared"


def test_boosted_trees_are_not_asked_without_values():
    options, extra = references._options(["--quick", "--models=raw,boosted_pairs"])
    found = references.commands_of(options, references.data_sets_of(options.data), extra)
    assert sorted(key[3] for key, _ in found if key[2] == "boosted_pairs") == ["shuffled", "true"]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ([], "give --data=configs/credit.py,... or --quick; see --help"),
        (["--quick", "--models=bound"], "--models=bound is not a choice; did you mean bounds?"),
        (["--quick", "--cases=nosy"], "--cases=nosy is not a choice; did you mean noisy?"),
        (["--quick", "--seeds=1,1"], "--seeds=1,1 must be different integers joined by commas"),
    ],
)
def test_wrong_arguments_are_refused(flags, complaint):
    with pytest.raises(UserError) as caught:
        options, extra = references._options(flags)
        references.commands_of(options, references.data_sets_of(options.data), extra)
    assert str(caught.value).startswith(complaint)


def test_a_graph_whose_fields_are_all_compared_or_none_cannot_hide_them(tmp_path):
    folder = tiny_runs.write_folder(tmp_path / "graph")
    options, extra = references._options([f"--data=configs/cars.py@{folder}", "--cases=hidden"])
    with pytest.raises(UserError, match="--cases=hidden hides . of the . fields of graph: leave it out"):
        references.commands_of(options, references.data_sets_of(options.data), extra)


def test_a_table_is_fitted_written_and_not_fitted_again(tmp_path: Path, capsys):
    folder = tiny_runs.write_folder(tmp_path / "graph")
    arguments = [
        f"--data=configs/cars.py@{folder}",
        "--models=bounds,bradley_terry",
        "--values=true,removed",
        "--cases=given",
        f"--out={tmp_path / 'out'}",
    ]
    with tiny_runs.compiled_fast():
        assert references.main(arguments) == 0
        runs = tiny_runs.snapshot(tmp_path / "out" / "graph")
        table = (tmp_path / "out" / "references.json").read_bytes()
        assert references.main(arguments) == 0
    assert tiny_runs.snapshot(tmp_path / "out" / "graph") == runs
    assert (tmp_path / "out" / "references.json").read_bytes() == table
    rows = json.loads(table)
    assert [(row["model"], row["values"]) for row in rows] == [
        (model, control) for model in ("bounds", "bradley_terry") for control in ("true", "removed")
    ]
    assert all(row["mrr"]["mean"] > 0 for row in rows) and set(MODELS) > {row["model"] for row in rows}
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-1])) <= 80 or str(tmp_path) in lines[-1]
