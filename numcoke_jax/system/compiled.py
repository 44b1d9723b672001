"""Compiled functions that are kept from one process to the next, in the user's cache folder.

JAX decides which of those that it compiled can be used again: its keys cover the function, the versions, the
flags and the device.  It has to trace a function to find its key; what it traced is kept here, for the same
sources of this package.  Beside them stands how long each wait was, so that the next one can be announced.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TIMES_FILE = "seconds.json"
MOST_TIMES = 400  # of waits that are kept; the oldest go first
LEAST_TOLD = 2.0  # seconds that are worth a number
MOST_BYTES = 2**30  # kept; the oldest go first
LEAST_SECONDS = 0.05  # of compiling, below which keeping costs more than it saves
ENTRY = "*-cache"  # JAX's files, packed by zlib,
OTHERWISE_PACKED = b"\x28\xb5\x2f\xfd"  # ... or by zstd where Python has that
TRACE = "-trace"  # ends the names of files of this package: the hash of a trace, then the trace
HASH_BYTES = 32
TRACING = ("jax", "jaxlib", "flax", "optax", "numpy")  # packages whose versions a trace depends on
NO_MATTER = ("cache", "dump")  # in the names of JAX's settings that change no trace


def keep_compiled() -> None:
    """Have JAX keep what it compiles from now on, unless its own settings already say where, or not to."""
    import jax

    settings = jax.config.values
    if settings["jax_compilation_cache_dir"] or not settings["jax_enable_compilation_cache"]:
        return
    folder = _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _drop_torn(folder)
        _drop_oldest(folder)
    except OSError:  # a home folder that is not there, or full: compile as if there were no such folder
        return
    # JAX writes a file in place: one that is half written, or being written, is compiled anew.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


@contextlib.contextmanager
def timed(settings: str, shapes: str, clock: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """Time a block that compiles a program or loads it; what is kept of it is the whole block's time.

    The time that compiling took is expected of every program with the same settings, that of loading only of
    one that had the same shapes as well.

    Args:
      settings: what the program depends on besides the shapes of its arrays.
      shapes: that of its arrays.
      clock: seconds of a monotonic clock.

    Yields:
      What to tell a person who waits: with seconds if a block like this one has been timed.
    """
    folder, program = _folder(), _key(settings)
    exact = f"{program}-{_hash(shapes)}"
    kept, times = _in_use(folder), _read_times(folder)
    loads = kept and exact in times
    began = clock()
    yield _told(loads, times.get(exact if loads else program), kept)
    seconds = round(clock() - began, 1)
    if kept:
        _write_times(folder, {exact: seconds} if loads else {program: seconds, exact: None})


def kept_trace(function: Callable[..., Any], settings: str) -> Callable[..., Any]:
    """A function that is to be jitted for one device, and is then traced once for all processes.

    A trace is used again for the same settings, shapes, sources of this package, versions and flags.  Where
    none is kept (`keep_compiled`) the trace takes the same way, except for the file: no bit depends on it.

    Args:
      function: of trees of arrays; its result is a tree of dicts, lists, tuples and arrays.
      settings: which function it is, and what it depends on besides its arguments' structure and shapes: all
        that it captures.
    """

    def traced(*arguments: Any) -> Any:
        import jax
        import jax.export

        leaves, structure = jax.tree.flatten(arguments)

        def flat(*leaves: Any) -> Any:
            return function(*jax.tree.unflatten(structure, leaves))

        folder, shapes, file = _folder(), [jax.typeof(leaf) for leaf in leaves], None
        if _in_use(folder):
            depends = _key(settings), str(structure), str(shapes), _sources(), _flags()
            file = folder / f"{_hash(repr(depends), digits=None)}{TRACE}"
        exported = _read_trace(file) if file else None
        if exported is None:
            exported = jax.export.export(jax.jit(flat))(*shapes)
            if file:
                trace = bytes(exported.serialize())
                _keep(file, hashlib.sha256(trace).digest() + trace)
        return exported.call(*leaves)

    return traced


@functools.cache
def _sources() -> str:
    """A hash of this package's sources, of Python and of the packages that its functions are made of."""
    package = Path(__file__).parents[1]
    files = {str(path.relative_to(package)): path.read_bytes() for path in sorted(package.rglob("*.py"))}
    versions = [sys.version, *map(importlib.metadata.version, TRACING)]
    return _hash(repr((versions, files)), digits=None)


