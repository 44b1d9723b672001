"""What every model sees of a graph's numbers, and how values in their own units become that.

Everything is computed in float64 from observed cells alone, so that values which float32 cannot tell
apart (time stamps a second apart, 1e39) keep their order.  A missing cell becomes 0; only the `observed` mask
tells it from a true 0.

| kind | an observed value becomes | a constant field becomes |
|---|---|---|
| minmax | (x - min) / (max - min), in [0, 1] | 0.5 |
| quantile | its mid-rank share (values below + half of its equals) / n, in (0, 1) | 0.5 |
| zscore | (x - mean) / standard deviation (of the population) | 0 |
| none | itself; must fit into float32 | itself |

Of values that were not seen when the scale was fitted, minmax clips those beyond the fitted range, zscore
those beyond +-`ZSCORE_LIMIT`.  Quantile keeps the order of all: it interpolates between its fitted values,
and a value beyond them has half of the share that is left, or less the further away it is.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import struct

from numcoke_jax.config.schema import choices
from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.tail_index import places_in_groups
from numcoke_jax.system.errors import UserError

KINDS = choices("data.normalize")
ZSCORE_LIMIT = 1e6
BEYOND_STEP = (
    0.25  # of a quantile's normal score, for each factor of e in the distance from the fitted values
)
FURTHEST_SCORE = 8.0  # that it comes near to: 1 less its share is not yet 1 in float64
_CONSTANTS = {
    "minmax": {"minimum", "maximum"},
    "quantile": {"values", "shares"},
    "zscore": {"mean", "deviation"},
    "none": set(),
}
FLOAT32_MAX = float(np.finfo(np.float32).max)


@struct.dataclass
class Literals:
    """Numeric values of N entities in M fields; for a model that reads the graph, its training facts too."""

    # Arrays, or what JAX puts in their place when it describes a compiled function.
    values: Any  # float32 [N, M] on the scale of `data.normalize`; 0 where missing
    observed: Any  # bool [N, M]
    positions: Any = None  # float32 [N, M] quantiles in [0, 1], or None; for parts that compare or bin values
    # int32 [n, 3], training facts as (head, relation, tail), none of an inverse relation; or None
    facts: Any = None
    # int32 [N, C], fields of each entity's observed cells, ascending, then M; None if few cells are missing
    cells: Any = None


def fields_of_cells(observed: np.ndarray) -> np.ndarray:
    """`Literals.cells` of a mask bool [N, M]: int32 [N, C], where C is the most cells of an entity."""
    counts = observed.sum(axis=1)
    entities, fields = np.nonzero(observed)
    cells = np.full((len(observed), counts.max(initial=0)), observed.shape[1], np.int32)
    cells[entities, places_in_groups(counts)] = fields
    return cells


@dataclasses.dataclass(frozen=True)
class Normalizer:
    """A fitted scale of M fields; `constants[m]` holds float64 arrays of field m by name.

    minmax: "minimum", "maximum" [1]; quantile: "values", "shares" [distinct values], both ascending;
    zscore: "mean", "deviation" [1]; none: nothing.  A field without observed values has minimum and
    maximum 0, no quantile values, mean and deviation 0.
    """

    kind: str
    constants: tuple[dict[str, np.ndarray], ...]

    def apply(self, values: np.ndarray, observed: np.ndarray) -> np.ndarray:
        """Scaled values float64 [N, M], finite, 0 where not observed; ValueError on wrong shapes."""
        _check_shapes(values, observed)
        if values.shape[1] != len(self.constants):
            raise ValueError(f"normalizer has {len(self.constants)} fields, values have {values.shape[1]}")
        scaled = np.zeros(values.shape, dtype=np.float64)
        scale = _SCALES[self.kind]
        for field, constants in enumerate(self.constants):
            seen = observed[:, field]
            scaled[seen, field] = scale(values[seen, field].astype(np.float64), constants)
        return scaled

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; `from_json` gives the same scale back to the last bit."""
        fields = [{name: array.tolist() for name, array in constants.items()} for constants in self.constants]
        return {"kind": self.kind, "fields": fields}

    @classmethod
    def from_json(cls, stored: Any) -> "Normalizer":
        """The inverse of `to_json`, also by way of a JSON file; ValueError for anything else."""
        try:
            kind, fields = stored["kind"], stored["fields"]
            constants = tuple(
                {name: np.asarray(numbers, dtype=np.float64) for name, numbers in field.items()}
                for field in fields
            )
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"not a stored value scale: {str(stored)[:80]}") from error
        if kind not in KINDS or any(set(field) != _CONSTANTS[kind] for field in constants):
            raise ValueError(f"not a stored value scale: {str(stored)[:80]}")
        return cls(kind, constants)


