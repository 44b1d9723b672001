"""`python -m numcoke_jax.main --config=...`, the earlier name of `numcoke train ...`; see `cli/parser.py`."""

import sys

from numcoke_jax.cli.main import main

if __name__ == "__main__":
    sys.argv[1:] = sys.argv[1:] or ["train"]
    sys.exit(main())
