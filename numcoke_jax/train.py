"""The functional training loop: steps between validations, patience, checkpoints, the final report."""

import contextlib
import dataclasses
import pathlib
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import jax
from ml_collections import ConfigDict

from numcoke_jax.checkpoints import Checkpoints
from numcoke_jax.config_checks import check_config
from numcoke_jax.console import Console
from numcoke_jax.early_stopping import PatienceState
from numcoke_jax.environment import graph_hash
from numcoke_jax.errors import UserError
from numcoke_jax.logs import RunLog
from numcoke_jax.report import build_report, write_json_atomically
from numcoke_jax.run import Run, create_run
from numcoke_jax.step import LossSums, TrainState
from numcoke_jax.workdir import exclusive, keep_config, keep_vocabulary

STEPS_AHEAD = 4  # steps given to the device before the host waits for the oldest of them
PROGRESS_SECONDS = 1.0  # between two looks at the running losses, each of which waits for the device
EXIT_TERMINATED = 143  # 128 + SIGTERM, what schedulers expect


@dataclasses.dataclass(frozen=True)
class Progress:
    """What the loop knows beside the state; saved with every checkpoint.

    Attributes:
      patience: best validation so far and how long ago it was.
      seconds: wall-clock seconds of training so far, over all resumed parts.
      stopped: patience has run out.
      data_sha256: digest of the graph that was trained on.
    """

    data_sha256: str
    patience: PatienceState = PatienceState()
    seconds: float = 0.0
    stopped: bool = False

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return dataclasses.asdict(self) | {"patience": self.patience.to_json()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Progress":
        """The progress that `to_json` wrote."""
        return cls(**fields | {"patience": PatienceState.from_json(fields["patience"])})


def train_and_evaluate(config: ConfigDict, workdir: str | pathlib.Path, console: Console) -> dict[str, Any]:
    """Train the run of `workdir` to its end, rank valid and test with the best checkpoint, report.

    A workdir that holds checkpoints of the same config is resumed; one whose run is complete is only
    evaluated.

    Returns:
      What report.json holds.

    Raises:
      UserError: wrong config or data, a workdir of another run.
      FloatingPointError: a loss, gradient or score was not finite.
      SystemExit: with code 143 after SIGTERM; the state is saved within a step.
    """
    workdir = pathlib.Path(workdir)
    check_config(config)
    console.config(config, workdir)
    run = create_run(config)
    console.graph(run.graph, run.loaded.notices, run.loaded.name)
    with exclusive(workdir):
        keep_config(workdir, config)
        keep_vocabulary(workdir, run.graph.vocabulary, run.scale)
        with Checkpoints(workdir / "checkpoints", newest=config.checkpoint.keep) as checkpoints:
            state, progress = _start(run, checkpoints, console)
            with contextlib.closing(RunLog(workdir)) as log:
                log.truncate_after(int(state.step))
                progress = train(run, state, progress, checkpoints, log, console)
            return _report(run, progress, checkpoints, workdir, console)


def evaluate_only(config: ConfigDict, workdir: str | pathlib.Path, console: Console) -> dict[str, Any]:
    """Rank valid and test with the best checkpoint of `workdir`; returns what report.json then holds.

    Raises:
      UserError: no checkpoint there, or one of another config or of other data.
    """
    workdir = pathlib.Path(workdir)
    check_config(config)
    if not (workdir / "checkpoints").is_dir():
        raise UserError(f"--workdir={workdir}: no checkpoints to evaluate; train there first (--mode=train)")
    run = create_run(config)
    console.graph(run.graph, run.loaded.notices, run.loaded.name)
    with exclusive(workdir):
        keep_config(workdir, config)
        keep_vocabulary(workdir, run.graph.vocabulary, run.scale)
        with Checkpoints(workdir / "checkpoints", newest=config.checkpoint.keep) as checkpoints:
            if not checkpoints.steps():
                raise UserError(f"--workdir={workdir}: no complete checkpoint to evaluate; train there first")
            _, progress = restore(run, checkpoints, checkpoints.steps()[-1])
            return _report(run, progress, checkpoints, workdir, console)


def train(
    run: Run, state: TrainState, progress: Progress, checkpoints: Checkpoints, log: RunLog, console: Console
) -> Progress:
    """Run the steps that are left, with a validation and a checkpoint every `eval_every_epochs`."""
    steps_per_epoch = run.batches.steps_per_epoch
    interval = run.config.train.eval_every_epochs * steps_per_epoch
    step = int(state.step)
    with _termination_flag() as terminated, console.progress(run.total_steps, start_step=step) as bar:
        while step < run.total_steps and not progress.stopped:
            began, end = time.monotonic(), min(step - step % interval + interval, run.total_steps)

            def save(state: TrainState, progress: Progress = progress, began: float = began) -> None:
                now = dataclasses.replace(progress, seconds=progress.seconds + time.monotonic() - began)
                checkpoints.save(state, now.to_json(), best_step=progress.patience.best_step)

            state = _run_steps(run, state, step, end, save, terminated, bar)
            queries = (end - step) * run.batches.num_queries / steps_per_epoch
            seconds = time.monotonic() - began
            losses, state = _take_losses(run, state)
            ranks = run.evaluate.for_selection(state.params)
            step, epoch = end, end // steps_per_epoch
            update = progress.patience.update(
                _selection_metric(run.config, ranks),
                epoch=epoch,
                step=step,
                patience=run.config.train.patience,
            )
            progress = dataclasses.replace(
                progress,
                patience=update.state,
                seconds=progress.seconds + time.monotonic() - began,
                stopped=update.stop,
            )
            log.write(step, "train", {**losses, "queries_per_second": queries / seconds}, epoch=epoch)
            log.write(step, "valid", ranks["all"], epoch=epoch)
            row = {"epoch": epoch, "step": step, "best": update.improved}
            console.validation({**row, **losses, **ranks["all"]})
            checkpoints.save(state, progress.to_json(), best_step=progress.patience.best_step)
        if progress.stopped:
            console.note(f"stopped early: {progress.patience.reason()}")
    return progress


def _run_steps(
    run: Run,
    state: TrainState,
    first: int,
    end: int,
    save: Callable[[TrainState], None],
    terminated: Callable[[], bool],
    bar: Any,
) -> TrainState:
    """Steps `first` to `end`; the host prepares batches while the device works on earlier ones."""
    under_way: deque[jax.Array] = deque()
    shown, shown_at = first, time.monotonic()
    saved_at = shown_at
    for step in range(first, end):
        state, loss = run.step(state, run.batches.batch(step))
        under_way.append(loss)
        if len(under_way) > STEPS_AHEAD:
            under_way.popleft().block_until_ready()
        now = time.monotonic()
        if terminated():
            save(state)
            raise SystemExit(EXIT_TERMINATED)
        if now - saved_at > run.config.checkpoint.every_seconds:
            save(state)
            saved_at = now
        if now - shown_at > PROGRESS_SECONDS or step + 1 == end:
            losses = loss_means(jax.device_get(state.losses))
            queries = (step + 1 - shown) * run.batches.num_queries / run.batches.steps_per_epoch
            bar.advance(step + 1 - shown, losses, queries / max(time.monotonic() - shown_at, 1e-9))
            shown, shown_at = step + 1, time.monotonic()
    return state


def loss_means(losses: LossSums) -> dict[str, float]:
    """Mean BCE an entry and mean contrastive loss a pair, over what has been summed; absent if nothing."""
    means = {}
    for name in ("bce", "contrastive"):
        count = float(getattr(losses, f"{name}_count"))
        if count:
            means[name] = float(getattr(losses, f"{name}_sum")) / count
    return means


def _take_losses(run: Run, state: TrainState) -> tuple[dict[str, float], TrainState]:
    """Mean losses since the last validation, and the state with the sums set back to zero.

    Raises:
      FloatingPointError: a loss or gradient was not finite; names the first such step.
    """
    losses = jax.device_get(state.losses)
    step = int(losses.first_nonfinite_step)
    if step >= 0:
        terms = loss_means(losses)
        raise FloatingPointError(
            f"step {step} (epoch {step // run.batches.steps_per_epoch + 1}): a loss or gradient is not finite"
            f" (mean losses since the last validation: {terms}) at train.learning_rate="
            f"{run.config.train.learning_rate}; lower it or set train.clip_norm; the last finite checkpoint"
            " is kept"
        )
    return loss_means(losses), state.replace(losses=LossSums.zero())


def _start(run: Run, checkpoints: Checkpoints, console: Console) -> tuple[TrainState, Progress]:
    """The newest checkpoint's state and progress, or fresh ones."""
    if not checkpoints.steps():
        return run.fresh_state(), Progress(graph_hash(run.graph))
    state, progress = restore(run, checkpoints, checkpoints.steps()[-1])
    step = int(state.step)
    if step >= run.total_steps or progress.stopped:
        console.note(f"the run is complete at step {step}: nothing to train")
    else:
        console.note(f"resuming at step {step} of {run.total_steps}")
    return state, progress


def restore(run: Run, checkpoints: Checkpoints, step: int) -> tuple[TrainState, Progress]:
    """State and progress of a checkpoint.

    Raises:
      UserError: it was trained on other facts or values than the run's.
    """
    state, fields = checkpoints.restore(step, run.abstract_state)
    progress = Progress.from_json(fields)
    if progress.data_sha256 != graph_hash(run.graph):
        raise UserError(
            f"the checkpoint of step {step} was trained on other facts or values (sha256 "
            f"{progress.data_sha256[:12]}... then, {graph_hash(run.graph)[:12]}... now); give the same data "
            "or another --workdir"
        )
    return state, progress


def _report(
    run: Run, progress: Progress, checkpoints: Checkpoints, workdir: pathlib.Path, console: Console
) -> dict[str, Any]:
    """Rank both held-out splits with the best checkpoint, show and write the report."""
    state, _ = restore(run, checkpoints, progress.patience.best_step)
    ranks = {split: run.evaluate(state.params, split) for split in ("valid", "test")}
    report = build_report(
        seed=run.config.seed,
        best_epoch=progress.patience.best_epoch,
        seconds=progress.seconds,
        graph=run.graph,
        valid=ranks["valid"]["all"] | {"exclude_self": ranks["valid"]["exclude_self"]},
        test=ranks["test"]["all"] | {"exclude_self": ranks["test"]["exclude_self"]},
    )
    write_json_atomically(workdir / "report.json", report)
    console.result_table(report)
    return report


def _selection_metric(config: ConfigDict, ranks: dict[str, dict[str, Any]]) -> float | None:
    return ranks["exclude_self" if config.eval.exclude_self else "all"]["mrr"]


@contextlib.contextmanager
def _termination_flag() -> Iterator[Callable[[], bool]]:
    """A function that says whether SIGTERM has come; outside the main thread it never does."""
    received = []
    try:
        before = signal.signal(signal.SIGTERM, lambda *_: received.append(True))
    except ValueError:  # only the main thread may set handlers
        yield lambda: False
        return
    try:
        yield lambda: bool(received)
    finally:
        signal.signal(signal.SIGTERM, before)
