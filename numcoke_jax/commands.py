"""How every command ends: an exit code and, unless it is 0, one line on stderr.

Exit codes: 0 done; 1 a loss or a score was not finite; 2 something the user can mend; 130 interrupted from
the keyboard; 141 nobody reads the output any more; 143 terminated, the state saved.
"""

import argparse
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from numcoke_jax.config_checks import printable
from numcoke_jax.errors import UserError

LONGEST_MESSAGE = 1000  # characters of the one line on stderr


class OneLineParser(argparse.ArgumentParser):
    """An argparse parser that raises UserError for wrong arguments: its complaint is one line."""

    def error(self, message: str) -> NoReturn:
        """What argparse calls for a wrong argument."""
        raise UserError(f"{message}; see --help")


def run_command(action: Callable[[], int], interrupted: str = "interrupted") -> int:
    """What `action` returns, or the exit code of the error that it raises, told in one line.

    Args:
      action: the command itself.
      interrupted: what to say when the user stops it from the keyboard.
    """
    try:
        return action()
    except UserError as error:
        return _fail(str(error), 2)
    except FloatingPointError as error:
        return _fail(str(error), 1)
    except BrokenPipeError:  # whoever read the output, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return _fail(interrupted, 130)


def _fail(message: str, code: int) -> int:
    print(f"error: {printable(message, LONGEST_MESSAGE)}", file=sys.stderr)
    return code
