"""What the commands of all experiments do alike: an error is one line and an exit code."""

import argparse
import functools
from collections.abc import Callable, Sequence

from numcoke_jax.cli.commands import run_command
from numcoke_jax.system.errors import UserError

Main = Callable[[Sequence[str]], int]
RESUMES = "interrupted; the same command resumes"


def command(interrupted: str = "") -> Callable[[Main], Main]:
    """Decorates the `main` of an experiment, which takes the arguments and returns the exit code.

    Args:
      interrupted: what to say when it is stopped from the keyboard, such as RESUMES.
    """

    def decorate(action: Main) -> Main:
        @functools.wraps(action)
        def main(arguments: Sequence[str]) -> int:
            return run_command(functools.partial(action, arguments), interrupted)

        return main

    return decorate


def refuse_below(least: int, options: argparse.Namespace, *names: str) -> None:
    """Raises UserError for the first of these options that is given and below `least`."""
    for name in names:
        value = getattr(options, name)
        if value is not None and value < least:
            raise UserError(f"--{name}={value} is out of range: needs an integer >= {least}")
