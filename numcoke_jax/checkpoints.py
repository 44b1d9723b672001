"""Checkpoints of a run: the only module that imports Orbax.

A checkpoint is one folder per step under `checkpoints/`, holding the whole `TrainState` and, as JSON, the
progress of the loop.  Orbax writes it under another name and renames it when complete, so a checkpoint
that exists is whole.  The newest ones and the best one are kept.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp
from absl import logging

from numcoke_jax.errors import UserError
from numcoke_jax.step import TrainState


@dataclasses.dataclass
class NewestAndBest:
    """Orbax preservation policy: the `newest` last checkpoints and the one at `best_step`."""

    newest: int
    best_step: int = -1

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> Sequence[bool]:
        """Which of the checkpoints, oldest first, to keep."""
        del context
        first_kept = len(checkpoints) - self.newest
        return [place >= first_kept or info.step == self.best_step for place, info in enumerate(checkpoints)]


class Checkpoints:
    """Saves and restores the checkpoints of one run; use as a context manager.

    Args:
      directory: folder of the checkpoints; made when missing.
      newest: how many of the newest checkpoints to keep beside the best one.
    """

    def __init__(self, directory: pathlib.Path, *, newest: int) -> None:
        logging.set_verbosity(logging.ERROR)  # Orbax reports every save at INFO and WARNING
        self._directory = directory.resolve()  # Orbax refuses relative paths
        self._policy = NewestAndBest(newest)
        self._manager = ocp.CheckpointManager(
            self._directory,
            options=ocp.CheckpointManagerOptions(
                preservation_policy=self._policy, enable_async_checkpointing=False
            ),
        )

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        self._manager.close()

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, ascending."""
        return sorted(self._manager.all_steps())

    def save(self, state: TrainState, progress: dict[str, Any], *, best_step: int) -> None:
        """Write the state and the JSON values of `progress`; does nothing where the step is saved already.

        Args:
          state: the whole training state; its step names the checkpoint.
          progress: what the loop needs beside the state to go on.
          best_step: step of the best checkpoint so far, which is kept whatever its age.

        Raises:
          UserError: Orbax did not write it.
        """
        step = int(state.step)
        self._policy.best_step = best_step
        if step in self._manager.all_steps():
            return
        items = ocp.args.Composite(state=ocp.args.StandardSave(state), progress=ocp.args.JsonSave(progress))
        # save() answers False, silently, for a step that is not above the newest one.
        if not self._manager.save(step, args=items):
            raise UserError(
                f"{self._directory}: the checkpoint of step {step} was refused; newer steps there: "
                f"{[s for s in self.steps() if s > step]}; resume from those or use another workdir"
            )

    def restore(self, step: int, like: TrainState) -> tuple[TrainState, dict[str, Any]]:
        """The state and progress saved at `step`.

        Args:
          step: one of `steps()`.
          like: abstract state (`jax.eval_shape`) with the shapes, dtypes and shardings to restore to.
        """
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
        items = ocp.args.Composite(state=ocp.args.StandardRestore(abstract), progress=ocp.args.JsonRestore())
        restored = self._manager.restore(step, args=items)
        return restored.state, restored.progress
