"""From values in their own units to float32: what is fitted, scaled before the cast, and stored."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import KINDS, LiteralScale, fields_of_cells
from numcoke_jax.system.errors import UserError
from tests import graphs

# Seconds since 1970; near them float32 numbers are 128 apart.
SECONDS = [1.6e9, 1.6e9 + 1.0, 1.6e9 + 2.0, 1.6e9 + 4.0]


def graph_of(values: np.ndarray, observed: np.ndarray) -> NumericGraph:
    """A graph with the given literals [N, M] and without facts."""
    names = graphs.numbered(values.shape[0], fields=values.shape[1])
    return graphs.graph_of(names, values=values, observed=observed)


def column(*cells: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Values and mask [N, 1] of one field; None is missing."""
    observed = np.array([[cell is not None] for cell in cells])
    return np.array([[0.0 if cell is None else cell] for cell in cells], np.float64), observed


def scaled(kind: str, *cells: float | None) -> tuple[list[float], list[float]]:
    """Values and positions of one field, fitted to itself."""
    values, observed = column(*cells)
    literals = LiteralScale.fit(graph_of(values, observed), kind).literals(values, observed)
    assert literals.positions is not None
    return literals.values[:, 0].tolist(), literals.positions[:, 0].tolist()


def test_values_follow_the_kind_and_positions_are_quantiles_whatever_it_is() -> None:
    """Of 10, 20, 20, 50: quantiles (0 + .5) / 4, (1 + 1) / 4 twice, (3 + .5) / 4; mean 25, variance 225."""
    quantiles = [0.125, 0.5, 0.0, 0.5, 0.875]
    expected = {
        "minmax": [0.0, 0.25, 0.0, 0.25, 1.0],
        "quantile": quantiles,
        "zscore": [-1.0, -1 / 3, 0.0, -1 / 3, 25 / 15],
        "none": [10.0, 20.0, 0.0, 20.0, 50.0],
    }
    assert set(expected) == set(KINDS)
    for kind in KINDS:
        values, positions = scaled(kind, 10.0, 20.0, None, 20.0, 50.0)
        np.testing.assert_allclose(values, expected[kind], rtol=1e-6, err_msg=kind)
        np.testing.assert_allclose(positions, quantiles, rtol=1e-6, err_msg=kind)


def test_values_are_scaled_before_they_become_float32() -> None:
    """A second apart, equal as float32; scaled they are 0, 1/4, 1/2, 1."""
    assert len(set(np.asarray(SECONDS, np.float32).tolist())) == 1
    values, positions = scaled("minmax", *SECONDS)
    assert values == [0.0, 0.25, 0.5, 1.0]
    assert positions == [0.125, 0.375, 0.625, 0.875]


def test_literals_are_float32_of_the_float64_scale_with_the_mask_as_it_was() -> None:
    rng = np.random.default_rng(0)
    values, observed = 1e6 + rng.lognormal(size=(40, 3)), rng.random((40, 3)) < 0.7
    scale = LiteralScale.fit(graph_of(values, observed), "minmax")
    literals = scale.literals(values, observed)
    assert literals.positions is not None
    assert literals.values.dtype == literals.positions.dtype == np.float32
    np.testing.assert_array_equal(literals.observed, observed)
    for field in range(3):
        seen = [float(x) for x, there in zip(values[:, field], observed[:, field], strict=True) if there]
        low, high = min(seen), max(seen)
        for entity in range(40):
            x = float(values[entity, field])
            share, position = 0.0, 0.0
            if observed[entity, field]:
                share = (x - low) / (high - low)
                position = (sum(y < x for y in seen) + sum(y == x for y in seen) / 2) / len(seen)
            np.testing.assert_allclose(literals.values[entity, field], share, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(literals.positions[entity, field], position, rtol=1e-7)


def test_what_is_stored_in_a_missing_cell_counts_for_nothing() -> None:
    values, observed = column(3.0, None, 5.0)
    junk = np.where(observed, values, np.nan)
    graph = dataclasses.replace(graph_of(values, observed), values=junk)
    literals = LiteralScale.fit(graph, "minmax").literals(junk, observed)
    assert literals.values[:, 0].tolist() == [0.0, 0.0, 1.0]


def test_new_values_get_the_scale_that_was_fitted() -> None:
    """Clipped to the fitted range, but for quantiles: 15 is half way from .25 to .75, 99 above both."""
    values, observed = column(10.0, 20.0)
    scale = LiteralScale.fit(graph_of(values, observed), "minmax")
    literals = scale.literals(*column(15.0, None, 99.0, -1.0))
    assert literals.positions is not None
    assert literals.values[:, 0].tolist() == [0.5, 0.0, 1.0, 0.0]
    between, _, above, below = literals.positions[:, 0].tolist()
    assert between == 0.5 and 0.875 < above < 1.0 and 0.0 < below < 0.125


def test_a_graph_without_fields() -> None:
    values, observed = np.zeros((4, 0)), np.zeros((4, 0), bool)
    literals = LiteralScale.fit(graph_of(values, observed), "zscore").literals(values, observed)
    assert literals.positions is not None
    assert literals.values.shape == literals.observed.shape == literals.positions.shape == (4, 0)


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(UserError, match=r"data\.normalize must be one of minmax, .*, got 'rank'"):
        LiteralScale.fit(graph_of(*column(1.0)), "rank")


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.sampled_from(sorted(set(KINDS) - {"none"})), st.lists(st.none() | finite, min_size=1, max_size=12))
def test_json_brings_the_scale_back_to_the_last_bit(kind: str, cells: list[float | None]) -> None:
    values, observed = column(*cells)
    scale = LiteralScale.fit(graph_of(values, observed), kind)
    again = LiteralScale.from_json(json.loads(json.dumps(scale.to_json(), allow_nan=False)))
    for found, expected in ((again.values, scale.values), (again.positions, scale.positions)):
        assert found.kind == expected.kind
        for constants, originals in zip(found.constants, expected.constants, strict=True):
            assert constants.keys() == originals.keys()
            for name, original in originals.items():
                assert constants[name].dtype == np.float64
                assert constants[name].tobytes() == original.tobytes()
    for found_array, expected_array in zip(
        dataclasses.astuple(again.literals(values, observed)),
        dataclasses.astuple(scale.literals(values, observed)),
        strict=True,
    ):
        assert np.asarray(found_array).tobytes() == np.asarray(expected_array).tobytes()


@pytest.mark.parametrize(
    "stored",
    [
        {},
        None,
        [],
        {"values": {"kind": "none", "fields": []}},
        {"values": {"kind": "none", "fields": []}, "positions": {"kind": "rank", "fields": []}},
        {"values": 1, "positions": 2},
    ],
    ids=str,
)
def test_anything_else_is_not_a_stored_scale(stored: Any) -> None:
    with pytest.raises(ValueError, match=r"not a stored (literal|value) scale: "):
        LiteralScale.from_json(stored)


@given(st.integers(0, 5), st.integers(0, 4), st.integers(0, 2**20 - 1))
def test_fields_of_cells_are_the_places_of_the_mask(entities: int, fields: int, bits: int) -> None:
    observed = np.array([bits >> i & 1 for i in range(entities * fields)], bool).reshape(entities, fields)
    cells = fields_of_cells(observed)
    assert cells.dtype == np.int32 and cells.shape == (entities, observed.sum(axis=1).max(initial=0))
    for row, listed in zip(observed, cells.tolist(), strict=True):
        own = np.flatnonzero(row).tolist()
        assert listed == own + [fields] * (len(listed) - len(own))
