"""`python -m numcoke_jax.compare`: see `cli/compare.py`."""

import sys

from numcoke_jax.cli.compare import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
