"""The models, by the name that `config.model.name` takes; `config/models.py` lists their files.

Only the file of a model that is asked for is imported: a prediction does not wait for the others.
"""

import importlib
from collections.abc import Iterator, Mapping

from ml_collections import ConfigDict

from numcoke_jax.config.models import MODELS as LISTED
from numcoke_jax.models.interface import GraphSizes, KnowledgeModel, ModelSpec
from numcoke_jax.models.padding import PER_ENTITY


class _Models(Mapping[str, ModelSpec]):
    """The listed models; one is imported when it is first looked up."""

    def __getitem__(self, name: str) -> ModelSpec:
        model = importlib.import_module(f"{__name__}.{LISTED[name].file}").MODEL
        PER_ENTITY.update(model.per_entity)
        return model

    def __iter__(self) -> Iterator[str]:
        return iter(LISTED)

    def __len__(self) -> int:
        return len(LISTED)


MODELS = _Models()


def create_model(config: ConfigDict, sizes: GraphSizes) -> KnowledgeModel:
    """The linen module that `config.model.name` names, for a graph of the given sizes."""
    return MODELS[config.model.name].create(config, sizes)
