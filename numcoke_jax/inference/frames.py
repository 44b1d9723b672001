"""Answers as pandas tables, for Python; commands and the page take their columns as they are."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from numcoke_jax.inference.intervals import CELL_COLUMNS, NUMBER_TYPES, cell_columns
from numcoke_jax.inference.predict import COLUMNS, AnswerSettings, Predictor, tail_columns
from numcoke_jax.inference.questions import SCORE_COLUMNS, head_columns, score_columns


def ask(predictor: Predictor, heads: Sequence[int], relation: int, settings: AnswerSettings) -> pd.DataFrame:
    """`tail_columns` as a table with `COLUMNS`."""
    return pd.DataFrame(tail_columns(predictor, heads, relation, settings), columns=list(COLUMNS))


def ask_heads(predictor: Predictor, tail: int, relation: int, settings: AnswerSettings) -> pd.DataFrame:
    """`head_columns` as a table with `COLUMNS`."""
    return pd.DataFrame(head_columns(predictor, tail, relation, settings), columns=list(COLUMNS))


def score_triples(predictor: Predictor, triples: np.ndarray) -> pd.DataFrame:
    """`score_columns` as a table with `SCORE_COLUMNS`."""
    return pd.DataFrame(score_columns(predictor, triples), columns=list(SCORE_COLUMNS))


def cell_frame(rows: Sequence[Mapping[str, Any]], names: Sequence[str] = CELL_COLUMNS) -> pd.DataFrame:
    """`cell_columns` as a table."""
    types = {name: NUMBER_TYPES.get(name, "str") for name in names}
    return pd.DataFrame(cell_columns(rows, names)).astype(types)
