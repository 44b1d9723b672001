"""The models, by the name that `config.model.name` takes; `config/models.py` lists their files.

Only the file of a model that is asked for is imported: a prediction does not wait for the others.
"""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.config.models import MODELS as LISTED
from numcoke_jax.models.interface import GraphSizes, KnowledgeModel, ModelSpec


class _Models(Mapping[str, ModelSpec]):
    """The listed models; one is imported when it is first looked up."""

    def __init__(self) -> None:
        self.per_entity: set[str] = set()  # of the models that were looked up: no other has arrays

    def __getitem__(self, name: str) -> ModelSpec:
        model = importlib.import_module(f"{__name__}.{LISTED[name].file}").MODEL
        self.per_entity.update(model.per_entity)
        return model

    def __iter__(self) -> Iterator[str]:
        return iter(LISTED)

    def __len__(self) -> int:
        return len(LISTED)


MODELS = _Models()


def create_model(config: ConfigDict, sizes: GraphSizes) -> KnowledgeModel:
    """The linen module that `config.model.name` names, for a graph of the given sizes."""
    return MODELS[config.model.name].create(config, sizes)


def is_per_entity(path: Any) -> bool:
    """Whether the array at `path` in a tree of parameters or an optimiser's state has one row per entity."""
    return getattr(path[-1], "key", None) in MODELS.per_entity
