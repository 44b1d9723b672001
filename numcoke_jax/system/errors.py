"""The one exception that carries a message for the user, and the wording of such messages."""

import difflib
import os
from collections.abc import Iterable, Sequence
from typing import Any

SHOWN_VALUE_LENGTH = 80  # characters of a user's value in a message
LONGEST_PATH = 200
LONGEST_REASON = 200  # characters of another library's message inside ours
CLOSE_ENOUGH = 0.6  # similarity from which a key counts as a misspelling of another
SHOWN_CHARACTERS = 120  # of a name or value in a message


class UserError(Exception):
    """Something the user can fix: a wrong config key, a malformed file, a busy workdir.

    The message says what is wrong, where (`path:line` or config key), what was found and what to do.
    Commands print it as one line on stderr and end with exit code 2, without a traceback.
    """


def did_you_mean(text: str, choices: Iterable[str]) -> str:
    """The hint "; did you mean X?" with the choice most similar to `text`; "" if none is similar."""
    close = difflib.get_close_matches(text.lower(), list(choices), n=1, cutoff=CLOSE_ENOUGH)
    return f"; did you mean {close[0]}?" if close else ""


def escaped(text: str) -> str:
    """`text` on one line: control characters and odd spaces as escapes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable(value: Any, longest: int = SHOWN_VALUE_LENGTH) -> str:
    """`value` on one line of at most `longest` characters; control characters and odd spaces as escapes."""
    text = escaped(value if isinstance(value, str) else repr(value))
    if len(text) > longest:
        text = text[: longest - 3] + "..."
    return text or "''"


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path on one line, cut only when it is very long: its end matters most."""
    text = printable(os.fspath(path), longest=10**6)
    return text if len(text) <= LONGEST_PATH else "..." + text[3 - LONGEST_PATH :]


def list_some(items: list[str], total: int, what: str) -> str:
    """`items` joined, followed by the total if it is larger: "a; b; ... (12 bad lines in all)"."""
    text = "; ".join(items)
    return text if total <= len(items) else f"{text}; ... ({total:,} {what} in all)"


def first_of(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first `most` of the items, and how many there are besides: "a, b and 3 more"."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return separator.join(items[:most]) + more


def plural(count: int, noun: str) -> str:
    """The count with its noun: 1 row, 2,000 rows."""
    return plural_of(count, noun, f"{noun}s")


def plural_of(count: int, one: str, many: str) -> str:
    """The count with its noun, for nouns with a plural of their own: 1 entity, 2,000 entities."""
    return f"{count:,} {one if count == 1 else many}"


def shown_name(name: str) -> str:
    """`name` for a message: escaped whole if something in it would not show, cut if it is long.

    Outer white space does not show; `printable` escapes the odd characters alone.
    """
    shown = name if name.isprintable() and name == name.strip() else ascii(name)
    return shown if len(shown) <= SHOWN_CHARACTERS else shown[: SHOWN_CHARACTERS - 3] + "..."


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to say after "no such `name`": the closest of the known names, or all of them."""
    known = list(filter(None, known))  # a column without a title cannot be asked for
    by_lower = {choice.lower(): choice for choice in reversed(known)}
    close = [lower for lower in by_lower if name and name.lower() in lower]
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6) or close
    if close:
        return f"did you mean {by_lower[close[0]]!r}?"
    return f"there is {', '.join(map(repr, known[:20]))}{' ...' if len(known) > 20 else ''}"
