"""`python -m numcoke_jax.data.rdf`: see `cli/rdf.py`."""

import sys

from numcoke_jax.cli.rdf import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
