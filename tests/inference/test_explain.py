"""Explanations: terms add up to the score, ranks are the evaluation's, what-ifs are the changed graph's."""

import dataclasses
import functools
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numcoke_jax.api import Model
from numcoke_jax.cli import use
from numcoke_jax.cli.explain_view import figure, show
from numcoke_jax.data.graph import HEAD, RELATION, TAIL
from numcoke_jax.data.variants import Change, changed_graph
from numcoke_jax.evaluation.calibration import Calibration, Scale
from numcoke_jax.inference.explain import explain, ranks_of
from numcoke_jax.inference.trained import Trained
from numcoke_jax.models import MODELS
from numcoke_jax.runs.create import create_run
from numcoke_jax.system.console import Console
from tests.inference.conftest import Program
from tests.tiny_runs import compiled_fast, config_of, numcoke, untrained, write_folder

READS_FACTS = [name for name, model in MODELS.items() if model.reads_facts]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = write_folder(tmp_path_factory.mktemp("explain") / "graph")
    calibration = Calibration({0: Scale(2.0, 0.5)}, directions=True, entities=6)
    return dataclasses.replace(untrained(numcoke(config_of(folder))), calibration=calibration)


@pytest.fixture(scope="module")
def found(trained: Trained) -> dict[str, Any]:
    with compiled_fast():
        return explain(trained, 5, 0, 2, [Change("head", 1, 0.5), Change("tail", 0, None)])


def test_the_terms_add_up_to_the_score(found: dict[str, Any]) -> None:
    assert list(found["terms"]) == ["translation", "order"]
    assert sum(found["terms"].values()) == pytest.approx(found["score"], rel=1e-5, abs=1e-5)


def test_attention_and_experts_share_one(trained: Trained, found: dict[str, Any]) -> None:
    for side in ("head", "tail"):
        weights = np.array(list(found["attention"][side].values()))
        assert weights.shape == (2, 2), "fields, attention heads"
        np.testing.assert_allclose(weights.sum(axis=0), 1.0, rtol=1e-5)
        assert (
            sum(found["experts"][side]) == pytest.approx(1.0, rel=1e-5) and len(found["experts"][side]) == 2
        )
    assert list(found["attention"]["head"]) == list(trained.run.graph.vocabulary.fields)


def test_the_rank_is_that_of_the_evaluation(trained: Trained) -> None:
    ranks = trained.run.evaluator.sides(trained.params, "test")["tails"].all
    for fact, rank in zip(trained.run.graph.test[:3], ranks[:3], strict=True):
        explained = explain(trained, int(fact[HEAD]), int(fact[RELATION]), int(fact[TAIL]))
        assert explained["rank"] == rank and explained["known"] == "test" and "what_if" not in explained


def test_an_order_core_names_the_fields_and_both_values_and_positions(tmp_path: Path) -> None:
    run = create_run(numcoke(config_of(write_folder(tmp_path / "graph"), score__order_core=True)))
    decided = Trained(run, run.fresh_state().params)
    found, graph = explain(decided, 5, 0, 2), run.graph
    assert list(found["terms"]) == ["order core"] and "attention" not in found
    assert found["terms"]["order core"] == pytest.approx(found["score"], rel=1e-6)
    weights = [abs(row["weight"]) for row in found["compared"]]
    assert weights == sorted(weights, reverse=True)
    assert found["compared"][0]["field"] == "size"
    size = graph.vocabulary.fields.index("size")
    assert found["compared"][0]["head"] == graph.values[5, size] > graph.values[2, size]
    order = found["order"]
    assert order["margin"] == order["head_position"] - order["tail_position"] > 0
    assert order["above"] == pytest.approx(found["probability"])
    console = Console(text := io.StringIO())
    show(found, console)
    assert "order core: head +" in text.getvalue() and "Compared" in text.getvalue()


def test_a_what_if_is_the_score_of_the_changed_graph(trained: Trained, found: dict[str, Any]) -> None:
    changed = changed_graph(trained.run.graph, 5, 2, [Change("head", 1, 0.5), Change("tail", 0, None)])
    assert changed.values[5, 1] == 0.5 and not changed.observed[2, 0]
    assert trained.run.graph.observed[2, 0], "the run's own graph stays"
    loaded = dataclasses.replace(trained.run.loaded, graph=changed)
    run = dataclasses.replace(create_run(trained.run.config, loaded), scale=trained.run.scale)
    literals = trained.run.scale.literals(changed.values, changed.observed)
    run.scorer._literals = literals
    other = explain(dataclasses.replace(trained, run=dataclasses.replace(run, literals=literals)), 5, 0, 2)
    what_if = found["what_if"]
    assert {key: what_if[key] for key in ("score", "rank")} == pytest.approx(
        {key: other[key] for key in ("score", "rank")}, rel=1e-6
    )
    assert what_if["probability"] is None is not other["probability"], "no fact of it was ever judged"
    assert what_if["score"] != found["score"]
    assert all(row["before"] != row["after"] for row in what_if["moved"])


def test_an_unknown_probability_is_shown_with_its_reason(found: dict[str, Any]) -> None:
    def shown(probability: float | None, changed: float | None) -> str:
        what_if = {**found["what_if"], "probability": changed}
        show({**found, "probability": probability, "what_if": what_if}, Console(text := io.StringIO()))
        return text.getvalue()

    reason = "\nunknown: training fact, what-if, category, or too few validation facts like it"
    assert [reason in shown(*pair) for pair in ((None, None), (0.5, None), (0.5, 0.5))] == [True, True, False]
    assert "probability unknown, score" in shown(None, 0.5)


