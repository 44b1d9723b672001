"""`python -m numcoke_jax.data.check`: see `cli/check.py`."""

import sys

from numcoke_jax.cli.check import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
