"""`python -m numcoke_jax.data.check`, the earlier name of `numcoke data check`."""

import sys

from numcoke_jax.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["data", "check", *sys.argv[1:]]))
