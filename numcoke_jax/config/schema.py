"""Every key of the configuration: its default, meaning, unit and the value that disables it, and its rule.

A config file under `configs/` starts from `default_config()` and changes some keys; the command line
changes more with `--config.section.key=value`.  `RULES` states the types, choices and ranges
of all keys.  Modules that act on a choice list it too, because this one must not import JAX;
`tests/config/test_config.py` keeps both lists equal.

The default of a new key keeps the earlier behaviour: a run that is older than the key has that value.
"""

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.config.model_keys import MODEL_KEYS

MODEL_NAMES = tuple(MODEL_KEYS)
TABLE_NAMES = ("cars", "spotify", "credit", "us_cities", "fb15k_237", "synthetic")
SYNTHETIC_KINDS = ("continuous", "discrete", "skewed")
OPERATORS = ("product", "difference", "concatenation", "mlp")
LARGEST_SEED = 2**32 - 1  # jax.random.key takes 32 bits: a larger seed would equal a smaller one


def default_config() -> ConfigDict:
    """The paper's model with the defaults of this package; a new, unlocked copy on every call."""
    config = ConfigDict()
    config.seed = 0  # base of every random stream of the model and its training (not of the data)
    config.model = model_config()
    config.data = data_config()
    config.numeric = numeric_config()
    config.experts = experts_config()
    config.attention = attention_config()
    config.fusion = fusion_config()
    config.score = score_config()
    config.okcl = okcl_config()
    config.query = query_config()
    config.graph = graph_config()
    config.references = references_config()
    config.train = train_config()
    config.eval = eval_config()
    config.mesh = mesh_config()
    config.checkpoint = checkpoint_config()
    return config


def model_config() -> ConfigDict:
    model = ConfigDict()
    model.name = "numcoke"  # or, to compare with it, one of docs/models.md, which says what each looks at
    model.dim = 100  # d, size of entity and relation embeddings
    model.attribute_dim = 100  # a, size of attribute embeddings; a multiple of attention.heads
    model.products = "float32"  # operands of numcoke's matrix products; "bfloat16" rounds them (models/ops)
    model.attributes = "none"  # "concat": models that use no values get them joined to the entity vectors
    model.value_encoding = "dice"  # nrn's fixed function of a value: "dice" or "sinusoidal"
    return model


def data_config() -> ConfigDict:
    data = ConfigDict()
    data.path = ""  # a folder with train/valid/test.txt, neg.txt, literals/; "" takes data.table
    data.bad_values = "error"  # literals of a folder that are not numbers: "error", or "missing": left out
    data.table = "cars"  # cars, spotify, credit, us_cities: compared; or a graph: fb15k_237, synthetic
    data.dir = ""  # first place to look for raw data, before $NUMCOKE_DATA, the user cache, the network
    data.seed = 0  # seed of sampling, splitting and masking: fixed while config.seed varies
    data.entities = 0  # rows of the table kept (a seeded sample); 0 keeps all
    data.groups = "relation"  # "relation": a seeded group of entities per relation; "common": one for all
    data.group_size = 60  # G, entities in a group; a pair with distinct values is a triple; 0: all entities
    data.protocol = "complete"  # "complete": every pair of a group; "nearest": a head's nearest tails only
    data.neighbours = 10  # tails per head in protocol "nearest", >= 1
    data.direction = ">"  # ">": a fact's head has the higher value; "<": the lower one
    data.relations = ()  # fields that get a comparative relation; () takes the table's own list
    data.split = (0.1, 0.1, 0.8)  # shares of the triples for train, valid, test; they sum to 1
    data.missing_rate = 0.2  # share of a built graph's literals masked (never of a folder's); 0 masks none
    data.negatives_per_pair = 5  # nearest known-false tails per (head, relation) in a built graph; 0: none
    data.synthetic_entities = 1000  # N of data.table "synthetic" (data/synthetic.py), >= 2
    data.synthetic_fields = 6  # M, numeric fields, whose kinds take turns
    data.synthetic_relations = 8  # R; the first M compare one field each, the others mixes of two fields
    data.synthetic_triples = 20_000  # facts over all splits; a relation has at most its ordered pairs
    data.synthetic_kinds = ("continuous", "discrete", "skewed")  # some of these, in the fields' order
    data.synthetic_levels = 10  # different values of a discrete field; 1: a constant
    data.control = "true"  # values: "true", or a control's: "shuffled", "zeroed", "removed"
    data.normalize = "minmax"  # value scale: "minmax", "quantile", "zscore" or "none"
    return data


