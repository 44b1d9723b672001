"""The functional training loop: steps between validations, patience, checkpoints."""

import contextlib
import dataclasses
import math
import pathlib
import time
from collections import deque
from typing import NoReturn

import jax
from ml_collections import ConfigDict

from numcoke_jax.config.checks import check_config
from numcoke_jax.data.graph import LoadedGraph
from numcoke_jax.runs.checkpoints import Checkpoints
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.divergence import context, divergence, first_module, remedy
from numcoke_jax.runs.file_names import CHECKPOINTS_FOLDER, METRICS_FILE, REPORT_FILE
from numcoke_jax.runs.logs import NoLog, RunLog, read_metrics
from numcoke_jax.runs.memory import (
    STEP_KEYS,
    TRAINED_KEYS,
    check_memory,
    check_ranking_memory,
    memory_remedy,
    out_of_memory_told,
)
from numcoke_jax.runs.report import finished_report, rank_and_report, set_report_aside
from numcoke_jax.runs.resume import (
    Progress,
    checkpoints_of,
    chosen_by,
    is_complete,
    newest_state,
    selection_metrics,
)
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.screen import Screen
from numcoke_jax.runs.stored import Report
from numcoke_jax.runs.workdir import archive, check_config_of, held, keep_config, keep_vocabulary
from numcoke_jax.system.errors import UserError, shown_path
from numcoke_jax.system.processes import agreed, leads, wait_for_others
from numcoke_jax.system.progress import ProgressReporter
from numcoke_jax.system.termination import EXIT_TERMINATED, Terminated, Termination
from numcoke_jax.training.step import LossSums, TrainState

STEPS_AHEAD = 4  # steps given to the device before the host waits for the oldest of them
AGREE_EVERY = 16  # steps between two checks with the other processes for one that was terminated
READING, RANKING = (
    "reading the data",
    "ranking validation and test facts",
)  # what a person may have to wait for
PROGRESS_SECONDS = 1.0  # between two readings of the running losses, each of which waits for the device


def train_and_evaluate(
    config: ConfigDict,
    workdir: str | pathlib.Path,
    console: Screen,
    *,
    overwrite: bool = False,
    loaded: LoadedGraph | None = None,
) -> Report:
    """Train the run of `workdir` to its end, rank valid and test with the best checkpoint, report.

    A workdir that holds checkpoints of the same config is resumed; if the run is complete, nothing is done
    except writing a report that is missing or was made with another `eval.calibration`.

    Args:
      config: every key of `default_config()`.
      workdir: folder of the run; created if missing.
      console: shows the run to the user.
      overwrite: archive the run in `workdir` first, whatever its config.
      loaded: the data, if they are already in memory; else read as `config.data` says.

    Returns:
      What report.json holds.

    Raises:
      UserError: the config or the data are wrong, the workdir belongs to another run or is in use, or the
        disk is full.
      FloatingPointError: a loss, gradient or score was not finite.
      SystemExit: with code 143 after SIGTERM; the state is saved within a step.
    """
    workdir = pathlib.Path(workdir)
    check_config(config)
    console.config(config, workdir)
    if not overwrite:
        check_config_of(workdir, config)  # before the data are loaded, which may take long
    told = out_of_memory_told(memory_remedy(config, STEP_KEYS))
    with Termination().watching() as termination, told:
        with console.waiting(READING):
            run = create_run(config, loaded)
        console.graph(run.graph, run.loaded.notices, run.loaded.name, run.loaded.warnings)
        if overwrite and leads() and (place := archive(workdir)):
            console.note(f"the run that was in {shown_path(workdir)} is now {shown_path(place)}")
        return train_in_workdir(run, workdir, console, termination)


