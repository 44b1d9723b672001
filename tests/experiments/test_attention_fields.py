"""Which field an attention looks at: shares, places and selectivity by hand; what has none is refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiments import attention_fields
from experiments.attention_fields import row_of
from numcoke_jax.data.graph import Vocabulary


def test_the_row_of_a_relation_by_hand() -> None:
    """Means over two entities: 0.15, 0.3 and 0.55; a pair of equal ones counts as before the field."""
    weights = np.array([[0.3, 0.3, 0.4], [0.0, 0.3, 0.7]])
    row = row_of(weights, ["age", "income", "limit"], "income")
    assert (row["place"], row["largest"]) == (2, "limit")
    assert row["weight"] == pytest.approx(0.3) and row["largest weight"] == pytest.approx(0.55)
    uniform = row_of(np.full((2, 4), 0.25), ["a", "b", "c", "d"], "a")
    assert uniform["place"] == 4, "a uniform attention finds nothing"
    assert uniform["selectivity"] == pytest.approx(0.0)
    single = row_of(np.array([[0.0, 1.0]]), ["a", "b"], "b")
    assert (single["place"], single["selectivity"]) == (1, pytest.approx(1.0))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Three relations, of which two are named after a field; relation r looks at field r."""
    vocabulary = Vocabulary(("x", "y"), ("size_comp", "likes", "a long name of a field_comp"), ("a", "b"))

    def with_fields(*fields: str) -> None:
        graph = SimpleNamespace(vocabulary=Vocabulary(vocabulary.entities, vocabulary.relations, fields))
        loaded = SimpleNamespace(run=SimpleNamespace(graph=graph))
        monkeypatch.setattr(attention_fields, "load_trained", lambda workdir, warn: loaded)

    weights = {0: [[0.9, 0.1], [0.7, 0.3]], 2: [[0.6, 0.4], [0.6, 0.4]]}
    monkeypatch.setattr(
        attention_fields, "attention_weights", lambda _, relation: np.array(weights[relation])
    )
    return with_fields


def test_relations_that_name_no_field_are_left_out(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("size", "a long name of a field")
    assert attention_fields.main([f"--workdir={tmp_path}", f"--json={tmp_path / 'found.json'}"]) == 0
    rows = attention_fields.rows_of(tmp_path)
    assert [(row["field"], row["place"]) for row in rows] == [("size", 1), ("a long name of a field", 2)]
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and (tmp_path / "found.json").exists()
    (mean,) = [line for line in lines if "1 of 2 first" in line]
    assert [cell.strip() for cell in mean.split("│")[2:5]] == ["0.600", "1.5", "0.700"]  # (0.8 + 0.4) / 2


def test_a_graph_without_compared_fields_is_refused(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("weight", "height")
    assert attention_fields.main([f"--workdir={tmp_path}"]) == 2
    assert capsys.readouterr().err.endswith(": no relation of its graph is named FIELD_comp\n")


def test_a_folder_without_a_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert attention_fields.main([f"--workdir={tmp_path}"]) == 2
    line = capsys.readouterr().err
    assert line.startswith("error: ") and line.count("\n") == 1 and str(tmp_path) in line
