"""Named settings on top of a config: `--config=configs/credit.py:paper` and the like.

A preset says what is trained and how; the data stay those of the config file.  Overrides on the command
line come after it.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.errors import UserError

PRESETS: dict[str, Mapping[str, Any]] = {
    # NumCoKE as the paper has it, every extension off.
    "paper": {
        "model.name": "numcoke",
        "score.numeric_order": False,
        "train.entity_dropout": 0.0,
        "okcl.weight": 0.3,
        "train.learning_rate": 1e-3,
        "train.patience": 15,
    },
    # NumCoKE with the numeric order term, which needs no contrastive loss: RESULTS.md has both measured.
    "numeric": {
        "model.name": "numcoke",
        "score.numeric_order": True,
        "okcl.weight": 0.0,
        "train.learning_rate": 3e-3,
        "train.patience": 10,
    },
}


def apply_preset(config: ConfigDict, name: str) -> None:
    """Set the keys of the preset `name` in `config`.

    Raises:
      UserError: there is no such preset.
    """
    if name not in PRESETS:
        close = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(PRESETS)}"
        raise UserError(f"--config: there is no preset {name!r}; {hint}")
    for key, value in PRESETS[name].items():
        section, _, entry = key.rpartition(".")
        config[section][entry] = value
