"""NumCoKE in JAX.  `NumericKG` and `Model` are loaded on first use: importing JAX takes seconds.

`train` is in `numcoke_jax.api`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numcoke_jax.api import Model as Model
    from numcoke_jax.api import NumericKG as NumericKG

__all__ = ["Model", "NumericKG"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from numcoke_jax import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
