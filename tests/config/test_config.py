"""Config keys: each has a rule, wrong values are refused by name, shipped configs are what they were."""

import ast
import importlib.util
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ml_collections import ConfigDict

from numcoke_jax.cli.command_line import parse_command_line
from numcoke_jax.config.checks import (
    SCALES_TO_ONE,
    check_config,
    check_key_exists,
    check_keys,
    closest_key,
    flatten,
)
from numcoke_jax.config.files import canonical_config, load_config
from numcoke_jax.config.page import settings_page
from numcoke_jax.config.schema import KEYS, SECTIONS, choices, default_config
from numcoke_jax.system.errors import UserError, printable

REPOSITORY = Path(__file__).resolve().parents[2]
CONFIGS = sorted((REPOSITORY / "configs").glob("[!_]*.py"))
GOLDEN = REPOSITORY / "tests" / "golden"
DEFAULTS = flatten(default_config())
RULES = {name: key.allowed for name, key in KEYS.items()}
NUMBERS = [key for key, rule in RULES.items() if rule.kind in ("int", "float")]


def changed(key: str, value: Any) -> ConfigDict:
    """The default config with one value replaced, whatever its type, as a config file may do it."""
    nested = default_config().to_dict()
    section, _, name = key.rpartition(".")
    (nested[section] if section else nested)[name] = value
    return ConfigDict(nested, convert_dict=True)


def refusal(config: ConfigDict) -> str:
    with pytest.raises(UserError) as caught:
        check_config(config)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_default_config_is_made_of_the_keys_and_sections_are_in_their_order() -> None:
    assert set(DEFAULTS) == set(KEYS)
    assert list(dict.fromkeys(key.split(".")[0] for key in KEYS if "." in key)) == list(SECTIONS)
    check_config(default_config())


