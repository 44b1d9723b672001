"""Patience: when a metric that should rise has stopped rising.  Pure state, saved with checkpoints."""

import dataclasses
import math
from typing import Any, NamedTuple


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

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; `from_json` gives the same state back to the last bit."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "PatienceState":
        """The state that `to_json` wrote.

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
