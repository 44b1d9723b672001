"""Where a run stands and how it resumes: the newest usable checkpoint, and the best one or its substitute."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from numcoke_jax.checkpoints import Checkpoints, Name, UnusableCheckpoint
from numcoke_jax.early_stopping import PatienceState
from numcoke_jax.errors import UserError
from numcoke_jax.run import Run
from numcoke_jax.step import TrainState
from numcoke_jax.workdir import CHECKPOINTS_FOLDER, RunIdentity, check_config_of, check_vocabulary_of

Warn = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Progress:
    """What the loop knows besides the state; saved with every checkpoint.

    Attributes:
      validated_step: the last step whose parameters were validated and logged; 0 before.
      patience: best validation so far and how long ago it was.
      seconds: wall-clock seconds of training so far, over all resumed parts.
      faults: what was lost on the way and changes the result, one line each.
    """

    validated_step: int = 0
    patience: PatienceState = PatienceState()
    seconds: float = 0.0
    faults: tuple[str, ...] = ()

    def stopped(self, patience: int) -> bool:
        """True if `patience` (0: never) validations in a row were not better."""
        return 0 < patience <= self.patience.bad

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        changes = {"patience": self.patience.to_json(), "faults": list(self.faults)}
        return dataclasses.asdict(self) | changes

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Progress":
        """The progress that `to_json` wrote."""
        changes = {"patience": PatienceState.from_json(fields["patience"]), "faults": tuple(fields["faults"])}
        return cls(**{**fields, **changes})


def is_complete(run: Run, progress: Progress, *, patience: int | None = None) -> bool:
    """True if nothing is left to train: the last step is validated, or patience (the run's) has run out."""
    patience = run.config.train.patience if patience is None else patience
    return progress.validated_step >= run.total_steps or progress.stopped(patience)


def checkpoints_of(run: Run, workdir: pathlib.Path) -> Checkpoints:
    """The checkpoints in the folder of a run.

    Raises:
      UserError: config.json or vocabulary.json there belongs to another run.
    """
    check_config_of(workdir, run.config)
    check_vocabulary_of(workdir, run.graph.vocabulary, run.scale)
    return Checkpoints(
        workdir / CHECKPOINTS_FOLDER,
        newest=run.config.checkpoint.keep,
        identity=RunIdentity.of(run.config, run.graph),
        like=run.abstract_state,
        entities=run.graph.num_entities,
    )


def newest_state(run: Run, checkpoints: Checkpoints, warn: Warn) -> tuple[TrainState, Progress] | None:
    """State and progress of the newest usable checkpoint, None if there is none.

    Args:
      run: the run.
      checkpoints: its checkpoints.
      warn: reports every newer checkpoint that was passed over, and a best one that is lost.

    Raises:
      UserError: no checkpoint can be used, or training has gone further than `train.epochs` asks for.
    """
    newest, faults = checkpoints.restore_newest()
    if newest is None:
        return None
    for fault in faults:
        warn(f"{fault}; falling back to the one before")
    progress, step = Progress.from_json(newest.progress), newest.name.step
    if step > run.total_steps:  # also after an early stop: a shorter run would not have come so far
        epochs = -(-step // run.batches.steps_per_epoch)
        raise UserError(
            f"train.epochs={run.config.train.epochs} is less than the run has already done ({epochs} epochs, "
            f"{step} steps); give {epochs} or more, another --workdir, or --overwrite to archive that run"
        )
    if progress.patience.best_step and not is_complete(run, progress):
        progress = keep_best(run, checkpoints, progress, warn)
    return newest.state, progress


def keep_best(run: Run, checkpoints: Checkpoints, progress: Progress, warn: Warn) -> Progress:
    """The same progress if the checkpoint at its best step can be used, else one with the best that is left.

    That is the validated checkpoint with the highest validation metric, the earliest of equal ones; the new
    progress records the loss.

    Raises:
      UserError: no validated checkpoint is left.
    """
    try:
        checkpoints.usable_at(progress.patience.best_step)
        return progress
    except UnusableCheckpoint as error:
        fault = f"{error}, and it was the best"
    left: dict[Name, float | None] = {}
    for name in checkpoints.names():
        with contextlib.suppress(UnusableCheckpoint):
            restored = checkpoints.restore(name)
            if 0 < name.step == restored.progress["validated_step"]:
                ranks = run.evaluate.for_selection(restored.state.params)
                left[name] = selection_metrics(run, ranks)["mrr"]
    if not left:
        raise UserError(
            f"{fault}; no other validated checkpoint is left: restore a copy of it, or archive the run with "
            "--overwrite"
        )

    def rank(name: Name) -> tuple[float, int]:
        metric = left[name]  # None without validation facts: the newest counts as the best
        return (0.0, name.step) if metric is None else (metric, -name.step)

    best = max(left, key=rank)
    epoch = best.step // run.batches.steps_per_epoch
    fault = f"{fault}; checkpoint {best} (epoch {epoch}) takes its place"
    warn(fault)
    patience = dataclasses.replace(progress.patience, best=left[best], best_epoch=epoch, best_step=best.step)
    return dataclasses.replace(progress, patience=patience, faults=(*progress.faults, fault))


def selection_metrics(run: Run, ranks: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The metrics that count while training: with or without the head as a candidate, by the config.

    Validation maximises their "mrr", which is None without validation facts.
    """
    return ranks["exclude_self" if run.config.eval.exclude_self else "all"]
