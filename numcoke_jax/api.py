"""From a pandas table to ranked answers in a few lines.

    from numcoke_jax import NumericKG, train

    kg = NumericKG.from_table(frame, name="Name", relations=["Weight", "Horsepower"])
    model = train(kg, workdir="runs/mine")
    model.predict(head="ford pinto", relation="Weight_comp", top=5)

A run started here keeps its graph in its workdir, so `Model.load(workdir)` needs nothing else.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ml_collections import ConfigDict

from numcoke_jax.config.checks import check_config, check_keys
from numcoke_jax.config.files import canonical_config
from numcoke_jax.data.numeric_kg import NumericKG, listed
from numcoke_jax.data.tables.cells import column_numbers
from numcoke_jax.data.tables.draws import is_number
from numcoke_jax.data.tables.frames import Table, given_table
from numcoke_jax.data.variants import SIDES, Change
from numcoke_jax.inference.explain import explain
from numcoke_jax.inference.frames import ask, ask_heads, cell_frame, given_facts, score_triples
from numcoke_jax.inference.impute import impute
from numcoke_jax.inference.names import Names
from numcoke_jax.inference.new_entities import read_new_entities, tell
from numcoke_jax.inference.places import PLACE_COLUMNS, places
from numcoke_jax.inference.predict import KNOWN, AnswerSettings
from numcoke_jax.inference.trained import Trained, load_trained
from numcoke_jax.runs.chosen import chosen_config
from numcoke_jax.runs.file_names import GRAPH_FOLDER
from numcoke_jax.runs.kept_graph import kept_graph
from numcoke_jax.runs.loop import train_and_evaluate
from numcoke_jax.runs.screen import Screen
from numcoke_jax.runs.unseen import NewEntities
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path


def train(
    kg: NumericKG, config: ConfigDict | None = None, *, workdir: str | Path, console: Screen | None = None
) -> "Model":
    """Train on a graph, or resume the run in `workdir`; returns the model with its best parameters.

    Args:
      kg: the graph; stored in the workdir, where a later `Model.load` finds it, with comparisons.json, which
        says how a table was compared: the keys of `config.data` do not.
      config: every key of `default_config()`; None: the preset "numeric", selecting on reversed facts if
        every relation is a strict order.
      workdir: folder of the run; created if missing.
      console: shows the run to a person; None writes to standard output.

    Raises:
      UserError: the config is wrong, or the workdir belongs to another run or another graph.
    """
    if not isinstance(kg, NumericKG):
        raise UserError(
            f"train: needs a NumericKG, got a {type(kg).__name__}; NumericKG.from_table makes one"
        )
    workdir = home_path(workdir).resolve()
    console = console or Screen()
    if config is None:
        config, chosen = chosen_config(kg.graph, compared=kg.compared_relations)
        console.note(chosen)
    check_keys(config)
    config = config.copy_and_resolve_references()
    config.data.path = str(workdir / GRAPH_FOLDER)
    check_config(config)
    locked = canonical_config(config).lock()
    with kept_graph(kg, workdir):
        train_and_evaluate(locked, workdir, console, loaded=kg.loaded)
    return Model.load(workdir)


class Model:
    """A trained model.

    Attributes:
      trained: run, parameters, calibration.
    """

    def __init__(self, trained: Trained) -> None:
        self.trained = trained
        self._predictor = trained.predictor()

    @classmethod
    def load(cls, workdir: str | Path) -> "Model":
        """The best checkpoint of a run; raises UserError if there is none."""
        return cls(load_trained(home_path(workdir), Screen().warn))

    @property
    def report(self) -> dict[str, Any]:
        """Metrics of the run, as in report.json; {} if that is missing."""
        return dict(self.trained.report or {})

    def predict(
        self,
        head: str | Iterable[str] | None = None,
        relation: str = "",
        *,
        tail: str | None = None,
        top: int = 10,
        candidates: str | Iterable[str] | None = None,
        known: str = "exclude",
        exclude_self: bool = False,
        new_entities: Table | None = None,
        facts: pd.DataFrame | Iterable[Sequence[Any]] | None = None,
        name: str | Iterable[str] = (),
    ) -> pd.DataFrame:
        """The best tails of (head, relation, ?), or heads of (?, relation, tail), one row each.

        Args:
          head: a name, or several; None: every new entity.
          relation: a name.
          tail: a name, instead of heads: the heads are ranked.
          top: answers per query, 1 or more.
          candidates: names of the only possible tails, or heads.
          known: "exclude" leaves known facts out, "mark" names the split that has them.
          exclude_self: the head is not a candidate.
          new_entities: entities that the model has never seen, as a table or its path: a column names them,
            others are fields of the graph; a line on standard output reports columns that are not fields, and
            a model that was trained without `train.entity_dropout`.
          facts: what is known about the new entities, as triples (head, relation, tail) of names or a table
            with these columns; an order core places the new entities by them, too.
          name: the columns that name a new entity, joined by ", "; (): the first.

        Returns:
          Columns head, relation, rank, tail, score, probability (NaN where unknown), known.

        Raises:
          UserError: a name does not exist (the message has the closest ones), or an argument has no meaning.
        """
        if known not in KNOWN:
            raise UserError(f"predict: known must be one of {', '.join(KNOWN)}, got {known!r}")
        if not isinstance(top, int | np.integer) or top < 1:
            raise UserError(f"predict: top must be an integer of 1 or more, got {top!r}")
        if head is not None and tail is not None:
            raise UserError("predict: give a head or a tail; score([(head, relation, tail)]) scores a pair")
        if head is None and tail is None and new_entities is None:
            raise UserError("predict: give a head, a tail, or new_entities")
        if new_entities is None and (facts is not None or listed(name)):
            raise UserError("predict: facts and name are of new entities; give new_entities, too")
        predictor, heads = self._predictor, [] if head is None else listed(head)
        if new_entities is not None:
            new, notices = self._read_new(new_entities, facts, name)
            tell(notices, new, self.trained.params, Screen())
            predictor = self.trained.predictor(new)
            heads = list(new.names) if head is None else heads
        names = Names(predictor.graph.vocabulary)
        asked, relation_id = [names.entities.id(name) for name in heads], names.relations.id(relation)
        only = None if candidates is None else np.array([*map(names.entities.id, listed(candidates))], int)
        settings = AnswerSettings(top=int(top), known=known, exclude_self=exclude_self, candidates=only)
        if tail is not None:
            return ask_heads(predictor, names.entities.id(tail), relation_id, settings)
        return ask(predictor, asked, relation_id, settings)

    def _read_new(
        self,
        new_entities: Table,
        facts: pd.DataFrame | Iterable[Sequence[Any]] | None,
        name: str | Iterable[str],
    ) -> tuple[NewEntities, list[str]]:
        """New entities, and notices about what was left out of their table; arguments as `predict`'s."""
        return read_new_entities(
            given_table("new_entities", new_entities),
            self.trained.run.graph,
            listed(name),
            given_facts(() if facts is None else facts),
            self.trained.names.fields.hidden,
        )

    def score(self, triples: pd.DataFrame | Iterable[Sequence[str]]) -> pd.DataFrame:
        """The scores of triples, in their order.

        Args:
          triples: rows (head, relation, tail) of names, or a table with these columns.

        Returns:
          Columns head, relation, tail, score, probability (NaN where unknown) and likelier: for a relation
          that compares, which of the two more likely stands above the other; "" if neither does, or else.

        Raises:
          UserError: a row does not have three names, or a name does not exist (with the closest ones).
        """
        names = Names(self._predictor.graph.vocabulary)
        ids = [
            (names.entities.id(head), names.relations.id(relation), names.entities.id(tail))
            for _, (head, relation, tail) in given_facts(triples, "score")
        ]
        return score_triples(self._predictor, np.array(ids, np.int64).reshape(-1, 3))

    def place(
        self,
        new_entities: Table,
        *,
        facts: pd.DataFrame | Iterable[Sequence[Any]] = (),
        name: str | Iterable[str] = (),
        level: float = 0.9,
    ) -> pd.DataFrame:
        """Where entities that the model has never seen stand under each relation that compares.

        Args:
          new_entities, facts, name: as in `predict`.
          level: target coverage of the intervals, in (0, 1).

        Returns:
          Columns entity, relation, field, low_rank, rank, high_rank, of, low_value, high_value and known_by,
          as `numcoke_jax.inference.places.places` has them; NaN for a value that there is not.

        Raises:
          UserError: as `predict`, or `level` is out of range, or no relation compares.
        """
        check_level("place", level)
        new, notices = self._read_new(new_entities, facts, name)
        for notice in notices:
            Screen().note(notice)
        return cell_frame(places(self.trained, new, level), PLACE_COLUMNS)

    def explain(
        self,
        head: str,
        relation: str,
        tail: str,
        *,
        head_values: Mapping[str, float | None] | None = None,
        tail_values: Mapping[str, float | None] | None = None,
    ) -> dict[str, Any]:
        """Why (head, relation, tail) has its score, and what other values would change.

        Args:
          head: a name.
          relation: a name.
          tail: a name.
          head_values: field -> another value of the head, None or NaN for missing.
          tail_values: the same for the tail.

        Returns:
          What `numcoke_jax.inference.explain.explain` returns, with names instead of ids.

        Raises:
          UserError: a name does not exist (the message has the closest ones), or a value is not a finite
            number.
        """
        for title, given in (("head_values", head_values), ("tail_values", tail_values)):
            if given is not None and not isinstance(given, Mapping):
                raise UserError(
                    f"explain: {title} needs a mapping of fields to values, such as {{'size': 3}}, "
                    f"got {given!r}"
                )
        names = self.trained.names
        changes = [
            Change(side, names.fields.id(field), _changed_value(field, value))
            for side, values in zip(SIDES, (head_values, tail_values), strict=True)
            for field, value in (values or {}).items()
        ]
        relation_id, ends = names.relations.id(relation), [names.entities.id(name) for name in (head, tail)]
        return explain(self.trained, ends[0], relation_id, ends[1], changes)

    def impute(self, fields: str | Iterable[str] | None = None, *, level: float = 0.9) -> pd.DataFrame:
        """The ranks and values between which each missing value lies.

        Args:
          fields: one or several names; None: all fields.
          level: target coverage, in (0, 1).

        Returns:
          Columns entity, field, low_rank, rank, high_rank, of, low_value, high_value, known_by ("facts",
          "values" or "nothing"), one row per missing value, with NaN for a value where the interval has no
          end on that side; `attrs["coverage"]` has the coverage on cells whose value is known.

        Raises:
          UserError: `fields` is empty, a field does not exist or has no observed value, or `level` is out of
            range.
        """
        check_level("impute", level)
        index = self.trained.names.fields
        asked = None if fields is None else [index.id(name) for name in listed(fields)]
        if asked == []:
            raise UserError("impute: fields is empty; name some, or leave it out for all")
        found = impute(self.trained, asked, level)
        frame = cell_frame(found["cells"])
        frame.attrs["coverage"] = found["coverage"]
        return frame


def check_level(where: str, level: float) -> None:
    """Raises UserError unless `level` is a share that intervals can cover."""
    if not (is_number(level) and 0.0 < level < 1.0):
        raise UserError(f"{where}: level must be between 0 and 1, got {level!r}")


def _changed_value(field: str, value: Any) -> float | None:
    values, observed, wrong, _ = column_numbers([value])
    if wrong:
        raise UserError(f"explain: the value {value!r} of {field!r} is {wrong[0]}; needs a plain number")
    return float(values[0]) if observed[0] else None
