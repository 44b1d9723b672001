"""What experiments share: a config is run in a workdir of its own, unless its report already exists."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from numcoke_jax.command_line import Command, parse_command_line, with_flagfiles
from numcoke_jax.config_checks import RULES
from numcoke_jax.console import Console
from numcoke_jax.data.load import load_graph
from numcoke_jax.errors import UserError
from numcoke_jax.report import read_json
from numcoke_jax.train import REPORT_FILE, train_and_evaluate
from numcoke_jax.workdir import CONFIG_FILE, flat_config

CONSOLE_FILE = "console.log"  # what the run would have shown on the screen
CONFIG_FLAG = "--config, with two dashes"  # -config=FILE is passed on, and would be the config of every run
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


def run_round(command: Command) -> dict[str, Any]:
    """The report of a run, which is trained (or resumed) to its end unless it is finished.

    Raises:
      UserError: the workdir holds a run of another config, or what `train_and_evaluate` raises.
      FloatingPointError: a loss or score was not finite.
    """
    report = _finished_report(command)
    if report is not None:
        return report
    loaded = load_graph(command.config.data)  # before anything is written
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
