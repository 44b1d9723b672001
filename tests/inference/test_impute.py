"""Imputed ranks: hand-computed intervals, conformal coverage, a model that knows the order."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.api import Model
from numcoke_jax.cli import impute_view, use
from numcoke_jax.cli.main import main
from numcoke_jax.data.synthetic import SyntheticSettings, draw_values
from numcoke_jax.evaluation.calibration import Calibration, Scale
from numcoke_jax.inference.impute import (
    CELL_COLUMNS,
    Beliefs,
    Comparing,
    believed,
    comparing_relations,
    conformal_factor,
    impute,
    intervals,
    masked_truth,
    needed_factor,
)
from numcoke_jax.inference.trained import Trained
from numcoke_jax.models import MODELS
from numcoke_jax.runs.run import create_run
from tests.tiny_runs import compiled_fast, config_of, numcoke, untrained, write_folder

READS_FACTS = [name for name, model in MODELS.items() if model.reads_facts]
# Surely above 10, as likely above 20 as below, surely below 30: rank 1 + 1 + 1/2 + 0, spread 1 + sqrt(1/4).
HAND = Beliefs(np.array([[50.0, 0.0, -50.0]]), np.array([10.0, 20.0, 30.0]))


def test_an_interval_by_hand() -> None:
    assert HAND.ranks[0] == pytest.approx(2.5, abs=1e-12) and HAND.spreads[0] == pytest.approx(1.5, abs=1e-12)
    for factor, expected in ((0.0, (2, 2)), (0.5, (2, 3)), (0.9, (2, 3)), (1.1, (1, 4)), (np.inf, (1, 4))):
        low, high = intervals(HAND, factor)
        assert (low[0], high[0]) == expected, factor


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (35.0, 1.0),  # rank 4: 1.5 away, in spreads of 1.5
        (5.0, 1.0),  # rank 1
        (25.0, 1 / 3),  # rank 3: 0.5 away
        (20.0, 0.0),  # rank 2 or 3, as it equals the second
    ],
)
def test_the_factor_that_a_truth_needs_by_hand(value: float, expected: float) -> None:
    assert needed_factor(HAND, np.array([value]))[0] == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 12))
def test_intervals_are_nested_and_contain_the_truth_from_the_needed_factor_on(
    seed: int, cells: int, count: int
) -> None:
    drawn = np.random.default_rng(seed)
    beliefs = Beliefs(
        drawn.normal(scale=3.0, size=(cells, count)), np.sort(drawn.integers(0, 6, count) * 1.0)
    )
    truth = drawn.integers(-1, 7, cells) + drawn.choice([0.0, 0.5], cells)
    needed = needed_factor(beliefs, truth)
    low, high = intervals(beliefs, needed)
    for cell in range(cells):
        possible = [
            1 + below + ties
            for below in [int((beliefs.values < truth[cell]).sum())]
            for ties in range(int((beliefs.values == truth[cell]).sum()) + 1)
        ]
        assert any(low[cell] <= rank <= high[cell] for rank in possible)
    wider = intervals(beliefs, needed + 1.0)
    assert (wider[0] <= low).all() and (wider[1] >= high).all()
    assert (low >= 1).all() and (high <= count + 1).all() and (low <= high).all()


def test_the_conformal_factor_by_hand() -> None:
    nine = np.array([3.0, 1.0, 2.0, 9.0, 8.0, 4.0, 7.0, 5.0, 6.0])
    assert conformal_factor(nine, 0.9) == 9.0  # ceil(10 * 0.9) = 9th
    assert conformal_factor(nine, 0.5) == 5.0
    assert conformal_factor(nine[:8], 0.9) == np.inf  # ceil(9 * 0.9) = 9th of 8


@given(st.lists(st.floats(0, 100), min_size=2, max_size=40), st.floats(0.05, 0.95))
def test_of_exchangeable_cells_the_target_share_is_covered(needed: list[float], level: float) -> None:
    """Leave each one out in turn: at least `level` of them are within the factor of the others."""
    every = np.array(needed)
    covered = [every[left] <= conformal_factor(np.delete(every, left), level) for left in range(len(every))]
    assert np.mean(covered) >= level - 1e-9


def test_beliefs_are_calibrated_scores_both_ways(tmp_path: Path) -> None:
    scale = Scale(temperature=0.5, shift=3.0)
    trained = dataclasses.replace(
        untrained(numcoke(config_of(write_folder(tmp_path / "graph")))), calibration=Calibration(scale)
    )
    graph, field = trained.run.graph, trained.run.graph.vocabulary.fields.index("size")
    cells = np.flatnonzero(~graph.observed[:, field])
    assert graph.vocabulary.entities[cells[0]] == "e4" and len(cells) == 1
    with compiled_fast():
        found = {sign: believed(trained, graph, field, Comparing(0, sign), cells) for sign in (1, -1)}
        ((_, scores),) = trained.predictor().scored_heads(np.arange(3), 0)
        more = [part for _, part in trained.predictor().scored_heads(np.arange(6), 0)]
    scores = np.concatenate(more).astype(np.float64)
    others = [0, 1, 2, 3, 5]  # by ascending size
    expected = [(scores[4, other] - scores[other, 4]) / 0.5 for other in others]
    np.testing.assert_allclose(found[1].odds, [expected], rtol=1e-6)
    np.testing.assert_array_equal(found[-1].odds, -found[1].odds)
    assert found[1].values.tolist() == [0.0, 1.5, 3.0, 4.5, 7.5]


# --- a model that knows the order


def knowing(direction: str, error: float = 0.0, entities: int = 60) -> tuple[Trained, np.ndarray]:
    """A TransE on a synthetic graph that orders by the values, or by values with errors; the values [N].

    With -|h + r - t| and r below every h - t, (i, r, j) scores 2 (h_i - h_j) above (j, r, i) in a dimension.
    """
    config = config_of(Path(), data__path="", data__table="synthetic", data__direction=direction)
    config.data.synthetic_entities, config.data.synthetic_fields = entities, 1
    config.data.synthetic_relations, config.data.synthetic_triples = 1, 40 * entities
    config.data.synthetic_kinds = ("continuous",)
    config.data.missing_rate = 0.4
    run = create_run(config)
    settings = SyntheticSettings(entities=entities, fields=1, relations=1, kinds=("continuous",))
    values = draw_values(settings)[:, 0]
    assert run.graph.num_entities == entities
    np.testing.assert_array_equal(run.graph.values[run.graph.observed], values[run.graph.observed[:, 0]])
    trained = untrained(config)
    ranks = np.argsort(np.argsort(values)) + error * np.random.default_rng(0).standard_normal(entities)
    vectors = np.tile(ranks[:, None] if direction == ">" else -ranks[:, None], (1, 4)).astype(np.float32)
    relation = np.full((1, 4), -2.0 * entities, np.float32)
    by_shape = {array.shape: array for array in (vectors, relation)}
    params = jax.tree.map(lambda leaf: by_shape[leaf.shape], trained.params)
    return dataclasses.replace(trained, params=params), values


@pytest.mark.parametrize("direction", [">", "<"])
def test_a_model_that_knows_the_order_gives_every_missing_value_its_rank(direction: str) -> None:
    trained, values = knowing(direction)
    observed = trained.run.graph.observed[:, 0]
    assert comparing_relations(trained) == {0: Comparing(0, 1 if direction == ">" else -1)}
    with compiled_fast():
        found = impute(trained)
    assert found["tested_on"] == "masked" and len(found["cells"]) == (~observed).sum() == 24
    assert found["coverage"] == {"cells": 24, "covered": 1.0, "mean_width": 1 / 37}
    for cell, entity in zip(found["cells"], np.flatnonzero(~observed), strict=True):
        below = values[observed & (values < values[entity])]
        above = values[observed & (values > values[entity])]
        assert cell["low_rank"] == cell["high_rank"] == 1 + len(below) and cell["of"] == 37
        assert cell["low_value"] == (below.max() if len(below) else None)
        assert cell["high_value"] == (above.min() if len(above) else None)


def test_errors_of_the_model_widen_the_intervals_and_keep_the_coverage() -> None:
    widths = []
    for error in (2.0, 10.0):
        trained, _ = knowing(">", error, entities=100)
        with compiled_fast():
            found = impute(trained, level=0.8)["coverage"]
        assert found["cells"] == 40 and 0.65 <= found["covered"] <= 0.95
        widths.append(found["mean_width"])
    assert widths[0] < widths[1] < 0.8


@pytest.mark.parametrize("model", ["transe", *READS_FACTS])
def test_where_no_truth_is_known_observed_values_are_hidden(model: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "graph", entities=30)
    for name in ("train.txt", "valid.txt", "test.txt", "neg.txt"):
        text = (folder / name).read_text().replace("higher", "size_comp")
        (folder / name).write_text(text)
    trained = untrained(config_of(folder, model__name=model))
    assert masked_truth(trained.run) is None
    with compiled_fast():
        found = impute(trained)
    assert found["tested_on"] == "hidden" and list(found["fields"]) == ["size"]
    assert found["coverage"]["cells"] == int(0.2 * 29) and found["factor"] is None
    (cell,) = found["cells"]
    assert (cell["entity"], cell["low_rank"], cell["high_rank"], cell["of"]) == ("e4", 1, 30, 30)
    assert cell["low_value"] is None and cell["high_value"] is None


# --- the command


@pytest.fixture(scope="module")
def known() -> Trained:
    return knowing(">", 3.0)[0]


@pytest.fixture
def command(
    known: Trained, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs --mode=impute on the model: (exit code, output, errors)."""
    monkeypatch.setattr(use, "load_trained", lambda workdir, warn: known)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["--mode=impute", "--workdir=runs/x", *arguments])
        return (code, *capsys.readouterr())

    return run


