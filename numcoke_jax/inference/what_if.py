"""The model under other values of two entities: same facts, fitted parts fitted anew, nothing trained."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.data.tables.cells import column_numbers
from numcoke_jax.data.variants import SIDES, Change, changed_graph, facts_as_valued
from numcoke_jax.evaluation.calibration import Calibration
from numcoke_jax.evaluation.orders import compared_fields
from numcoke_jax.evaluation.scorer import Scorer
from numcoke_jax.inference.names import NameIndex
from numcoke_jax.inference.predict import Predictor
from numcoke_jax.runs.run import literals_for
from numcoke_jax.system.errors import UserError, printable

if TYPE_CHECKING:
    from numcoke_jax.inference.trained import Trained

KEPT = 4  # changed models: each has positions and values of all entities


class Predictors:
    """A model as it was trained, and under other values; several threads may ask at once.

    Args:
      trained: the model.
      chunk: heads that are scored at once; 0: `eval.chunk`.
    """

    def __init__(self, trained: "Trained", chunk: int = 0) -> None:
        self.trained = trained
        self._chunk = chunk or trained.run.config.eval.chunk
        run = trained.run
        self.own = (
            trained.predictor()
            if not chunk
            else self._predictor(run.graph, run.literals, trained.params, trained.calibration)
        )
        self._changed: OrderedDict[tuple[int, int, frozenset[Change]], Predictor] = OrderedDict()
        self._changing = threading.Lock()

    def changed(self, head: int, tail: int, changes: Sequence[Change]) -> Predictor:
        """The model if `head` and `tail` had other values; the newest ones are kept.

        Only an order core knows probabilities then.
        """
        with self._changing:
            key = head, tail, frozenset(changes)
            if key in self._changed:
                self._changed.move_to_end(key)
                return self._changed[key]
            found = self._new(head, tail, changes)
            self._changed[key] = found
            while len(self._changed) > KEPT:
                self._changed.popitem(last=False)
            return found

    def _new(self, head: int, tail: int, changes: Sequence[Change]) -> Predictor:
        trained, run = self.trained, self.trained.run
        changed = changed_graph(run.graph, head, tail, changes)
        valued = _as_valued(trained, changed, head, tail, changes)
        params = run.refitted(trained.params, run.programs.model, valued)
        # No fact of such values was ever seen, by which a scale of an encoder's scores could be judged.
        return self._predictor(changed, literals_for(run.config, run.scale, changed), params, Calibration())

    def _predictor(
        self, graph: NumericGraph, literals: Literals, params: Any, calibration: Calibration
    ) -> Predictor:
        model = self.trained.run.programs.model
        scorer = Scorer(model, literals, graph.vocabulary, chunk=self._chunk)
        return Predictor(graph, scorer, params, calibration)


def read_changes(texts: Sequence[str], fields: NameIndex, flag: str, side: str = "head") -> list[Change]:
    """FIELD=VALUE for the entity of one side, head.FIELD=VALUE or tail.FIELD=VALUE; no VALUE: missing.

    Args:
      texts: the changes.
      fields: of the graph.
      flag: what a message calls them, such as "--set".
      side: whose value changes where none is named.

    Raises:
      UserError: a text has another form, there is no such field, or it is set twice.
    """
    found: list[Change] = []
    for text in texts:
        place = f"{flag}={printable(text)}"
        name, equals, value = text.rpartition("=")
        if not equals:
            raise UserError(f"{place}: needs FIELD=VALUE, such as {flag} Horsepower=150")
        whose = side
        if name not in fields and name.partition(".")[0] in SIDES:
            whose, _, name = name.partition(".")
        values, observed, wrong, _ = column_numbers([value])
        change = Change(whose, fields.id(name, flag), float(values[0]) if observed[0] else None)
        if wrong:
            raise UserError(f"{place}: {printable(value)} is {wrong[0]}; needs a plain number")
        if any((change.side, change.field) == (other.side, other.field) for other in found):
            raise UserError(f"{place}: this field of the {whose} is set twice")
        found.append(change)
    return found


def _as_valued(
    trained: "Trained", changed: NumericGraph, head: int, tail: int, changes: Sequence[Change]
) -> NumericGraph:
    """The changed graph with the facts that the order core would have seen: those of another value.

    With the entity's old facts, which its new value contradicts, a relation would seem to compare no field.
    """
    names, entities = changed.vocabulary, dict(zip(SIDES, (head, tail), strict=True))
    found = compared_fields(trained.params, names)
    for change in changes:
        field = names.fields[change.field]
        whole = {name: one.weight for name, rows in found.items() for one in rows if one.field == field}
        signs = {names.relations.index(r): int(w) for r, w in whole.items() if abs(w) == 1.0}
        changed = facts_as_valued(changed, [entities[change.side]], signs, change.field)
    return changed
