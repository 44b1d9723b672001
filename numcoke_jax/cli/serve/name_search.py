"""Entities whose name, or a word of it, begins with what has been typed so far."""

import re
from bisect import bisect_left
from collections.abc import Sequence

WORDS = re.compile(r"(?<=[^\w])\w|(?<=_)[^\W_]")  # the first letters of words but the first
MOST_WORDS = 8  # of a name


class NameSearch:
    """Sorted beginnings of the names and of their words: a search takes log(n) comparisons.

    Args:
      names: of the entities, in id order.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        folded = [name.casefold() for name in names]
        self._wholes = sorted((name, number) for number, name in enumerate(folded))
        self._words = sorted(
            (name[found.start() :], number)
            for number, name in enumerate(folded)
            for found, _ in zip(WORDS.finditer(name), range(MOST_WORDS), strict=False)
        )

    def starting_with(self, prefix: str, limit: int) -> tuple[list[str], bool]:
        """At most `limit` names, those that begin with the prefix before those of which a word does.

        Case is ignored; names of each kind are in alphabetical order.

        Returns:
          The names, and whether there are more.
        """
        wanted = prefix.casefold()
        found: dict[int, None] = {}
        for entries in (self._wholes, self._words) if wanted else (self._wholes,):
            place = bisect_left(entries, (wanted, -1))
            while place < len(entries) and entries[place][0].startswith(wanted):
                if len(found) > limit:
                    break
                found.setdefault(entries[place][1])
                place += 1
        numbers = list(found)[: limit + 1]
        return [self.names[number] for number in numbers[:limit]], len(numbers) > limit