def train_in_workdir(run: Run, workdir: pathlib.Path, console: Screen, termination: Termination) -> Report:
    """What `train_and_evaluate` does once the data are loaded; same result and errors."""
    with held(workdir), checkpoints_of(run, workdir) as checkpoints:
        for name in checkpoints.remove_partial() if leads() else ():
            console.note(f"checkpoint {name} was not written to the end: ignored")
        begun = newest_state(run, checkpoints, console.warn)
        if begun is None:
            _refuse_lost_run(workdir)
        else:
            report = finished_report(run, begun[1], workdir)
            step = int(begun[0].step)
            if is_complete(run, begun[1]):
                console.note(f"the run is complete at step {step}: nothing to train")
            else:
                console.note(f"resuming from checkpoint {step}, of {run.total_steps} steps")
            if report is not None:
                console.note(f"its result is in {shown_path(workdir / REPORT_FILE)}")
                console.result_table(report)
                return report
        unfinished = begun is None or not is_complete(run, begun[1])
        wait_for_others("the workdir is read")
        progress = begun[1] if begun else Progress()
        if unfinished:
            if leads():
                set_report_aside(workdir)  # of fewer epochs or less patience
                keep_config(workdir, run.config)
                keep_vocabulary(workdir, run.graph.vocabulary, run.scale)
            progress = _train(run, begun, workdir, checkpoints, console, termination)
        del begun  # the report needs the memory for the best state
        if not unfinished:
            check_ranking_memory(run, console)
        with out_of_memory_told(memory_remedy(run.config, TRAINED_KEYS)), console.waiting(RANKING):
            return rank_and_report(run, progress, checkpoints, workdir, console, trained=unfinished)


def evaluate_only(config: ConfigDict, workdir: str | pathlib.Path, console: Screen) -> Report:
    """Rank valid and test with the best checkpoint of `workdir`; returns what report.json then holds.

    Raises:
      UserError: there is no checkpoint, none was validated, or the config or the data are other ones.
    """
    workdir = pathlib.Path(workdir)
    check_config(config)
    if not (workdir / CHECKPOINTS_FOLDER).is_dir():
        raise UserError(f"--workdir={shown_path(workdir)}: no checkpoints to evaluate; train there first")
    check_config_of(workdir, config)
    with Termination().watching(), out_of_memory_told(memory_remedy(config, TRAINED_KEYS)):
        with console.waiting(READING):
            run = create_run(config)
        console.graph(run.graph, run.loaded.notices, run.loaded.name, run.loaded.warnings)
        check_ranking_memory(run, console)
        with held(workdir), checkpoints_of(run, workdir) as checkpoints:
            progress = (newest_state(run, checkpoints, console.warn) or (None, Progress()))[1]
            if not progress.patience.best_step:
                raise UserError(
                    f"--workdir={shown_path(workdir)}: no checkpoint was validated; train there first"
                )
            with console.waiting(RANKING):
                return rank_and_report(run, progress, checkpoints, workdir, console, trained=False)


def _refuse_lost_run(workdir: pathlib.Path) -> None:
    """Raises UserError if a run has left a log or a report but no checkpoint: it must not start over."""
    metrics = workdir / METRICS_FILE
    rows = read_metrics(metrics) if metrics.exists() else []
    if rows or (workdir / REPORT_FILE).exists():
        found = f"{METRICS_FILE} goes to step {rows[-1]['step']}" if rows else f"{REPORT_FILE} exists"
        raise UserError(
            f"--workdir={shown_path(workdir)}: a run was here ({found}), but no checkpoint of it is left; "
            "restore a copy of one, give another --workdir, or archive what is left with --overwrite"
        )


