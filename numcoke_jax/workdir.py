"""The folder of a run: one config, one vocabulary and one process at a time."""

import contextlib
import fcntl
import json
import pathlib
from collections.abc import Iterator
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.errors import UserError
from numcoke_jax.report import write_json_atomically

# Keys that may differ when a run goes on: they change neither the model nor what a step computes.
RESUMABLE_KEYS = ("train.epochs", "train.patience", "eval.chunk", "checkpoint", "data.path", "data.dir")
MAX_NAMED = 5  # differences listed in an error


@contextlib.contextmanager
def exclusive(workdir: pathlib.Path) -> Iterator[None]:
    """Make the folder and hold it for this process.

    Raises:
      UserError: the folder cannot be made or written, or another process holds it.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        lock = (workdir / ".lock").open("w")
    except OSError as error:
        raise UserError(f"--workdir={workdir}: cannot write there ({error.strerror}); choose another folder") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"--workdir={workdir}: another process trains there; wait for it or choose another folder"
            ) from None
        yield


def keep_config(workdir: pathlib.Path, config: ConfigDict) -> None:
    """Write config.json, or check it: a run goes on under the config that it began with.

    Raises:
      UserError: another config is there; the message names the differing keys and both values.
    """
    path = workdir / "config.json"
    flat = flat_config(config)
    if path.exists():
        before = _read_json(path)
        differing = [
            key
            for key in sorted(before.keys() | flat.keys())
            if before.get(key, "absent") != flat.get(key, "absent") and not _resumable(key)
        ]
        if differing:
            named = "; ".join(
                f"{key}={before.get(key, 'absent')!r} there, {flat.get(key, 'absent')!r} now"
                for key in differing[:MAX_NAMED]
            )
            more = f" and {len(differing) - MAX_NAMED} more" if len(differing) > MAX_NAMED else ""
            raise UserError(
                f"{path}: this workdir holds a run with another config ({named}{more}); "
                "give those values or another --workdir"
            )
    write_json_atomically(path, flat)


def keep_vocabulary(workdir: pathlib.Path, vocabulary: dict[str, Any]) -> None:
    """Write vocabulary.json, or check it: ids mean the same names as when the run began.

    Raises:
      UserError: other names, or other normalisation constants; the message gives the first difference.
    """
    path = workdir / "vocabulary.json"
    if path.exists():
        before = _read_json(path)
        for part in vocabulary:
            difference = _first_difference(before.get(part), vocabulary[part])
            if difference:
                raise UserError(
                    f"{path}: the data are not those the run began with: {part} {difference}; "
                    "give the same data or another --workdir"
                )
    else:
        write_json_atomically(path, vocabulary)


def flat_config(config: ConfigDict) -> dict[str, Any]:
    """Dotted key -> JSON value, tuples as lists."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            flat.update({f"{key}.{name}": inner for name, inner in flat_config(value).items()})
        else:
            flat[key] = list(value) if isinstance(value, tuple) else value
    return flat


def _resumable(key: str) -> bool:
    return any(key == name or key.startswith(name + ".") for name in RESUMABLE_KEYS)


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: cannot be read ({error}); move the workdir away or restore the file"
        ) from None


def _first_difference(before: Any, now: Any) -> str:
    """What differs first between two JSON values, or "" where they are equal."""
    if before == now:
        return ""
    if isinstance(before, list) and isinstance(now, list):
        for place, (old, new) in enumerate(zip(before, now, strict=False)):
            if old != new:
                return f"{place} was {old!r}, is {new!r}"
        return f"had {len(before)} entries, has {len(now)}"
    return "differ"
