"""Compiled functions that JAX keeps from one process to the next, in the user's cache folder.

JAX decides what can be used again: its keys cover the function, the versions, the flags and the device.
"""

import warnings
from pathlib import Path

MOST_BYTES = 2**30  # kept; the oldest go first
LEAST_SECONDS = 0.05  # of compiling, below which keeping costs more than it saves


def keep_compiled() -> None:
    """Have JAX keep what it compiles from now on, unless its own settings already say where, or not to."""
    import jax
    import pooch

    settings = jax.config.values
    if settings["jax_compilation_cache_dir"] or not settings["jax_enable_compilation_cache"]:
        return
    folder = Path(pooch.os_cache("numcoke_jax")) / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _drop_oldest(folder)
    except OSError:  # a home folder that is not there, or full: compile as if there were no such folder
        return
    # JAX writes a file in place: one that is half written, or being written, is compiled anew.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


def _drop_oldest(folder: Path) -> None:
    found = sorted(((path.stat(), path) for path in folder.iterdir()), key=lambda pair: -pair[0].st_mtime)
    total = 0
    for status, path in found:
        total += status.st_size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
