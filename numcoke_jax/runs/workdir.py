"""The folder of a run: one config, one vocabulary and one process at a time."""

import contextlib
import dataclasses
import errno
import fcntl
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.config.checks import flatten, removed_key, without_removed
from numcoke_jax.config.schema import KEYS, REMOVED, default_config
from numcoke_jax.data.graph import NumericGraph, Vocabulary, graph_hash
from numcoke_jax.data.literals import LiteralScale
from numcoke_jax.runs.file_names import (
    CHECKPOINTS_FOLDER,
    CONFIG_FILE,
    LOCK_FILE,
    METRICS_FILE,
    REPORT_FILE,
    VOCABULARY_FILE,
)
from numcoke_jax.runs.stored import read_vocabulary, write_vocabulary
from numcoke_jax.system.errors import UserError, first_of, printable, shown_path
from numcoke_jax.system.files import read_json, write_json_atomically
from numcoke_jax.system.processes import leads, wait_for_others

TRACES = (CONFIG_FILE, CHECKPOINTS_FOLDER, METRICS_FILE, REPORT_FILE)  # any of them is a sign of a run
MAX_NAMED = 5  # differences listed in an error


@dataclasses.dataclass(frozen=True)
class RunIdentity:
    """What decides the numbers of a run: its config and its data.

    Attributes:
      config: the values by dotted key, as JSON has them.
      data_sha256: digest of names, facts and values.
    """

    config: Mapping[str, Any]
    data_sha256: str

    @classmethod
    def of(cls, config: ConfigDict, graph: NumericGraph) -> "RunIdentity":
        """The identity of a run of `config` on `graph`."""
        return cls(flat_config(config), graph_hash(graph))

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"config": dict(self.config), "data_sha256": self.data_sha256}

    def differences(self, stored: Mapping[str, Any]) -> list[str]:
        """What in another run's `to_json` keeps this run from resuming from it."""
        found = config_differences(stored["config"], self.config)
        if stored["data_sha256"] != self.data_sha256:
            there, now = stored["data_sha256"][:12], self.data_sha256[:12]
            found.insert(0, f"the facts or values it was trained on: sha256 {there}... there, {now}... now")
        return found


@contextlib.contextmanager
def exclusive(workdir: pathlib.Path) -> Iterator[None]:
    """Create the folder and hold it for this process.

    Raises:
      UserError: the folder cannot be created or written, its path is not valid text (the checkpoint library's
        files need that), or another process holds it.
    """
    try:
        os.path.abspath(workdir).encode()
    except UnicodeEncodeError:
        raise UserError(
            f"--workdir={shown_path(workdir)}: the path is not UTF-8 here; choose another folder, or unset"
            " PYTHONUTF8 in a C locale"
        ) from None
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        lock = (workdir / LOCK_FILE).open("a")  # not "w": holding a folder changes nothing in it
    except OSError as error:
        raise UserError(
            f"--workdir={shown_path(workdir)}: cannot write there ({error.strerror}); choose another folder"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"--workdir={shown_path(workdir)}: another process works there; wait for it or choose another"
                " folder"
            ) from None
        except OSError as error:
            raise UserError(
                f"--workdir={shown_path(workdir)}: its file system does not support locks ({error.strerror}),"
                " so two processes could destroy each other's files; choose a folder on another one"
            ) from None
        yield


@contextlib.contextmanager
def held(workdir: pathlib.Path) -> Iterator[None]:
    """`exclusive` by the leading process, for all processes of the run."""
    with exclusive(workdir) if leads() else contextlib.nullcontext():
        wait_for_others("the workdir is held")
        yield


def archive(workdir: pathlib.Path, traces: Sequence[str] = TRACES) -> pathlib.Path | None:
    """Move a run to a sibling folder with the next free number: runs/cars-seed0 to runs/cars-seed0.old-1.

    Returns:
      The new place, or None if `workdir` holds no run, which is to say none of `traces`.

    Raises:
      UserError: the folder cannot be moved, or another process works there.
    """
    workdir = pathlib.Path(os.path.abspath(workdir))
    if not any((workdir / name).exists() for name in traces):
        return None
    shown = shown_path(workdir)
    if pathlib.Path.cwd().is_relative_to(workdir):
        raise UserError(f"--overwrite cannot move {shown}: the program runs inside it; start it elsewhere")
    with exclusive(workdir):
        number = 1
        while (place := workdir.with_name(f"{workdir.name}.old-{number}")).exists():
            number += 1
        try:
            os.rename(workdir, place)
        except OSError as error:
            reason = "it is a mount point" if error.errno == errno.EBUSY else error.strerror
            raise UserError(
                f"--overwrite cannot move {shown} to {place.name} ({reason}); choose another --workdir"
            ) from None
    return place


