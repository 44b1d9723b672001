"""Finished runs side by side, from report.json and config.json alone: needs no data, no model and no JAX."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numcoke_jax.config.checks import flatten, without_removed
from numcoke_jax.config.schema import default_config
from numcoke_jax.evaluation.metrics import METRICS
from numcoke_jax.runs.file_names import CONFIG_FILE
from numcoke_jax.runs.order_tables import ORDER_TITLES
from numcoke_jax.runs.stored import Report, read_report
from numcoke_jax.system.errors import UserError, shown_path
from numcoke_jax.system.files import read_json


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """Contents of a workdir: its name, report.json and config.json (flat: "section.key" -> value).

    A key that was added after the run has its default, which keeps the earlier behaviour.
    """

    name: str
    report: Report
    config: Mapping[str, Any]


def read_runs(workdirs: Sequence[Path]) -> list[FinishedRun]:
    """The runs of workdirs, each called by its folder, or by its path where two folders share a name.

    Raises:
      UserError: a folder is missing, given twice, or holds no finished run.
    """
    resolved = [workdir.resolve() for workdir in workdirs]
    found = []
    for place, workdir in enumerate(workdirs):
        if resolved[place] in resolved[:place]:
            raise UserError(f"{shown_path(workdir)} is given twice; name every run once")
        shared = sum(other.name == resolved[place].name for other in resolved) > 1
        found.append(_read_run(workdir, str(workdir) if shared else resolved[place].name))
    return found


def comparison(runs: Sequence[FinishedRun]) -> dict[str, Any]:
    """Results of the runs and where the runs differ, as JSON values.

    Returns:
      {"runs": [{"run", "heads", "both" (of test),
      "seed", "best_epoch", "seconds", "complete", "order" (measures of all test pairs, and
      "narrowest_quarter" with its accuracy), "valid", "test" (metrics), "calibration_error",
      "inductive_mrr"}], "order_relations": {name: [order accuracy per run]}, "relations": {name: [MRR per
      run]},
      "relations_both", "cardinalities": the same of both sides, and of tails by cardinality;
      "config": {key: [value per run]} for the keys that differ, "same_data": bool, or None if a run
      does not say}; what a run does not have is None.
    """
    orders = [run.report.get("order") for run in runs]
    hashes = [run.report.get("environment", {}).get("data_sha256") for run in runs]
    return {
        "runs": [_row(run) for run in runs],
        "order_relations": _by_relation([order and order["relations"] for order in orders]),
        "relations": _by_relation([run.report.get("relations") for run in runs], "mrr"),
        "relations_both": _by_relation([_of_both_sides(run.report.get("relations")) for run in runs], "mrr"),
        "cardinalities": _by_relation([run.report.get("cardinalities") for run in runs], "mrr"),
        "config": differing([run.config for run in runs]),
        "same_data": None if None in hashes else len(set(hashes)) == 1,
    }


def _of_both_sides(relations: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """relation -> its metrics over heads and tails, where both are ranked."""
    return {name: found["both"] for name, found in (relations or {}).items() if "both" in found}


def _by_relation(
    found: Sequence[Mapping[str, Any] | None], key: str = "order_accuracy"
) -> dict[str, list[float | None]]:
    """relation -> the entry `key` of each run; None where a run lacks it."""
    names = dict.fromkeys(name for relations in found for name in relations or {})
    return {name: [((relations or {}).get(name) or {}).get(key) for relations in found] for name in names}


def differing(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """key -> its values, for the keys that are not the same in all configs; None where one lacks it."""
    keys = dict.fromkeys(key for config in configs for key in config)
    return {
        key: [config.get(key) for config in configs]
        for key in keys
        if any(key not in config or config[key] != configs[0].get(key) for config in configs)
    }


def _read_run(workdir: Path, name: str) -> FinishedRun:
    if not workdir.is_dir():
        raise UserError(f"{shown_path(workdir)}: there is no such folder; give workdirs of finished runs")
    report, config = read_report(workdir), read_json(workdir / CONFIG_FILE)
    if not isinstance(config, dict):
        raise UserError(f"{shown_path(workdir / CONFIG_FILE)} is not a config written by this program")
    defaults = json.loads(json.dumps(flatten(default_config())))  # as a stored config has them
    return FinishedRun(name, report, {**defaults, **without_removed(config)})


def _row(run: FinishedRun) -> dict[str, Any]:
    report = run.report
    calibration, order = report.get("calibration"), report.get("order")
    splits: dict[str, Mapping[str, Any]] = {"valid": report["valid"], "test": report["test"]}
    return {
        "run": run.name,
        **{key: report[key] for key in ("seed", "best_epoch", "seconds")},
        "complete": report.get("complete"),
        "order": order
        and {
            **{name: order["all"].get(name) for name in ORDER_TITLES},
            "narrowest_quarter": order["narrowest_quarter"].get("order_accuracy"),
        },
        **{split: {name: metrics[name] for name in METRICS} for split, metrics in splits.items()},
        **{side: report["test"].get(side) for side in ("heads", "both")},
        "calibration_error": calibration["test"]["after"]["ece"] if calibration else None,
        "inductive_mrr": report["inductive"]["mrr"] if "inductive" in report else None,
    }
