"""Checkpoints of a run: the only module that imports Orbax.

    checkpoints/120/state/            the whole TrainState, as Orbax writes it
    checkpoints/120/run.json          shapes and dtypes, the run's identity, the progress of its loop
    checkpoints/120/manifest.sha256   checksums, written last

A checkpoint is written as `120.partial` and renamed when it is sealed, so one without that ending is whole
unless something damaged it later.  A step that is saved again gets the name `120.1`: what exists is
never overwritten.  The newest ones and the best one are kept, older ones deleted once the new one is safe.
Nothing here can run code that comes from the disk: Orbax reads arrays, everything else is JSON, no pickle.

The rows of zeros that a mesh has after the last entity (`training/placement.py`) are written too; when read
for another mesh, they are dropped, or more are added, to match it.  run.json has the shapes without them.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from absl import logging

from numcoke_jax.models.padding import unpadded
from numcoke_jax.system.errors import UserError, first_of, printable, shown_path
from numcoke_jax.system.files import damage, flush_folder, read_json, seal, write_json_atomically
from numcoke_jax.system.processes import wait_for_others
from numcoke_jax.training.step import TrainState

FORMAT = 1
PARTIAL = ".partial"
RUN_FILE = "run.json"
STATE_FOLDER = "state"
ROOM = 1.1  # free space required, as a multiple of the state's size,
ROOM_BYTES = 1 << 18  # ... and for Orbax's own files
MAX_NAMED = 5  # differences or checkpoints listed in an error


@runtime_checkable  # the tests check every signature while they run
class Identity(Protocol):
    """What a checkpoint must share with the run that resumes from it."""

    def to_json(self) -> dict[str, Any]:
        """JSON values to keep with a checkpoint."""
        ...

    def differences(self, stored: Mapping[str, Any]) -> list[str]:
        """What does not fit in the `to_json` of another run, as "KEY: ... there, ... now"."""
        ...


@dataclasses.dataclass(frozen=True, order=True)
class Name:
    """Where a checkpoint is: its step and, if the step was saved more than once, which of those saves."""

    step: int
    repeat: int = 0

    @classmethod
    def parse(cls, text: str) -> "Name | None":
        """The name of a folder, or None if it is not a checkpoint's."""
        match = re.fullmatch(r"(0|[1-9]\d{0,17})(?:\.([1-9]\d{0,8}))?", text)
        return cls(int(match[1]), int(match[2] or 0)) if match else None

    def __str__(self) -> str:
        return f"{self.step}.{self.repeat}" if self.repeat else str(self.step)


@dataclasses.dataclass(frozen=True)
class Restored:
    """A checkpoint that was read: its name, the state and the JSON values saved with it."""

    name: Name
    state: TrainState
    progress: dict[str, Any]


class UnusableCheckpoint(UserError):
    """A checkpoint is damaged, or is from another run."""


