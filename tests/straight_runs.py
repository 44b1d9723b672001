"""A run that nothing stopped, and the same run stopped at a step: what resumed runs are compared with."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from numcoke_jax.data.batches import Batch
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.run import Run
from numcoke_jax.training.step import TrainState
from tests.tiny_runs import call_before, config_of, outcome, terminate, train


@dataclasses.dataclass(frozen=True)
class Straight:
    """A run that nothing stopped: twelve steps, a validation every three."""

    run: Run
    workdir: Path
    outcome: dict[str, Any]
    screen: str


def straight_run(run: Run, workdir: Path) -> Straight:
    _, screen = train(run, workdir)
    return Straight(run, workdir, outcome(run, workdir), screen)


@dataclasses.dataclass(frozen=True)
class WatchedRun(Run):
    """A run that does something before each of its steps."""

    before_step: Callable[[], Any] = terminate

    def step(self, state: TrainState, batch: Batch) -> tuple[TrainState, jax.Array]:
        self.before_step()
        return super().step(state, batch)


def stopping(run: Run, step: int, action: Callable[[], Any] = terminate) -> Run:
    """The same run with SIGTERM (or another action) at its step of that number, counted from the start."""
    fields = {field.name: getattr(run, field.name) for field in dataclasses.fields(Run)}
    return WatchedRun(**fields, before_step=call_before(step, action, lambda: None))


def best_at_six(data: Path, **changes: Any) -> Run:
    """A run whose second validation is its best."""
    run = create_run(config_of(data, checkpoint__keep=2, **changes))
    ranked = iter([0.2, 0.5, 0.3, 0.4, 0.1, 0.1])
    forced = {"mr": 1.0, "hits@1": 0.0, "hits@3": 0.0, "hits@10": 0.0, "count": 1}

    def for_selection(params: Any, before_chunk: Any = None) -> dict[str, Any]:
        return {"all": {**forced, "mrr": next(ranked)}, "exclude_self": {**forced, "mrr": 0.0}}

    run.evaluator.for_selection = for_selection  # type: ignore[method-assign]
    return run
