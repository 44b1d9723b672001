"""The program: `python -m numcoke_jax.main --config=configs/cars.py`; `--help` explains the rest.

Exit codes: 0 done; 1 a loss or a score was not finite; 2 something the user can fix, reported in one line;
130 interrupted from the keyboard; 141 nobody reads the output any more; 143 terminated, the state saved.
"""

import functools
import io
import sys
from collections.abc import Sequence

from numcoke_jax.cli.command_line import help_text, parse_arguments, wants_help, with_flagfiles
from numcoke_jax.cli.commands import run_command
from numcoke_jax.cli.use_command_line import UseCommand
from numcoke_jax.runs.screen import Screen
from numcoke_jax.system.processes import join, take_process_flags

INTERRUPTED = "interrupted; the same command resumes from the last checkpoint"


def main(arguments: Sequence[str]) -> int:
    """Runs the command that the arguments describe and returns the exit code."""
    return run_command(functools.partial(_run, arguments), INTERRUPTED)


def _run(arguments: Sequence[str]) -> int:
    if wants_help(arguments):
        print(help_text(), flush=True)
        return 0
    processes, arguments = take_process_flags(with_flagfiles(arguments))
    command = parse_arguments(arguments)
    join(processes)
    # Imported late: JAX takes seconds, and a mistyped flag should be answered at once.
    if isinstance(command, UseCommand):
        from numcoke_jax.cli.use import run_use_command

        run_use_command(command, Screen())
        return 0
    from numcoke_jax.runs.loop import evaluate_only, train_and_evaluate
    from numcoke_jax.system.processes import leads

    console = Screen() if leads() else Screen(io.StringIO())  # one of several processes prints
    for notice in command.notices:
        console.warn(notice)
    if command.mode == "train":
        train_and_evaluate(command.config, command.workdir, console, overwrite=command.overwrite)
    else:
        evaluate_only(command.config, command.workdir, console)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
