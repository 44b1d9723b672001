"""NumCoKE with ComplEx's score on FB15k-237: facts of Freebase with 116 numeric fields such as dates.

Command:   numcoke train fb15k_237
           the score alone, without encoder and values: --model.name=complex --score.decoder=translation
           --model.dim=400 --score.dropout=0.5 --train.relations_per_step=128 --train.candidates=0
           --train.epochs=20
Hardware:  2 CPU cores, below 2 GB; the same command resumes after an interruption
Expected:  RESULTS.md, filtered MRR of heads and tails; NumCoKE has not been trained to the end yet

FB15K-237.2.zip (or its train.txt, valid.txt and test.txt) and FB15K_NumericalTriples.txt are looked for in
config.data.dir, $NUMCOKE_DATA and the user cache, and downloaded once if they are in none of them.  The graph
has all 237 relations, validation and test facts as released, and every number of its entities.  No
known-false triples come with it, and the relations are not orders: so there is no order term and no
contrastive loss, validation ranks against every entity that is not a known tail in training or validation,
and inverse relations rank heads.  `fb15k_237:paper` is the paper's model on these data.
"""

from ml_collections import ConfigDict

from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config


def get_config() -> ConfigDict:
    """Steps of 2,560 entities: what is encoded under each of 8 relations is a sixth of the graph."""
    config = default_config()
    apply_preset(config, "paper")
    config.data.table = "fb15k_237"
    config.data.inverse = True
    config.eval.selection = "seen"

    config.score.decoder = "complex"  # translation alone is bound to TransE's level
    config.score.order = "none"
    config.score.dropout = 0.3
    config.okcl.weight = 0.0
    config.numeric.missing = "skip"  # 98 % of the cells

    config.train.loss = "cross_entropy"  # few tails each: far ahead of one sigmoid a candidate
    config.train.batch_size = 512
    config.train.relations_per_step = 8  # 325 steps per epoch of 149,689 (head, relation) pairs
    config.train.candidates = 1024
    config.train.learning_rate = 5e-3
    config.train.epochs = 40
    config.train.eval_every_epochs = 5
    config.train.patience = 0  # the cosine schedule gains most at its end
    return config
