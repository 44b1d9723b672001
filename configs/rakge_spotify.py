"""NumCoKE on the Spotify graph of RAKGE and NumCoKE itself: 2,017 songs, training knows 0.4 % of the pairs.

Command:   numcoke train rakge_spotify
Hardware:  2 CPU cores and 2 GB of memory, better a GPU
Expected:  test order accuracy and MRR, filtered, tail side
Measured:  0.979 of the test pairs in order, MRR 0.955 (seed 0), under 3 minutes

The authors' train.txt and neg.txt are looked for as rakge/spotify/train.txt and rakge/spotify/neg.txt in
config.data.dir, $NUMCOKE_DATA and the user cache; they are not downloaded, and a message says where they are
published.  The raw table is that of configs/spotify.py.  Validation and test are the other 6.1 million pairs,
in two halves drawn by data.seed: numcoke_jax/data/public/rakge.py says what is rebuilt.
"""

from ml_collections import ConfigDict

from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config


def get_config() -> ConfigDict:
    """20 % of the literals masked as in the paper; NumCoKE with its extensions."""
    config = default_config()
    config.data.table = "rakge_spotify"
    config.data.missing_rate = 0.2
    config.eval.selection = "reversed"  # every compared relation is a strict order
    config.train.eval_every_epochs = 20
    apply_preset(config, "numeric")
    config.train.epochs = 10  # of the few facts that do not compare: the measures do not depend on them
    return config
