"""What experiments share: a config is run in a workdir of its own, unless its report already exists."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ml_collections import ConfigDict

from numcoke_jax.cli.command_line import Command, parse_command_line
from numcoke_jax.cli.parser import with_flagfiles
from numcoke_jax.config.checks import flatten
from numcoke_jax.config.schema import KEYS
from numcoke_jax.data.graph import LoadedGraph, graph_hash
from numcoke_jax.data.load import load_graph
from numcoke_jax.runs.create import trained_on
from numcoke_jax.runs.file_names import CONFIG_FILE
from numcoke_jax.runs.loop import train_and_evaluate
from numcoke_jax.runs.screen import Screen
from numcoke_jax.runs.stored import read_report
from numcoke_jax.runs.workdir import flat_config
from numcoke_jax.system.compiled import keep_compiled
from numcoke_jax.system.errors import UserError, printable, shown_path
from numcoke_jax.system.files import read_json, write_json_atomically

FAILED_FILE = "failed.json"  # why a loss or score was not finite: the run is not tried again
CONSOLE_FILE = "console.log"  # what the run would have shown on the screen
CONFIG_FLAG = "--config, with two dashes"  # -config=FILE is passed on, and would be the config of every run
Key = TypeVar("Key")


def round_command(arguments: Sequence[str]) -> Command:
    """The run that the arguments of `numcoke_jax.main` describe.

    Raises:
      UserError: a wrong flag, key or value; or a flag that asks for anything but training a run.
    """
    command = parse_command_line(arguments)
    if command.mode != "train" or command.overwrite:
        flag = "--overwrite" if command.overwrite else f"--mode={command.mode}"
        raise UserError(f"{flag} has no meaning in an experiment, which trains the missing runs")
    return command


def flag_names(flags: Sequence[str]) -> list[str]:
    """What the flags set, those of flag files included: "workdir", or "model.dim" of --config.model.dim=8.

    --KEY and --config.KEY are the same, and so are --no-KEY and --noconfig.KEY.
    """
    names = (flag.partition("=")[0] for flag in with_flagfiles(flags) if flag.startswith("-"))
    return [re.sub(r"^--?((no)?config\.|no-)?", "", name) for name in names]


def refuse_flags(flags: Sequence[str], instead: Mapping[str, str]) -> None:
    """Raises UserError if a flag sets one of the names, for which the experiment has a flag of its own.

    Args:
      flags: those that every run is given.
      instead: name, as `flag_names` has them -> the experiment's flag.
    """
    for name in flag_names(flags):
        if name in instead:
            flag = f"--config.{name}" if name in KEYS else f"--{name}"
            raise UserError(f"{flag} has no meaning here: see {instead[name]}")


class Data:
    """What the runs of an experiment are trained on: read as a config says, and hashed as reports have it."""

    def __init__(self) -> None:
        self._latest: tuple[str, LoadedGraph] | None = None  # one graph: several may not fit into memory
        self._hashes: dict[str, str] = {}

    def loaded(self, config: ConfigDict) -> LoadedGraph:
        """The data of a config; read once while the next config has the same."""
        name = json.dumps({key: value for key, value in flatten(config.data).items() if key != "control"})
        if self._latest is None or self._latest[0] != name:
            self._latest = name, load_graph(config.data)
        return self._latest[1]

    def sha256(self, config: ConfigDict) -> str:
        """The hash of the graph that a run of the config is trained on."""
        return graph_hash(trained_on(config, self.loaded(config))[0].graph)

    def check(self, command: Command, report: Mapping[str, Any], *, read: bool) -> None:
        """Compare the data of a run with those that all runs of the same data config and control must have.

        Args:
          command: the run.
          report: what its data_sha256 is in.
          read: whether to read the data now; else those that were seen first count.

        Raises:
          UserError: they differ.
        """
        name = json.dumps([flatten(command.config.data), command.config.eval.inductive])
        found = report["environment"]["data_sha256"]
        if read and name not in self._hashes:
            self._hashes[name] = self.sha256(command.config)
        expected = self._hashes.setdefault(name, found)
        if found != expected:
            raise UserError(
                f"{shown_path(command.workdir)} is a run on other data (sha256 {found[:12]}... there, "
                f"{expected[:12]}... now): give the same data, move that folder away, or give another --out"
            )


def run_rounds(
    commands: Mapping[Key, Command], tell: Callable[[Key, dict[str, Any]], None]
) -> dict[Key, dict[str, Any]]:
    """The reports of runs; those that are missing are trained one after the other.

    Finished runs are compared with the data as they are now before the first one is trained.  A run whose
    loss or score is not finite leaves a record in its workdir and is not tried again: see `has_failed`.

    Args:
      commands: key -> run.
      tell: called with the key and the report of each run when it is there.

    Raises:
      UserError: two runs of one data config and control on different data; or what `run_round` raises.
    """
    if all(command.cache for command in commands.values()):
        keep_compiled()  # a program is compiled once for all runs of the same shapes
    data = Data()
    for command in commands.values():
        report = _finished_report(command) or _failed_record(command)
        if report is not None:
            data.check(command, report, read=True)
    reports = {}
    for key, command in commands.items():
        reports[key] = _report_or_record(command, data)
        data.check(command, reports[key], read=False)
        tell(key, reports[key])
    return reports


def has_failed(report: Mapping[str, Any]) -> bool:
    """Whether it is the record of a run that failed: its seed, "failed" (why), config and environment."""
    return "failed" in report


def finished(reports: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reports of the runs that did not fail."""
    return [report for report in reports if not has_failed(report)]