def test_every_key_has_a_meaning_and_the_page_of_settings_is_made_of_them() -> None:
    for name, key in KEYS.items():
        assert key.meaning.strip() == key.meaning != "" and "\n" not in key.meaning, name
        assert key.scope in ("run", "table", "folder", "model", "extension"), name
    page = (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_page(), "python -m numcoke_jax.config.page > docs/settings.md"


def test_no_other_file_has_a_table_of_keys() -> None:
    """What is to be known of a key stands at the key; others name those that they act on, one at a time."""
    tables = []
    for path in sorted((REPOSITORY / "numcoke_jax").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            members = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
            if sum(isinstance(part, ast.Constant) and part.value in KEYS for part in members) > 1:
                tables.append(f"{path.parent.name}/{path.stem}")
    # Settings of presets, what a model reads, and the keys that a message about memory names.
    assert set(tables) == {"config/models", "config/presets", "runs/memory"}


@pytest.mark.parametrize("key", RULES)
def test_a_value_of_another_type_is_refused_by_name(key: str) -> None:
    wrong: list[Any] = [None, [1], 1 + 2j, b"bytes"]
    if not isinstance(DEFAULTS[key], str):
        wrong.append("a word")
    if not isinstance(DEFAULTS[key], bool):
        wrong.append(True)
    if not isinstance(DEFAULTS[key], int | float):
        wrong.append(1.5)
    if not isinstance(DEFAULTS[key], tuple):
        wrong.append((1, 2))
    for value in wrong:
        message = refusal(changed(key, value))
        assert message.startswith(f"{key}={printable(value)} has the wrong type: needs "), message
        assert message.endswith(RULES[key].needs())


@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_below_above_or_without_a_place_is_refused_by_name(key: str) -> None:
    rule = RULES[key]
    assert math.isfinite(rule.low) and math.isfinite(rule.high), "every number needs both ends"
    wrong: list[float] = [10**30, -(10**30), math.nan, math.inf, -math.inf]
    if rule.kind == "int":
        outside: list[float] = [rule.low - 1, rule.high + 1]
        wrong = [value for value in wrong if isinstance(value, int)]
    else:
        low = rule.low if rule.low_open else math.nextafter(rule.low, -math.inf)
        outside = [low, rule.high if rule.high_open else math.nextafter(rule.high, math.inf)]
    for value in [*wrong, *outside]:
        if value in rule.also:
            continue
        message = refusal(changed(key, value))
        assert message == f"{key}={printable(value)} is out of range: needs {rule.needs()}"


@pytest.mark.parametrize("key", NUMBERS)
def test_the_ends_of_a_range_are_allowed(key: str) -> None:
    rule = RULES[key]
    ends: list[float] = [*rule.also]
    ends += [] if rule.low_open else [rule.low]
    ends += [] if rule.high_open else [rule.high]
    for end in ends:
        check_keys(changed(key, end))


@pytest.mark.parametrize("key", [key for key, rule in RULES.items() if rule.kind == "choice"])
def test_a_misspelt_choice_is_answered_with_the_choices_and_the_closest(key: str) -> None:
    for choice in RULES[key].choices:
        check_keys(changed(key, choice))
    longest = max(RULES[key].choices, key=len)
    message = refusal(changed(key, longest + "e"))
    assert message.startswith(
        f"{key}={longest}e is not a choice: needs one of {', '.join(RULES[key].choices)}"
    )
    assert len(longest) < 2 or message.endswith(f"; did you mean {longest}?")


# Written down from the meaning of the keys, not read from KEYS.
@pytest.mark.parametrize(
    ("key", "wrong", "allowed"),
    [
        ("train.batch_size", 0, 1),
        ("train.batch_size", 1.5, 256),
        ("train.epochs", -1, 0),
        ("train.learning_rate", 0.0, 1e6),  # a mad rate starts: the loop says where the loss blew up
        ("train.learning_rate", math.nan, 1),
        ("train.label_smoothing", 1.01, 1.0),
        ("score.dropout", 1.0, 0.999),
        ("score.dropout", 1.5, 0.0),
        ("score.norm", 3, 2),
        ("attention.relation_weight", 1.1, 1.0),
        ("okcl.temperature", 0.0, 1e-3),
        ("seed", 2**32, 2**32 - 1),  # jax.random.key(2**32) is jax.random.key(0)
        ("seed", -1, 0),
        ("data.group_size", 1, 0),
        ("data.missing_rate", 1.1, 1.0),
        ("data.split", (0.5, 0.5), (0.5, 0.25, 0.25)),
        ("data.split", (0.5, 0.6, -0.1), (1, 0, 0)),
        ("data.split", (0.1, 0.1, math.nan), (0.1, 0.1, 0.8)),
        ("data.relations", ("",), ("is longer than", "NA", "1")),
        ("data.relations", (1,), ()),
        ("data.synthetic_entities", 1, 2),
        ("data.synthetic_triples", 0, 10_000_000),
        ("data.synthetic_kinds", (), ("skewed", "discrete")),
        ("data.synthetic_kinds", ("normal",), ("continuous",)),
        ("attention.operators", (), ("mlp",)),
        ("attention.operators", ("product", "product"), ("product", "mlp")),
        ("attention.operators", ("sum",), ("difference",)),
    ],
)
def test_known_bounds(key: str, wrong: Any, allowed: Any) -> None:
    assert refusal(changed(key, wrong)).startswith(f"{key}={printable(wrong)} ")
    check_keys(changed(key, allowed))


def test_choices_that_name_functions_or_tables_are_those_of_the_code() -> None:
    from numcoke_jax.data import literals
    from numcoke_jax.data.public.rakge import AUTHORS_GRAPHS
    from numcoke_jax.data.tables import known
    from numcoke_jax.models import MODELS, nrn

    assert list(choices("model.name")) == list(MODELS)
    assert set(choices("model.value_encoding")) == set(nrn.ENCODINGS)
    assert set(choices("data.table")) == {*known.TABLES, *AUTHORS_GRAPHS, "fb15k_237", "synthetic"}
    assert set(choices("data.normalize")) == set(literals._FITS) == set(literals._SCALES)
    assert set(SCALES_TO_ONE) < set(choices("data.normalize"))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "attention.heads",
            3,
            "model.attribute_dim=100 is not a multiple of attention.heads=3: every head needs an equal part",
        ),
        (
            "train.relations_per_step",
            5,
            "train.batch_size=256 is not a multiple of train.relations_per_step=5: every relation needs an "
            "equal part (0 chooses from the graph)",
        ),
        (
            "data.split",
            (0.8, 0.1, 0.2),
            "data.split=(0.8, 0.1, 0.2) sums to 1.1: the shares of train, valid and test must sum to 1",
        ),
        (
            "data.split",
            (0.0, 0.5, 0.5),
            "data.split=(0.0, 0.5, 0.5) leaves no training triples: the first share must be above 0",
        ),
        (
            "train.weight_decay",
            0.1,
            "train.weight_decay=0.1 has no effect with train.optimizer=adam: set train.optimizer=adamw",
        ),
    ],
)
def test_rules_that_join_keys(key: str, value: Any, message: str) -> None:
    assert refusal(changed(key, value)) == message