def fit_normalizer(values: np.ndarray, observed: np.ndarray, kind: str) -> Normalizer:
    """The scale of each field from its observed cells.

    Args:
      values: float64 [N, M]; cells that are not observed may hold anything.
      observed: bool [N, M].
      kind: one of KINDS.

    Raises:
      UserError: an unknown kind; or "none" with a value that float32 cannot hold.
      ValueError: wrong shapes, or an observed value that is not finite.
    """
    if kind not in KINDS:
        raise UserError(f"data.normalize must be one of {', '.join(KINDS)}, got {kind!r}")
    _check_shapes(values, observed)
    constants = []
    for field in range(values.shape[1]):
        column = np.sort(values[observed[:, field], field].astype(np.float64)) + 0.0
        if not np.isfinite(column).all():
            raise ValueError(f"field {field} has an observed value that is not finite")
        if kind == "none" and len(column) and np.abs(column).max() > FLOAT32_MAX:
            raise UserError(
                f"data.normalize=none: field {field} holds {np.abs(column).max():g}, beyond float32; "
                "use minmax, quantile or zscore"
            )
        constants.append(_FITS[kind](column))
    return Normalizer(kind, tuple(constants))


def _check_shapes(values: np.ndarray, observed: np.ndarray) -> None:
    if values.ndim != 2 or values.shape != observed.shape or observed.dtype != np.bool_:
        raise ValueError(
            "expected values [N, M] and bool observed [N, M], "
            f"got {values.shape} and {observed.dtype} {observed.shape}"
        )


def _fit_minmax(column: np.ndarray) -> dict[str, np.ndarray]:
    low, high = (column[0], column[-1]) if len(column) else (0.0, 0.0)
    return {"minimum": np.array([low]), "maximum": np.array([high])}


def _fit_quantile(column: np.ndarray) -> dict[str, np.ndarray]:
    distinct, counts = np.unique(column, return_counts=True)
    below = np.cumsum(counts) - counts
    return {"values": distinct, "shares": (below + counts / 2) / max(len(column), 1)}


def _fit_zscore(column: np.ndarray) -> dict[str, np.ndarray]:
    if len(column) == 0 or column[0] == column[-1]:  # rounding would give a tiny deviation
        mean = column[0] if len(column) else 0.0
        return {"mean": np.array([mean]), "deviation": np.array([0.0])}
    exponent = _exponent(column[:1], column[-1:])  # a common power of two, so that no square overflows
    scaled = np.ldexp(column, -exponent)
    return {
        "mean": np.ldexp(scaled.mean(keepdims=True), exponent),
        "deviation": np.ldexp(scaled.std(keepdims=True), exponent),
    }


def _scale_minmax(column: np.ndarray, constants: dict[str, np.ndarray]) -> np.ndarray:
    low, high = constants["minimum"], constants["maximum"]
    return _fraction(np.clip(column, low, high), low, high)


def _scale_quantile(column: np.ndarray, constants: dict[str, np.ndarray]) -> np.ndarray:
    values, shares = constants["values"], constants["shares"]
    if len(values) == 0:
        return np.full(len(column), 0.5)
    within = np.clip(column, values[0], values[-1])
    right = np.searchsorted(values, within)  # the first fitted value that is not smaller
    left = np.where(values[right] == within, right, right - 1)
    step = np.where(left == right, 0.0, _fraction(within, values[left], values[right]))
    scaled = shares[left] + step * (shares[right] - shares[left])
    below, above = column < values[0], column > values[-1]
    scaled[below] = _share_beyond(column[below], float(values[0]), values, float(shares[0]))
    scaled[above] = 1.0 - _share_beyond(column[above], float(values[-1]), values, float(1.0 - shares[-1]))
    return scaled


