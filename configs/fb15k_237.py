"""The paper's model on FB15k-237: facts of Freebase with 116 numeric fields such as dates, heights, areas.

Command:   numcoke train fb15k_237
Hardware:  a GPU; 4 GB of memory, of which a step takes about 1.5 GiB
Without:   --config.train.candidates=512 scores a sample of the entities in each step: 3 minutes per epoch on
           2 CPU cores, 0.3 GiB per step
Expected:  test MRR, filtered, tail side

FB15K-237.2.zip (or its train.txt, valid.txt and test.txt) and FB15K_NumericalTriples.txt are looked for in
config.data.dir, $NUMCOKE_DATA and the user cache, and downloaded once if they are in none of them.  The graph
has all 237 relations, validation and test facts as released, and every number of its entities.  No
known-false triples come with it: unlinked entities are the negatives.  The relations are not orders, so
validation ranks against every entity that is not a known tail in training or validation.
"""

from ml_collections import ConfigDict

from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config


def get_config() -> ConfigDict:
    """The paper's model without extensions; steps that are large enough for 93,372 (head, relation) pairs."""
    config = default_config()
    config.data.table = "fb15k_237"
    config.eval.selection = "seen"

    config.train.batch_size = 512
    config.train.relations_per_step = 4  # 215 steps per epoch; more slots save few of them and cost memory
    apply_preset(config, "paper")
    config.train.epochs = 100
    config.train.eval_every_epochs = 5
    return config
