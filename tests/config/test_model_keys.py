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


@pytest.mark.parametrize("name", MODELS)
def test_joined_attributes_are_refused_by_models_that_see_values_in_their_own_way(name: str) -> None:
    config = default_config()
    config.model.name, config.model.attributes = name, "concat"
    if looks_at(name, "model.attributes"):
        check_config(config)
        return
    with pytest.raises(UserError) as caught:
        check_config(config)
    assert str(caught.value) == (
        f"model.attributes=concat has no effect with model.name={name}, which sees the values in its own "
        "way: set model.attributes=none"
    )


@pytest.mark.parametrize("dim", [1, 2, 4, 8, 10, 14, 97, 9, 12, 100, 200, 4096])
def test_conve_takes_only_sizes_whose_image_holds_a_filter(dim: int) -> None:
    config = default_config()
    config.model.name, config.model.dim = "conve", dim
    height = largest_divisor_up_to_root(dim)
    assert dim % height == 0 and height <= dim // height
    if height >= CONVE_FILTER:
        check_config(config)
        return
    with pytest.raises(UserError) as caught:
        check_config(config)
    assert str(caught.value) == (
        f"model.dim={dim} has no divisor from 3 to its root: model.name=conve makes images of the vectors "
        "for filters of 3 x 3, set model.dim=100 or 200"
    )


@pytest.mark.parametrize("name", ["atth", "cone", "gie", "kgdm", "rule"])
def test_what_rotates_takes_only_pairs_of_dimensions(name: str) -> None:
    config = default_config()
    config.model.name, config.model.dim = name, 7
    with pytest.raises(UserError) as caught:
        check_config(config)
    assert str(caught.value) == (
        f"model.dim=7 is odd: model.name={name} rotates pairs of dimensions, set an even model.dim"
    )
    config.model.dim = 8
    check_config(config)


def test_dabr_takes_only_whole_quaternions() -> None:
    config = default_config()
    config.model.name, config.model.dim = "dabr", 10
    with pytest.raises(UserError) as caught:
        check_config(config)
    assert str(caught.value) == (
        "model.dim=10 is not a multiple of 4: model.name=dabr makes quaternions of the vectors, "
        "set model.dim=100 or 200"
    )
    config.model.dim = 12
    check_config(config)


def test_decoders_take_what_they_can_score() -> None:
    config = default_config()
    config.score.decoder, config.okcl.weight = "complex", 0.3
    with pytest.raises(UserError) as caught:
        check_config(config)
    assert str(caught.value) == (
        "okcl.weight=0.3 with score.decoder=complex: the contrastive loss is about translated heads, which "
        "only score.decoder=translation scores, set okcl.weight=0"
    )
    config.okcl.weight, config.model.dim = 0.0, 7
    with pytest.raises(UserError) as caught:
        check_config(config)
    assert str(caught.value) == (
        "model.dim=7 is odd: score.decoder=complex takes pairs of dimensions for complex numbers, set an "
        "even model.dim"
    )
    config.model.dim = 8
    check_config(config)
    config.model.name = "transe"
    with pytest.raises(UserError, match=r"^score.decoder=complex has no effect with model.name=transe"):
        check_config(config)
