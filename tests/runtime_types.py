"""The type checker that conftest.py puts around every function of the package while the tests run."""

from collections.abc import Callable
from typing import Any

import beartype

# As for mypy, an int will do where a float is asked for.
_checked = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))


def check_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, checked on every call.

    One that is defined inside another is left as it is: it is a new function at every call of that, and to
    make its checks takes milliseconds, which in a loop of an order core were nine tenths of a test.
    """
    return function if "<locals>" in function.__qualname__ else _checked(function)
