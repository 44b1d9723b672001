"""Names -> ids, and what to say about a name that a graph does not have."""

import difflib
import heapq
from collections.abc import Mapping, Sequence

from numcoke_jax.data.graph import Vocabulary
from numcoke_jax.system.errors import UserError, printable

SHOWN = 3  # closest names in a message
LOOKED_AT = 200  # names that share most with the one asked for, compared letter by letter
LEAST_SIMILAR = 0.5


class NameIndex:
    """The names of one kind in id order.

    Args:
      kind: what they name, for messages: "entity", "relation", "field".
      names: name of id 0, 1, ...
      hidden: names that the model is not given -> what hides them.
    """

    def __init__(self, kind: str, names: Sequence[str], hidden: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self.names = names
        self.hidden = hidden or {}
        self._ids = {name: number for number, name in enumerate(names)}

    def __contains__(self, name: str) -> bool:
        return name in self._ids

    def id(self, name: str, where: str = "") -> int:
        """The id of `name`.

        Args:
          name: the exact name.
          where: what the message begins with, such as "--head" or "queries.tsv:3".

        Raises:
          UserError: the name does not exist (the message has the closest ones), or is not text.
        """
        if not isinstance(name, str):  # from Python, such as a row number
            from numcoke_jax.data.tables.own import (
                no_text,  # with pandas, which a misspelt name does not need
            )

            raise UserError(no_text(name))
        found = self._ids.get(name)
        if found is not None:
            return found
        place = f"{where}: " if where else ""
        if not name and self.names:
            raise UserError(
                f"{place}the {self.kind} is missing; give one of {len(self.names):,}: {self._some()}"
            )
        if name in self.hidden:
            raise UserError(
                f"{place}the {self.kind} {printable(repr(name))} is hidden from the model, by "
                f"{self.hidden[name]}; a run that is trained without that knows it"
            )
        raise UserError(f"{place}there is no {self.kind} {printable(repr(name))}; {self._hint(name)}")

    def closest(self, name: str) -> list[str]:
        """Up to `SHOWN` similar names, the most similar first; one equal but for case comes before all."""
        wanted, grams = name.casefold(), _grams(name)
        alike = heapq.nlargest(
            LOOKED_AT, self.names, key=lambda known: _overlap(grams, _grams(known))
        )  # letter by letter, a million names would take minutes

        def similarity(known: str) -> float:
            folded = known.casefold()
            if wanted and folded.startswith(wanted):
                return 1.0 + len(wanted) / len(folded)
            return difflib.SequenceMatcher(None, wanted, folded, autojunk=False).ratio()

        ranked = sorted(((similarity(known), known) for known in alike), key=lambda pair: (-pair[0], pair[1]))
        return [known for share, known in ranked[:SHOWN] if share >= LEAST_SIMILAR]

    def _hint(self, name: str) -> str:
        close = self.closest(name)
        if close:
            return f"the closest: {', '.join(printable(repr(known)) for known in close)}"
        some = self._some()
        return f"none of the {len(self.names):,} is similar; examples: {some}" if some else "there is none"

    def _some(self) -> str:
        some = ", ".join(printable(repr(known)) for known in self.names[:SHOWN])
        return some + (", ..." if len(self.names) > SHOWN else "")


class Names:
    """The names of a graph, by what they name: `entities`, `relations`, `fields`.

    `hidden`: fields that the model is not given -> what hides them.
    """

    def __init__(self, vocabulary: Vocabulary, hidden: Mapping[str, str] | None = None) -> None:
        self.entities = NameIndex("entity", vocabulary.entities)
        self.relations = NameIndex("relation", vocabulary.relations)
        self.fields = NameIndex("field", vocabulary.fields, hidden)


def _grams(name: str) -> set[str]:
    """The pairs of neighbouring characters, without case."""
    folded = name.casefold()
    return {folded[place : place + 2] for place in range(max(len(folded) - 1, 1))}


def _overlap(left: set[str], right: set[str]) -> float:
    """Dice's coefficient of two sets, in [0, 1]."""
    return 2 * len(left & right) / max(len(left) + len(right), 1)
