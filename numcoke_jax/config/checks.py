"""Which configurations are allowed: one rule per key, and a few rules that combine keys.

The command line, the loader of config files and `--help` all read `KEYS` of `config/schema.py`, so a wrong
value gets the same sentence wherever it comes from.
"""

import difflib
import math
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.config.schema import KEYS, REMOVED, SECTIONS, looks_at
from numcoke_jax.system.errors import CLOSE_ENOUGH, UserError, did_you_mean, printable

SCALES_TO_ONE = ("minmax", "quantile")  # of `data.normalize`: those that give values from 0 to 1
LARGEST_SYNTHETIC = 10**9  # values of 8 bytes
SPLIT_TOLERANCE = 1e-6  # shares written with a few digits, such as three times 0.333333, are accepted
PAIRED = dict.fromkeys(("atth", "cone", "gie", "kgdm", "rotate", "rule"), "rotates") | {
    "complex": "takes for complex numbers"
}
CONVE_FILTER = 3  # width and height of its filters
QUATERNION = 4  # numbers of one, of dabr


def check_config(config: ConfigDict) -> None:
    """Checks every key and every rule that combines keys.

    Raises:
      UserError: the first violation in one line: the key, the value found, the allowed set or range,
        and for an unknown key the closest valid one.
    """
    check_keys(config)
    check_combinations(config)


def check_keys(config: Any) -> None:
    """Checks that `config` is a ConfigDict with the keys of `KEYS`, no others, and allowed values.

    Raises:
      UserError: see `check_config`.
    """
    if not isinstance(config, ConfigDict):
        raise UserError(
            f"the config is of type {type(config).__name__}: get_config() must return a ConfigDict; "
            "start from numcoke_jax.config.schema.default_config()"
        )
    check_flat(flatten(config))


def check_flat(found: Mapping[str, Any]) -> None:
    """`check_keys` of values by dotted key."""
    for name in found:
        check_key_exists(name)
    for name, key in KEYS.items():
        if name not in found:
            raise UserError(f"{name} is missing: it needs {key.allowed.needs()}; start from default_config()")
        check_value(name, found[name])


def check_key_exists(key: str) -> None:
    """Raises UserError with the closest valid key unless `key`, such as "train.epochs", exists."""
    if key in KEYS:
        return
    if key in REMOVED:
        raise UserError(removed_key(key))
    if key in SECTIONS:
        example = next(known for known in KEYS if known.startswith(f"{key}."))
        raise UserError(f"{key} is a section of the config, not a key; set a key of it, such as {example}")
    closest, similarity = closest_key(key)
    if similarity >= CLOSE_ENOUGH:
        raise UserError(f"{printable(key)} is not a config key; did you mean {closest}?")
    raise UserError(f"{printable(key)} is not a config key; the closest is {closest}, --help lists all")


def removed_key(key: str) -> str:
    """The sentence about a key of earlier versions."""
    return (
        f"{key} is not a config key any more: {REMOVED[key][1]}; "
        "a run that has it on needs the version that started it"
    )