def _share_beyond(column: np.ndarray, end: float, values: np.ndarray, left: float) -> np.ndarray:
    """The share that lies still further out than values beyond the last fitted one, less than half of `left`.

    From the normal score of that half they move on with the logarithm of the distance in mean gaps: new
    values next to each other stay apart on the order core's scale, and one a million gaps away has no score
    of a million, which a regression would take at its word.
    """
    if not len(column):
        return column
    from scipy.special import ndtr, ndtri  # seldom needed, and slow to import

    count = max(len(values) - 1, 1)
    gap = values[-1] / count - values[0] / count or abs(end) or 1.0
    with np.errstate(over="ignore"):
        steps = BEYOND_STEP * np.log1p(np.abs(column - end) / gap)
    start = ndtri(left / 2)
    room = FURTHEST_SCORE + start
    return ndtr(start + room * np.expm1(-steps / room))


def _scale_zscore(column: np.ndarray, constants: dict[str, np.ndarray]) -> np.ndarray:
    mean, deviation = constants["mean"], constants["deviation"]
    if deviation[0] == 0:
        return np.zeros(len(column))
    exponent = _exponent(mean, deviation)
    with np.errstate(over="ignore"):  # an unseen value may be far out; the clip brings it back
        scores = (np.ldexp(column, -exponent) - np.ldexp(mean, -exponent)) / np.ldexp(deviation, -exponent)
    return np.clip(scores, -ZSCORE_LIMIT, ZSCORE_LIMIT)


def _fraction(column: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(column - low) / (high - low) for low <= column <= high, 0.5 where low equals high.

    All three are first divided by a common power of two, so that high - low neither overflows nor loses
    the smallest numbers.
    """
    exponent = _exponent(low, high)
    low, high, column = (np.ldexp(array, -exponent) for array in (low, high, column))
    width = high - low
    return np.where(width > 0, (column - low) / np.where(width > 0, width, 1.0), 0.5)


def _exponent(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The power of two just above the larger magnitude, per cell."""
    return np.frexp(np.maximum(np.abs(low), np.abs(high)))[1]


_FITS = {"minmax": _fit_minmax, "quantile": _fit_quantile, "zscore": _fit_zscore, "none": lambda column: {}}

_SCALES = {
    "minmax": _scale_minmax,
    "quantile": _scale_quantile,
    "zscore": _scale_zscore,
    "none": lambda column, _: np.clip(column, -FLOAT32_MAX, FLOAT32_MAX),
}


@dataclasses.dataclass(frozen=True)
class LiteralScale:
    """The scales of a graph's fields, fitted to the observed cells.

    Attributes:
      values: the scale of `data.normalize`, for the attribute embeddings.
      positions: quantiles, for the quantile encoding, the order core and the references.
    """

    values: Normalizer
    positions: Normalizer

    @classmethod
    def fit(cls, graph: NumericGraph, kind: str) -> "LiteralScale":
        """The scales of `graph`; `kind` is `config.data.normalize`."""
        return cls(
            values=fit_normalizer(graph.values, graph.observed, kind),
            positions=fit_normalizer(graph.values, graph.observed, "quantile"),
        )

    def literals(self, values: np.ndarray, observed: np.ndarray) -> Literals:
        """Float64 values [N, M] with their mask as float32 on the device; scaled before the cast."""
        return Literals(
            values=jnp.asarray(self.values.apply(values, observed), jnp.float32),
            observed=jnp.asarray(observed),
            positions=jnp.asarray(self.positions.apply(values, observed), jnp.float32),
        )

    def to_json(self) -> dict[str, Any]:
        """JSON values, exact to the last bit."""
        return {"values": self.values.to_json(), "positions": self.positions.to_json()}

    @classmethod
    def from_json(cls, stored: Any) -> "LiteralScale":
        """The scale that `to_json` wrote; ValueError for anything else."""
        if not isinstance(stored, dict) or set(stored) != {"values", "positions"}:
            raise ValueError(f"not a stored literal scale: {str(stored)[:80]}")
        return cls(**{name: Normalizer.from_json(scale) for name, scale in stored.items()})
