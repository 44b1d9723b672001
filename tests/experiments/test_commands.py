"""What the commands of the experiments refuse before they begin, in one line."""

from typing import Any

import pytest

from experiments import fuzz, mutants, soak
from experiments.benchmark import (
    accelerator,
    evaluation,
    loading,
    peers,
    prediction,
    result_time,
    scaling,
    start,
    step,
    values,
)


@pytest.mark.parametrize(
    ("module", "arguments", "text"),
    [
        (evaluation, ["--table=cars"], "--table=cars is not a choice: needs one of synthetic, fb15k_237"),
        (evaluation, ["--chunk=0"], "--chunk=0 is out of range: needs an integer >= 1\n"),
        (evaluation, ["--naive=-1"], "--naive=-1 is out of range: needs an integer >= 0\n"),
        (evaluation, ["--naive=2", "--preset=numeric"], "--naive has only the paper's model: leave --preset"),
        (scaling, ["--vary=age"], "--vary=age: 'age' is not one of entities, fields, dim, queries"),
        (scaling, ["--vary=dim,queries", "--values=3"], "--values is for one size, but --vary=dim,queries"),
        (scaling, ["--repeats=0"], "--repeats=0 is out of range: needs an integer >= 1\n"),
        (step, ["--mesh-entity=0"], "--mesh-entity=0 is out of range: needs an integer >= 1\n"),
        (step, ["--mesh-data=64", "--mesh-entity=2"], "mesh.data=64 times mesh.entity=2 needs 128 devices"),
        (prediction, ["--queries=0"], "--queries=0 is out of range: needs an integer >= 1\n"),
        (loading, ["--triples=0"], "--triples=0 is out of range: needs an integer >= 1\n"),
        (loading, ["--what"], "unrecognized arguments: --what"),
        (values, ["--repeats=0"], "--repeats=0 is out of range: needs an integer >= 1\n"),
        (values, ["--table=cars", "--dim=4"], "--table=cars: 80% of its cells are observed, so that"),
        (peers, ["--dim=0"], "--dim=0 is out of range: needs an integer >= 1\n"),
        (peers, [], "--peer-python is missing: make an environment with `python -m venv ENV"),
        (peers, ["--peer-python=absent/python"], "--peer-python=absent/python is not a file: make an"),
        (accelerator, ["--minutes=0"], "--minutes=0 is out of range: needs a number > 0\n"),
        (result_time, ["--budget=0"], "--budget=0 is out of range: needs an integer >= 1\n"),
        (result_time, ["--core=-1"], "--core=-1 is not a core that this process may use: "),
        (result_time, ["--json=absent/x.json"], "--json: there is no folder absent; create it first"),
        (result_time, ["--configs=cras"], "there is no config file cras; did you mean"),
        (result_time, ["--presets=papr"], "--config: there is no preset 'papr'; did you mean paper?"),
        (result_time, ["--workdir=here"], "--workdir has no meaning here: see --json"),
        (result_time, ["--model.dmi=4"], "--model.dmi"),
        (start, ["--repeats=0"], "--repeats=0 is out of range: needs an integer >= 1\n"),
        (start, ["--core=-1"], "--core=-1 is not a core that this process may use"),
        (fuzz, ["--minutes=-1"], "--minutes=-1 is out of range: needs a number above 0\n"),
        (fuzz, ["--minutes=nan"], "--minutes=nan is out of range: needs a number above 0\n"),
        (fuzz, ["--reader=csvv"], "--reader: there is no reader 'csvv'; did you mean 'csv'?\n"),
        (soak, ["--minutes=0"], "--minutes=0 is out of range: needs a number above 0\n"),
        (soak, ["--minutes=nan"], "--minutes=nan is out of range: needs a number above 0\n"),
        (soak, ["--rounds=0"], "--rounds=0 is out of range: needs an integer >= 1\n"),
        (mutants, ["--count=0"], "--count=0 is out of range: needs an integer >= 1\n"),
        (mutants, ["--seconds=-1"], "--seconds=-1 is out of range: needs a number above 0\n"),
        (mutants, ["--seconds=nan"], "--seconds=nan is out of range: needs a number above 0\n"),
        (
            mutants,
            ["--under=no"],
            "--under=no: no file to change begins so; give one such as numcoke_jax/models/\n",
        ),
    ],
)
def test_wrong_arguments_are_one_line(
    module: Any,
    arguments: list[str],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(mutants, "FOLDERS", ("training",))  # fewer files to read
    monkeypatch.setattr(values, "WAYS", ("cells",))  # the one that refuses, and no other to compile before
    assert module.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {text}") and error.count("\n") == 1
