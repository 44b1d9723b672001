"""The models, by the name that `config.model.name` takes: `from_config` of the module of that name.

A new model needs a file and its name here.  Only the module of the model asked for is imported.
"""

import importlib

from ml_collections import ConfigDict

from numcoke_jax.models.interface import GraphSizes, KnowledgeModel

FITTED = ("raw", "bounds", "posterior", "bradley_terry", "boosted_pairs")  # in references/, `FittedModel`s
MODELS = (
    *("numcoke", "rakge", "literale", "transe", "conve", "tucker", "hake", "atth", "murp", "rgcn", "kbln"),
    *("mtkgnn", "nrn", "simgcl"),
    *FITTED,
)
READS_FACTS = ("rgcn", "kbln", "simgcl")  # models that need `Literals.facts`


def create_model(config: ConfigDict, sizes: GraphSizes) -> KnowledgeModel:
    """The linen module that `config.model.name` names, for a graph of the given sizes."""
    name = config.model.name
    module = importlib.import_module(f"{__name__}.{'references.' if name in FITTED else ''}{name}")
    return module.from_config(config, sizes)