def check_config_of(workdir: pathlib.Path, config: ConfigDict) -> None:
    """Do nothing if there is no config.json; else check that the run there can resume under `config`.

    Raises:
      UserError: another config is there; the message names the differing keys and both values.
    """
    path = workdir / CONFIG_FILE
    if not path.exists():
        return
    with _deletable(path):
        before = read_json(path)
    if not isinstance(before, dict) or not before.keys() & KEYS.keys():
        raise UserError(
            f"{shown_path(path)} is not a config written by this program; choose another --workdir"
        )
    if gone := sorted(without_removed(before).keys() & REMOVED.keys()):
        raise UserError(f"{shown_path(path)}: {removed_key(gone[0])}")
    differences = config_differences(before, flat_config(config))
    if differences:
        raise UserError(
            f"{shown_path(path)}: this workdir holds a run with another config "
            f"({first_of(differences, MAX_NAMED, '; ')}); give those values, another --workdir, or "
            "--overwrite to archive that run"
        )


def keep_config(workdir: pathlib.Path, config: ConfigDict | Mapping[str, Any]) -> None:
    """Write config.json unless it already says the same; the config may be flat."""
    path, flat = workdir / CONFIG_FILE, flat_config(config)
    if not path.exists() or read_json(path) != flat:
        write_json_atomically(path, flat)


def check_vocabulary_of(workdir: pathlib.Path, vocabulary: Vocabulary, scale: LiteralScale) -> None:
    """Do nothing if there is no vocabulary.json; else check that ids and values mean the same as there.

    Raises:
      UserError: other names, or other normalisation constants; the message gives the first difference.
    """
    path = workdir / VOCABULARY_FILE
    if not path.exists():
        return
    remedy = "give the same data, another --workdir, or --overwrite to archive that run"
    with _deletable(path):
        before, stored_scale = read_vocabulary(path)
    for part in ("entities", "relations", "fields"):
        difference = _first_difference(getattr(before, part), getattr(vocabulary, part))
        if difference:
            raise UserError(
                f"{shown_path(path)}: the data are not those that the run started with: {part}: "
                f"{difference}; {remedy}"
            )
    if stored_scale != scale.to_json():
        raise UserError(
            f"{shown_path(path)}: the values are not those that the run started with: their scale differs; "
            f"{remedy}"
        )


def keep_vocabulary(workdir: pathlib.Path, vocabulary: Vocabulary, scale: LiteralScale) -> None:
    """Write vocabulary.json unless it exists; `check_vocabulary_of` says whether it is the right one."""
    path = workdir / VOCABULARY_FILE
    if not path.exists():
        write_vocabulary(path, vocabulary, scale.to_json())


def flat_config(config: ConfigDict | Mapping[str, Any]) -> dict[str, Any]:
    """The values of a config by dotted key, as they come back from JSON."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in flatten(config).items()}


def config_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Keys that keep a run from resuming, as "KEY=... there, ... now"; both configs are flat.

    A key added after the earlier run was at its default there, which keeps the earlier behaviour.
    """
    before = {**flat_config(default_config()), **without_removed(before)}
    return [
        f"{key}={printable(before.get(key, 'absent'))} there, {printable(now.get(key, 'absent'))} now"
        for key in sorted(before.keys() | now.keys())
        if before.get(key, "absent") != now.get(key, "absent") and not _resumable(key, before, now)
    ]


@contextlib.contextmanager
def _deletable(path: pathlib.Path) -> Iterator[None]:
    """Add a remedy to an error about a damaged file: the checkpoints know config and data as well."""
    try:
        yield
    except UserError as error:
        raise UserError(
            f"{error}; delete {path.name}: the checkpoints hold what it says, and it is written again"
        ) from None


def _resumable(key: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    if key == "train.epochs":
        # A longer run must have been through the shorter one: the same learning rates, the same validations.
        shorter = min(before.get(key, 0), now.get(key, 0))  # 0: the graph decides, which is not at hand
        regular = shorter > 0 and shorter % now.get("train.eval_every_epochs", 1) == 0
        return now.get("train.schedule") == "constant" and regular
    return key in KEYS and KEYS[key].resumable


def _first_difference(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    """What differs first between two lists of names, or "" if they are equal."""
    for place, (old, new) in enumerate(zip(before, now, strict=False)):
        if old != new:
            return f"number {place} was {old!r}, is {new!r}"
    if len(before) != len(now):
        return f"there were {len(before)}, there are {len(now)}"
    return ""