def numeric_config() -> ConfigDict:
    numeric = ConfigDict()
    numeric.share_transform = False  # one W_x for all fields instead of one per field
    numeric.missing = "embedding"  # a learned vector per field for missing cells, or "zero"
    numeric.encoding = "linear"  # extensions: "quantile", "periodic" (models/numeric_embedding.py)
    numeric.bins = 8  # of the quantile encoding: linear inside each, equally many values in each
    numeric.frequencies = 4  # of the periodic encoding, learned per field: a sine and a cosine each
    numeric.frequency_scale = 1.0  # > 0, their size at the start, in periods per unit of the scaled value
    return numeric


def experts_config() -> ConfigDict:
    experts = ConfigDict()
    experts.count = 3  # K, number of experts; 1 leaves a plain entity layer (ablation of MoE)
    experts.hidden = 0  # width of each expert's hidden layer; 0 makes an expert linear
    experts.noise = True  # Gaussian noise on the gate while training
    return experts


def attention_config() -> ConfigDict:
    attention = ConfigDict()
    attention.heads = 4  # L, attention heads
    attention.relation_weight = 0.5  # delta_r in [0, 1]; the entity gets 1 - delta_r
    attention.use_query = True  # False sets both weights to 0 (ablation of knowledge-aware attention)
    attention.operators = ("product", "difference", "concatenation")  # some of these and "mlp"
    attention.hidden = 64  # width of the "mlp" operator's hidden layer
    return attention


def fusion_config() -> ConfigDict:
    fusion = ConfigDict()
    fusion.kind = "gate"  # "gate": gated sum of entity and attributes; "paper": the printed line
    return fusion


def score_config() -> ConfigDict:
    score = ConfigDict()
    score.norm = 1  # 1 or 2: norm of the translation term
    score.margin = 9.0  # epsilon
    score.order = "reward"  # numcoke's order term: "reward", "penalty" or "none"; rakge has the penalty
    score.order_weight = 0.1  # Delta, weight of the order term
    score.dropout = 0.7  # dropped share of the translation's head and tail vectors in training; 0: none
    score.numeric_order = False  # extension: compare the values themselves (models/numeric_order.py)
    score.order_core = False  # extension: infer the order of relations that compare (models/order_core)
    return score


def okcl_config() -> ConfigDict:
    okcl = ConfigDict()
    okcl.weight = 0.3  # lambda, weight of the loss besides BCE: contrastive, mtkgnn's value error; 0: none
    okcl.k = 5  # positives and negatives kept per (head, relation)
    okcl.temperature = 1.0  # tau, > 0
    okcl.sampling = "cosine"  # top-k by cosine to the head, or "random" (ablation of ordinal sampling)
    okcl.negatives = "given"  # train.negatives but the head, else unlinked ones; or always the "unlinked"
    okcl.reduce = "mean"  # the top-k vectors are averaged ("mean") or added up ("sum", as printed)
    okcl.similarity = "distance"  # "distance" (the score's own), "cosine" or "dot" (as printed)
    okcl.num_negative_mixes = 1  # mixes of the negatives, each with its own beta
    okcl.in_batch = False  # also use other pairs' negative mixes
    return okcl


def query_config() -> ConfigDict:
    query = ConfigDict()  # the networks of conve and tucker that make a query vector of head and relation
    query.filters = 32  # feature maps of conve's convolution
    query.input_dropout = 0.2  # dropped share of conve's image, of tucker's head vector; 0: none
    query.feature_dropout = 0.2  # of conve's whole feature maps, of tucker's relation matrix; 0: none
    query.hidden_dropout = 0.3  # of the query vector; 0: none
    return query


