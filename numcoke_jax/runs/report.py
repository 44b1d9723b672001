"""The report of a trained run: both splits ranked with the best checkpoint, and what else is said of it.

What a run leaves behind for people and other programs: report.json, vocabulary.json.

A file is complete or absent: it is written under another name, flushed to the disk and renamed.
"""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from numcoke_jax.data.graph import RELATION, SPLITS, NumericGraph
from numcoke_jax.data.variants import unseen_relations
from numcoke_jax.evaluation.calibration import calibrate
from numcoke_jax.evaluation.metrics import METRICS
from numcoke_jax.evaluation.order_measures import order_measures
from numcoke_jax.evaluation.orders import compared_fields, field_of_relation, orders_of_split, summary
from numcoke_jax.evaluation.ranking import summaries
from numcoke_jax.evaluation.reference_orders import reference_orders
from numcoke_jax.evaluation.sides import cardinality_metrics, other_sides, relation_metrics
from numcoke_jax.models.padding import PaddedEncoding
from numcoke_jax.runs.checkpoints import Checkpoints
from numcoke_jax.runs.environment import describe_environment
from numcoke_jax.runs.file_names import CONFIG_FILE, HTML_FILE, REPORT_FILE
from numcoke_jax.runs.page import write_html_report
from numcoke_jax.runs.resume import Progress, is_complete, keep_best
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.screen import Screen
from numcoke_jax.runs.stored import Report
from numcoke_jax.runs.unseen import rank_held_out
from numcoke_jax.runs.workdir import flat_config, keep_config, keep_vocabulary
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import read_json, write_json_atomically
from numcoke_jax.system.processes import fetch, leads

SMALLEST = 1e-12  # probability that is told from 0


def finished_report(run: Run, progress: Progress, workdir: pathlib.Path) -> Report | None:
    """The report of a complete run, if it exists with its page and says what it must.

    A report that does not say "complete", of an older version or of an evaluation by another length, is
    given the key: its metrics are of the same checkpoint.
    """
    if not is_complete(run, progress) or not (workdir / HTML_FILE).exists():
        return None
    try:
        report: Report = read_json(workdir / REPORT_FILE)
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
    console: Screen,
    *,
    trained: bool,
) -> Report:
    """Rank both held-out splits with the best checkpoint, show and write the report.

    `trained` is False if this process only evaluates what another one has trained.
    """
    progress = keep_best(run, checkpoints, progress, console.warn)
    params = checkpoints.restore(checkpoints.usable_at(progress.patience.best_step)).state.params
    every_rank = {split: run.evaluator.sides(params, split) for split in ("valid", "test")}
    ranks = {split: summaries(found["tails"]) for split, found in every_rank.items()}
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
    fields = compared_fields(params, run.graph.without_inverses().vocabulary)
    if first := {name: dataclasses.asdict(found[0]) for name, found in fields.items() if found[0].weight}:
        report["compared_fields"] = first
    if run.graph.first_inverse is not None:
        report["protocol"] |= {"ranked": "tails and heads", "inverse_relations": True}
        report["valid"] |= other_sides(every_rank["valid"])
        report["test"] |= other_sides(every_rank["test"])
    report["relations"] = relation_metrics(run.judged, "test", every_rank["test"])
    report["cardinalities"] = cardinality_metrics(run.judged, "test", every_rank["test"])
    if unseen := unseen_relations(run.graph):
        report["unseen_relations"] = unseen
    report["order"], report["order_accuracy"] = orders_of(run, params)
    report["calibration_kind"] = run.config.eval.calibration
    report["calibration"] = calibration_of(run, params)
    if run.held_out is not None:
        report["inductive"] = rank_held_out(run, params)
    if progress.faults:
        report["faults"] = list(progress.faults)
    if not trained:
        tell_environments(report, before=workdir / REPORT_FILE)
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
    """The result of `calibration.calibrate`; None with `eval.calibration=none` or too few facts.

    Where an order core decides every relation of validation and test, the probabilities are those that are
    shown, of the head above the tail, and the question is which of the two it is, whatever `eval.selection`
    says.
    """
    if run.config.eval.calibration == "none":
        return None
    selection, scored = run.config.eval.selection, functools.partial(run.scorer.scored_heads, params)
    asked = np.concatenate([run.judged.valid, run.judged.test])[:, RELATION]
    if set(asked.tolist()) <= set(run.sizes.ordered):
        selection, scored = "reversed", functools.partial(_log_odds_above, run, params)
    return calibrate(
        run.judged,
        scored,
        kind=run.config.eval.calibration,
        log_odds=run.sizes.decided,
        selection=selection,
        seed=run.config.seed,
    )


