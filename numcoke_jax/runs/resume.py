"""Where a run stands and how it resumes: the newest usable checkpoint, and the best one or its substitute.

Patience: when a metric that should rise has stopped rising.  Pure state, saved with checkpoints.
"""

import contextlib
import dataclasses
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from numcoke_jax.runs.checkpoints import Checkpoints, Name, UnusableCheckpoint
from numcoke_jax.runs.file_names import CHECKPOINTS_FOLDER
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.workdir import RunIdentity, check_config_of, check_vocabulary_of
from numcoke_jax.system.errors import UserError
from numcoke_jax.training.step import TrainState

Warn = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class PatienceState:
    """The best validation so far and how many have passed since.

    Attributes:
      best: highest metric so far; None before the first validation or without validation data.
      best_epoch: epoch of the best validation (of the newest one without validation data); 0 before.
      best_step: its training step; 0 before.
      bad: validations since then that were not better.
    """

    best: float | None = None
    best_epoch: int = 0
    best_step: int = 0
    bad: int = 0

    def update(self, metric: float | None, *, epoch: int, step: int) -> "PatienceUpdate":
        """Take one validation into account.

        Only a strictly higher metric is an improvement.  A metric of None means that there is no
        validation data: early stopping is off and the newest state counts as the best, so that a best
        checkpoint exists.

        Raises:
          FloatingPointError: the metric is NaN or infinite.
          ValueError: the metric is None after a number.
        """
        if metric is None:
            if self.best is not None:
                raise ValueError(f"metric is None at epoch {epoch}, but was {self.best} at {self.best_epoch}")
            return PatienceUpdate(PatienceState(None, epoch, step, 0), improved=True)
        if not math.isfinite(metric):
            raise FloatingPointError(f"validation metric is {metric} at epoch {epoch}, step {step}")
        if self.best is None or metric > self.best:
            return PatienceUpdate(PatienceState(float(metric), epoch, step, 0), improved=True)
        return PatienceUpdate(dataclasses.replace(self, bad=self.bad + 1), improved=False)

    def reason(self) -> str:
        """One line for the log: what was best, when, and for how long nothing was better."""
        if self.best is None:
            return "early stopping is off: there are no validation triples"
        return f"best validation {self.best:.4f} at epoch {self.best_epoch}; {self.bad} since were not better"

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "PatienceState":
        """The state whose fields were written as JSON, to the last bit.

        Raises:
          ValueError: keys are missing or unknown.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if set(fields) != names:
            raise ValueError(f"patience state must have the keys {sorted(names)}, got {sorted(fields)}")
        return cls(**fields)


class PatienceUpdate(NamedTuple):
    """The next state, and whether this validation is the best so far."""

    state: PatienceState
    improved: bool


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
        return dataclasses.asdict(self) | {"faults": list(self.faults)}

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
                ranks = run.evaluator.for_selection(restored.state.params)
                left[name] = chosen_by(run, selection_metrics(run, ranks), progress.patience)
    if not left:
        raise UserError(
            f"{fault}; no other validated checkpoint is left: restore a copy of it, or archive the run with "
            "--overwrite"
        )

    def rank(name: Name) -> tuple[float, int]:
        metric = left[name]  # None where validation tells nothing: the newest counts as the best
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


def chosen_by(run: Run, metrics: Mapping[str, Any], patience: PatienceState) -> float | None:
    """What the best checkpoint is chosen by; None without validation facts, or if the run is blind.

    A blind run that an earlier version began is chosen by the number that it was chosen by then.
    """
    return None if run.blind and patience.best is None else metrics["mrr"]