@dataclasses.dataclass
class Loop:
    """What the training loop works with and on.

    Attributes:
      run, checkpoints, log, console, termination: the run and its surroundings.
      state: the training state; its buffers are given to the next step.
      progress: what is saved beside it.
      began: start of the time that `progress` does not yet count.
    """

    run: Run
    checkpoints: Checkpoints
    log: RunLog | NoLog
    console: Screen
    termination: Termination
    state: TrainState
    progress: Progress
    began: float = dataclasses.field(default_factory=time.monotonic)

    def save(self) -> None:
        """Write a checkpoint.

        Raises:
          FloatingPointError: the state is not finite, or a loss or gradient on the way to it was not.
        """
        now = time.monotonic()
        seconds = self.progress.seconds + now - self.began
        self.progress, self.began = dataclasses.replace(self.progress, seconds=seconds), now
        self.check_losses()
        best_step = self.progress.patience.best_step
        try:
            self.checkpoints.save(self.state, self.progress.to_json(), best_step=best_step)
        except FloatingPointError as error:
            step = int(self.state.step)
            raise FloatingPointError(
                f"{error} {context(self.run, step - 1)}; {remedy(self.run)}; {self.kept()}"
            ) from None

    def check_losses(self) -> LossSums:
        """The loss sums on the host; FloatingPointError if a step that they sum was not finite."""
        losses = jax.device_get(self.state.losses)
        if losses.first_nonfinite_step >= 0:
            raise divergence(self.run, losses, self.kept())
        return losses

    def loss_means(self) -> dict[str, float]:
        """Means of the loss of the triples, by its name, and of the contrastive one; absent if of nothing."""
        losses = self.check_losses()
        sums = {
            self.run.config.train.loss: (losses.bce_sum, losses.bce_count),
            "contrastive": (losses.contrastive_sum, losses.contrastive_count),
        }
        return {name: float(total) / float(count) for name, (total, count) in sums.items() if count}

    def kept(self) -> str:
        """Says which checkpoint is left after a failure."""
        names = self.checkpoints.names()
        return f"checkpoint {names[-1]} is kept" if names else "there is no checkpoint yet"

    def terminated(self) -> bool:
        """Whether SIGTERM has come, to any process of the run; all ask together."""
        return agreed((self.termination.requested,))[0]

    def exit_terminated(self) -> NoReturn:
        """End the program after SIGTERM; the state is saved."""
        self.console.note(f"terminated; the same command resumes from checkpoint {int(self.state.step)}")
        raise SystemExit(EXIT_TERMINATED)


def _train(
    run: Run,
    begun: tuple[TrainState, Progress] | None,
    workdir: pathlib.Path,
    checkpoints: Checkpoints,
    console: Screen,
    termination: Termination,
) -> Progress:
    """Train from `begun`, or from scratch, to the end; returns the progress there."""
    check_memory(run, console, restored=begun is not None)
    with contextlib.closing(RunLog(workdir) if leads() else NoLog()) as log, termination.deferred():
        began = time.monotonic()
        state, progress = begun or (_fresh_state(run, console), Progress())
        log.truncate_after(progress.validated_step)
        loop = Loop(run, checkpoints, log, console, termination, state, progress, began)
        if begun is None:
            loop.save()  # a full disk shows before the training, not after
        train(loop)
        if loop.terminated():
            loop.exit_terminated()
        return loop.progress


def _fresh_state(run: Run, console: Screen) -> TrainState:
    with console.compiling(*run.waits_for("state")):
        state = jax.block_until_ready(run.random_state())
    with console.waiting("fitting what needs no training"):
        return run.fitted(state)


def train(loop: Loop) -> None:
    """Run the steps that are left, with a validation and a checkpoint every `eval_every_epochs`.

    Raises:
      FloatingPointError: a loss, gradient or score was not finite; nothing that is not finite was saved.
      SystemExit: SIGTERM came; the state is saved within a step.
    """
    run, step = loop.run, int(loop.state.step)
    interval = run.config.train.eval_every_epochs * run.batches.steps_per_epoch
    with loop.console.progress(run.total_steps, start_step=step) as bar:
        while not is_complete(run, loop.progress):
            end = min(step - step % interval + interval, run.total_steps)
            if step > loop.progress.validated_step and (step % interval == 0 or step == run.total_steps):
                end = step  # terminated between the last step of an interval and its validation
            speed = _run_steps(loop, step, end, bar)
            _validate(loop, speed)
            step = end
            if not is_complete(run, loop.progress) and loop.terminated():
                loop.exit_terminated()
        if loop.progress.stopped(run.config.train.patience):
            loop.console.note(f"stopped early: {loop.progress.patience.reason()}")