class Checkpoints:
    """Saves and restores the checkpoints of one run.

    Args:
      directory: folder of the checkpoints; created by the first save.
      newest: how many of the newest checkpoints to keep besides the best one.
      identity: the run's; a checkpoint with another identity is not restored.
      like: abstract state (`jax.eval_shape`) with the shapes, dtypes and shardings of the run.
      entities: N; rows of `like` after the first N are padding.  None: it has no padding.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        *,
        newest: int,
        identity: Identity,
        like: TrainState,
        entities: int | None = None,
    ) -> None:
        self._directory = pathlib.Path(os.path.abspath(directory))  # Orbax refuses relative paths
        self._newest = newest
        self._identity = identity
        self._like = jax.tree.map(_with_sharding, like)
        without_padding = (
            like if entities is None else jax.eval_shape(lambda state: unpadded(state, entities), like)
        )
        self._arrays = array_types(without_padding)
        self._unusable: set[Name] = set()
        self._orbax = ocp.Checkpointer(ocp.StandardCheckpointHandler())

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        self._orbax.close()

    def names(self) -> list[Name]:
        """The checkpoints that exist, ascending; whether one is whole turns out when it is restored.

        Raises:
          UserError: the folder cannot be listed.
        """
        return sorted(name for text in self._listing() if (name := Name.parse(text)))

    def remove_partial(self) -> list[str]:
        """Delete what killed saves left behind; returns the names their checkpoints would have had."""
        partial = [name for name in self._listing() if name.endswith(PARTIAL)]
        for name in partial:
            shutil.rmtree(self._directory / name, ignore_errors=True)
        return sorted(name.removesuffix(PARTIAL) for name in partial)

    def save(self, state: TrainState, progress: Mapping[str, Any], *, best_step: int) -> Name:
        """Write a new checkpoint, then delete those that are neither among the newest nor the best.

        Args:
          state: the whole training state; its step names the checkpoint.
          progress: JSON values that the loop needs besides the state to resume.
          best_step: step of the best checkpoint so far, which is kept whatever its age.

        Raises:
          UserError: it cannot be written; earlier checkpoints are untouched.
          FloatingPointError: a parameter or a moment of the optimiser is not finite.
        """
        step = int(state.step)
        bad = nonfinite_arrays({"params": state.params, "opt_state": state.opt_state})
        if bad:
            raise FloatingPointError(f"after step {step} not finite, so not saved: {', '.join(bad)}")
        taken = [name.repeat for name in self.names() if name.step == step]
        name = Name(step, max(taken, default=-1) + 1)
        partial = self._directory / f"{name}{PARTIAL}"
        try:
            self._write(partial, state, progress)
            if jax.process_index() == 0:
                os.rename(partial, self._directory / str(name))
                flush_folder(self._directory)
        except Exception as error:  # Orbax raises ValueError and others for a full disk
            shutil.rmtree(partial, ignore_errors=True)
            raise UserError(self._failure(name, error)) from error
        wait_for_others("saved")
        self._delete_old(step, best_step)
        return name

    def restore_newest(self) -> tuple[Restored | None, list[str]]:
        """The newest checkpoint that is whole and of this run, and what is wrong with any newer ones.

        Returns:
          (None, []) if there are no checkpoints.

        Raises:
          UserError: there are checkpoints, but none that can be used.
        """
        faults: list[str] = []
        for name in reversed(self.names()):
            try:
                return self.restore(name), faults
            except UnusableCheckpoint as error:
                faults.append(str(error))
        if not faults:
            return None, []
        more = f"; and {len(faults) - MAX_NAMED} more" if len(faults) > MAX_NAMED else ""
        shown = shown_path(self._directory)
        raise UserError(
            f"{shown}: no checkpoint can be used: {'; '.join(faults[:MAX_NAMED])}{more}; restore a copy of "
            "one, give another --workdir, or archive the run with --overwrite"
        )

    def restore(self, name: Name) -> Restored:
        """The checkpoint of that name, to the last bit.

        Raises:
          UnusableCheckpoint: it is damaged (the message names the file) or from another run (the message
            names the keys, with both values).
        """
        stored = self._stored(name)
        folder = self._directory / str(name) / STATE_FOLDER
        with _quiet():
            # Not strict: `_checked` has compared the shapes, and padding may differ.
            state = self._orbax.restore(folder, args=ocp.args.StandardRestore(self._like, strict=False))
        return Restored(name, state, stored["progress"])

    def usable_at(self, step: int) -> Name:
        """The name of a usable checkpoint of `step`, without reading its arrays into memory.

        Raises:
          UnusableCheckpoint: there is none; says what is wrong with those that exist.
        """
        faults = []
        for name in reversed([name for name in self.names() if name.step == step]):
            try:
                self._stored(name)
                return name
            except UnusableCheckpoint as error:
                faults.append(str(error))
        raise UnusableCheckpoint("; ".join(faults) or f"checkpoint {step} is missing")

    def _stored(self, name: Name) -> dict[str, Any]:
        """What run.json of a checkpoint holds; UnusableCheckpoint unless the checkpoint is whole and ours."""
        try:
            return self._checked(name)
        except UnusableCheckpoint:
            self._unusable.add(name)
            raise

    def _checked(self, name: Name) -> dict[str, Any]:
        folder = self._directory / str(name)
        wrong = damage(folder)
        if wrong:
            raise UnusableCheckpoint(f"checkpoint {name}: {wrong}")
        try:
            stored = read_json(folder / RUN_FILE)
            differences = self._differences(stored, name.step)
        except (UserError, KeyError, TypeError, AttributeError) as error:
            raise UnusableCheckpoint(f"checkpoint {name} was not written by this program") from error
        if differences:
            found = first_of(differences, MAX_NAMED, "; ")
            raise UnusableCheckpoint(f"checkpoint {name} is from another run: {found}")
        return stored

    def _listing(self) -> list[str]:
        try:
            return os.listdir(self._directory)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"cannot read {shown_path(self._directory)}: {error.strerror}") from error

    def _write(self, partial: pathlib.Path, state: TrainState, progress: Mapping[str, Any]) -> None:
        if jax.process_index() == 0:
            self._directory.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            self._ask_for_room()
            entry = {
                "format": FORMAT,
                "step": int(state.step),
                "arrays": self._arrays,
                "identity": self._identity.to_json(),
                "progress": dict(progress),
            }
            write_json_atomically(partial / RUN_FILE, entry)
        wait_for_others("made the folder")
        with _quiet():
            self._orbax.save(partial / STATE_FOLDER, args=ocp.args.StandardSave(state))
        if jax.process_index() == 0:
            seal(partial)

    def _ask_for_room(self) -> None:
        """Raise OSError before Orbax meets a full disk: it is slow to give up and leaves threads behind."""
        needed = int(ROOM * tree_bytes(self._like)) + ROOM_BYTES
        free = shutil.disk_usage(self._directory).free
        if free < needed:
            raise OSError(0, f"{free / 2**20:.1f} MiB are free, {needed / 2**20:.1f} MiB are needed")

    def _failure(self, name: Name, error: Exception) -> str:
        known = self.names()
        kept = f"checkpoint {known[-1]} is intact" if known else "there is no earlier one"
        return (
            f"cannot write checkpoint {name} to {shown_path(self._directory)}: {_reason(error)}; {kept}; "
            "free space or fix the permissions, then run the same command to resume"
        )

    def _delete_old(self, step: int, best_step: int) -> None:
        """Keep the newest steps up to `step` and the best one; what cannot be used stays as it is."""
        ours = [name for name in self.names() if name.step <= step and name not in self._unusable]
        last_of_step = {name.step: name for name in ours}
        kept_steps = {*sorted(last_of_step)[-self._newest :], best_step}
        for name in ours if jax.process_index() == 0 else ():
            if name.step not in kept_steps or name != last_of_step[name.step]:
                # Renamed first: half deleted under its own name, it would look like a damaged one.
                doomed = self._directory / f"{name}{PARTIAL}"
                with contextlib.suppress(OSError):
                    os.rename(self._directory / str(name), doomed)
                    shutil.rmtree(doomed)

    def _differences(self, stored: Mapping[str, Any], step: int) -> list[str]:
        if stored.get("format") != FORMAT:
            return [f"format: {printable(stored.get('format'))} there, {FORMAT} now"]
        found = [] if stored["step"] == step else [f"step: {stored['step']} there, {step} by its name"]
        for key in sorted(stored["arrays"].keys() | self._arrays.keys()):
            there, now = stored["arrays"].get(key, "absent"), self._arrays.get(key, "absent")
            if there != now:
                found.append(f"{key}: {there} there, {now} now")
        return self._identity.differences(stored["identity"]) + found


def _by_path(tree: Any) -> dict[str, Any]:
    """The arrays of a tree by their paths, such as "params/entity_embedding"."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def array_types(state: Any) -> dict[str, str]:
    """dtype and shape of every array by its path: {"params/entity_embedding": "float32[12,4]", ...}."""
    return {
        path: f"{leaf.dtype}[{','.join(str(size) for size in leaf.shape)}]"
        for path, leaf in _by_path(state).items()
    }


