"""The type checker that conftest.py puts around every function of the package while the tests run."""

import beartype

# As for mypy, an int will do where a float is asked for.
check_types = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))
