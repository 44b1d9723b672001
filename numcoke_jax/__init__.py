"""NumCoKE in JAX.  The public names are loaded on first use: importing JAX takes seconds."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numcoke_jax.api import Model as Model
    from numcoke_jax.api import NumericKG as NumericKG
    from numcoke_jax.api import train as train
    from numcoke_jax.system.errors import UserError as UserError

__all__ = ["Model", "NumericKG", "UserError", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "numcoke_jax.system.errors" if name == "UserError" else "numcoke_jax.api"
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
