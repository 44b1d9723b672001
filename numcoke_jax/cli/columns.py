"""Columns of a table, as a command line names them."""

from collections.abc import Collection

from numcoke_jax.cli.commands import as_typed
from numcoke_jax.system.errors import UserError, suggestion


def split_names(option: str, text: str, known: Collection[str]) -> tuple[str, ...]:
    """The column names in `text`, separated by commas; a column whose own name has a comma may stand alone.

    Raises:
      UserError: one of them is not `known`; the message has `option` and the closest known name.
    """
    text = as_typed(text)
    if text in known:
        return (text,)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not name or name not in known:
            raise UserError(f"{option}: no column {name!r}; {suggestion(name, known)}")
    return tuple(dict.fromkeys(names))
