"""What the server answers, as JSON values; it changes neither the run nor its folder.

Questions go to the functions of `inference` that the commands use, so that an answer is the same here and
there.  Threads may ask at once: as many as there are cores are answered at a time, and one what-if.
"""

import contextlib
import functools
import math
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numcoke_jax.cli.serve.cells import CellTable
from numcoke_jax.cli.serve.name_search import NameSearch
from numcoke_jax.cli.serve.request_errors import BUSY, UNPROCESSABLE, RequestError, id_of
from numcoke_jax.data.graph import RELATION, SPLITS
from numcoke_jax.data.variants import SIDES, Change, unseen_relations
from numcoke_jax.evaluation.orders import compared_fields
from numcoke_jax.inference.explain import explain
from numcoke_jax.inference.impute import impute
from numcoke_jax.inference.predict import AnswerSettings, Predictor, tail_columns
from numcoke_jax.inference.questions import head_columns, score_columns
from numcoke_jax.inference.trained import Trained
from numcoke_jax.inference.what_if import Predictors, read_changes
from numcoke_jax.system.console import WHY_UNKNOWN
from numcoke_jax.system.errors import UserError

CELLS = 2**20  # scores computed at once: a chunk of heads would keep one question waiting on a large graph
MOST_WAITING = 8  # what-ifs, with the one that is answered: each is fitted anew, in tenths of a second
MOST_HEADS = 20_000  # entities up to which heads are ranked: it takes the square of their number of scores


