"""Which configurations are allowed: one rule per key, and a few rules that combine keys.

`RULES` states the types, choices and ranges of all keys.  The command line, the loader of config files and
`--help` all read it, so a wrong value gets the same sentence wherever it comes from.  Modules that act on a
choice list it too, because this one must not import JAX; `tests/test_config.py` keeps both lists equal.
"""

import dataclasses
import difflib
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.errors import UserError
from numcoke_jax.model_keys import MODEL_KEYS, looks_at

MODEL_NAMES = tuple(MODEL_KEYS)
GRAPH_NAMES = ("fb15k_237", "synthetic", "rakge_credit", "rakge_spotify")
TABLE_NAMES = ("cars", "spotify", "credit", "us_cities", *GRAPH_NAMES)
SYNTHETIC_KINDS = ("continuous", "discrete", "skewed")
OPERATORS = ("product", "difference", "concatenation", "mlp")
EXTENSIONS_OF_NUMCOKE: Mapping[str, Any] = {  # the value that switches each off
    "score.numeric_order": False,
    "train.entity_dropout": 0.0,
    "numeric.encoding": "linear",
    "model.products": "float32",
}
SCALES_TO_ONE = ("minmax", "quantile")  # of `data.normalize`: those that give values from 0 to 1

# Keys of data that apply to a graph in a folder; the others build a graph from a table.
DATA_KEYS_OF_A_FOLDER = ("data.path", "data.bad_values", "data.seed", "data.control", "data.normalize")

LARGEST_SYNTHETIC = 10**9  # values of 8 bytes
LARGEST_SEED = 2**32 - 1  # jax.random.key takes 32 bits: a larger seed would equal a smaller one
SPLIT_TOLERANCE = 1e-6  # shares written with a few digits, such as three times 0.333333, are accepted
SHOWN_VALUE_LENGTH = 80  # characters of a user's value in a message
LONGEST_PATH = 200
LONGEST_REASON = 200  # characters of another library's message inside ours
CONVE_FILTER = 3  # width and height of its filters
CLOSE_ENOUGH = 0.6  # similarity from which a key counts as a misspelling of another


@dataclasses.dataclass(frozen=True)
class Rule:
    """What one key accepts.

    Attributes:
      kind: "bool", "int", "float", "str", "choice", "choices" (a tuple of distinct members), "names"
        (a tuple of non-empty strings) or "shares" (a tuple of `length` numbers).
      low, high: the closed range of numbers; `low_open` and `high_open` exclude the end itself.
      also: integers outside the range that are allowed too, such as a 0 that stands for "all".
      choices: the allowed strings of "choice" and "choices".
      length: the number of members of "shares".
    """

    kind: str
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    also: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    length: int = 0

    def needs(self) -> str:
        """The allowed set as messages show it, such as "an integer >= 1 and <= 64"."""
        if self.kind == "bool":
            return "true or false"
        if self.kind == "int":
            return f"an integer {self._range()}" + "".join(f", or {value}" for value in self.also)
        if self.kind == "float":
            return f"a number {self._range()}"
        if self.kind == "str":
            return "a string without null characters"
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind == "choices":
            return "one or more, each once, of " + ", ".join(self.choices)
        if self.kind == "names":
            return "a tuple of non-empty names such as ('weight',), or ()"
        return f"{self.length} numbers {self._range()}, such as (0.8, 0.1, 0.1)"

    def _range(self) -> str:
        low, high = (f"{end:.0f}" if self.kind == "int" else f"{end:g}" for end in (self.low, self.high))
        return f"{'>' if self.low_open else '>='} {low} and {'<' if self.high_open else '<='} {high}"

    def problem(self, value: Any) -> str:
        """What is wrong with `value`, such as "is out of range"; "" if it is allowed."""
        if self.kind in ("bool", "str", "choice"):
            if not isinstance(value, bool if self.kind == "bool" else str):
                return "has the wrong type"
            if self.kind == "str" and "\0" in str(value):
                return "has a null character"
            return "" if self.kind != "choice" or value in self.choices else "is not a choice"
        if self.kind in ("int", "float"):
            return self._number_problem(value)
        if not isinstance(value, tuple):
            return "has the wrong type"
        if self.kind == "shares":
            if len(value) != self.length:
                return f"has {len(value)} members"
            return next(filter(None, map(self._number_problem, value)), "")
        if not all(isinstance(member, str) for member in value):
            return "has a member of the wrong type"
        if self.kind == "names":
            return "" if all(member.strip() for member in value) else "has an empty name"
        if not value or len(set(value)) < len(value):
            return "is empty" if not value else "names a member twice"
        return "" if set(value) <= set(self.choices) else "has a member that is not a choice"

    def _number_problem(self, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int if self.kind == "int" else int | float):
            return "has the wrong type"
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        inside = above and below  # NaN fails both comparisons
        return "" if inside or value in self.also else "is out of range"


