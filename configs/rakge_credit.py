"""NumCoKE on the Credit graph of RAKGE and NumCoKE itself: 1,783 clients, training knows 1 % of the pairs.

Command:   numcoke train rakge_credit
Hardware:  2 CPU cores and 2 GB of memory, better a GPU
Expected:  test order accuracy and MRR, filtered, tail side
Measured:  0.991 of the test pairs in order, MRR 0.984 (seed 0), under 2 minutes beside other work

The paper's own model is quicker in steps of one relation; its MRR differs much by seed (RESULTS.md):

    numcoke train rakge_credit:paper --workdir=runs/one_relation --train.epochs=60
        --train.batch_size=512 --train.relations_per_step=1

The authors' train.txt and neg.txt are looked for as rakge/credit/train.txt and rakge/credit/neg.txt in
config.data.dir, $NUMCOKE_DATA and the user cache; they are not downloaded, and a message says where they are
published.  The raw table is that of configs/credit.py.  Validation and test are the other 4.7 million pairs,
in two halves drawn by data.seed: numcoke_jax/data/public/rakge.py says what is rebuilt.
"""

from ml_collections import ConfigDict

from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config


def get_config() -> ConfigDict:
    """20 % of the literals masked as in the paper; NumCoKE with its extensions."""
    config = default_config()
    config.data.table = "rakge_credit"
    config.data.missing_rate = 0.2
    config.eval.selection = "reversed"  # every compared relation is a strict order
    config.train.eval_every_epochs = 20
    apply_preset(config, "numeric")
    config.train.epochs = 10  # of the few facts that do not compare: the measures do not depend on them
    return config
