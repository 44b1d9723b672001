"""Facts about new entities: positions move with them, held-out facts rank better, mistakes are one line."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from numcoke_jax.api import Model
from numcoke_jax.cli import use
from numcoke_jax.data.graph import HEAD, TAIL
from numcoke_jax.data.tables.cells import TableFile
from numcoke_jax.inference.frames import given_facts
from numcoke_jax.inference.new_entities import read_facts, read_new_entities
from numcoke_jax.inference.trained import Trained
from numcoke_jax.runs.unseen import NewEntities
from numcoke_jax.system.errors import UserError
from tests.inference.conftest import Program
from tests.inference.decided_runs import complete, decided
from tests.inference.imputed import Holes
from tests.tiny_runs import compiled_fast, config_of, untrained, write_folder

KNOWN, NEW = 30, 6


@functools.cache
def whole() -> Holes:
    """36 entities; the last 6 are new, and their value of a is not given."""
    return complete(4, KNOWN + NEW)


@functools.cache
def trained() -> Trained:
    holes = whole()
    return decided(Holes(holes.values[:KNOWN], holes.observed[:KNOWN]))


@functools.cache
def facts_about_new() -> tuple[np.ndarray, np.ndarray]:
    """int [n, 2] pairs with a new entity, the upper one first: a few to give, the others to test."""
    values = whole().values[:, 0]
    pairs = [(i, j) for i in range(KNOWN, KNOWN + NEW) for j in range(i)]
    turned = np.array([(i, j) if values[i] > values[j] else (j, i) for i, j in pairs])
    order = np.random.default_rng(0).permutation(len(turned))
    return turned[order[:48]], turned[order[48:]]


def new_entities(facts: np.ndarray) -> NewEntities:
    names = [f"e{number:03d}" for number in range(KNOWN + NEW)]
    named = given_facts([(names[i], "above", names[j]) for i, j in facts.tolist()])
    table = TableFile("new.csv", {"name": names[KNOWN:], "b": whole().values[KNOWN:, 1].tolist()})
    return read_new_entities(table, trained().run.graph, facts=named)[0]


@functools.cache
def probabilities(given: int) -> np.ndarray:
    """Of the facts to test and of their reverses, with so many facts given."""
    few, tested = facts_about_new()
    predictor = trained().predictor(new_entities(few[:given]))
    both = np.concatenate([tested, tested[:, ::-1]])
    with compiled_fast():
        return predictor.probabilities(np.zeros(len(both)), both[:, 0], both[:, 1], 0)


def test_held_out_facts_are_told_apart_better_the_more_facts_are_given() -> None:
    areas, losses = [], []
    for given in (0, 24, 48):
        found = probabilities(given)
        true, false = np.split(found, 2)
        areas.append((true[:, None] > false).mean())
        losses.append(-np.log(true).mean())
    assert areas[0] < areas[1] - 0.03 < areas[2] and areas[2] > 0.96, areas
    assert losses[0] > losses[1] > losses[2]


def test_without_facts_a_new_entity_without_the_value_is_near_one_half() -> None:
    found = probabilities(0)
    assert 0.4 < found.mean() < 0.6 and found.min() > 0.01 and found.max() < 0.99


@pytest.mark.parametrize("new_is_head", [True, False])
def test_a_position_moves_the_way_of_the_facts_and_gets_narrower(new_is_head: bool) -> None:
    """The new entity may be head or tail."""
    names = trained().run.graph.vocabulary.entities
    middle = np.argsort(whole().values[:KNOWN, 0])[13:18]
    rows = [("new", "above", names[i]) if new_is_head else (names[i], "above", "new") for i in middle]
    table = TableFile("new.csv", {"name": ["new"]})
    spots = []
    for facts in ([], rows):
        values = {} if facts else {"b": [0.0]}
        table = TableFile("new.csv", {"name": ["new"], **values})
        new, _ = read_new_entities(table, trained().run.graph, facts=given_facts(facts))
        with compiled_fast():
            order = trained().predictor(new).encoded(0).order
        spots.append((float(order.mean[0, KNOWN]), float(order.width[0, KNOWN])))
    (before, wide), (after, narrow) = spots
    assert (after > before + 0.3) == new_is_head and (after < before - 0.3) != new_is_head
    assert narrow < wide


def test_two_new_entities_are_compared_by_a_fact_between_them() -> None:
    facts = given_facts([("x", "above", "y")] * 2)
    table = TableFile("new.csv", {"name": ["x", "y"]})
    new, _ = read_new_entities(table, trained().run.graph, facts=facts)
    assert new.facts.tolist() == [[KNOWN, 0, KNOWN + 1]], "a fact that is given twice counts once"
    with compiled_fast():
        found = (
            trained()
            .predictor(new)
            .probabilities(np.zeros(2), np.array([KNOWN, KNOWN + 1]), np.array([KNOWN + 1, KNOWN]), 0)
        )
    assert found[0] > 0.6 and found[1] < 0.4


def test_given_facts_are_known_and_positions_of_others_stay() -> None:
    few, _ = facts_about_new()
    new = new_entities(few)
    predictor = trained().predictor(new)
    with compiled_fast():
        after, before = predictor.encoded(0).order, trained().predictor().encoded(0).order
    np.testing.assert_allclose(after.mean[0, :KNOWN], before.mean[0], atol=1e-6)
    assert {tuple(row) for row in new.facts.tolist()} <= {
        tuple(row) for row in predictor.graph.train.tolist()
    }
    assert len(predictor.graph.train) == len(trained().run.graph.train) + len(few)
    assert (np.maximum(new.facts[:, HEAD], new.facts[:, TAIL]) >= KNOWN).all()


# --- from Python


def test_python_takes_facts_as_triples_or_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    model = Model(trained())
    frame = pd.DataFrame({"name": ["new"]})
    triples = [("new", "above", "e000"), ("e001", "above", "new")]
    table = pd.DataFrame(triples, columns=["head", "relation", "tail"])[["tail", "head", "relation"]]
    with compiled_fast():
        answers = [
            model.predict(relation="above", new_entities=frame, facts=facts, known="mark", top=KNOWN)
            for facts in (triples, table)
        ]
    pd.testing.assert_frame_equal(*answers)
    assert answers[0].set_index("tail")["known"]["e000"] == "train"
    assert "order core" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ([("new", "above", "e00")], "facts: row 1: there is no entity 'e00'; the closest: 'e000'"),
        ([("new", "abov", "e000")], "facts: row 1: there is no relation 'abov'; the closest: 'above'"),
        (
            [("new", "above", "e000"), ("e001", "above", "e000")],
            "facts: row 2: neither 'e001' nor 'e000' is a new entity; only facts about new entities are read",
        ),
        ([("new", "above", "new")], "facts: row 1: 'new' is head and tail of one fact"),
        ([("new", "above")], r"facts: row 1 needs head, relation and tail, got \('new', 'above'\)"),
        ([("new", "above", 3)], "facts: row 1: a name must be text, got 3"),
        ("new.tsv", r"facts: needs triples \(head, relation, tail\), got 'new.tsv'"),
        (pd.DataFrame({"head": ["new"]}), "facts: no column 'relation'; needs head, relation, tail"),
    ],
)
def test_wrong_facts_are_one_line(facts: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}") as caught:
        Model(trained()).predict(relation="above", new_entities=pd.DataFrame({"name": ["new"]}), facts=facts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", [{"facts": [("e000", "above", "e001")]}, {"name": "car"}])
def test_facts_and_names_need_new_entities(given: dict[str, Any]) -> None:
    with pytest.raises(
        UserError, match="^predict: facts and name are of new entities; give new_entities, too$"
    ):
        Model(trained()).predict("e000", "above", **given)


def test_a_model_without_an_order_core_says_that_facts_move_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model(untrained(config_of(write_folder(tmp_path / "graph"))))
    new = pd.DataFrame({"name": ["new"], "size": [1.0]})
    with compiled_fast():
        model.predict(relation="higher", new_entities=new, facts=[("new", "higher", "e1")])
    assert "the model has no order core: new facts" in " ".join("".join(capsys.readouterr()).split())


# --- the command


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, program: Program, tmp_path: Path) -> Program:
    """Runs --mode=predict with a new entity and the bytes of a file of facts."""
    monkeypatch.setattr(use, "load_trained", lambda workdir, warn: trained())
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text("name\nnew\n")

    def run(facts: bytes, *arguments: str) -> tuple[int, str, str]:
        Path("facts.tsv").write_bytes(facts)
        flags = arguments or ("--entities=new.csv", "--facts=facts.tsv")
        return program("--mode=predict", "--workdir=runs/x", "--relation=above", "--top=3", *flags)

    return run


def test_the_command_places_a_new_entity_by_a_file_of_facts(command: Program) -> None:
    names = trained().run.graph.vocabulary.entities
    order = np.argsort(whole().values[:KNOWN, 0])
    high = "".join(f"new\tabove\t{names[i]}\r\n" for i in order[20:25]).encode()
    low = "".join(f"{names[i]}\tabove\tnew\n" for i in order[3:8]).encode()
    code, shown, _ = command(b"\xef\xbb\xbf" + high + b"\n")
    assert code == 0 and "new  above  ?" in shown
    above = [line.split() for line in shown.splitlines() if line.lstrip()[:1] in "123"]
    code, shown, _ = command(low)
    below = [line.split() for line in shown.splitlines() if line.lstrip()[:1] in "123"]

    def third(rows: list[list[str]]) -> float:
        return [float(row[3].rstrip("%")) for row in rows if len(row) > 3 and row[3].endswith("%")][2]

    assert code == 0 and third(above) > 95 > 60 > third(below)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            b"new\tabove\te001\n\ne001\tabove\tnwe\n",
            "facts.tsv:3: there is no entity 'nwe'; the closest: 'new'",
        ),
        (b"new\tabov\te001\n", "facts.tsv:1: there is no relation 'abov'; the closest: 'above'"),
        (b"\ne002\tabove\te001\n", "facts.tsv:2: neither 'e002' nor 'e001' is a new entity"),
        (b"new above e001\n", "facts.tsv:1: expected 3 tab-separated fields, found 1; the fields seem"),
        (b"new\tabove\t\xff\n", "facts.tsv:1: byte 0xff at byte 11 is not UTF-8"),
    ],
)
def test_wrong_lines_are_named(command: Program, facts: bytes, message: str) -> None:
    code, shown, said = command(facts)
    assert (code, shown) == (2, "") and said.startswith(f"error: {message}") and said.count("\n") == 1


def test_flags_of_facts_are_checked(command: Program) -> None:
    code, _, said = command(b"", "--head=e001", "--facts=facts.tsv")
    assert (code, said.startswith("error: --facts has no meaning without --entities=FILE")) == (2, True)
    code, _, said = command(b"", "--entities=new.csv", "--facts=absent.tsv")
    assert code == 2 and said.startswith("error: absent.tsv: cannot be read (No such file or directory)")


def test_lines_count_blank_ones(tmp_path: Path) -> None:
    (tmp_path / "f.tsv").write_text("\na\tr\tb\n\n\nb\tr\tc\n")
    found = read_facts(tmp_path / "f.tsv")
    assert [where.rpartition(":")[2] for where, _ in found] == ["2", "5"]
    assert [fact for _, fact in found] == [("a", "r", "b"), ("b", "r", "c")]