def _integer(low: int, high: int, *also: int) -> Rule:
    return Rule("int", low, high, also=also)


def _number(low: float, high: float, *, low_open: bool = False, high_open: bool = False) -> Rule:
    return Rule("float", low, high, low_open, high_open)


def _choice(*choices: str) -> Rule:
    return Rule("choice", choices=choices)


_BOOL = Rule("bool")
_TEXT = Rule("str")

# Upper ends keep a slip of the finger (a digit too many) from ending in an allocation failure; they are
# far beyond any useful value.  The learning rate is the exception: a run with an absurd one must start, so
# that the training loop can say which loss became non-finite.
RULES: dict[str, Rule] = {
    "seed": _integer(0, LARGEST_SEED),
    "model.name": _choice(*MODEL_NAMES),
    "model.dim": _integer(1, 4096),
    "model.attribute_dim": _integer(1, 4096),
    "model.products": _choice("float32", "bfloat16"),
    "model.attributes": _choice("none", "concat"),
    "model.value_encoding": _choice("dice", "sinusoidal"),
    "data.path": _TEXT,
    "data.bad_values": _choice("error", "missing"),
    "data.table": _choice(*TABLE_NAMES),
    "data.dir": _TEXT,
    "data.seed": _integer(0, LARGEST_SEED),
    "data.entities": _integer(0, 10**8),
    "data.groups": _choice("relation", "common"),
    "data.group_size": _integer(2, 100_000, 0),
    "data.protocol": _choice("complete", "nearest"),
    "data.neighbours": _integer(1, 100_000),
    "data.direction": _choice(">", "<"),
    "data.relations": Rule("names"),
    "data.split": Rule("shares", 0.0, 1.0, length=3),
    "data.missing_rate": _number(0.0, 1.0),
    "data.negatives_per_pair": _integer(0, 100_000),
    "data.synthetic_entities": _integer(2, 10**8),
    "data.synthetic_fields": _integer(1, 100_000),
    "data.synthetic_relations": _integer(1, 100_000),
    "data.synthetic_triples": _integer(1, 10**9),
    "data.synthetic_kinds": Rule("choices", choices=SYNTHETIC_KINDS),
    "data.synthetic_levels": _integer(1, 10**9),
    "data.control": _choice("true", "shuffled", "zeroed", "removed"),
    "data.normalize": _choice("minmax", "quantile", "zscore", "none"),
    "numeric.share_transform": _BOOL,
    "numeric.missing": _choice("embedding", "zero"),
    "numeric.encoding": _choice("linear", "quantile", "periodic"),
    "numeric.bins": _integer(1, 4096),
    "numeric.frequencies": _integer(1, 4096),
    "numeric.frequency_scale": _number(0.0, 1e4, low_open=True),
    "experts.count": _integer(1, 256),
    "experts.hidden": _integer(0, 4096),
    "experts.noise": _BOOL,
    "attention.heads": _integer(1, 256),
    "attention.relation_weight": _number(0.0, 1.0),
    "attention.use_query": _BOOL,
    "attention.operators": Rule("choices", choices=OPERATORS),
    "attention.hidden": _integer(1, 4096),
    "fusion.kind": _choice("gate", "paper"),
    "score.norm": _integer(1, 2),
    "score.margin": _number(0.0, 1e4),
    "score.order": _choice("reward", "penalty", "none"),
    "score.order_weight": _number(0.0, 1e4),
    "score.dropout": _number(0.0, 1.0, high_open=True),
    "score.numeric_order": _BOOL,
    "okcl.weight": _number(0.0, 1e4),
    "okcl.k": _integer(1, 100_000),
    "okcl.temperature": _number(1e-4, 1e4),
    "okcl.sampling": _choice("cosine", "random"),
    "okcl.negatives": _choice("given", "unlinked"),
    "okcl.reduce": _choice("mean", "sum"),
    "okcl.similarity": _choice("distance", "cosine", "dot"),
    "okcl.num_negative_mixes": _integer(1, 256),
    "okcl.in_batch": _BOOL,
    "query.filters": _integer(1, 4096),
    "query.input_dropout": _number(0.0, 1.0, high_open=True),
    "query.feature_dropout": _number(0.0, 1.0, high_open=True),
    "query.hidden_dropout": _number(0.0, 1.0, high_open=True),
    "graph.layers": _integer(1, 64),
    "graph.bases": _integer(1, 4096),
    "graph.edge_dropout": _number(0.0, 1.0, high_open=True),
    "graph.noise": _number(0.0, 1e4),
    "train.epochs": _integer(0, 1_000_000),
    "train.batch_size": _integer(1, 1_048_576),
    "train.relations_per_step": _integer(0, 65_536),
    "train.candidates": _integer(0, 10**8),
    "train.optimizer": _choice("adam", "adamw"),
    "train.learning_rate": _number(0.0, 1e9, low_open=True),
    "train.schedule": _choice("constant", "cosine"),
    "train.warmup_steps": _integer(0, 1_000_000_000),
    "train.weight_decay": _number(0.0, 1e3),
    "train.clip_norm": _number(0.0, 1e9),
    "train.entity_dropout": _number(0.0, 1.0, high_open=True),
    "train.negatives": _choice("given", "reversed"),
    "train.unknown_weight": _number(0.0, 1.0),
    "train.label_smoothing": _number(0.0, 1.0),
    "train.eval_every_epochs": _integer(1, 1_000_000),
    "train.patience": _integer(0, 1_000_000),
    "train.debug_nans": _BOOL,
    "eval.chunk": _integer(1, 1_048_576),
    "eval.selection": _choice("seen", "all", "reversed"),
    "eval.calibration": _choice("global", "relation", "none"),
    "eval.exclude_self": _BOOL,
    "eval.inductive": _number(0.0, 1.0, high_open=True),
    "mesh.data": _integer(1, 65_536),
    "mesh.entity": _integer(1, 65_536),
    "checkpoint.keep": _integer(1, 1000),
    "checkpoint.every_seconds": _number(0.0, 1e9),
}
SECTIONS = tuple(dict.fromkeys(key.split(".")[0] for key in RULES if "." in key))