def _log_odds_above(
    run: Run, params: Any, heads: np.ndarray, relation: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Like `Scorer.scored_heads`: log odds that each head (int [n]) stands above every entity."""
    encoded = fetch(run.scorer.encode(params, relation))
    encoded = encoded.unpadded() if isinstance(encoded, PaddedEncoding) else encoded
    count = run.graph.num_entities
    for begin in range(0, len(heads), run.scorer.chunk):
        block = heads[begin : begin + run.scorer.chunk]
        pairs = np.repeat(block, count), np.tile(np.arange(count), len(block))
        above = np.clip(encoded.probabilities(*pairs), SMALLEST, 1.0 - SMALLEST).reshape(len(block), count)
        yield begin, np.log(above) - np.log1p(-above)


def orders_of(run: Run, params: Any) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The measures of test pairs (None without any), and shares in the right order by value gap.

    The latter is [] unless the relations are named after the fields that they compare.
    """
    graph = run.judged_by_truth
    if not len(graph.test):
        return None, []
    orders = orders_of_split(graph, "test", run.scorer, params)
    fields = [field_of_relation(graph, relation) for relation in np.unique(graph.test[:, RELATION]).tolist()]
    positions = run.scale.positions.apply(run.graph.values, run.graph.observed)
    shown = dataclasses.replace(run.judged, values=run.graph.values, observed=run.graph.observed)
    measures = order_measures(graph, graph.test, orders)
    measures["references"] = reference_orders(
        shown, np.where(run.graph.observed, positions, np.nan), orders.model
    )
    return measures, [] if None in fields else summary(orders)


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


def build_report(
    *,
    seed: int,
    best_epoch: int,
    seconds: float,
    complete: bool,
    graph: NumericGraph,
    valid: Mapping[str, Any],
    test: Mapping[str, Any],
) -> Report:
    """The beginning of report.json.

    Args:
      seed: config.seed of the run.
      best_epoch: the epoch whose parameters were ranked.
      seconds: wall-clock seconds of training over all its parts.
      complete: False if training has not come to its end, as with `numcoke eval` on a stopped run.
      graph: the data, for their hash among the facts about the environment.
      valid, test: count, mrr, mr, hits@1, hits@3, hits@10, and the same under exclude_self.

    Returns:
      A split as given, with its keys in a fixed order.  Metrics of a split without queries are None.
    """
    return {
        "seed": int(seed),
        "best_epoch": int(best_epoch),
        "seconds": round(float(seconds), 3),
        "complete": bool(complete),
        "valid": _metrics(valid) | {"exclude_self": _metrics(valid["exclude_self"])},
        "test": _metrics(test) | {"exclude_self": _metrics(test["exclude_self"])},
        "protocol": {
            "ranked": "tails",  # without data.inverse: not to be compared with a mean over both sides
            "filtered_by": list(SPLITS),
            "ties": "mean rank",
            "inverse_relations": False,  # no added ones; those in the data are relations like any other
            "facts": {split: len(graph.without_inverses().split(split)) for split in SPLITS},
        },
        "environment": describe_environment(graph),
    }


def tell_environments(report: Report, *, before: Path) -> None:
    """Entries of a report by a process that only evaluates.

    `environment` is where the run was trained, as the report in the file `before` tells;
    `evaluation_environment` is where this report was made, if that is another one.
    """
    try:
        trained, here = read_json(before)["environment"], report["environment"]
    except (UserError, KeyError, TypeError):  # missing, damaged or something else
        return
    if trained != here:
        report["environment"], report["evaluation_environment"] = trained, here


def calibration_kind(report: Report) -> str:
    """The `eval.calibration` of a report; one that is older than this entry tells by what it holds."""
    found = report["calibration"]
    return report.get("calibration_kind", "none" if found is None else found["kind"])


def _metrics(metrics: Mapping[str, Any]) -> dict[str, float | int | None]:
    return {name: _metric(metrics[name]) for name in METRICS}


def _metric(value: Any) -> float | int | None:
    if value is None or isinstance(value, int):
        return value
    return int(value) if isinstance(value, np.integer) else float(value)
