"""The models, by the name that `config.model.name` takes.  A new model needs a file and a line here."""

from collections.abc import Callable

from ml_collections import ConfigDict

from numcoke_jax.models import (
    atth,
    conve,
    hake,
    kbln,
    literale,
    mtkgnn,
    murp,
    nrn,
    numcoke,
    rakge,
    rgcn,
    simgcl,
    transe,
    tucker,
)
from numcoke_jax.models.interface import GraphSizes, KnowledgeModel
from numcoke_jax.models.references import boosted_pairs, bounds, bradley_terry, posterior, raw

MODELS: dict[str, Callable[[ConfigDict, GraphSizes], KnowledgeModel]] = {
    "numcoke": numcoke.from_config,
    "rakge": rakge.from_config,
    "literale": literale.from_config,
    "transe": transe.from_config,
    "conve": conve.from_config,
    "tucker": tucker.from_config,
    "hake": hake.from_config,
    "atth": atth.from_config,
    "murp": murp.from_config,
    "rgcn": rgcn.from_config,
    "kbln": kbln.from_config,
    "mtkgnn": mtkgnn.from_config,
    "nrn": nrn.from_config,
    "simgcl": simgcl.from_config,
    "raw": raw.from_config,
    "bounds": bounds.from_config,
    "posterior": posterior.from_config,
    "bradley_terry": bradley_terry.from_config,
    "boosted_pairs": boosted_pairs.from_config,
}
FITTED = ("raw", "bounds", "posterior", "bradley_terry", "boosted_pairs")  # each a `FittedModel`
READS_FACTS = ("rgcn", "kbln", "simgcl")  # models that need `Literals.facts`


def create_model(config: ConfigDict, sizes: GraphSizes) -> KnowledgeModel:
    """The linen module that `config.model.name` names, for a graph of the given sizes."""
    return MODELS[config.model.name](config, sizes)
