"""`python -m numcoke_jax.data.build`, the earlier name of `numcoke data build`."""

import sys

from numcoke_jax.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["data", "build", *sys.argv[1:]]))