def without_removed(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A stored config less the keys that have been removed, where they are off: as if they had never been."""
    return {key: value for key, value in stored.items() if key not in REMOVED or value != REMOVED[key][0]}


def check_value(key: str, value: Any) -> None:
    """Raises UserError naming key, value and allowed set unless the rule of `key` allows `value`."""
    problem = KEYS[key].allowed.problem(value)
    if problem:
        raise UserError(wrong_value(key, value, problem))


def wrong_value(key: str, value: Any, problem: str) -> str:
    """The sentence about a value that `key` does not accept; text is shown without quotes."""
    hint = ""
    rule = KEYS[key].allowed
    if rule.kind == "choice" and isinstance(value, str):
        hint = did_you_mean(value, rule.choices)
    if rule.kind == "choices" and isinstance(value, tuple):
        strangers = [str(member) for member in value if member not in rule.choices]
        hint = did_you_mean(strangers[0], rule.choices) if strangers else ""
    return f"{key}={printable(value)} {problem}: needs {rule.needs()}{hint}"


def check_combinations(config: ConfigDict) -> None:
    """Checks the rules that combine keys, for a config whose keys are right one by one.

    Raises:
      UserError: the first violation in one line with all keys and values involved.
    """
    model, attention, train, data = config.model, config.attention, config.train, config.data
    if looks_at(model.name, "attention.heads") and model.attribute_dim % attention.heads:
        raise UserError(
            f"model.attribute_dim={model.attribute_dim} is not a multiple of "
            f"attention.heads={attention.heads}: every head needs an equal part"
        )
    if train.relations_per_step and train.batch_size % train.relations_per_step:
        raise UserError(
            f"train.batch_size={train.batch_size} is not a multiple of train.relations_per_step="
            f"{train.relations_per_step}: every relation needs an equal part (0 chooses from the graph)"
        )
    if abs(math.fsum(data.split) - 1.0) > SPLIT_TOLERANCE:
        raise UserError(
            f"data.split={printable(data.split)} sums to {math.fsum(data.split):g}: the shares of train, "
            "valid and test must sum to 1"
        )
    if data.split[0] == 0:
        raise UserError(
            f"data.split={printable(data.split)} leaves no training triples: the first share must be above 0"
        )
    cells = data.synthetic_entities * max(data.synthetic_fields, data.synthetic_relations)
    if data.table == "synthetic" and cells > LARGEST_SYNTHETIC:
        raise UserError(
            f"data.synthetic_entities={data.synthetic_entities} times data.synthetic_fields="
            f"{data.synthetic_fields} or data.synthetic_relations={data.synthetic_relations} is {cells}, "
            f"must be at most {LARGEST_SYNTHETIC}: the values have to fit in memory"
        )
    for key, value in flatten(config).items():
        off = KEYS[key].default
        if KEYS[key].scope == "extension" and value != off and not looks_at(model.name, key):
            raise UserError(
                f"{key}={value} has no effect with model.name={model.name}, which lacks this extension: "
                f"set {key}={off}"
            )
    _check_model(model, config.score, config.okcl.weight)
    _check_scale(model, data.normalize)
    if train.weight_decay and train.optimizer != "adamw":
        raise UserError(
            f"train.weight_decay={train.weight_decay:g} has no effect with "
            f"train.optimizer={train.optimizer}: set train.optimizer=adamw"
        )


def _check_model(model: ConfigDict, score: ConfigDict, contrastive_weight: float) -> None:
    """The rules of single models."""
    if model.attributes != "none" and not looks_at(model.name, "model.attributes"):
        raise UserError(
            f"model.attributes={model.attributes} has no effect with model.name={model.name}, which sees the "
            "values in its own way: set model.attributes=none"
        )
    if model.name in PAIRED and model.dim % 2:
        raise UserError(
            f"model.dim={model.dim} is odd: model.name={model.name} {PAIRED[model.name]} pairs of "
            "dimensions, set an even model.dim"
        )
    if model.name in ("numcoke", "literale") and score.decoder == "complex" and model.dim % 2:
        raise UserError(
            f"model.dim={model.dim} is odd: score.decoder=complex takes pairs of dimensions for complex "
            "numbers, set an even model.dim"
        )
    if model.name == "literale" and score.decoder == "tucker":
        raise UserError(
            "score.decoder=tucker is not for model.name=literale: set it to translation, distmult or complex"
        )
    if model.name == "numcoke" and score.decoder != "translation" and contrastive_weight:
        raise UserError(
            f"okcl.weight={contrastive_weight:g} with score.decoder={score.decoder}: the contrastive loss is "
            "about translated heads, which only score.decoder=translation scores, set okcl.weight=0"
        )
    if model.name == "dabr" and model.dim % QUATERNION:
        raise UserError(
            f"model.dim={model.dim} is not a multiple of {QUATERNION}: model.name=dabr makes quaternions of "
            "the vectors, set model.dim=100 or 200"
        )
    if model.name == "conve" and largest_divisor_up_to_root(model.dim) < CONVE_FILTER:
        raise UserError(
            f"model.dim={model.dim} has no divisor from {CONVE_FILTER} to its root: model.name=conve makes "
            f"images of the vectors for filters of {CONVE_FILTER} x {CONVE_FILTER}, set model.dim=100 or 200"
        )


def _check_scale(model: ConfigDict, normalize: str) -> None:
    """Refuses values beyond 0 and 1 for models whose functions of a value end there."""
    dice = model.name == "nrn" and model.value_encoding == "dice"
    if normalize in SCALES_TO_ONE or not (dice or model.name in ("mtkgnn", "nekg")):
        return
    who = "model.name=nrn with model.value_encoding=dice" if dice else f"model.name={model.name}"
    other = ", or model.value_encoding=sinusoidal" if dice else ""
    raise UserError(
        f"data.normalize={normalize} does not give values from 0 to 1, which {who} needs: set "
        f"data.normalize={' or '.join(SCALES_TO_ONE)}{other}"
    )


def largest_divisor_up_to_root(number: int) -> int:
    """The height of ConvE's images of vectors of that size."""
    return next(divisor for divisor in range(math.isqrt(number), 0, -1) if number % divisor == 0)


def flatten(config: ConfigDict | Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a nested config by dotted key, such as {"train.epochs": 200}, in their order."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, ConfigDict | Mapping) and (len(value) or f"{prefix}{name}" in SECTIONS):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def closest_key(key: str) -> tuple[str, float]:
    """The valid key most similar to `key` and the similarity in [0, 1].

    Whole keys are compared, and names without their section too: "learning_rate", "model.learning_rate"
    and "train.learning_rat" all lead to train.learning_rate.
    """
    section, _, name = key.rpartition(".")

    def similarity(known: str) -> tuple[float, float]:
        known_name = known.rpartition(".")[2]
        whole = similar(key, known)
        # A shared section is only worth something when the names resemble each other as well.
        return max(similar(name, known_name), whole if section else 0.0), whole

    best = max(KEYS, key=similarity)
    return best, similarity(best)[0]


def similar(left: str, right: str) -> float:
    """How alike two texts are but for their case, in [0, 1]."""
    return difflib.SequenceMatcher(None, left.lower(), right.lower(), autojunk=False).ratio()
