"""Checks of types, dtypes and shapes around every function of the package while the tests run.

jaxtyping's import hook decorates the functions, and beartype checks. A check takes longer than most of the
calls, and whether one passes depends on types, dtypes and shapes alone: of calls with equal ones the first is
checked in each process.
"""

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Hashable
from typing import Any

import beartype
import jax
import jaxtyping
import numpy as np

# As for mypy, an int will do where a float is asked for.
_by_beartype = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))
_checked = functools.partial(jaxtyping.jaxtyped, typechecker=_by_beartype)

_LOOKED_THROUGH = 8  # items of a container; of more, beartype looks at one that it draws
_returned = threading.local()


class _Unlike(Exception):
    """A container whose check may end otherwise than that of another of its kind."""


@functools.cache
def _sort(of: type) -> str:
    if issubclass(of, (np.ndarray, jax.Array, jax.core.Tracer)):
        return "array"
    if issubclass(of, (tuple, list, set, frozenset, dict)):
        return "container"
    return "class" if issubclass(of, type) else "other"


def _kind(value: Any) -> Any:
    """All that a check may depend on."""
    of: Any = type(value)
    match _sort(of):
        case "array":
            return of, value.shape, value.dtype
        case "container":
            if len(value) > _LOOKED_THROUGH:
                raise _Unlike
            items = map(_kind, value.values()) if isinstance(value, dict) else ()
            return of, *map(_kind, value), *items
        case "class":
            return value
    return of


def checked(function: Any = None, *, typechecker: None = None) -> Any:
    """In place of `jaxtyping.jaxtyped`, which the hook applies to every function and class.

    A function that is defined inside another is left as it is: it is made anew at every call of that, and to
    make its checks takes milliseconds.
    """
    if function is None:
        return checked
    if inspect.isclass(function):
        if dataclasses.is_dataclass(function) and function.__init__.__globals__ is not globals():
            function.__init__ = checked(function.__init__)  # type: ignore[method-assign]
        return function
    return function if "<locals>" in function.__qualname__ else _checked_once(function)


def _checked_once(function: Callable[..., Any]) -> Callable[..., Any]:
    passed: dict[Hashable, set[Hashable]] = {}  # the kinds of results, by the kinds of arguments

    @functools.cache
    def always() -> Callable[..., Any]:
        return _checked(function)

    @functools.cache
    def of_result() -> Callable[..., Any]:
        return _checked(functools.wraps(function)(lambda *args, **kwargs: _returned.value))

    @functools.wraps(function)
    def once(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = (*map(_kind, args), *kwargs, *map(_kind, kwargs.values()))
        except _Unlike:
            return always()(*args, **kwargs)
        results = passed.get(arguments)
        result = always()(*args, **kwargs) if results is None else function(*args, **kwargs)
        try:
            returned = _kind(result)
        except _Unlike:
            returned = None
        if results is None:
            results = passed[arguments] = set()
        elif returned is not None and returned in results:
            return result
        else:
            _returned.value = result
            of_result()(*args, **kwargs)
        if returned is not None:
            results.add(returned)
        return result

    return once
