"""The paper's model on the US cities table: cities compared by density, latitude, longitude and population.

Command:   python -m numcoke_jax.main --config=configs/us_cities.py   (or: make us-cities)
Hardware:  2 CPU cores; a GPU if there is one
Expected:  under 20 minutes; test MRR, filtered, tail side
Measured:

The raw table us_cities.csv (simplemaps, the basic US cities file) must lie in data.dir, $NUMCOKE_DATA or
the user cache.  One common group of cities is compared by every relation, as in the public Comp7 set.
"""

from ml_collections import ConfigDict

from numcoke_jax.config import default_config


def get_config() -> ConfigDict:
    """The paper's setting: 20 % of the literals masked, split 10/10/80 over the triples."""
    config = default_config()
    config.data.table = "us_cities"
    config.data.groups = "common"
    config.data.group_size = 150
    config.data.split = (0.1, 0.1, 0.8)
    config.data.missing_rate = 0.2
    return config
