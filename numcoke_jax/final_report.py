"""The report of a trained run: both splits ranked with the best checkpoint, and what else is said of it."""

import dataclasses
import functools
import os
import pathlib
from typing import Any

from numcoke_jax.calibration import calibrate
from numcoke_jax.checkpoints import Checkpoints
from numcoke_jax.compared_fields import compared_fields
from numcoke_jax.console import Console
from numcoke_jax.errors import UserError
from numcoke_jax.evaluation import relation_metrics
from numcoke_jax.html_report import HTML_FILE, write_html_report
from numcoke_jax.inductive import rank_held_out
from numcoke_jax.order_accuracy import field_of_relation, order_accuracy
from numcoke_jax.placement import leads
from numcoke_jax.ranking import summaries
from numcoke_jax.report import (
    REPORT_FILE,
    build_report,
    calibration_kind,
    environments,
    read_json,
    write_json_atomically,
)
from numcoke_jax.resume import (
    Progress,
    is_complete,
    keep_best,
)
from numcoke_jax.run import Run
from numcoke_jax.workdir import (
    CONFIG_FILE,
    flat_config,
    keep_config,
    keep_vocabulary,
)


def finished_report(run: Run, progress: Progress, workdir: pathlib.Path) -> dict[str, Any] | None:
    """The report of a complete run, if it exists with its page and says what it must.

    A report that does not say "complete", of an older version or of an evaluation by another length, is
    given the key: its metrics are of the same checkpoint.
    """
    if not is_complete(run, progress) or not (workdir / HTML_FILE).exists():
        return None
    try:
        report = read_json(workdir / REPORT_FILE)
        fits = report["best_epoch"] == progress.patience.best_epoch and report["seed"] == run.config.seed
        fits = fits and calibration_kind(report) == run.config.eval.calibration
        if not fits or not {"valid", "test", "environment"} <= report.keys():
            return None
    except (UserError, KeyError, TypeError, AttributeError):  # missing, damaged or something else
        return None
    if report.get("complete") is not True:
        report["complete"] = True
        if leads():
            write_json_atomically(workdir / REPORT_FILE, report)
    return report


def rank_and_report(
    run: Run,
    progress: Progress,
    checkpoints: Checkpoints,
    workdir: pathlib.Path,
    console: Console,
    *,
    trained: bool,
) -> dict[str, Any]:
    """Rank both held-out splits with the best checkpoint, show and write the report.

    `trained` is False if this process only evaluates what another one has trained.
    """
    progress = keep_best(run, checkpoints, progress, console.warn)
    params = checkpoints.restore(checkpoints.usable_at(progress.patience.best_step)).state.params
    every_rank = {split: run.evaluate.ranks(params, split) for split in ("valid", "test")}
    ranks = {split: summaries(found) for split, found in every_rank.items()}
    report = build_report(
        seed=run.config.seed,
        best_epoch=progress.patience.best_epoch,
        seconds=progress.seconds,
        complete=_at_its_end(run, progress, workdir),
        graph=run.graph,
        valid=ranks["valid"]["all"] | {"exclude_self": ranks["valid"]["exclude_self"]},
        test=ranks["test"]["all"] | {"exclude_self": ranks["test"]["exclude_self"]},
    )
    report["selection_mrr"] = progress.patience.best  # what the best checkpoint was chosen by: see `eval`
    fields = compared_fields(params, run.graph.vocabulary)
    if first := {name: dataclasses.asdict(found[0]) for name, found in fields.items() if found[0].weight}:
        report["compared_fields"] = first
    report["relations"] = relation_metrics(run.graph, "test", every_rank["test"])
    report["order_accuracy"] = order_accuracy_of(run, params)
    report["calibration_kind"] = run.config.eval.calibration
    report["calibration"] = calibration_of(run, params)
    if run.held_out is not None:
        report["inductive"] = rank_held_out(run, params)
    if progress.faults:
        report["faults"] = list(progress.faults)
    if not trained:
        report |= environments(report, before=workdir / REPORT_FILE)
        if leads():
            _keep_evaluation(run, workdir)
    write_html_report(run, params, report, workdir)
    if leads():  # last: report.json says that the run is finished
        write_json_atomically(workdir / REPORT_FILE, report)
    console.result_table(report)
    return report


def _at_its_end(run: Run, progress: Progress, workdir: pathlib.Path) -> bool:
    """True if the run is complete by length and patience of config.json; this command may give others."""
    stored = read_json(workdir / CONFIG_FILE) if (workdir / CONFIG_FILE).exists() else {}
    same_length = stored.get("train.epochs", run.config.train.epochs) == run.config.train.epochs
    return same_length and is_complete(run, progress, patience=stored.get("train.patience"))


def calibration_of(run: Run, params: Any) -> dict[str, Any] | None:
    """The result of `calibration.calibrate`; None with `eval.calibration=none` or too few facts."""
    if run.config.eval.calibration == "none":
        return None
    return calibrate(
        run.graph,
        functools.partial(run.evaluate.scored_heads, params),
        kind=run.config.eval.calibration,
        selection=run.config.eval.selection,
        seed=run.config.seed,
    )


def order_accuracy_of(run: Run, params: Any) -> list[dict[str, Any]]:
    """Shares of test pairs in the right order; [] unless relations are named after the fields compared."""
    graph = run.graph
    if not len(graph.test) or None in [field_of_relation(graph, r) for r in range(graph.num_relations)]:
        return []
    return order_accuracy(graph, "test", run.scale, run.evaluate, params)


def _keep_evaluation(run: Run, workdir: pathlib.Path) -> None:
    """Write the evaluation keys of the coming report to config.json; its other keys describe the training."""
    path, asked = workdir / CONFIG_FILE, flat_config(run.config)
    before = read_json(path) if path.exists() else {}
    evaluation = {key: value for key, value in asked.items() if key.startswith("eval.")}
    config = {**asked, **before, **evaluation}
    if config != before:
        set_report_aside(workdir)
        keep_config(workdir, config)
    keep_vocabulary(workdir, run.graph.vocabulary, run.scale)


def set_report_aside(workdir: pathlib.Path) -> None:
    """Keep the report under another name.

    Called before config.json changes: a report beside it always belongs to that config.
    """
    for name in (REPORT_FILE, HTML_FILE):
        if (workdir / name).exists():
            os.replace(workdir / name, workdir / f"previous-{name}")
