"""Intervals of missing values, computed once, when they are first asked for, beside other answers."""

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from numcoke_jax.cli.impute_view import WHICH, interval_text
from numcoke_jax.cli.serve.request_errors import FAULT, RequestError
from numcoke_jax.system.errors import UserError

SECONDS_WAITED = 2.0  # by the first who asks; a small graph's cells are there by then
LEVEL = 0.9  # the coverage of the intervals that is aimed at


class CellTable:
    """The missing cells of a run's graph, by entity.

    Args:
      impute: level -> what `inference.impute` finds in the run; takes seconds.
    """

    def __init__(self, impute: Callable[..., dict[str, Any]]) -> None:
        self._impute = impute
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._found: dict[str, Any] = {}
        self._by_entity: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._fault = ""

    @property
    def computing(self) -> bool:
        """Whether the cells are being computed."""
        return self._thread is not None and self._thread.is_alive()

    def of(self, entity: str, observed: np.ndarray) -> dict[str, Any] | None:
        """The cells of an entity with these observed values, bool [M]; None if they are not there yet.

        Raises:
          RequestError: they cannot be computed.
        """
        empty = {"entity": entity, "level": LEVEL, "cells": []}
        if observed.all():  # also of a graph without fields
            return empty
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._compute, daemon=True, name="cells")
                self._thread.start()
        self._thread.join(SECONDS_WAITED)
        if self._thread.is_alive():
            return None
        if self._fault:
            raise RequestError(FAULT, self._fault, "entity", "see numcoke impute, which says the same")
        cells = [
            {**cell, "text": interval_text(cell), "unknown": cell["known_by"] == "nothing"}
            for cell in self._by_entity.get(entity, [])
        ]
        coverage = {"measured_on": WHICH[self._found["tested_on"]], **self._found["coverage"]}
        return {**empty, "cells": cells, "coverage": coverage}

    def _compute(self) -> None:
        try:
            found = self._impute(level=LEVEL)
        except (UserError, FloatingPointError) as error:
            self._fault = str(error)
            return
        for cell in found.pop("cells"):
            self._by_entity[cell["entity"]].append(cell)
        self._found = found
