"""Facts and answers as tables of pandas, for Python; commands and the page take columns as they are."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from numcoke_jax.data.files.lines import FACT_COLUMNS
from numcoke_jax.data.tables.own import no_text
from numcoke_jax.inference.intervals import CELL_COLUMNS, NUMBER_TYPES, cell_columns
from numcoke_jax.inference.new_entities import NamedFact
from numcoke_jax.inference.predict import COLUMNS, AnswerSettings, Predictor, tail_columns
from numcoke_jax.inference.questions import SCORE_COLUMNS, head_columns, score_columns
from numcoke_jax.system.errors import UserError, printable


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


def given_facts(facts: pd.DataFrame | Iterable[Iterable[Any]], what: str = "facts") -> list[NamedFact]:
    """Facts as `read_facts` has them: a table with columns head, relation and tail, or triples of names.

    Args:
      facts: what was given.
      what: the argument, for messages.

    Raises:
      UserError: it is something else.
    """
    if isinstance(facts, pd.DataFrame):
        missing = [name for name in FACT_COLUMNS if name not in facts.columns]
        if missing:
            raise UserError(f"{what}: no column {missing[0]!r}; needs {', '.join(FACT_COLUMNS)}")
        facts = facts[list(FACT_COLUMNS)].itertuples(index=False, name=None)
    if isinstance(facts, str) or not isinstance(facts, Iterable):
        raise UserError(f"{what}: needs triples (head, relation, tail), got {printable(repr(facts))}")
    found = []
    for row, fact in enumerate(facts, 1):
        where = f"{what}: row {row}"
        names = () if isinstance(fact, str) or not isinstance(fact, Iterable) else tuple(fact)
        if len(names) != len(FACT_COLUMNS):
            raise UserError(f"{where} needs head, relation and tail, got {printable(repr(fact))}")
        for name in names:
            if not isinstance(name, str):
                raise UserError(f"{where}: {no_text(name)}")
        found.append((where, names))
    return found
