"""The program: `numcoke train cars`, `python -m numcoke_jax train cars`; `--help` explains the rest.

Exit codes: 0 done; 1 a loss or a score was not finite, or checked data have errors; 2 something the user can
fix, reported in one line; 75 another process of the run was lost: try again; 130 interrupted from the
keyboard; 141 nobody reads the output any more; 143 terminated, the state saved.
"""

import functools
import sys
from collections.abc import Sequence

from numcoke_jax.cli.commands import run_command
from numcoke_jax.cli.parser import parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments (the process's own) describe and returns the exit code."""
    ends = arguments is None  # others may go on after it, and are interrupted as before
    return run_command(functools.partial(_run, sys.argv[1:] if arguments is None else arguments), ends=ends)


def _run(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    return options.run(options.checked(options))