def tree_bytes(state: Any) -> int:
    """Size in bytes of all arrays of a state, abstract or not."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def nonfinite_arrays(tree: Any) -> list[str]:
    """Paths of the arrays that hold a NaN or an infinity; read where they are, by host or device."""
    leaves = {p: leaf for p, leaf in _by_path(tree).items() if jnp.issubdtype(leaf.dtype, jnp.floating)}
    if jax.default_backend() == "cpu" and jax.process_count() == 1:  # nothing to compile: a second or more
        finite = [_spans_finite(np.asarray(leaf)) for leaf in leaves.values()]
    else:
        finite = jax.device_get(_all_finite(list(leaves.values())))
    return [path for path, good in zip(leaves, finite, strict=True) if not good]


def _spans_finite(array: np.ndarray) -> bool:
    """Whether all numbers are finite: a NaN is both least and greatest, and nothing is made of the size."""
    with np.errstate(invalid="ignore"):  # of bfloat16 it would be warned of
        return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


@jax.jit
def _all_finite(arrays: list[jax.Array]) -> list[jax.Array]:
    return [jnp.isfinite(array).all() for array in arrays]


def _with_sharding(leaf: Any) -> jax.ShapeDtypeStruct:
    """The leaf's own sharding, else the first device: never the one that a checkpoint was written from."""
    sharding = leaf.sharding or jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _reason(error: Exception) -> str:
    """A few words about why a file could not be written; Orbax's own errors are pages long."""
    system = error if isinstance(error, OSError) else error.__cause__
    if isinstance(system, OSError) and system.strerror:
        return system.strerror
    code = re.search(r"os_error_code='(\d+)'", str(error))
    if code:
        return os.strerror(int(code[1]))
    return printable(str(error) or type(error).__name__, longest=200)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Orbax's log lines off the screen, and the errors of threads that it has abandoned.

    Whatever goes wrong is also raised in the calling thread, and reported once, there.
    """
    verbosity, before = logging.get_verbosity(), (sys.excepthook, sys.unraisablehook)

    def of_main_thread(hook: Callable[..., None]) -> Callable[..., None]:
        def report(*error: Any) -> None:
            if threading.current_thread() is threading.main_thread():
                hook(*error)

        return report

    logging.set_verbosity(logging.FATAL)
    sys.excepthook, sys.unraisablehook = (of_main_thread(hook) for hook in before)
    try:
        yield
    except BaseException:
        raise  # its threads may keep failing for a while: the hooks stay
    else:
        sys.excepthook, sys.unraisablehook = before
    finally:
        logging.set_verbosity(verbosity)