def test_tables_and_files(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    files = {name: tmp_path / f"cells.{name}" for name in ("csv", "json", "parquet")}
    for path in files.values():
        code, out, err = command(f"--out={path}", "--top=3")
        assert (code, err) == (0, "") and "3 of 24, narrowest first" in out
        assert max(map(len, out.partition("written to")[0].splitlines())) <= 80
    assert "target 99.9%" in command("--level=0.999")[1], "not 100%"
    assert "target 29%" in command("--level=0.29")[1]
    whole: dict[str, Any] = json.loads(files["json"].read_text())
    csv, parquet = pd.read_csv(files["csv"]), pd.read_parquet(files["parquet"])
    assert len(whole["cells"]) == len(csv) == len(parquet) == 24
    pd.testing.assert_frame_equal(csv, parquet)
    assert csv["high_rank"].tolist() == [cell["high_rank"] for cell in whole["cells"]]
    name = whole["cells"][0]["entity"]
    assert "1 of 1, narrowest first" in command(f"--entity={name}")[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in files.values())


@pytest.mark.parametrize("ends", [[], [(None, None)], [(None, 2.0), (1.0, None)]])
def test_columns_have_one_type_however_many_ends_are_open(ends: list[Any], tmp_path: Path) -> None:
    """Files of several runs are to be read as one table."""
    cells = [
        {"entity": "e", "field": "f", "low_rank": 1, "rank": 2.0, "high_rank": 3, "of": 4,
         "low_value": low, "high_value": high}
        for low, high in ends
    ]  # fmt: skip
    impute_view.write({"cells": cells}, tmp_path / "cells.parquet")
    types = {field.name: str(field.type) for field in pq.read_schema(tmp_path / "cells.parquet")}
    assert types == dict.fromkeys(("low_rank", "high_rank", "of"), "int64") | dict.fromkeys(
        ("rank", "low_value", "high_value"), "double"
    ) | dict.fromkeys(("entity", "field"), types["entity"])
    assert len(cells) == len(pd.read_parquet(tmp_path / "cells.parquet"))


def test_python_gives_the_same_rows(known: Trained) -> None:
    with compiled_fast():
        frame, found = Model(known).impute(level=0.8), impute(known, level=0.8)
    assert list(frame.columns) == list(CELL_COLUMNS) and frame.attrs["coverage"] == found["coverage"]
    assert frame["low_rank"].tolist() == [cell["low_rank"] for cell in found["cells"]]
    (field,) = found["fields"]
    assert len(Model(known).impute([field], level=0.8)) == len(frame)
    with pytest.raises(use.UserError, match=r"^impute: level must be between 0 and 1, got 90$"):
        Model(known).impute(level=90)
    with pytest.raises(use.UserError, match="there is no field 'field'"):
        Model(known).impute(["field"])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--field=field_1", "--field: there is no field 'field_1'"),
        ("--entity=e99", "--entity: there is no entity 'e99'"),
        ("--level=1", "--level: needs a number between 0 and 1, got 1"),
        ("--level=high", "--level: needs a number between 0 and 1, got high"),
        ("--out=cells.txt", "--out=cells.txt: the name must end in one of .csv, .json, .parquet"),
        ("--head=e1", "--head=e1 is not a flag of numcoke impute"),
    ],
)
def test_mistakes_are_one_line(
    command: Callable[..., tuple[int, str, str]], argument: str, message: str
) -> None:
    code, out, err = command(argument)
    assert (code, out) == (2, "") and err.startswith(f"error: {message}") and err.count("\n") == 1


def test_a_field_that_nothing_compares_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = untrained(config_of(write_folder(tmp_path / "graph")))
    monkeypatch.setattr(use, "load_trained", lambda workdir, warn: trained)
    with pytest.raises(use.UserError, match=r"^no relation compares a field, by its name \(FIELD_comp\)"):
        impute(trained)
    with pytest.raises(
        use.UserError, match=r"^no relation compares the field 'size'; fields that are compared: none$"
    ):
        impute(trained, [1])