class Answers:
    """Answers about one trained model.

    Args:
      trained: the model.
      name: what the run is called.
    """

    def __init__(self, trained: Trained, name: str) -> None:
        self.trained, self.name = trained, name
        graph = trained.run.graph
        self._graph = graph
        self._names = trained.names
        self._search = NameSearch(graph.vocabulary.entities)
        chunk = max(CELLS // max(graph.num_entities, 1), 1)
        self._predictors = Predictors(trained, chunk if chunk < trained.run.config.eval.chunk else 0)
        self._unseen = set(unseen_relations(graph))
        self._compared = compared_fields(trained.params, graph.vocabulary)
        self._cells = CellTable(functools.partial(impute, trained))
        self._scoring = threading.Semaphore(os.cpu_count() or 1)
        self._changing, self._waiting = threading.Lock(), threading.Semaphore(MOST_WAITING)

    def warm_up(self) -> None:
        """Compiles what a first question needs."""
        names = self._graph.vocabulary
        if names.entities and names.relations:
            self.predict(names.entities[0], None, names.relations[0], AnswerSettings(top=1), [])

    @property
    def busy(self) -> bool:
        """Whether a computation is under way that cannot be stopped."""
        return self._cells.computing

    def run(self) -> dict[str, Any]:
        """What the model and its graph are."""
        graph, report = self._graph.without_inverses(), self.trained.report
        order = report.get("order") if report else None
        facts = np.bincount(graph.train[:, RELATION], minlength=graph.num_relations)
        return {
            "run": self.name,
            "graph": self.trained.run.loaded.name,
            "model": self.trained.run.config.model.name,
            "seed": int(self.trained.run.config.seed),
            "entities": graph.num_entities,
            "facts": {split: len(graph.split(split)) for split in SPLITS},
            "test": {
                "mrr": report and report["test"]["mrr"],
                "order_accuracy": order and order["all"].get("order_accuracy"),
            },
            "why_unknown": WHY_UNKNOWN,
            "heads_ranked": graph.num_entities <= MOST_HEADS,
            "relations": [self._relation(relation, int(facts[relation])) for relation in range(len(facts))],
            "fields": [self._field(field) for field in range(graph.num_fields)],
        }

    def entities(self, prefix: str, limit: int) -> dict[str, Any]:
        """Names that begin with a prefix."""
        names, more = self._search.starting_with(prefix, limit)
        return {"entities": names, "more": more, "of": self._graph.num_entities}

    def entity(self, name: str) -> dict[str, Any]:
        """The values of an entity; None where missing."""
        entity = id_of(self._names.entities, name, "name")
        fields = self._graph.vocabulary.fields
        values = [
            {"field": fields[field], "value": self._value(entity, field)} for field in range(len(fields))
        ]
        return {"entity": name, "values": values}

    def predict(
        self,
        head: str | None,
        tail: str | None,
        relation: str,
        settings: AnswerSettings,
        changes: Sequence[str],
    ) -> dict[str, Any]:
        """Ranked tails of a head, or heads of a tail; with changes of its values, also what they were.

        Raises:
          RequestError: a name does not exist, a change is wrong, or there are too many heads to rank.
        """
        given = "head" if tail is None else "tail"
        entity = id_of(self._names.entities, (head if tail is None else tail) or "", given)
        relation_id = id_of(self._names.relations, relation, "relation")
        if given == "tail" and self._graph.num_entities > MOST_HEADS:
            what = f"ranking heads among {self._graph.num_entities:,} entities takes too long for a request"
            remedy = "numcoke predict --tail=NAME --relation=NAME does it in a terminal"
            raise RequestError(UNPROCESSABLE, what, "tail", remedy)
        changed = self._changes(changes, given)
        if any(change.side != given for change in changed):
            what = f"the {given} is given, and another entity's value is set"
            raise RequestError(UNPROCESSABLE, what, "set", f"set values of the {given}")
        if not changed:
            with self._scoring:
                rows = self._ranked(self._predictors.own, given, entity, relation_id, settings)
        else:
            with self._fitting():
                predictor = self._predictors.changed(entity, entity, changed)
                rows = self._ranked(predictor, given, entity, relation_id, settings)
                for row, before in zip(rows, self._before(rows), strict=True):
                    row["before"] = _none_if_unknown(before)
        for row in rows:
            row["probability"] = _none_if_unknown(row["probability"])
            del row["relation"], row[given]
        query = {"head": head, "relation": relation, "tail": tail}
        return {"query": query, "changes": self._told(changed), "answers": rows}

    def score(self, triples: Sequence[Sequence[str]]) -> dict[str, Any]:
        """The scores and probabilities of triples, in their order."""
        ids = []
        for place, (head, relation, tail) in enumerate(triples):
            where = f"triples[{place}]"
            entities, relations = self._names.entities, self._names.relations
            ends = id_of(entities, head, f"{where}[0]"), id_of(entities, tail, f"{where}[2]")
            ids.append((ends[0], id_of(relations, relation, f"{where}[1]"), ends[1]))
        with self._scoring:
            found = score_columns(self._predictors.own, np.array(ids, np.int64).reshape(-1, 3))
        rows = _rows(found)
        for row in rows:
            row["probability"] = _none_if_unknown(row["probability"])
        return {"scores": rows}

    def explain(self, head: str, relation: str, tail: str, changes: Sequence[str]) -> dict[str, Any]:
        """Why a fact has its score, and what other values would change."""
        ends = id_of(self._names.entities, head, "head"), id_of(self._names.entities, tail, "tail")
        relation_id = id_of(self._names.relations, relation, "relation")
        changed = self._changes(changes, "head")
        with self._fitting() if changed else self._scoring:
            return explain(self.trained, ends[0], relation_id, ends[1], changed, self._predictors)

    def cells(self, entity: str) -> dict[str, Any] | None:
        """The intervals of an entity's missing values; None while they are computed, which the first asks."""
        return self._cells.of(entity, self._graph.observed[id_of(self._names.entities, entity, "entity")])

    def _relation(self, relation: int, facts: int) -> dict[str, Any]:
        """What is known about a relation without asking the model."""
        name = self._graph.vocabulary.relations[relation]
        sizes, calibration = self.trained.run.sizes, self.trained.calibration
        decided = relation in sizes.ordered or relation in sizes.classes
        fields = [
            {"field": one.field, "weight": float(one.weight)} for one in self._compared.get(name, [])[:3]
        ]
        return {
            "relation": name,
            "decided": decided,
            "probability_of": "order"
            if relation in sizes.ordered or calibration.directions and not decided
            else "fact",
            "calibrated": decided or relation in calibration.relations,
            "fields": [row for row in fields if row["weight"]],
            "train_facts": facts,
            "unknown": name in self._unseen,
        }

    def _field(self, field: int) -> dict[str, Any]:
        """The range of a field's observed values."""
        seen = self._graph.observed[:, field]
        values = self._graph.values[seen, field]
        low, high = (float(values.min()), float(values.max())) if len(values) else (None, None)
        name = self._graph.vocabulary.fields[field]
        return {"field": name, "observed": int(seen.sum()), "low": low, "high": high}

    def _value(self, entity: int, field: int) -> float | None:
        return float(self._graph.values[entity, field]) if self._graph.observed[entity, field] else None

    def _changes(self, given: Sequence[str], side: str) -> list[Change]:
        """The changes of values that are asked for; raises RequestError for a wrong one."""
        try:
            return read_changes(given, self._names.fields, "set", side)
        except UserError as error:
            raise RequestError.of(error, "set") from None

    @contextlib.contextmanager
    def _fitting(self) -> Iterator[None]:
        """One what-if at a time; RequestError if so many wait that no thread would be left for others."""
        if not self._waiting.acquire(blocking=False):
            what = f"{MOST_WAITING} questions about other values are under way"
            raise RequestError(BUSY, what, "set", "ask again later")
        try:
            with self._changing:
                yield
        finally:
            self._waiting.release()

    def _told(self, changes: Sequence[Change]) -> list[dict[str, Any]]:
        fields = self._graph.vocabulary.fields
        return [{"field": fields[change.field], "value": change.value} for change in changes]

    @staticmethod
    def _ranked(
        predictor: Predictor, given: str, entity: int, relation: int, settings: AnswerSettings
    ) -> list[dict[str, Any]]:
        if given == SIDES[0]:
            columns = tail_columns(predictor, [entity], relation, settings)
        else:
            columns = head_columns(predictor, entity, relation, settings)
        return _rows(columns)

    def _before(self, rows: Sequence[Mapping[str, Any]]) -> Iterable[float]:
        """The probabilities of the same facts without changes."""
        entities, relations = self._names.entities, self._names.relations
        ids = [
            (entities.id(row["head"]), relations.id(row["relation"]), entities.id(row["tail"]))
            for row in rows
        ]
        found = score_columns(self._predictors.own, np.array(ids, np.int64).reshape(-1, 3))
        return found["probability"]


def _rows(columns: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def _none_if_unknown(probability: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(probability) else float(probability)
