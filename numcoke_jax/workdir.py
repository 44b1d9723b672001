"""The folder of a run: one config, one vocabulary and one process at a time."""

import contextlib
import fcntl
import pathlib
from collections.abc import Iterator

from ml_collections import ConfigDict

from numcoke_jax.config_checks import flatten
from numcoke_jax.errors import UserError
from numcoke_jax.graph import Vocabulary
from numcoke_jax.literal_scale import LiteralScale
from numcoke_jax.report import read_json, read_vocabulary, write_json_atomically, write_vocabulary

# Keys that may differ when a run goes on: they change neither the model nor what a step computes.  The data
# are compared by content, not by place; a schedule that ends with the last epoch fixes the epochs.
RESUMABLE_KEYS = ("train.patience", "eval.chunk", "checkpoint", "data.path", "data.dir")
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
        raise UserError(
            f"--workdir={workdir}: cannot write there ({error.strerror}); choose another folder"
        ) from None
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
    flat = {key: list(value) if isinstance(value, tuple) else value for key, value in flatten(config).items()}
    if path.exists():
        before = read_json(path)
        differing = [
            key
            for key in sorted(before.keys() | flat.keys())
            if before.get(key, "absent") != flat.get(key, "absent") and not _resumable(key, config)
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


def keep_vocabulary(workdir: pathlib.Path, vocabulary: Vocabulary, scale: LiteralScale) -> None:
    """Write vocabulary.json, or check it: ids and values mean the same as when the run began.

    Raises:
      UserError: other names, or other normalisation constants; the message gives the first difference.
    """
    path = workdir / "vocabulary.json"
    if not path.exists():
        write_vocabulary(path, vocabulary, scale.to_json())
        return
    before, stored_scale = read_vocabulary(path)
    for part in ("entities", "relations", "fields"):
        difference = _first_difference(getattr(before, part), getattr(vocabulary, part))
        if difference:
            raise UserError(
                f"{path}: the data are not those that the run began with: {part}: {difference}; "
                "give the same data or another --workdir"
            )
    if stored_scale != scale.to_json():
        raise UserError(
            f"{path}: the values are not those that the run began with: their scale differs; "
            "give the same data or another --workdir"
        )


def _resumable(key: str, config: ConfigDict) -> bool:
    if key == "train.epochs":
        return config.train.schedule == "constant"
    return any(key == name or key.startswith(name + ".") for name in RESUMABLE_KEYS)


def _first_difference(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    """What differs first between two lists of names, or "" where they are equal."""
    for place, (old, new) in enumerate(zip(before, now, strict=False)):
        if old != new:
            return f"number {place} was {old!r}, is {new!r}"
    if len(before) != len(now):
        return f"there were {len(before)}, there are {len(now)}"
    return ""
