"""The models, by the name that `config.model.name` takes.  A new model is a file and a line here."""

from collections.abc import Callable

from ml_collections import ConfigDict

from numcoke_jax.models import literale, numcoke, rakge, transe
from numcoke_jax.models.interface import GraphSizes, KnowledgeModel

MODELS: dict[str, Callable[[ConfigDict, GraphSizes], KnowledgeModel]] = {
    "numcoke": numcoke.from_config,
    "rakge": rakge.from_config,
    "literale": literale.from_config,
    "transe": transe.from_config,
}


def create_model(config: ConfigDict, sizes: GraphSizes) -> KnowledgeModel:
    """The linen module that `config.model.name` names, for a graph of the given sizes."""
    return MODELS[config.model.name](config, sizes)
