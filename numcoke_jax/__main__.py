"""`python -m numcoke_jax COMMAND ...`, the program `numcoke`; see `cli/main.py`."""

import signal
import sys


def main() -> int:
    """The program; while its modules are loaded, an interrupt from the keyboard ends it without a word."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not where it is ignored, as in a shell's background job
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from numcoke_jax.cli.main import main as program

    signal.signal(signal.SIGINT, handler)
    return program()


if __name__ == "__main__":
    sys.exit(main())
