"""Keys of the configuration changed by texts, as a command line gives them: "200", "true", "a,b,c"."""

import ast
from collections.abc import Callable, Iterable
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.config.checks import wrong_value
from numcoke_jax.config.schema import KEYS
from numcoke_jax.system.errors import UserError

_SWITCHES = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def override(config: ConfigDict, given: Iterable[tuple[str, str]]) -> None:
    """Set keys of a config with the types of `KEYS`; what the rules allow is left to `checks.check_config`.

    Args:
      config: unlocked.
      given: (key, text); the last text of a key counts, those of a tuple are joined.

    Raises:
      UserError: a text is not of the key's type.
    """
    values: dict[str, Any] = {}
    for key, text in given:
        try:
            value = _READERS[KEYS[key].allowed.kind](text)
        except (ValueError, KeyError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise UserError(wrong_value(key, text, "has the wrong type")) from None
        values[key] = (*values.get(key, ()), *value) if isinstance(value, tuple) else value
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        (config[section] if section else config)[name] = value


def _integer(text: str) -> int:
    return int(text, 0 if text[:2].lower() in ("0x", "0o") else 10)


def _tuple(text: str) -> tuple[Any, ...]:
    """Python's notation, or a,b,c: names without quotes, numbers as numbers."""
    if text[:1] in ("(", "[", '"', "'"):
        value = ast.literal_eval(text)
        return tuple(value) if isinstance(value, tuple | list) else (value,)
    return tuple(_member(part.strip()) for part in text.split(",")) if text.strip() else ()


def _member(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float | str) else text


_READERS: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: _SWITCHES[text.lower()],
    "int": _integer,
    "float": float,
    "str": str,
    "choice": str,
    "choices": _tuple,
    "names": _tuple,
    "shares": _tuple,
}
