"""What experiments share: a config is run in a workdir of its own, unless its report already exists."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ml_collections import ConfigDict

from numcoke_jax.command_line import Command, parse_command_line, with_flagfiles
from numcoke_jax.config_checks import RULES, flatten, shown_path
from numcoke_jax.console import Console
from numcoke_jax.data.load import LoadedGraph, load_graph
from numcoke_jax.environment import graph_hash
from numcoke_jax.errors import UserError
from numcoke_jax.report import read_json
from numcoke_jax.run import trained_on
from numcoke_jax.train import REPORT_FILE, train_and_evaluate
from numcoke_jax.workdir import CONFIG_FILE, flat_config

CONSOLE_FILE = "console.log"  # what the run would have shown on the screen
CONFIG_FLAG = "--config, with two dashes"  # -config=FILE is passed on, and would be the config of every run
Key = TypeVar("Key")
REPORT_PARTS = {"seed", "valid", "test", "environment"}


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

    --noconfig.KEY, the other way to write --config.KEY=false, is of the same key.
    """
    names = (flag.partition("=")[0] for flag in with_flagfiles(flags) if flag.startswith("-"))
    return [re.sub(r"^--?((no)?config\.)?", "", name) for name in names]


def refuse_flags(flags: Sequence[str], instead: Mapping[str, str]) -> None:
    """Raises UserError if a flag sets one of the names, for which the experiment has a flag of its own.

    Args:
      flags: those that every run is given.
      instead: name, as `flag_names` has them -> the experiment's flag.
    """
    for name in flag_names(flags):
        if name in instead:
            flag = f"--config.{name}" if name in RULES else f"--{name}"
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
            graph = trained_on(command.config, self.loaded(command.config))[0].graph
            self._hashes[name] = graph_hash(graph)
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

    Finished runs are compared with the data as they are now before the first one is trained.

    Args:
      commands: key -> run.
      tell: called with the key and the report of each run when it is there.

    Raises:
      UserError: two runs of one data config and control on different data; or what `run_round` raises.
      FloatingPointError: a loss or score was not finite.
    """
    data = Data()
    for command in commands.values():
        report = _finished_report(command)
        if report is not None:
            data.check(command, report, read=True)
    reports = {}
    for key, command in commands.items():
        reports[key] = run_round(command, data)
        data.check(command, reports[key], read=False)
        tell(key, reports[key])
    return reports


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
        return train_and_evaluate(command.config, command.workdir, Console(log), loaded=loaded)


def mrr_of_test(report: Mapping[str, Any]) -> float:
    """The test MRR of a run; raises UserError if the graph has no test facts."""
    mrr = report["test"]["mrr"]
    if mrr is None:
        raise UserError("the graph has no test facts, which this experiment needs for its figures")
    return mrr


def _finished_report(command: Command) -> dict[str, Any] | None:
    """The report in the workdir, if the run there had the same config in every key and finished."""
    try:
        if read_json(command.workdir / CONFIG_FILE) != flat_config(command.config):
            return None  # another config: training refuses it, or resumes if only the length differs
        report = read_json(command.workdir / REPORT_FILE)
    except UserError:  # missing or damaged: trained again
        return None
    if not isinstance(report, dict) or not report.keys() >= REPORT_PARTS:
        return None
    return report if report.get("complete") is True else None  # else the training knows whether it is
