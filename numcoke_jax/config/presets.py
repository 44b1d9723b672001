"""Named settings on top of a config: `--config=configs/credit.py:paper` and the like.

A preset says what is trained and how; the data stay those of the config file.  Overrides on the command
line are applied after it.
"""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.system.errors import UserError, did_you_mean

# What public code of the ported models sets: dropout 0.7, L1, margin 9, Adam 1e-3, no extension.
PUBLIC_SETTINGS: Mapping[str, Any] = {
    "score.order_core": False,
    "score.decoder": "translation",
    "score.norm": 1,
    "score.margin": 9.0,
    "score.dropout": 0.7,
    "train.entity_dropout": 0.0,
    "train.loss": "bce",
    "train.unknown_weight": 1.0,
    "train.learning_rate": 1e-3,
    "train.schedule": "constant",
    "train.epochs": 700,
    "train.patience": 10,
    "okcl.weight": 0.0,
}

# Models that are fitted in one step look at no key of training; extensions that the config may have are off.
FITTED: Mapping[str, Any] = {
    "score.order_core": False,
    "score.decoder": "translation",
    "train.entity_dropout": 0.0,
    "train.loss": "bce",
    "train.unknown_weight": 1.0,
    "train.epochs": 1,
}

CONCATENATED: Mapping[str, Any] = {**PUBLIC_SETTINGS, "model.attributes": "concat"}
# For models whose public code has no dropout of vectors.
UNDROPPED: Mapping[str, Any] = {**CONCATENATED, "score.dropout": 0.0}
# NumCoKE as the paper describes it, every extension off.  Two formulas are not taken as they are printed: the
# fusion is the gated sum that the text describes, and the contrastive loss compares averages by the score's
# distance; the preset `printed` has both as printed.  It learns slowly: the rate has to fall to the end.
PAPER: Mapping[str, Any] = {
    "model.name": "numcoke",
    "score.order_core": False,
    "score.decoder": "translation",
    "score.order": "reward",
    "score.dropout": 0.7,
    "numeric.missing": "embedding",
    "numeric.encoding": "linear",
    "train.entity_dropout": 0.0,
    "train.loss": "bce",
    "train.unknown_weight": 1.0,
    "okcl.weight": 0.3,
    "train.learning_rate": 1e-3,
    "train.schedule": "cosine",
    "train.epochs": 700,
    "train.patience": 15,
}


def _each(settings: Mapping[str, Any], *models: str) -> dict[str, Mapping[str, Any]]:
    """Presets of models that have the same settings, by the models' names."""
    return {name: {"model.name": name, **settings} for name in models}


PRESETS: dict[str, Mapping[str, Any]] = {
    "paper": PAPER,
    # The same to the letter: fusion without a gate; sums of the top-k vectors compared by dot product.
    "printed": {**PAPER, "fusion.kind": "paper", "okcl.reduce": "sum", "okcl.similarity": "dot"},
    # The shipped settings: relations that compare are decided by the order core, which needs no training; the
    # rest is for the encoder, whose entities are unknown at times, so that their numbers have to suffice, and
    # to whom an unseen fact counts as only a little false.
    "numeric": {
        "model.name": "numcoke",
        "score.order_core": True,
        "score.decoder": "translation",
        "score.order": "reward",
        "train.entity_dropout": 0.2,
        "train.loss": "bce",
        "train.unknown_weight": 0.1,
        "okcl.weight": 0.0,
        "train.learning_rate": 3e-3,
        "train.schedule": "cosine",
        "train.epochs": 0,
        "train.patience": 10,
    },
    "transe": {"model.name": "transe", **PUBLIC_SETTINGS},
    "literale": {"model.name": "literale", **PUBLIC_SETTINGS},
    "rakge": {
        "model.name": "rakge",
        **PUBLIC_SETTINGS,
        "model.attribute_dim": 100,  # a multiple of the heads, whatever the config has
        "attention.heads": 5,
        "score.order_weight": 0.25,
        "okcl.weight": 0.25,
    },
    # Values joined to the entity vectors of models that use none, as in the paper; see docs/models.md.
    **_each(CONCATENATED, "conve", "tucker", "distmult", "complex", "rotate", "hake", "atth", "murp", "rgcn"),
    "dabr": {"model.name": "dabr", **UNDROPPED},
    "cone": {"model.name": "cone", **UNDROPPED, "okcl.weight": 0.5},
    "gie": {"model.name": "gie", **UNDROPPED},
    "lorentzkg": {"model.name": "lorentzkg", **UNDROPPED},
    "wgcn": {"model.name": "wgcn", **CONCATENATED, "query.filters": 100, "query.hidden_dropout": 0.2},
    "kgdm": {"model.name": "kgdm", **UNDROPPED, "okcl.weight": 1.0},
    "rule": {"model.name": "rule", **UNDROPPED, "train.loss": "cross_entropy", "okcl.weight": 1.0},
    "rgcn_transe": {"model.name": "rgcn", **CONCATENATED, "graph.decoder": "translation"},
    "kbln": {"model.name": "kbln", **PUBLIC_SETTINGS},
    "mtkgnn": {"model.name": "mtkgnn", **PUBLIC_SETTINGS, "okcl.weight": 1.0},
    "nekg": {"model.name": "nekg", **PUBLIC_SETTINGS},
    "nrn": {"model.name": "nrn", **PUBLIC_SETTINGS},
    "bigi": {"model.name": "bigi", **UNDROPPED, "graph.layers": 1, "okcl.weight": 0.3},
    "slice": {"model.name": "slice", **UNDROPPED, "okcl.weight": 0.1},
    "simgcl": {"model.name": "simgcl", **CONCATENATED, "okcl.weight": 0.1, "okcl.temperature": 0.2},
    # Arithmetic on the training facts: what a learned model has to beat.
    **_each(FITTED, "raw", "bounds", "posterior", "bradley_terry", "boosted_pairs"),
}


def apply_preset(config: ConfigDict, name: str) -> None:
    """Set the keys of the preset `name` in `config`.

    Raises:
      UserError: there is no such preset.
    """
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS) or f"; there are {', '.join(PRESETS)}"
        raise UserError(f"--config: there is no preset {name!r}{hint}")
    for key, value in PRESETS[name].items():
        section, _, entry = key.rpartition(".")
        config[section][entry] = value
