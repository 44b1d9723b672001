"""`python -m numcoke_jax.data.build`: see `cli/build.py`."""

import sys

from numcoke_jax.cli.build import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