def graph_config() -> ConfigDict:
    graph = ConfigDict()  # models that pass messages along the training facts
    graph.layers = 2  # of rgcn and simgcl
    graph.bases = 4  # B of rgcn: matrices that those of the relations are mixed from
    graph.edge_dropout = 0.4  # share of the facts' messages that rgcn drops in training; 0: none
    graph.noise = 0.1  # epsilon, length of the noise on simgcl's views; 0 makes the views equal
    return graph


def references_config() -> ConfigDict:
    references = ConfigDict()  # models that are fitted in one step (models/references/), without gradients
    references.draws = 256  # D, orders of all entities that posterior draws and keeps for each relation
    references.covariates = "none"  # values in bradley_terry: "none", the "compared" field's, or "all" fields
    references.trees = 200  # of boosted_pairs, for each relation
    return references


def train_config() -> ConfigDict:
    train = ConfigDict()
    train.epochs = 200  # passes over all (head, relation) pairs of training; 0 chooses from the graph
    train.batch_size = 256  # (head, relation) pairs per step
    train.relations_per_step = 4  # relation slots per step; divides batch_size; 0 chooses from the graph
    train.candidates = 0  # C, sampled candidate tails per step (data/batches.py), for large graphs; 0: all
    train.optimizer = "adam"  # "adam" or "adamw"
    train.learning_rate = 1e-3  # peak learning rate, > 0
    train.schedule = "constant"  # "constant" or "cosine" (down to 0 at the last step)
    train.warmup_steps = 0  # linear warm-up from 0; 0: none
    train.weight_decay = 0.0  # of adamw; 0: none
    train.clip_norm = 0.0  # largest global gradient norm; 0: no clipping
    train.entity_dropout = 0.0  # extension: share of a step's entities that are seen as unknown; 0: none
    train.negatives = "given"  # known to be false: neg.txt, or also the "reversed" facts of strict orders
    train.unknown_weight = 1.0  # extension: weight, in the BCE, of entities not known to be true or false
    train.label_smoothing = 0.0  # in [0, 1]: targets become y (1 - s) + s / 2
    train.eval_every_epochs = 10  # epochs between validations
    train.patience = 10  # validations without a better MRR before stopping; 0: never stop early
    train.debug_nans = False  # says which module made the first NaN or infinity; makes every step slower
    return train


def eval_config() -> ConfigDict:
    evaluation = ConfigDict()
    evaluation.chunk = 256  # heads scored at once: memory grows with chunk x entities
    evaluation.selection = "seen"  # validation: against "seen", "all" or "reversed" (evaluation/ranking.py)
    evaluation.calibration = "global"  # one temperature, "relation": one each, or "none"
    evaluation.exclude_self = False  # select on ranks without the head itself as a candidate
    evaluation.inductive = 0.0  # share of entities held out, ranked by attributes (runs/unseen.py); 0: none
    return evaluation


def mesh_config() -> ConfigDict:
    mesh = ConfigDict()  # devices of a run (training/placement.py); a run may resume on others
    mesh.data = 1  # devices that a step's queries are divided over; divides batch_size / relations_per_step
    mesh.entity = 1  # devices that the entity tables are cut over, the last part padded if need be
    return mesh


def checkpoint_config() -> ConfigDict:
    checkpoint = ConfigDict()
    checkpoint.keep = 2  # newest checkpoints kept besides the best one
    checkpoint.every_seconds = 600.0  # between checkpoints inside a validation interval
    return checkpoint


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
    "score.order_core": _BOOL,
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
    "references.draws": _integer(1, 65_536),
    "references.covariates": _choice("none", "compared", "all"),
    "references.trees": _integer(1, 100_000),
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


def meanings() -> dict[str, str]:
    """What each key means: the comments at the defaults above, which are written only there."""
    found, section = {}, ""
    for line in Path(__file__).read_text(encoding="utf-8").splitlines():
        function = re.match(r"def (\w+)_config\(", line)
        key = re.match(r"    \w+\.(\w+) = .*?  # (.+)", line)
        if function:
            section = "" if function[1] == "default" else f"{function[1]}."
        elif key:
            found[f"{section}{key[1]}"] = key[2]
    return found


SECTIONS = tuple(dict.fromkeys(key.split(".")[0] for key in RULES if "." in key))
