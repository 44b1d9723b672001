"""Tables with holes whose truth is known, as graphs, and how often intervals contain it."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from numcoke_jax.api import NumericKG
from numcoke_jax.data.graph import LoadedGraph, NumericGraph, Vocabulary
from numcoke_jax.inference.trained import Trained
from numcoke_jax.runs.create import create_run
from tests.tiny_runs import config_of

FIELDS = ("a", "b", "c")


@dataclasses.dataclass(frozen=True)
class Holes:
    """A table with a fifth of its cells deleted.

    Attributes:
      values: float64 [N, M], all of them.
      observed: bool [N, M].
    """

    values: np.ndarray
    observed: np.ndarray

    @classmethod
    def drawn(cls, seed: int, *, count: int = 80, fields: int = 2, correlation: float = 0.0) -> "Holes":
        """Normal columns, each two of which have this correlation."""
        rng = np.random.default_rng(seed)
        common, own = rng.standard_normal((count, 1)), rng.standard_normal((count, fields))
        values = np.sqrt(correlation) * common + np.sqrt(1.0 - correlation) * own
        return cls(values, rng.random(values.shape) >= 0.2)

    @property
    def frame(self) -> pd.DataFrame:
        """The table, with NaN in its holes."""
        shown = np.where(self.observed, self.values, np.nan)
        columns = dict(zip(FIELDS, shown.T, strict=False))
        return pd.DataFrame({"name": [f"e{row:03d}" for row in range(len(shown))], **columns})

    def truth(self, cell: Mapping[str, Any]) -> float:
        """The value of a cell that was imputed."""
        return float(self.values[int(cell["entity"][1:]), FIELDS.index(cell["field"])])

    def pairs(self, field: int, count: int, seed: int = 0) -> np.ndarray:
        """int32 [n, 2] pairs of entities, the higher value first, whether it is missing or not."""
        rng = np.random.default_rng([seed, field])
        drawn = rng.integers(len(self.values), size=(count, 2))
        drawn = drawn[drawn[:, 0] != drawn[:, 1]]
        up = self.values[drawn[:, 0], field] > self.values[drawn[:, 1], field]
        return np.unique(np.where(up[:, None], drawn, drawn[:, ::-1]), axis=0).astype(np.int32)

    def graph(self, relations: Mapping[str, np.ndarray]) -> NumericGraph:
        """A graph of these facts, relation -> int [n, 2], all of them training facts but a few."""
        facts = [
            np.insert(pairs, 1, number, axis=1).astype(np.int32)
            for number, pairs in enumerate(relations.values())
        ]
        names = Vocabulary(tuple(self.frame["name"]), tuple(relations), FIELDS[: self.values.shape[1]])
        ends = np.concatenate([part[:2] for part in facts])
        train = np.concatenate([part[2:] for part in facts])
        values = np.where(self.observed, self.values, 0.0)
        return NumericGraph(names, train, ends, ends[:0], ends[:0], values, self.observed)


def run_of(graph: NumericGraph, **changes: Any) -> Trained:
    """A run on a graph, whose parameters no imputation reads."""
    config = config_of(Path("memory"), **changes)
    return Trained(create_run(config, LoadedGraph(graph, [], "memory")), None)


def table_run(holes: Holes, relations: Sequence[str] = (), **changes: Any) -> Trained:
    """A run on the comparative graph of the table, which was made after the holes."""
    made = NumericKG.from_table(holes.frame, name="name", relations=relations, split=(0.2, 0.1, 0.7))
    return run_of(made.graph, **changes)


def covers(cell: Mapping[str, Any], value: float) -> bool:
    """Whether the interval contains the value."""
    low, high = cell["low_value"], cell["high_value"]
    return (low is None or low <= value) and (high is None or value <= high)


def width(cell: Mapping[str, Any]) -> float:
    """The share of all ranks that the interval has."""
    return float((cell["high_rank"] - cell["low_rank"] + 1) / cell["of"])


def pooled(imputed: Iterable[tuple[Holes, dict[str, Any]]]) -> pd.DataFrame:
    """Every missing cell of several tables: covered, width, field, known_by."""
    return pd.DataFrame(
        {"covered": covers(cell, holes.truth(cell)), "width": width(cell), **cell}
        for holes, found in imputed
        for cell in found["cells"]
    )
