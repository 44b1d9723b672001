"""What a key of the configuration is: its default, what it accepts, its meaning and what depends on it."""

import dataclasses
import math
from collections.abc import Collection
from typing import Any


@dataclasses.dataclass(frozen=True)
class Rule:
    """What one key accepts.

    Attributes:
      kind: "bool", "int", "float", "str", "choice", "choices" (a tuple of distinct members), "names"
        (a tuple of non-empty strings) or "shares" (a tuple of `length` numbers).
      low, high: the closed range of numbers; `low_open` and `high_open` exclude the end itself.
      also: integers outside the range that are allowed too, such as a 0 that stands for "all".
      choices: the allowed strings of "choice" and "choices", in the order that messages show.
      length: the number of members of "shares".
    """

    kind: str
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    also: tuple[int, ...] = ()
    choices: Collection[str] = ()
    length: int = 0

    def needs(self) -> str:
        """The allowed set as messages show it, such as "an integer >= 1 and <= 64"."""
        if self.kind == "bool":
            return "true or false"
        if self.kind == "int":
            return f"an integer {self._range()}" + "".join(f", or {value}" for value in self.also)
        if self.kind == "float":
            return f"a number {self._range()}"
        if self.kind == "str":
            return "a string without null characters"
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind == "choices":
            return "one or more, each once, of " + ", ".join(self.choices)
        if self.kind == "names":
            return "a tuple of non-empty names such as ('weight',), or ()"
        return f"{self.length} numbers {self._range()}, such as (0.8, 0.1, 0.1)"

    def _range(self) -> str:
        low, high = (f"{end:.0f}" if self.kind == "int" else f"{end:g}" for end in (self.low, self.high))
        return f"{'>' if self.low_open else '>='} {low} and {'<' if self.high_open else '<='} {high}"

    def problem(self, value: Any) -> str:
        """What is wrong with `value`, such as "is out of range"; "" if it is allowed."""
        if self.kind in ("bool", "str", "choice"):
            if not isinstance(value, bool if self.kind == "bool" else str):
                return "has the wrong type"
            if self.kind == "str" and "\0" in str(value):
                return "has a null character"
            return "" if self.kind != "choice" or value in self.choices else "is not a choice"
        if self.kind in ("int", "float"):
            return self._number_problem(value)
        if not isinstance(value, tuple):
            return "has the wrong type"
        if self.kind == "shares":
            if len(value) != self.length:
                return f"has {len(value)} members"
            return next(filter(None, map(self._number_problem, value)), "")
        if not all(isinstance(member, str) for member in value):
            return "has a member of the wrong type"
        if self.kind == "names":
            return "" if all(member.strip() for member in value) else "has an empty name"
        if not value or len(set(value)) < len(value):
            return "is empty" if not value else "names a member twice"
        return "" if set(value) <= set(self.choices) else "has a member that is not a choice"

    def _number_problem(self, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int if self.kind == "int" else int | float):
            return "has the wrong type"
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        inside = above and below  # NaN fails both comparisons
        return "" if inside or value in self.also else "is out of range"


def integer(low: int, high: int, *also: int) -> Rule:
    """Integers in a closed range, and those of `also`."""
    return Rule("int", low, high, also=also)


def number(low: float, high: float, *, low_open: bool = False, high_open: bool = False) -> Rule:
    """Numbers in a range."""
    return Rule("float", low, high, low_open, high_open)


def choice(*choices: str) -> Rule:
    """One of the strings."""
    return Rule("choice", choices=choices)


def some_of(*choices: str) -> Rule:
    """A tuple of one or more of the strings, each once."""
    return Rule("choices", choices=choices)


BOOL, TEXT, NAMES, THREE_SHARES = Rule("bool"), Rule("str"), Rule("names"), Rule("shares", 0.0, 1.0, length=3)


@dataclasses.dataclass(frozen=True)
class Key:
    """All that the program knows about one key.

    Attributes:
      name: with its section, such as "train.epochs".
      default: keeps the behaviour of programs that did not have the key: a run that is older has this value.
      allowed: what it accepts.
      meaning: for `--help` and docs/settings.md: in a line, with the unit and the value that disables it.
      scope: what it acts on. "run": every run. "table": a graph that is built from a table. "folder": one
        that is read from a folder. "model": models that list it in `config/models.py`. "extension": the same,
        and models that do not list it refuse every value but the default, which switches it off.
      resumable: whether it may change when a run resumes, as it changes neither the model nor what a step
        computes; the data are compared by content, not by place.
      compiled: whether a compiled function of training may depend on it (`training/programs.py`).
    """

    name: str
    default: Any
    allowed: Rule
    meaning: str
    scope: str = "run"
    resumable: bool = False
    compiled: bool = True