@pytest.mark.parametrize("model", [name for name in choices("model.name") if name != "numcoke"])
@pytest.mark.parametrize(
    ("key", "on", "off"),
    [
        ("score.order_core", True, "False"),
        ("train.entity_dropout", 0.2, "0.0"),
        ("numeric.encoding", "quantile", "linear"),
        ("numeric.encoding", "periodic", "linear"),
        ("model.products", "bfloat16", "float32"),
    ],
)
def test_extensions_are_refused_with_a_model_that_lacks_them(model: str, key: str, on: Any, off: str) -> None:
    config = changed(key, on)
    check_config(config)
    config.model.name = model
    assert refusal(config) == (
        f"{key}={on} has no effect with model.name={model}, which lacks this extension: set {key}={off}"
    )


def test_only_models_with_attention_heads_need_a_multiple_of_them() -> None:
    config = changed("attention.heads", 3)
    for model in choices("model.name"):
        config.model.name = model
        if model in ("numcoke", "rakge"):
            assert refusal(config).startswith(
                "model.attribute_dim=100 is not a multiple of attention.heads=3"
            )
        else:
            check_config(config)


@pytest.mark.parametrize("normalize", ["minmax", "quantile", "zscore", "none"])
def test_models_of_values_from_0_to_1_refuse_other_scales(normalize: str) -> None:
    config = changed("data.normalize", normalize)
    for model, encoding in (
        ("nrn", "dice"),
        ("mtkgnn", "dice"),
        ("nekg", "dice"),
        ("nrn", "sinusoidal"),
        ("literale", "dice"),
    ):
        config.model.name, config.model.value_encoding = model, encoding
        if normalize in ("minmax", "quantile") or (model, encoding) in (
            ("nrn", "sinusoidal"),
            ("literale", "dice"),
        ):
            check_config(config)
            continue
        message = refusal(config)
        assert message.startswith(
            f"data.normalize={normalize} does not give values from 0 to 1, which model."
        )
        assert f"model.name={model}" in message and "set data.normalize=minmax or quantile" in message
        assert message.endswith("or model.value_encoding=sinusoidal") == (model == "nrn")


def test_a_synthetic_graph_has_to_fit_in_memory() -> None:
    config = default_config()
    config.data.synthetic_entities, config.data.synthetic_fields = 10**8, 11
    check_config(config)  # nobody makes it
    config.data.table = "synthetic"
    assert refusal(config) == (
        "data.synthetic_entities=100000000 times data.synthetic_fields=11 or data.synthetic_relations=8 is "
        "1100000000, must be at most 1000000000: the values have to fit in memory"
    )
    config.data.synthetic_fields = 10
    check_config(config)


def test_rules_that_join_keys_let_fitting_pairs_pass() -> None:
    config = default_config()
    config.model.attribute_dim, config.attention.heads = 99, 3
    config.train.batch_size, config.train.relations_per_step = 255, 5
    config.train.optimizer, config.train.weight_decay = "adamw", 0.1
    config.data.split = (0.3333333, 0.3333333, 0.3333333)  # 0.9999999: rounded by a person
    check_config(config)
    config.train.batch_size, config.train.relations_per_step = 7, 0
    check_config(config)


@pytest.mark.parametrize(
    ("key", "closest"),
    [
        ("learning_rat", "train.learning_rate"),
        ("learning_rate", "train.learning_rate"),
        ("lr.learning_rate", "train.learning_rate"),
        ("model.learning_rate", "train.learning_rate"),
        ("train.learning_rat", "train.learning_rate"),
        ("train.Learning_Rate", "train.learning_rate"),
        ("trian.learning_rate", "train.learning_rate"),
        ("model.dimm", "model.dim"),
        ("dim", "model.dim"),
        ("batchsize", "train.batch_size"),
        ("epochs", "train.epochs"),
        ("epoch", "train.epochs"),
        ("dropout", "score.dropout"),
        ("data.seeds", "data.seed"),
        ("seeds", "seed"),
        ("experts.hiden", "experts.hidden"),
        ("attention.hiden", "attention.hidden"),
        ("okcl.temprature", "okcl.temperature"),
        ("train.epochs.x", "train.epochs"),
    ],
)
def test_a_misspelt_key_is_answered_with_the_closest(key: str, closest: str) -> None:
    with pytest.raises(UserError, match=rf"^{re.escape(key)} is not a config key; did you mean {closest}\?$"):
        check_key_exists(key)


