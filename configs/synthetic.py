"""A graph whose orders are known: twelve relations that compare four fields, or mixes of two of them.

Command:   numcoke train synthetic
Hardware:  2 CPU cores, 2 GB of memory
Expected:  under a minute; test order accuracy, which for the mixes says what is made of several fields

300 entities; 9,000 facts per relation, of which training knows a tenth, and a fifth of the values is hidden.
The first four relations compare one field each.  Of the other eight no single field has the order: they
compare the sum of two fields' ranks, or with --data.synthetic_mix=distance how far apart the two are.
"""

from ml_collections import ConfigDict

from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config


def get_config() -> ConfigDict:
    """The shipped settings; all relations are strict orders."""
    config = default_config()
    config.data.table = "synthetic"
    config.data.synthetic_entities = 300
    config.data.synthetic_fields = 4
    config.data.synthetic_relations = 12
    config.data.synthetic_triples = 12 * 9000
    config.eval.selection = "reversed"
    apply_preset(config, "numeric")
    return config
