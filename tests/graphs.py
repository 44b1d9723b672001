"""Graphs of facts and values that a test writes down itself."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from numcoke_jax.data.graph import NumericGraph, Vocabulary

Rows = Iterable[Sequence[int]]  # (head, relation, tail) as ids, or an array of them


def numbered(entities: int, relations: int = 1, fields: int = 0, *, digits: int = 3) -> Vocabulary:
    """Names e000, r000, f000 and so on."""
    sizes = {"e": entities, "r": relations, "f": fields}
    return Vocabulary(*(tuple(f"{kind}{i:0{digits}}" for i in range(size)) for kind, size in sizes.items()))


def graph_of(
    names: Vocabulary,
    train: Rows = (),
    valid: Rows = (),
    test: Rows = (),
    negatives: Rows = (),
    *,
    values: Any = None,
    observed: Any = None,
) -> NumericGraph:
    """The graph of these facts.

    Args:
      names: of entities, relations and fields.
      train: training facts.
      valid: validation facts.
      test: test facts.
      negatives: triples known to be false.
      values: [N, M]; None: every cell is missing.
      observed: bool [N, M]; None: the cells with a value that is not NaN.
    """
    shape = (len(names.entities), len(names.fields))
    values = np.full(shape, np.nan) if values is None else np.asarray(values, float).reshape(shape)
    observed = ~np.isnan(values) if observed is None else np.asarray(observed, bool).reshape(shape)
    splits = {"train": train, "valid": valid, "test": test, "negatives": negatives}
    facts: dict[str, Any] = {
        split: np.array(rows if isinstance(rows, np.ndarray) else list(rows), np.int32).reshape(-1, 3)
        for split, rows in splits.items()
    }
    return NumericGraph(names, **facts, values=np.where(observed, values, 0.0), observed=observed)
