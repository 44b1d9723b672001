"""The demo: the cars table that the package vega_datasets ships, offline, as a comparative graph.

Command:   numcoke train cars   (or: make demo)
Hardware:  2 CPU cores, no GPU, 2 GB of memory
Expected:  under a minute; test order accuracy, and MRR, filtered, tail side
Measured:  0.979 of the test pairs in order, MRR 0.993 (seed 0), in seconds; the order core alone, no training

406 cars of 1970 to 1982 with real missing values (fuel consumption, power).  One common group of 60 cars is
compared by every relation, and only a tenth of the facts is known in training.
"""

from ml_collections import ConfigDict

from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config


def get_config() -> ConfigDict:
    """The model with its extensions, smaller, on a graph that trains while you wait."""
    config = default_config()
    config.data.table = "cars"
    config.data.groups = "common"
    config.data.group_size = 60

    config.model.dim = 64
    config.model.attribute_dim = 64

    config.train.batch_size = 128
    config.train.eval_every_epochs = 20
    config.eval.selection = "reversed"  # every relation is a strict order
    apply_preset(config, "numeric")
    return config