def _flags() -> list[tuple[str, Any]]:
    """JAX's settings that a trace may depend on."""
    import jax

    values = jax.config.values
    return sorted((name, values[name]) for name in values if not any(word in name for word in NO_MATTER))


def _read_trace(path: Path) -> Any:
    """A trace that is kept; None if it is absent or not whole."""
    import jax.export

    with contextlib.suppress(OSError):
        content = path.read_bytes()
        if hashlib.sha256(content[HASH_BYTES:]).digest() == content[:HASH_BYTES]:
            return jax.export.deserialize(bytearray(content[HASH_BYTES:]))
    return None


def _keep(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all: what it saves is not worth an error."""
    temporary = path.with_name(
        f".{path.name}.part"
    )  # the same for all: one that a kill leaves is written over
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _told(loads: bool, seconds: float | None, kept: bool) -> str:
    doing = "loading what was compiled before" if loads else "compiling"
    if seconds is not None and seconds >= LEAST_TOLD:
        return f"{doing}, about {seconds:.0f} s"
    return f"{doing}: the first start takes a while" if kept and not loads else doing


def _key(settings: str) -> str:
    """Of a program with these settings, compiled here by this version of JAX."""
    import jax

    device, flags = jax.devices()[0], os.environ.get("XLA_FLAGS", "")
    cores = len(os.sched_getaffinity(0)) if device.platform == "cpu" else 0
    return _hash(repr((settings, jax.__version__, device.device_kind, cores, flags)))


def _hash(text: str, digits: int | None = 16) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _in_use(folder: Path) -> bool:
    import jax

    return jax.config.values["jax_compilation_cache_dir"] == str(folder)


def _folder() -> Path:
    import pooch

    return Path(pooch.os_cache("numcoke_jax")) / "compiled"


def _read_times(folder: Path) -> dict[str, float | None]:
    """The seconds of earlier waits, None for a program that was compiled and not yet loaded.

    There are none if the file is absent or is not one of this program.
    """
    with contextlib.suppress(OSError, ValueError):
        times = json.loads((folder / TIMES_FILE).read_bytes())
        if isinstance(times, dict) and all(isinstance(found, float | None) for found in times.values()):
            return times
    return {}


def _write_times(folder: Path, found: dict[str, float | None]) -> None:
    """Keep these times; of two processes that do so at once, one may lose its own."""
    others = {name: seconds for name, seconds in _read_times(folder).items() if name not in found}
    newest = list((others | found).items())[-MOST_TIMES:]
    _keep(folder / TIMES_FILE, json.dumps(dict(newest)).encode())


def _drop_torn(folder: Path) -> None:
    """Remove the newest files as long as they are not whole: a kill or a full disk has cut them short.

    JAX would compile such a function anew in every process, as it does not write a file that is there.
    """
    for path in sorted(folder.glob(ENTRY), key=lambda path: -path.stat().st_mtime):
        packed, content = zlib.decompressobj(), path.read_bytes()
        with contextlib.suppress(zlib.error):
            packed.decompress(content)
        if packed.eof or content.startswith(OTHERWISE_PACKED):
            return
        path.unlink(missing_ok=True)


def _drop_oldest(folder: Path) -> None:
    """Keep `MOST_BYTES`; with what is dropped goes what was known about the time of loading it."""
    found = sorted(((path.stat(), path) for path in folder.iterdir()), key=lambda pair: -pair[0].st_mtime)
    total, dropped = 0, False
    for status, path in found:
        total += status.st_size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
            dropped = True
    if dropped:
        (folder / TIMES_FILE).unlink(missing_ok=True)