def failed_seeds(reports: Sequence[Mapping[str, Any]]) -> list[int]:
    """The seeds of the runs that failed."""
    return [report["seed"] for report in reports if has_failed(report)]


def raise_failed(commands: Mapping[Key, Command], reports: Mapping[Key, Mapping[str, Any]]) -> None:
    """Raises FloatingPointError that names the runs that failed, if there are any."""
    failed = [shown_path(commands[key].workdir) for key, report in reports.items() if has_failed(report)]
    if failed:
        raise FloatingPointError(
            f"{len(failed)} of {len(reports)} runs failed and are in no mean: {', '.join(failed)}; "
            f"{FAILED_FILE} there says why, delete it to try again"
        )


def _report_or_record(command: Command, data: Data) -> dict[str, Any]:
    record = None if _finished_report(command) else _failed_record(command)
    if record is not None:
        return record
    try:
        return run_round(command, data)
    except FloatingPointError as error:
        record = {
            "seed": command.config.seed,
            "failed": printable(str(error), longest=300),
            "config": flat_config(command.config),
            "environment": {"data_sha256": data.sha256(command.config)},
        }
    command.workdir.mkdir(parents=True, exist_ok=True)
    write_json_atomically(command.workdir / FAILED_FILE, record)
    return record


def _failed_record(command: Command) -> dict[str, Any] | None:
    """The record in the workdir, if the run that failed there had the same config in every key."""
    try:
        record = read_json(command.workdir / FAILED_FILE)
    except UserError:  # missing or damaged
        return None
    whole = isinstance(record, dict) and {"seed", "failed", "config", "environment"} <= record.keys()
    return record if whole and record["config"] == flat_config(command.config) else None


def run_round(command: Command, data: Data | None = None) -> dict[str, Any]:
    """The report of a run, which is trained (or resumed) to its end unless it is finished.

    Args:
      command: the run.
      data: of the experiment, if other runs share them.

    Raises:
      UserError: the workdir holds a run of another config, or what `train_and_evaluate` raises.
      FloatingPointError: a loss or score was not finite.
    """
    report = _finished_report(command)
    if report is not None:
        return report
    loaded = (data or Data()).loaded(command.config)  # before anything is written
    try:
        command.workdir.mkdir(parents=True, exist_ok=True)
        log = (command.workdir / CONSOLE_FILE).open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UserError(
            f"cannot write to {command.workdir}: {error.strerror}; choose another --out"
        ) from error
    with log:
        return dict(train_and_evaluate(command.config, command.workdir, Screen(log), loaded=loaded))


def mrr_of_test(report: Mapping[str, Any]) -> float:
    """The test MRR of a run that did not fail; raises UserError if the graph has no test facts."""
    mrr = report["test"]["mrr"]
    if mrr is None:
        raise UserError("the graph has no test facts, which this experiment needs for its figures")
    return mrr


def shown_mrr(report: Mapping[str, Any]) -> str:
    """What is printed when a run is done."""
    return "failed" if has_failed(report) else f"test MRR {mrr_of_test(report):.4f}"


def _finished_report(command: Command) -> dict[str, Any] | None:
    """The report in the workdir, if the run there had the same config in every key and finished."""
    try:
        if read_json(command.workdir / CONFIG_FILE) != flat_config(command.config):
            return None  # another config: training refuses it, or resumes if only the length differs
        report = read_report(command.workdir)
    except UserError:  # missing or damaged: trained again
        return None
    return dict(report) if report.get("complete") is True else None  # else the training knows whether it is
