"""The report of a trained run: both splits ranked with the best checkpoint, and what else is said of it."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, SPLITS, TAIL
from numcoke_jax.data.variants import unseen_relations
from numcoke_jax.evaluation.calibration import calibrate
from numcoke_jax.evaluation.labelled_scores import Question
from numcoke_jax.evaluation.order_measures import order_measures
from numcoke_jax.evaluation.orders import compared_fields, field_of_relation, orders_of_split, summary
from numcoke_jax.evaluation.reference_orders import reference_orders
from numcoke_jax.evaluation.sides import cardinality_metrics, relation_metrics, split_metrics
from numcoke_jax.models.padding import PaddedEncoding
from numcoke_jax.runs.checkpoints import Checkpoints
from numcoke_jax.runs.environment import describe_environment
from numcoke_jax.runs.file_names import CONFIG_FILE, HTML_FILE, REPORT_FILE
from numcoke_jax.runs.page import write_html_report
from numcoke_jax.runs.resume import Progress, is_complete, keep_best
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.screen import Screen
from numcoke_jax.runs.stored import Report, read_report, write_report
from numcoke_jax.runs.unseen import rank_held_out
from numcoke_jax.runs.workdir import flat_config, keep_config, keep_vocabulary
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import read_json
from numcoke_jax.system.processes import fetch, leads

IF_ANY = ("compared_fields", "unseen_relations", "inductive", "faults")  # keys that are left out if empty
SMALLEST = 1e-12  # probability that is told from 0


def finished_report(run: Run, progress: Progress, workdir: pathlib.Path) -> Report | None:
    """The report of a complete run, if it exists with its page and says what it must.

    A report that does not say "complete", of an older version or of an evaluation by another length, is
    given the key: its metrics are of the same checkpoint.
    """
    if not is_complete(run, progress) or not (workdir / HTML_FILE).exists():
        return None
    try:
        report = read_report(workdir)
    except UserError:  # missing, damaged or something else
        return None
    of_it = report["best_epoch"], report["seed"], calibration_kind(report)
    if of_it != (progress.patience.best_epoch, run.config.seed, run.config.eval.calibration):
        return None
    if report.get("complete") is not True:
        report["complete"] = True
        if leads():
            write_report(workdir, report)
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
    report = build_report(run, params, progress, complete=_at_its_end(run, progress, workdir))
    if not trained:
        tell_environments(report, workdir)
        if leads():
            _keep_evaluation(run, workdir)
    write_html_report(run, params, report, workdir)
    if leads():  # last: report.json says that the run is finished
        write_report(workdir, report)
    console.result_table(report)
    return report


def build_report(run: Run, params: Any, progress: Progress, *, complete: bool) -> Report:
    """What is said of a run whose best checkpoint has these parameters.

    `complete` is False if training has not come to its end, as with `numcoke eval` on a stopped run.
    """
    graph, judged = run.graph, run.judged
    both = graph.first_inverse is not None
    ranks = {split: run.evaluator.sides(params, split) for split in ("valid", "test")}
    order, order_accuracy = orders_of(run, params)
    report: dict[str, Any] = {
        "seed": int(run.config.seed),
        "best_epoch": int(progress.patience.best_epoch),
        "seconds": round(float(progress.seconds), 3),
        "complete": complete,
        **{split: split_metrics(found) for split, found in ranks.items()},
        "protocol": {
            "ranked": "tails and heads" if both else "tails",  # not to be compared with each other
            "filtered_by": list(SPLITS),
            "ties": "mean rank",
            "inverse_relations": both,  # added ones; those in the data are relations like any other
            "facts": {split: len(graph.without_inverses().split(split)) for split in SPLITS},
        },
        "environment": describe_environment(graph),
        "selection_mrr": progress.patience.best,  # what the best checkpoint was chosen by: see `eval`
        "compared_fields": {
            name: dataclasses.asdict(fields[0])
            for name, fields in compared_fields(params, graph.without_inverses().vocabulary).items()
            if fields[0].weight
        },
        "relations": relation_metrics(judged, "test", ranks["test"]),
        "cardinalities": cardinality_metrics(judged, "test", ranks["test"]),
        "unseen_relations": unseen_relations(graph),
        "order": order,
        "order_accuracy": order_accuracy,
        "calibration_kind": run.config.eval.calibration,
        "calibration": calibration_of(run, params),
        "inductive": rank_held_out(run, params) if run.held_out else {},
        "faults": list(progress.faults),
    }
    return cast(Report, {key: found for key, found in report.items() if found or key not in IF_ANY})


def _at_its_end(run: Run, progress: Progress, workdir: pathlib.Path) -> bool:
    """True if the run is complete by length and patience of config.json; this command may give others."""
    stored = read_json(workdir / CONFIG_FILE) if (workdir / CONFIG_FILE).exists() else {}
    same_length = stored.get("train.epochs", run.config.train.epochs) == run.config.train.epochs
    return same_length and is_complete(run, progress, patience=stored.get("train.patience"))


def calibration_of(run: Run, params: Any) -> dict[str, Any] | None:
    """The result of `calibration.calibrate`; None with `eval.calibration=none` or too few facts.

    Of relations that an order core decides, the probabilities are those that are shown, of the head above the
    tail, and the question is which of the two it is, whatever `eval.selection` says; of those that are read
    off a value, which class it is.
    """
    if run.config.eval.calibration == "none":
        return None
    sizes, selection = run.sizes, run.config.eval.selection
    rest = np.setdiff1d(np.arange(run.judged.num_relations), sizes.decided).tolist()
    scored = functools.partial(run.scorer.scored_heads, params)
    shown = functools.partial(_log_odds, run, params)
    questions = [
        Question(sizes.ordered, shown, "reversed", log_odds=True),
        Question(sizes.classes, shown, "seen", log_odds=True),
        Question(rest, scored, selection),
    ]
    asked = [question for question in questions if question.relations]
    return calibrate(run.judged, asked, kind=run.config.eval.calibration, seed=run.config.seed)


def _log_odds(run: Run, params: Any, heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
    """Like `Scorer.scored_heads`: log odds of the probabilities that are shown of a decided relation."""
    encoded, count = _encoded(run, params, relation), run.graph.num_entities
    for begin in range(0, len(heads), run.scorer.chunk):
        block = heads[begin : begin + run.scorer.chunk]
        pairs = np.repeat(block, count), np.tile(np.arange(count), len(block))
        true = np.clip(encoded.probabilities(*pairs), SMALLEST, 1.0 - SMALLEST).reshape(len(block), count)
        yield begin, np.log(true) - np.log1p(-true)


def _encoded(run: Run, params: Any, relation: int) -> Any:
    encoded = fetch(run.scorer.encode(params, relation))
    return encoded.unpadded() if isinstance(encoded, PaddedEncoding) else encoded


def orders_of(run: Run, params: Any) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The measures of test pairs (None without any), and shares in the right order by value gap.

    The latter is [] unless the relations are named after the fields that they compare.
    """
    graph = run.judged_by_truth
    if not len(graph.test):
        return None, []
    orders = orders_of_split(graph, "test", run.scorer, params)
    for relation in np.intersect1d(run.sizes.ordered, graph.test[:, RELATION]).tolist():
        rows = graph.test[:, RELATION] == relation
        heads, tails = graph.test[rows][:, [HEAD, TAIL]].T
        encoded = _encoded(run, params, relation)
        above, below = (
            np.maximum(encoded.probabilities(*ends), SMALLEST) for ends in ((heads, tails), (tails, heads))
        )
        orders.log_odds[rows] = np.log(above) - np.log(below)
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


def tell_environments(report: Report, workdir: Path) -> None:
    """Entries of a report by a process that only evaluates.

    `environment` is where the run was trained, as the report in `workdir` tells;
    `evaluation_environment` is where this report was made, if that is another one.
    """
    try:
        trained, here = read_report(workdir)["environment"], report["environment"]
    except (UserError, KeyError):  # missing, damaged or something else
        return
    if trained != here:
        report["environment"], report["evaluation_environment"] = trained, here


def calibration_kind(report: Report) -> str:
    """The `eval.calibration` of a report; one that is older than this entry tells by what it holds."""
    found = report.get("calibration")
    return report.get("calibration_kind", "none" if found is None else found["kind"])