def _run_steps(loop: Loop, first: int, end: int, bar: ProgressReporter) -> float | None:
    """Steps `first` to `end`; the host prepares batches while the device works on earlier ones.

    Returns:
      Queries per second, None without steps.
    """
    run, queries_per_step = loop.run, loop.run.batches.num_queries / loop.run.batches.steps_per_epoch
    under_way: deque[jax.Array] = deque()
    shown, began = first, time.monotonic()
    shown_at = saved_at = began
    for step in range(first, end):
        under_way.append(_step(loop, step))
        if len(under_way) > STEPS_AHEAD and not math.isfinite(float(under_way.popleft())):
            loop.check_losses()
        now = time.monotonic()
        due = now - saved_at > run.config.checkpoint.every_seconds and step + 1 < end
        terminated, due = _agreed_after(step, (loop.termination.requested, due))
        if terminated:
            loop.save()
            loop.exit_terminated()
        if due:
            loop.save()
            saved_at = now
        if now - shown_at > PROGRESS_SECONDS or step + 1 == end:
            losses = loop.loss_means()
            seconds = max(time.monotonic() - shown_at, 1e-9)
            bar.advance(step + 1 - shown, losses, (step + 1 - shown) * queries_per_step / seconds)
            shown, shown_at = step + 1, time.monotonic()
    return (end - first) * queries_per_step / (time.monotonic() - began) if end > first else None


def _agreed_after(step: int, flags: tuple[bool, ...]) -> tuple[bool, ...]:
    """`agreed`, with several processes in every `AGREE_EVERY`-th step only: it waits for the device."""
    if jax.process_count() > 1 and step % AGREE_EVERY:
        return (False,) * len(flags)
    return agreed(flags)


def _step(loop: Loop, step: int) -> jax.Array:
    """One step of the loop's state; its loss, NaN if it or the gradient is not finite."""
    if loop.run.nothing_to_train:
        loop.state = loop.run.fitted_step(loop.state)
        return loop.state.losses.bce_sum
    batch = loop.run.batch(step)
    if not loop.run.config.train.debug_nans:
        loop.state, loss = loop.run.step(loop.state, batch)
        return loss
    before = jax.tree.map(lambda leaf: leaf.copy(), loop.state)
    loop.state, loss = loop.run.step(loop.state, batch)
    if not math.isfinite(float(loss)):
        culprit = first_module(loop.run, before, batch)
        raise divergence(loop.run, jax.device_get(loop.state.losses), f"{culprit}; {loop.kept()}")
    return loss


def _validate(loop: Loop, queries_per_second: float | None) -> None:
    """Rank the validation facts, take patience into account, log, show and save."""
    run, step = loop.run, int(loop.state.step)
    losses = loop.loss_means()
    try:
        # One process alone must not end what all compute together.
        before_chunk = loop.termination.check if jax.process_count() == 1 else lambda: None
        with out_of_memory_told(memory_remedy(run.config, TRAINED_KEYS)):
            ranks = run.evaluator.for_selection(loop.state.params, before_chunk=before_chunk)
    except Terminated:
        loop.save()
        loop.exit_terminated()
    except FloatingPointError as error:
        raise FloatingPointError(
            f"validation after step {step} {context(run, step - 1)}: {error}; {remedy(run)}; {loop.kept()}"
        ) from None
    metrics = selection_metrics(run, ranks)
    epoch = step // run.batches.steps_per_epoch
    patience = loop.progress.patience
    update = patience.update(chosen_by(run, metrics, patience), epoch=epoch, step=step)
    loop.state = run.without_losses(loop.state)
    loop.progress = dataclasses.replace(loop.progress, patience=update.state, validated_step=step)
    loop.log.write(step, "train", {**losses, "queries_per_second": queries_per_second}, epoch=epoch)
    loop.log.write(step, "valid", metrics, epoch=epoch)
    row = {"epoch": epoch, "step": step, "best": update.improved}
    loop.console.validation({**row, **losses, **metrics})
    loop.save()
