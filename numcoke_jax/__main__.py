"""`python -m numcoke_jax --config=...`: the program, as by `numcoke_jax.main`; see `cli/main.py`."""

import sys

from numcoke_jax.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
