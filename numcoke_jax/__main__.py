"""`python -m numcoke_jax COMMAND ...`, the program `numcoke`; see `cli/main.py`."""

import sys

from numcoke_jax.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
