"""NumCoKE on the credit-card table: clients compared by limit, age, bills and payments.

Command:   numcoke train credit   (or: make credit)
Hardware:  2 CPU cores; a GPU if there is one
Expected:  under a minute; test order accuracy, and MRR, filtered, tail side
Measured:  0.990 of the test pairs in order, MRR 0.995 (seed 0), in seconds; the order core alone, no training

The raw table credit.csv (Kaggle uciml/default-of-credit-card-clients-dataset) is looked for in
config.data.dir, $NUMCOKE_DATA and the user cache, and downloaded if it is in none of them.  One common group
of clients is compared by every relation, as in the public Comp7 set.
"""

from ml_collections import ConfigDict

from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config


def get_config() -> ConfigDict:
    """20 % of the literals masked as in the paper, triples split 10/10/80; NumCoKE with its extensions."""
    config = default_config()
    config.data.table = "credit"
    config.data.groups = "common"
    config.data.group_size = 150
    config.data.split = (0.1, 0.1, 0.8)
    config.data.missing_rate = 0.2
    config.eval.selection = "reversed"  # every relation is a strict order
    config.train.eval_every_epochs = 20
    apply_preset(config, "numeric")
    return config