def test_ranks_share_the_mean_of_their_places() -> None:
    assert ranks_of(np.array([3.0, 1.0, 3.0, 5.0, 3.0])).tolist() == [3.0, 5.0, 3.0, 1.0, 3.0]


@pytest.mark.parametrize(("norm", "order"), [(2, "penalty"), (1, "none")])
def test_every_form_of_the_score_adds_up(norm: int, order: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "graph")
    config = numcoke(config_of(folder, score__norm=norm, score__order=order))
    with compiled_fast():
        explained = explain(untrained(config), 5, 0, 2)
    assert ("order" in explained["terms"]) == (order != "none")
    assert sum(explained["terms"].values()) == pytest.approx(explained["score"], rel=1e-5, abs=1e-5)


def test_python_explains_by_names(trained: Trained, found: dict[str, Any]) -> None:
    with compiled_fast():
        named = Model(trained).explain(
            "e5", "higher", "e2", head_values={"size": 0.5}, tail_values={"noise": None}
        )
    assert named == found
    with pytest.raises(use.UserError, match="there is no field 'siz'; the closest: 'size'"):
        Model(trained).explain("e5", "higher", "e2", tail_values={"siz": 1.0})


def test_other_models_are_explained_by_what_they_have(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "graph")
    for name, terms in (("transe", ["translation"]), ("rakge", [])):
        with compiled_fast():
            explained = explain(untrained(config_of(folder, model__name=name, attention__heads=2)), 5, 0, 2)
        assert list(explained["terms"]) == terms and "attention" not in explained
        if terms:
            assert explained["terms"]["translation"] == pytest.approx(explained["score"], rel=1e-5)


@pytest.mark.parametrize("model", READS_FACTS)
def test_what_if_a_model_reads_the_training_facts(model: str, tmp_path: Path) -> None:
    """Without a change of the value, which is missing already, it is the model's own score."""
    trained = untrained(config_of(write_folder(tmp_path / "graph"), model__name=model))
    with compiled_fast():
        explained = explain(trained, 4, 0, 2, [Change("head", 0, None)])
    assert explained["what_if"]["score"] == explained["score"] and not explained["what_if"]["moved"]


def test_dollar_signs_in_names_are_no_formulas(tmp_path: Path) -> None:
    """Between two of them matplotlib reads mathematics, and ends with a ValueError where there is none."""
    names = {"head": "A$AP Rocky, $_$", "relation": "gain_$_comp$", "tail": "100$ \\frac$"}
    weights = {side: {"$_$": [0.5]} for side in ("head", "tail")}
    figure({**names, "score": 1.0, "terms": {"translation": 1.0}, "attention": weights}, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


# --- the command


@pytest.fixture
def command(trained: Trained, monkeypatch: pytest.MonkeyPatch, program: Program) -> Program:
    """Runs --mode=explain on the model."""
    monkeypatch.setattr(use, "load_trained", lambda workdir, warn: trained)
    fact = ["--head=e5", "--relation=higher", "--tail=e2"]
    return functools.partial(program, "--mode=explain", "--workdir=runs/x", *fact)


def test_tables_json_and_picture(command: Program, tmp_path: Path) -> None:
    code, out, err = command("--set=size=3", "--set", "tail.noise=", f"--out={tmp_path / 'why.json'}")
    assert (code, err) == (0, "")
    for part in ("translation", "Attention", "Experts", "What if head's size = 3, tail's noise = missing?"):
        assert part in out
    tables = out.partition("written to")[0]
    assert max(map(len, tables.splitlines())) <= 80
    stored = json.loads((tmp_path / "why.json").read_text())
    assert stored["what_if"]["changes"][1] == {"side": "tail", "field": "noise", "value": None}
    assert command(f"--out={tmp_path / 'why.png'}")[0] == 0
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["why.json", "why.png"]


@pytest.mark.parametrize("name", ["why.json", "why.png"])
def test_a_file_that_cannot_be_written_is_named(command: Program, name: str) -> None:
    place = Path("/proc") / name
    code, _, err = command(f"--out={place}")
    said = f"error: cannot write {place}: No such file or directory; free space or choose another folder\n"
    assert (code, err) == (2, said)


def test_a_value_is_given_once(command: Program) -> None:
    """Both stood in "What if", where only the last was tried."""
    code, out, err = command("--set=size=3", "--set=tail.size=3", "--set=head.size=")
    assert (code, out) == (2, "")
    assert err == "error: --set=head.size=: this field of the head is set twice\n"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--set=size", "--set=size: needs FIELD=VALUE, such as --set Horsepower=150"),
        ("--set=siz=3", "--set: there is no field 'siz'; the closest: 'size'"),
        ("--overwrite", "--overwrite has no meaning without --out=FILE: nothing is written"),
        ("--out=absent/why.json", "--out=absent/why.json: there is no folder absent; create it first"),
        ("--set=size=tall", "--set=size=tall: tall is not a number; needs a plain number"),
        ("--tail=e9", "--tail: there is no entity 'e9'"),
        ("--out=why.txt", "--out=why.txt: the name must end in one of .json, .png"),
        ("--top=3", "--top=3 is not a flag of numcoke explain"),
    ],
)
def test_mistakes_are_one_line(command: Program, argument: str, message: str) -> None:
    code, out, err = command(argument)
    assert (code, out) == (2, "") and err.startswith(f"error: {message}") and err.count("\n") == 1