@pytest.mark.parametrize("key", RULES)
def test_a_key_with_one_letter_wrong_leads_back_to_it(key: str) -> None:
    section, dot, name = key.rpartition(".")
    for position in range(len(name)):
        if len(name) > 2:
            assert closest_key(section + dot + name[:position] + name[position + 1 :])[0] == key
        assert closest_key(section + dot + name[:position] + "_" + name[position:])[0] == key


@given(st.text(max_size=30))
def test_any_unknown_key_gets_one_printable_line(key: str) -> None:
    if key in RULES:
        return
    with pytest.raises(UserError) as caught:
        check_key_exists(key)
    assert str(caught.value).isprintable()


def test_a_section_is_no_key() -> None:
    assert set(SECTIONS) == {key.split(".")[0] for key in DEFAULTS} - {"seed"}
    with pytest.raises(UserError, match=r"^train is a section of the config.*such as train\.epochs$"):
        check_key_exists("train")
    assert refusal(changed("train", 5)).startswith("train is a section")
    assert refusal(changed("train", {})).startswith("train.epochs is missing")


def test_unknown_and_missing_keys_of_a_config_are_named() -> None:
    config = default_config()
    config.train.learning_rat = 0.1
    assert refusal(config) == "train.learning_rat is not a config key; did you mean train.learning_rate?"
    config = default_config()
    del config.train.epochs
    assert refusal(config) == (
        "train.epochs is missing: it needs an integer >= 0 and <= 1000000; start from default_config()"
    )
    with pytest.raises(
        UserError, match=r"^the config is of type dict: get_config\(\) must return a ConfigDict"
    ):
        check_keys({"seed": 0})


def test_canonical_configs_that_mean_the_same_are_equal() -> None:
    config = changed("train.learning_rate", 1)
    config.data.split = (1, 0, 0)
    canonical = canonical_config(config)
    assert type(canonical.train.learning_rate) is float and canonical.train.learning_rate == 1.0
    assert [type(share) for share in canonical.data.split] == [float] * 3
    as_float = changed("train.learning_rate", 1.0)
    as_float.data.split = (1.0, 0.0, 0.0)
    assert canonical == canonical_config(as_float)
    assert canonical.to_json() == canonical_config(as_float).to_json()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configs_are_allowed_and_say_how_to_run_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    spec = importlib.util.spec_from_file_location(f"configs_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check_config(module.get_config())
    assert module.__doc__ is not None
    command = re.search(r"^Command: +numcoke (train \S+)", module.__doc__, flags=re.MULTILINE)
    assert command, "the docstring gives the command"
    assert flatten(parse_command_line(command[1].split()).config) == flatten(
        canonical_config(module.get_config())
    )
    for line in ("Hardware:  ", "Expected:  "):
        assert f"\n{line}" in module.__doc__


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configs_resolve_to_their_golden_values(path: Path) -> None:
    """A change of a default or of a config must be seen in review, as a change of these files.

    To write them anew: UPDATE_GOLDEN=1 python -m pytest tests/config/test_config.py -k golden
    """
    resolved = {key: flatten(load_config(str(path)))[key] for key in RULES}
    text = json.dumps(resolved, indent=1) + "\n"
    golden = GOLDEN / f"{path.stem}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text, (
        test_shipped_configs_resolve_to_their_golden_values.__doc__
    )


def test_the_paper_setting_is_what_the_paper_says() -> None:
    for name in ("spotify", "credit", "us_cities"):
        config = load_config(str(REPOSITORY / "configs" / f"{name}.py"))
        assert config.data.table == name
        assert config.data.missing_rate == 0.2
        assert config.data.split == (0.1, 0.1, 0.8)
