"""`python -m numcoke_jax.data.rdf`, the earlier name of `numcoke data rdf`."""

import sys

from numcoke_jax.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["data", "rdf", *sys.argv[1:]]))