def check_config(config: ConfigDict) -> None:
    """Checks every key and every rule that combines keys.

    Raises:
      UserError: the first violation in one line: the key, the value found, the allowed set or range,
        and for an unknown key the closest valid one.
    """
    check_keys(config)
    check_combinations(config)


def check_keys(config: Any) -> None:
    """Checks that `config` is a ConfigDict with the keys of `RULES`, no others, and allowed values.

    Raises:
      UserError: see `check_config`.
    """
    if not isinstance(config, ConfigDict):
        raise UserError(
            f"the config is of type {type(config).__name__}: get_config() must return a ConfigDict; "
            "start from numcoke_jax.config.default_config()"
        )
    found = flatten(config)
    for key in found:
        check_key_exists(key)
    for key, rule in RULES.items():
        if key not in found:
            raise UserError(f"{key} is missing: it needs {rule.needs()}; start from default_config()")
        check_value(key, found[key])


def check_key_exists(key: str) -> None:
    """Raises UserError with the closest valid key unless `key`, such as "train.epochs", has a rule."""
    if key in RULES:
        return
    if key in SECTIONS:
        example = next(known for known in RULES if known.startswith(f"{key}."))
        raise UserError(f"{key} is a section of the config, not a key; set a key of it, such as {example}")
    closest, similarity = closest_key(key)
    if similarity >= CLOSE_ENOUGH:
        raise UserError(f"{printable(key)} is not a config key; did you mean {closest}?")
    raise UserError(f"{printable(key)} is not a config key; the closest is {closest}, --help lists all")


