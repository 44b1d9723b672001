"""`python -m numcoke_jax.compare`, the earlier name of `numcoke compare`."""

import sys

from numcoke_jax.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["compare", *sys.argv[1:]]))
