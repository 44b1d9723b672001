"""Value scales against hand numbers and definitions, at the ends of float64, and through JSON."""

import json

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from numcoke_jax.data.literals import FLOAT32_MAX, KINDS, Normalizer, fit_normalizer
from numcoke_jax.system.errors import UserError

LARGEST = float(np.finfo(np.float64).max)
SCALES = ("minmax", "quantile", "zscore")


def scaled(column: list[float], kind: str, new: list[float] | None = None) -> list[float]:
    """`new` (default: the column itself) on the scale fitted to `column`."""
    values = np.array(column, np.float64)[:, None]
    normalizer = fit_normalizer(values, np.ones(values.shape, bool), kind)
    applied = values if new is None else np.array(new, np.float64)[:, None]
    return normalizer.apply(applied, np.ones(applied.shape, bool))[:, 0].tolist()


@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        ("minmax", [1900, 1950, 2000], [0, 0.5, 1]),
        ("minmax", [-5, 0, 5], [0, 0.5, 1]),
        ("minmax", [16777216, 16777217, 16777218], [0, 0.5, 1]),  # 2^24: float32 ties the first two
        ("minmax", [1, 1.98855e30], [0, 1]),
        ("minmax", [0, 1e39], [0, 1]),  # float32 has no 1e39
        ("minmax", [-LARGEST, 0, LARGEST], [0, 0.5, 1]),  # max - min overflows
        ("minmax", [0, 5e-324, 1e-323], [0, 0.5, 1]),  # the two smallest numbers above 0
        # Mid-ranks (below + equal / 2) / n: (0 + 0.5) / 4, (1 + 1) / 4 twice, (3 + 0.5) / 4
        ("quantile", [1, 7, 7, 1e30], [0.125, 0.5, 0.5, 0.875]),
        ("quantile", [16777217, 16777216], [0.75, 0.25]),
        # Mean 3, population variance ((-2)^2 + 0 + 2^2 + 0) / 4 = 2
        ("zscore", [1, 3, 5, 3], [-(2**0.5), 0, 2**0.5, 0]),
        ("zscore", [-LARGEST, LARGEST], [-1, 1]),
        ("zscore", [0, 1e-323], [-1, 1]),
        ("none", [-3.5, 0, 1e30], [-3.5, 0, 1e30]),
    ],
)
def test_hand_numbers(kind: str, column: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(scaled(column, kind), expected, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("value", [0.0, -7.0, 1e-310, 0.1, 1e300])
@pytest.mark.parametrize("count", [1, 3])
def test_constant_and_single_value_fields_stay_finite(value: float, count: int) -> None:
    assert scaled([value] * count, "minmax") == [0.5] * count
    assert scaled([value] * count, "quantile") == [0.5] * count
    assert scaled([value] * count, "zscore") == [0.0] * count


@pytest.mark.parametrize("kind", SCALES)
def test_a_field_without_values_is_usable(kind: str) -> None:
    normalizer = fit_normalizer(np.zeros((2, 1)), np.zeros((2, 1), bool), kind)
    neutral = 0.0 if kind == "zscore" else 0.5
    np.testing.assert_array_equal(normalizer.apply(np.array([[3.0], [0.0]]), np.ones((2, 1), bool)), neutral)


@pytest.mark.parametrize("kind", KINDS)
def test_only_observed_cells_count_and_missing_ones_become_zero(kind: str) -> None:
    observed = np.array([[True], [False], [True], [False]])
    values = np.array([[2.0], [np.nan], [6.0], [1e300]])
    normalizer = fit_normalizer(values, observed, kind)
    result = normalizer.apply(values, observed)
    np.testing.assert_array_equal(result[~observed], 0)
    np.testing.assert_array_equal(result[observed], scaled([2.0, 6.0], kind))


def test_a_missing_cell_does_not_move_the_scale_as_a_zero_would() -> None:
    values = np.array([[1900.0], [1950.0], [2000.0], [0.0]])
    observed = np.array([[True], [True], [True], [False]])
    result = fit_normalizer(values, observed, "minmax").apply(values, observed)
    np.testing.assert_array_equal(result[:, 0], [0, 0.5, 1, 0])
    zero_filled = fit_normalizer(values, np.ones_like(observed), "minmax").apply(values, observed)
    np.testing.assert_allclose(zero_filled[:3, 0], [0.95, 0.975, 1])


def test_fields_are_independent_and_the_entity_order_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    values, observed = rng.normal(size=(20, 3)) * [1, 1e6, 1e-6], rng.random((20, 3)) < 0.7
    order = rng.permutation(20)
    for kind in SCALES:
        both = fit_normalizer(values, observed, kind).apply(values, observed)
        for field in range(3):
            column = slice(field, field + 1)
            alone = fit_normalizer(values[:, column], observed[:, column], kind)
            np.testing.assert_array_equal(
                alone.apply(values[:, column], observed[:, column])[:, 0], both[:, field]
            )
        moved = fit_normalizer(values[order], observed[order], kind).apply(values[order], observed[order])
        np.testing.assert_array_equal(moved, both[order])


COLUMNS = hnp.arrays(
    np.float64,
    st.integers(1, 15),
    elements=st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from([0.0, 1.0, 2.0, LARGEST, -LARGEST, 5e-324, 2.0**24, 2.0**24 + 1]),
    ),
)


@given(column=COLUMNS, new=COLUMNS, kind=st.sampled_from(SCALES))
def test_scales_are_finite_monotone_and_in_range(column: np.ndarray, new: np.ndarray, kind: str) -> None:
    together = np.concatenate([column, new])
    result = np.array(scaled(column.tolist(), kind, together.tolist()))
    assert np.isfinite(result.astype(np.float32)).all()
    order = np.argsort(together)
    assert (np.diff(result[order]) >= 0).all()
    assert all(len(set(result[together == value])) == 1 for value in together)  # ties stay ties
    if kind != "zscore":
        assert ((result >= 0) & (result <= 1)).all()


@given(column=COLUMNS)
def test_quantile_is_the_mid_rank_and_keeps_every_distinction(column: np.ndarray) -> None:
    expected = [((column < value).sum() + (column == value).sum() / 2) / len(column) for value in column]
    np.testing.assert_allclose(scaled(column.tolist(), "quantile"), expected, rtol=1e-15)


@given(column=hnp.arrays(np.float64, st.integers(2, 15), elements=st.floats(-1e6, 1e6)))
def test_minmax_and_zscore_follow_their_definitions(column: np.ndarray) -> None:
    spread = column.max() - column.min()
    if spread < 1e-3:
        return
    np.testing.assert_allclose(scaled(column.tolist(), "minmax"), (column - column.min()) / spread, atol=1e-9)
    np.testing.assert_allclose(
        scaled(column.tolist(), "zscore"), (column - column.mean()) / column.std(), atol=1e-6
    )


def test_unseen_values_interpolate_between_quantiles_and_are_clipped_outside_other_scales() -> None:
    # Fitted: 0 -> 1/6, 10 -> 1/2, 20 -> 5/6. A quarter of the way from 0 to 10: 1/6 + (1/2 - 1/6) / 4 = 1/4
    np.testing.assert_allclose(scaled([0, 10, 20], "quantile", [2.5, 10, 15]), [1 / 4, 1 / 2, 2 / 3])
    assert scaled([0, 10], "minmax", [-1, 2.5, 11]) == [0, 0.25, 1]
    assert scaled([0, 1e-300], "zscore", [LARGEST, -LARGEST]) == [1e6, -1e6]


@given(column=COLUMNS, outside=hnp.arrays(np.float64, 9, elements=st.floats(-LARGEST, LARGEST)))
def test_quantiles_keep_the_order_of_values_beyond_the_fitted_ones(
    column: np.ndarray, outside: np.ndarray
) -> None:
    outside = np.sort(outside[(outside < column.min()) | (outside > column.max())])
    numbers = column.tolist()
    found, fitted = np.array(scaled(numbers, "quantile", outside.tolist())), scaled(numbers, "quantile")
    below = outside < column.min()
    assert (np.diff(found) >= 0).all() and ((found > 0) & (found < 1)).all()
    assert (found[below] <= min(fitted) / 2 + 1e-12).all() and (
        1 - found[~below] <= (1 - max(fitted)) / 2 + 1e-12
    ).all()


def test_values_beyond_the_fitted_ones_are_apart_on_the_scale_of_normal_scores() -> None:
    """By more than the least noise of a scale of 40 values, 0.2 / 40, and no further than a score of 8."""
    near, far = [40, 41, 42, 50, 100, 120], [1e3, 1e4, 1e6, 1e9, LARGEST]
    scores = scipy.stats.norm.ppf(scaled(list(range(40)), "quantile", [39, *near, *far]))
    assert (np.diff(scores) > 0.02).all() and scores[-1] < 8.0
    mirrored = scaled(list(range(40)), "quantile", [39.0 - value for value in [39, *near, *far]])
    np.testing.assert_allclose(scipy.stats.norm.ppf(mirrored), -scores, rtol=2e-3)


@given(column=COLUMNS, kind=st.sampled_from(SCALES))
def test_json_keeps_every_bit(column: np.ndarray, kind: str) -> None:
    values, observed = np.stack([column, column * 0], axis=1), np.ones((len(column), 2), bool)
    normalizer = fit_normalizer(values, observed, kind)
    text = json.dumps(normalizer.to_json(), allow_nan=False)
    restored = Normalizer.from_json(json.loads(text))
    assert restored.kind == kind
    assert restored.apply(values, observed).tobytes() == normalizer.apply(values, observed).tobytes()
    assert json.dumps(restored.to_json()) == text


@pytest.mark.parametrize(
    "stored",
    [{}, [], None, {"kind": "minmax"}, {"kind": "median", "fields": []}, {"kind": "minmax", "fields": [{}]}]
    + [{"kind": "zscore", "fields": [{"minimum": [0], "maximum": [1]}]}, {"kind": "minmax", "fields": 3}],
)
def test_anything_else_is_no_stored_scale(stored: object) -> None:
    with pytest.raises(ValueError, match="not a stored value scale"):
        Normalizer.from_json(stored)


def test_an_unknown_kind_names_the_key_and_the_choices() -> None:
    with pytest.raises(
        UserError, match="data.normalize must be one of minmax, quantile, zscore, none, got 'min-max'"
    ):
        fit_normalizer(np.zeros((1, 1)), np.ones((1, 1), bool), "min-max")


def test_none_refuses_what_float32_cannot_hold() -> None:
    assert scaled([FLOAT32_MAX], "none") == [FLOAT32_MAX]
    with pytest.raises(
        UserError, match=r"data.normalize=none: field 0 holds 1e\+39, beyond float32; use minmax, quantile"
    ):
        scaled([1e39], "none")


def test_observed_values_must_be_finite() -> None:
    with pytest.raises(ValueError, match="field 1 has an observed value that is not finite"):
        fit_normalizer(np.array([[0.0, np.nan]]), np.ones((1, 2), bool), "minmax")


def test_shapes_are_checked() -> None:
    normalizer = fit_normalizer(np.zeros((2, 3)), np.ones((2, 3), bool), "minmax")
    with pytest.raises(ValueError, match="normalizer has 3 fields, values have 2"):
        normalizer.apply(np.zeros((2, 2)), np.ones((2, 2), bool))
    with pytest.raises(ValueError, match=r"expected values \[N, M\] and bool observed"):
        normalizer.apply(np.zeros((2, 3)), np.ones((3, 2), bool))
    with pytest.raises(ValueError, match="and float64"):
        fit_normalizer(np.zeros((2, 3)), np.ones((2, 3)), "minmax")
