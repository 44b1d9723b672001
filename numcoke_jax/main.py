"""The program: `python -m numcoke_jax.main --config=configs/cars.py`; `--help` tells the rest.

Exit codes: 0 done; 1 a loss or a score was not finite; 2 something the user can mend, said in one line;
130 interrupted from the keyboard; 141 nobody reads the output any more; 143 terminated, the state saved.
"""

import os
import sys
from collections.abc import Sequence

from numcoke_jax.command_line import help_text, parse_command_line, wants_help
from numcoke_jax.config_checks import printable
from numcoke_jax.console import Console
from numcoke_jax.errors import UserError

LONGEST_MESSAGE = 1000  # characters of the one line on stderr


def main(arguments: Sequence[str]) -> int:
    """Runs the command that the arguments describe and returns the exit code."""
    try:
        if wants_help(arguments):
            print(help_text(), flush=True)
            return 0
        command = parse_command_line(arguments)
        # Imported late: JAX takes seconds, and a mistyped flag should be answered at once.
        from numcoke_jax.train import evaluate_only, train_and_evaluate

        if command.mode == "train":
            train_and_evaluate(command.config, command.workdir, Console(), overwrite=command.overwrite)
        else:
            evaluate_only(command.config, command.workdir, Console())
    except UserError as error:
        return _fail(str(error), 2)
    except FloatingPointError as error:
        return _fail(str(error), 1)
    except BrokenPipeError:  # whoever read the output, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return _fail("interrupted; the same command goes on from the last checkpoint", 130)
    return 0


def _fail(message: str, code: int) -> int:
    print(f"error: {printable(message, LONGEST_MESSAGE)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
