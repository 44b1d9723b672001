"""Which keys each model looks at: what the tables say is what is read, and what is refused."""

from typing import Any

import pytest
from ml_collections import ConfigDict

from numcoke_jax.config.checks import CONVE_FILTER, check_config, largest_divisor_up_to_root
from numcoke_jax.config.models import MODELS
from numcoke_jax.config.schema import KEYS, default_config, looks_at
from numcoke_jax.models import create_model
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.system.errors import UserError
from numcoke_jax.training.programs import create_objective


class Watched(ConfigDict):
    """A config, or a section of one, that notes the keys which are read."""

    def __init__(self, config: ConfigDict, read: set[str], prefix: str = "") -> None:
        super().__init__(config.to_dict(), convert_dict=True)
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_prefix", prefix)

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, ConfigDict):
            return Watched(value, self._read, f"{key}.")
        self._read.add(f"{self._prefix}{key}")
        return value


@pytest.mark.parametrize("name", MODELS)
def test_a_model_and_its_loss_read_the_keys_of_the_table_and_no_others(name: str) -> None:
    config, read = default_config(), set[str]()
    config.model.name = name
    watched = Watched(config, read)
    assert not read
    create_model(watched, GraphSizes(entities=5, relations=2, fields=3))
    create_objective(watched)
    described = {name for name, key in KEYS.items() if key.scope in ("model", "extension")}
    assert read & described == {key for key in described if looks_at(name, key)}


def test_every_key_of_the_list_exists() -> None:
    for model in MODELS.values():
        for key in model.keys:
            assert key in KEYS or any(name.startswith(key) for name in KEYS if key.endswith(".")), key


def said(**changes: Any) -> str:
    """What is said about the default config with these values, section__key=value; "" if nothing."""
    config = default_config()
    for name, value in changes.items():
        section, key = name.split("__")
        config[section][key] = value
    try:
        check_config(config)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", MODELS)
def test_joined_attributes_are_refused_by_models_that_see_values_in_their_own_way(name: str) -> None:
    refused = (
        f"model.attributes=concat has no effect with model.name={name}, which sees the values in its own "
        "way: set model.attributes=none"
    )
    expected = "" if looks_at(name, "model.attributes") else refused
    assert said(model__name=name, model__attributes="concat") == expected


@pytest.mark.parametrize("dim", [1, 2, 4, 8, 10, 14, 97, 9, 12, 100, 200, 4096])
def test_conve_takes_only_sizes_whose_image_holds_a_filter(dim: int) -> None:
    height = largest_divisor_up_to_root(dim)
    assert dim % height == 0 and height <= dim // height
    refused = (
        f"model.dim={dim} has no divisor from 3 to its root: model.name=conve makes images of the vectors "
        "for filters of 3 x 3, set model.dim=100 or 200"
    )
    assert said(model__name="conve", model__dim=dim) == ("" if height >= CONVE_FILTER else refused)


@pytest.mark.parametrize("name", ["atth", "cone", "gie", "kgdm", "rule"])
def test_what_rotates_takes_only_pairs_of_dimensions(name: str) -> None:
    assert said(model__name=name, model__dim=8) == ""
    assert said(model__name=name, model__dim=7) == (
        f"model.dim=7 is odd: model.name={name} rotates pairs of dimensions, set an even model.dim"
    )


def test_dabr_takes_only_whole_quaternions() -> None:
    assert said(model__name="dabr", model__dim=12) == ""
    assert said(model__name="dabr", model__dim=10) == (
        "model.dim=10 is not a multiple of 4: model.name=dabr makes quaternions of the vectors, "
        "set model.dim=100 or 200"
    )


def test_decoders_take_what_they_can_score() -> None:
    assert said(score__decoder="complex", okcl__weight=0.3) == (
        "okcl.weight=0.3 with score.decoder=complex: the contrastive loss is about translated heads, which "
        "only score.decoder=translation scores, set okcl.weight=0"
    )
    alone = {"score__decoder": "complex", "okcl__weight": 0.0}
    assert said(**alone, model__dim=8) == ""
    assert said(**alone, model__dim=7) == (
        "model.dim=7 is odd: score.decoder=complex takes pairs of dimensions for complex numbers, set an "
        "even model.dim"
    )
    gated = {"model__name": "literale", "okcl__weight": 0.0}
    assert said(**gated, score__decoder="distmult", model__dim=7) == ""
    assert "score.decoder=complex takes pairs" in said(**gated, score__decoder="complex", model__dim=7)
    assert said(**gated, score__decoder="tucker") == (
        "score.decoder=tucker is not for model.name=literale: set it to translation, distmult or complex"
    )
    elsewhere = said(**alone, model__name="transe")
    assert elsewhere.startswith("score.decoder=complex has no effect with model.name=transe")
