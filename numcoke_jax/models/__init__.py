"""The models, by the name that `config.model.name` takes; `config/models.py` lists their files."""

import importlib
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.config.models import MODELS as LISTED
from numcoke_jax.models.interface import GraphSizes, KnowledgeModel, ModelSpec

MODELS: dict[str, ModelSpec] = {
    name: importlib.import_module(f"{__name__}.{model.file}").MODEL for name, model in LISTED.items()
}
_PER_ENTITY = frozenset(name for model in MODELS.values() for name in model.per_entity)


def create_model(config: ConfigDict, sizes: GraphSizes) -> KnowledgeModel:
    """The linen module that `config.model.name` names, for a graph of the given sizes."""
    return MODELS[config.model.name].create(config, sizes)


def is_per_entity(path: Any) -> bool:
    """Whether the array at `path` in a tree of parameters or an optimiser's state has one row per entity."""
    return getattr(path[-1], "key", None) in _PER_ENTITY