def check_value(key: str, value: Any) -> None:
    """Raises UserError naming key, value and allowed set unless the rule of `key` allows `value`."""
    problem = RULES[key].problem(value)
    if problem:
        raise UserError(wrong_value(key, value, problem))


def wrong_value(key: str, value: Any, problem: str) -> str:
    """The sentence about a value that `key` does not accept; text is shown without quotes."""
    hint = ""
    rule = RULES[key]
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
    for key, off in EXTENSIONS_OF_NUMCOKE.items():
        section, _, name = key.partition(".")
        value = config[section][name]
        if value != off and not looks_at(model.name, key):
            raise UserError(
                f"{key}={value} has no effect with model.name={model.name}, which lacks this extension: "
                f"set {key}={off}"
            )
    _check_baseline(model)
    _check_scale(model, data.normalize)
    if train.weight_decay and train.optimizer != "adamw":
        raise UserError(
            f"train.weight_decay={train.weight_decay:g} has no effect with "
            f"train.optimizer={train.optimizer}: set train.optimizer=adamw"
        )


def _check_baseline(model: ConfigDict) -> None:
    """The rules of single models that the paper's model is compared with."""
    if model.attributes != "none" and not looks_at(model.name, "model.attributes"):
        raise UserError(
            f"model.attributes={model.attributes} has no effect with model.name={model.name}, which sees the "
            "values in its own way: set model.attributes=none"
        )
    if model.name == "atth" and model.dim % 2:
        raise UserError(
            f"model.dim={model.dim} is odd: model.name=atth rotates pairs of dimensions, "
            "set an even model.dim"
        )
    if model.name == "conve" and _largest_divisor_up_to_root(model.dim) < CONVE_FILTER:
        raise UserError(
            f"model.dim={model.dim} has no divisor from {CONVE_FILTER} to its root: model.name=conve makes "
            f"images of the vectors for filters of {CONVE_FILTER} x {CONVE_FILTER}, set model.dim=100 or 200"
        )


def _check_scale(model: ConfigDict, normalize: str) -> None:
    """Refuses values beyond 0 and 1 for models whose functions of a value end there."""
    dice = model.name == "nrn" and model.value_encoding == "dice"
    if normalize in SCALES_TO_ONE or not (dice or model.name == "mtkgnn"):
        return
    who = "model.name=nrn with model.value_encoding=dice" if dice else f"model.name={model.name}"
    other = ", or model.value_encoding=sinusoidal" if dice else ""
    raise UserError(
        f"data.normalize={normalize} does not give values from 0 to 1, which {who} needs: set "
        f"data.normalize={' or '.join(SCALES_TO_ONE)}{other}"
    )


def _largest_divisor_up_to_root(number: int) -> int:
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
        whole = _similarity(key, known)
        # A shared section is only worth something when the names resemble each other as well.
        return max(_similarity(name, known_name), whole if section else 0.0), whole

    best = max(RULES, key=similarity)
    return best, similarity(best)[0]


def _similarity(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left.lower(), right.lower(), autojunk=False).ratio()


def did_you_mean(text: str, choices: Iterable[str], prefix: str = "") -> str:
    """The hint "; did you mean X?" with the choice most similar to `text`; "" if none is similar."""
    close = difflib.get_close_matches(text.lower(), list(choices), n=1, cutoff=CLOSE_ENOUGH)
    return f"; did you mean {prefix}{close[0]}?" if close else ""


def printable(value: Any, longest: int = SHOWN_VALUE_LENGTH) -> str:
    """`value` on one line of at most `longest` characters; control characters and odd spaces as escapes."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    if len(text) > longest:
        text = text[: longest - 3] + "..."
    return text or "''"


def home_path(path: str | os.PathLike[str]) -> Path:
    """A path that a user gave: a leading ~ or ~NAME is a home folder, kept as typed if there is none.

    A shell leaves them to the program in --flag=~/file, and so does a config file.
    """
    return Path(os.path.expanduser(os.fspath(path)))


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path on one line, cut only when it is very long: its end matters most."""
    text = printable(os.fspath(path), longest=10**6)
    return text if len(text) <= LONGEST_PATH else "..." + text[3 - LONGEST_PATH :]
