"""Every key of the configuration, and nothing about a key anywhere else.

A config file under `configs/` starts from `default_config()` and changes some keys; the command line changes
more with `--section.key=value`.  `--help` and docs/settings.md are made from this table.  A module
that acts on a choice takes it from here (`choices`), and this one never imports JAX: a mistyped flag is
answered before that.  Which models look at a key of scope "model" is in `config/models.py`.
"""

import functools
from typing import Any

from ml_collections import ConfigDict

from numcoke_jax.config.models import MODELS
from numcoke_jax.config.rules import BOOL, NAMES, TEXT, THREE_SHARES, Key, choice, integer, number, some_of

TABLES = ("cars", "spotify", "credit", "us_cities")
GRAPHS = ("fb15k_237", "synthetic", "rakge_credit", "rakge_spotify")
LARGEST_SEED = 2**32 - 1  # jax.random.key takes 32 bits: a larger seed would equal a smaller one

SECTIONS = {  # in the order of their keys
    "model": "the model and its sizes",
    "data": "facts and values",
    "numeric": "embedding of values",
    "experts": "mixture of experts",
    "attention": "attention over attributes",
    "fusion": "entity and attributes joined",
    "score": "the score of a triple",
    "okcl": "the second loss",
    "query": "networks of conve, tucker and wgcn that make a query vector of head and relation",
    "graph": "models that pass messages along the training facts",
    "references": "models that are fitted in one step, without gradients (models/references/)",
    "train": "training",
    "eval": "ranking and calibration",
    "mesh": "devices of a run (training/placement.py); a run may resume on others",
    "checkpoint": "checkpoints",
}

_model = functools.partial(Key, scope="model")
_extension = functools.partial(Key, scope="extension")
_table = functools.partial(Key, scope="table", compiled=False)
_host = functools.partial(Key, compiled=False)

# Upper ends keep a slip of the finger (a digit too many) from ending in an allocation failure; they are
# far beyond any useful value.  The learning rate is the exception: a run with an absurd one must start, so
# that the training loop can say which loss became non-finite.
# fmt: off
_KEYS = (
    _host("seed", 0, integer(0, LARGEST_SEED),
        "base of every random stream of the model and its training (not of the data)"),

    Key("model.name", "numcoke", choice(*MODELS),
        "docs/models.md says what each is, and what it looks at"),
    _model("model.dim", 100, integer(1, 4096), "d, size of entity and relation embeddings"),
    _model("model.attribute_dim", 100, integer(1, 4096),
        "a, size of attribute embeddings; a multiple of attention.heads"),
    _extension("model.products", "float32", choice("float32", "bfloat16"),
        "operands of numcoke's matrix products; bfloat16 rounds them (models/ops)"),
    _model("model.attributes", "none", choice("none", "concat"),
        "concat: models that use no values get them joined to the entity vectors"),
    _model("model.value_encoding", "dice", choice("dice", "sinusoidal"),
        "nrn's fixed function of a value"),

    _host("data.path", "", TEXT,
        'a folder with train/valid/test.txt, neg.txt, literals/; "" takes data.table', resumable=True),
    _host("data.bad_values", "error", choice("error", "missing"),
        "literals of a folder that are not numbers: error, or missing: left out", scope="folder"),
    _host("data.dates", "error", choice("error", "year", "days"),
        "literals of a folder that are dates: error; else their year, or days since 1970", scope="folder"),
    _table("data.table", "cars", choice(*TABLES, *GRAPHS),
        "cars, spotify, credit, us_cities: compared; the others are graphs"),
    _table("data.dir", "", TEXT,
        "first place to look for raw data, before $NUMCOKE_DATA, the user cache, the network",
        resumable=True),
    _host("data.seed", 0, integer(0, LARGEST_SEED),
        "seed of sampling, splitting and masking: fixed while config.seed varies"),
    _table("data.entities", 0, integer(0, 10**8), "rows of the table kept (a seeded sample); 0 keeps all"),
    _table("data.groups", "relation", choice("relation", "common"),
        "relation: a seeded group of entities per relation; common: one for all"),
    _table("data.group_size", 60, integer(2, 100_000, 0),
        "G, entities in a group; a pair with distinct values is a triple; 0: all entities"),
    _table("data.protocol", "complete", choice("complete", "nearest"),
        "complete: every pair of a group; nearest: a head's nearest tails only"),
    _table("data.neighbours", 10, integer(1, 100_000), "tails per head in protocol nearest"),
    _table("data.direction", ">", choice(">", "<"),
        ">: a fact's head has the higher value; <: the lower one"),
    _table("data.relations", (), NAMES,
        "fields that get a comparative relation; () takes the table's own list"),
    _table("data.split", (0.1, 0.1, 0.8), THREE_SHARES,
        "shares of the triples for train, valid, test; they sum to 1"),
    _table("data.missing_rate", 0.2, number(0.0, 1.0),
        "share of a built graph's literals masked (never of a folder's); 0 masks none"),
    _table("data.negatives_per_pair", 5, integer(0, 100_000),
        "nearest known-false tails per (head, relation) in a built graph; 0: none"),
    _table("data.synthetic_entities", 1000, integer(2, 10**8),
        "N of data.table=synthetic (data/synthetic.py)"),
    _table("data.synthetic_fields", 6, integer(1, 100_000), "M, numeric fields, whose kinds take turns"),
    _table("data.synthetic_relations", 8, integer(1, 100_000),
        "R; the first M compare one field each, the others mixes of two fields"),
    _table("data.synthetic_mix", "sum", choice("sum", "distance"),
        "what a mix compares: the sum of two fields' ranks, or how far apart they are, which no sum tells"),
    _table("data.synthetic_triples", 20_000, integer(1, 10**9),
        "facts over all splits; a relation has at most its ordered pairs"),
    _table("data.synthetic_kinds", ("continuous", "discrete", "skewed"),
        some_of("continuous", "discrete", "skewed"), "in the fields' order"),
    _table("data.synthetic_levels", 10, integer(1, 10**9),
        "different values of a discrete field; 1: a constant"),
    _host("data.hide", (), NAMES,
        "fields that are no literals: what compares them must be inferred from facts and other fields"),
    _host("data.reversed", 0.0, number(0.0, 0.5),
        "share of the training facts that are turned around, for noisy orders; 0: none"),
    _host("data.inverse", False, BOOL,
        "an inverse of every relation is trained, and heads are ranked by it, besides tails"),
    _host("data.control", "true", choice("true", "shuffled", "zeroed", "removed"),
        "values: the true ones, or those of a control experiment"),
    _host("data.normalize", "minmax", choice("minmax", "quantile", "zscore", "none"),
        "value scale"),

    _model("numeric.share_transform", False, BOOL, "one W_x for all fields instead of one per field"),
    _model("numeric.missing", "embedding", choice("embedding", "zero", "skip"),
        "missing cells: a learned vector per field, zero, or skip: they get no attention"),
    _extension("numeric.encoding", "linear", choice("linear", "quantile", "periodic"),
        "extensions: quantile, periodic (models/numeric_embedding.py)"),
    _model("numeric.bins", 8, integer(1, 4096),
        "of the quantile encoding: linear inside each, equally many values in each"),
    _model("numeric.frequencies", 4, integer(1, 4096),
        "of the periodic encoding, learned per field: a sine and a cosine each"),
    _model("numeric.frequency_scale", 1.0, number(0.0, 1e4, low_open=True),
        "> 0, their size at the start, in periods per unit of the scaled value"),

    _model("experts.count", 3, integer(1, 256),
        "K, number of experts; 1 leaves a plain entity layer (ablation of MoE)"),
    _model("experts.hidden", 0, integer(0, 4096),
        "width of each expert's hidden layer; 0 makes an expert linear"),
    _model("experts.noise", True, BOOL, "Gaussian noise on the gate while training"),

    _model("attention.heads", 4, integer(1, 256), "L, attention heads"),
    _model("attention.relation_weight", 0.5, number(0.0, 1.0),
        "delta_r in [0, 1]; the entity gets 1 - delta_r"),
    _model("attention.use_query", True, BOOL,
        "False sets both weights to 0 (ablation of knowledge-aware attention)"),
    _model("attention.operators", ("product", "difference", "concatenation"),
        some_of("product", "difference", "concatenation", "mlp"),
        "ways to compare query and attribute, whose scores are added up"),
    _model("attention.hidden", 64, integer(1, 4096), "width of the mlp operator's hidden layer"),

    _model("fusion.kind", "gate", choice("gate", "paper"),
        "gate: gated sum of entity and attributes; paper: the printed line"),

    _extension("score.decoder", "translation", choice("translation", "distmult", "complex", "tucker"),
        "score of numcoke's and literale's vectors; extensions: a baseline's bilinear one"),
    _model("score.norm", 1, integer(1, 2), "1 or 2: norm of the translation term"),
    _model("score.margin", 9.0, number(0.0, 1e4), "epsilon"),
    _model("score.order", "reward", choice("reward", "penalty", "none"),
        "numcoke's order term: reward, penalty or none; rakge has the penalty"),
    _model("score.order_weight", 0.1, number(0.0, 1e4), "Delta, weight of the order term"),
    _model("score.dropout", 0.7, number(0.0, 1.0, high_open=True),
        "dropped share of the decoder's head and tail vectors in training; 0: none"),
    _extension("score.order_core", False, BOOL,
        "extension: infer the order of relations that compare (models/order_core)"),

    _model("okcl.weight", 0.3, number(0.0, 1e4),
        "lambda, weight of the loss besides BCE: contrastive, complex' cubed norms, cone's angles; 0: none"),
    _model("okcl.k", 5, integer(1, 100_000), "positives and negatives kept per (head, relation)"),
    _model("okcl.temperature", 1.0, number(1e-4, 1e4), "tau, > 0"),
    _model("okcl.sampling", "cosine", choice("cosine", "random"),
        "top-k by cosine to the head, or random (ablation of ordinal sampling)"),
    _model("okcl.negatives", "given", choice("given", "unlinked"),
        "train.negatives but the head, else unlinked ones; or always the unlinked"),
    _model("okcl.reduce", "mean", choice("mean", "sum"),
        "the top-k vectors are averaged (mean) or added up (sum, as printed)"),
    _model("okcl.similarity", "distance", choice("distance", "cosine", "dot"),
        "distance (the score's own), cosine or dot (as printed)"),
    _model("okcl.num_negative_mixes", 1, integer(1, 256), "mixes of the negatives, each with its own beta"),
    _model("okcl.in_batch", False, BOOL, "also use other pairs' negative mixes"),

    _model("query.filters", 32, integer(1, 4096), "feature maps of the convolution of conve and wgcn"),
    _model("query.input_dropout", 0.2, number(0.0, 1.0, high_open=True),
        "dropped share of conve's image, tucker's head vector, wgcn's layers; 0: none"),
    _model("query.feature_dropout", 0.2, number(0.0, 1.0, high_open=True),
        "of whole feature maps (conve, wgcn), of tucker's relation matrix; 0: none"),
    _model("query.hidden_dropout", 0.3, number(0.0, 1.0, high_open=True), "of the query vector; 0: none"),

    _model("graph.layers", 2, integer(1, 64), "of bigi, rgcn, simgcl, slice and wgcn"),
    _model("graph.bases", 4, integer(1, 4096),
        "B of rgcn: matrices that those of the relations are mixed from"),
    _model("graph.edge_dropout", 0.4, number(0.0, 1.0, high_open=True),
        "share of the facts' messages that rgcn drops in training; 0: none"),
    _model("graph.decoder", "distmult", choice("distmult", "translation"),
        "score of rgcn's vectors: the published one, or translation, as RAKGE runs it"),
    _model("graph.noise", 0.1, number(0.0, 1e4),
        "epsilon, length of the noise on simgcl's views; 0 makes the views equal"),

    _model("references.draws", 256, integer(1, 65_536),
        "D, orders of all entities that posterior draws and keeps for each relation"),
    _model("references.covariates", "none", choice("none", "compared", "all"),
        "values in bradley_terry: none, the compared field's, or all fields"),
    _model("references.trees", 200, integer(1, 100_000), "of boosted_pairs, for each relation"),

    _host("train.epochs", 200, integer(0, 1_000_000),
        "passes over all (head, relation) pairs of training; 0 chooses from the graph"),
    _host("train.batch_size", 256, integer(1, 1_048_576), "(head, relation) pairs per step"),
    _host("train.relations_per_step", 4, integer(0, 65_536),
        "relation slots per step; divides batch_size; 0 chooses from the graph"),
    _host("train.candidates", 0, integer(0, 10**8),
        "C, sampled candidate tails per step (data/batches.py), for large graphs; 0: all"),
    Key("train.loss", "bce", choice("bce", "cross_entropy"),
        "bce: each tail on its own; cross_entropy, extension: softmax over the tails (RESULTS.md)"),
    Key("train.optimizer", "adam", choice("adam", "adamw"), "adamw: Adam with train.weight_decay"),
    Key("train.learning_rate", 1e-3, number(0.0, 1e9, low_open=True), "peak learning rate, > 0"),
    Key("train.schedule", "constant", choice("constant", "cosine"),
        "of the learning rate; cosine: down to 0 at the last step"),
    Key("train.warmup_steps", 0, integer(0, 1_000_000_000), "linear warm-up from 0; 0: none"),
    Key("train.weight_decay", 0.0, number(0.0, 1e3), "of adamw; 0: none"),
    Key("train.clip_norm", 0.0, number(0.0, 1e9), "largest global gradient norm; 0: no clipping"),
    _extension("train.entity_dropout", 0.0, number(0.0, 1.0, high_open=True),
        "extension: share of a step's entities that are seen as unknown; 0: none"),
    Key("train.negatives", "given", choice("given", "reversed"),
        "known to be false: neg.txt, or also the reversed facts of strict orders"),
    Key("train.unknown_weight", 1.0, number(0.0, 1.0),
        "extension: weight, in train.loss, of entities not known to be true or false"),
    Key("train.label_smoothing", 0.0, number(0.0, 1.0),
        "s in [0, 1]: targets become y (1 - s) + s / 2, or s / E with cross_entropy over E tails"),
    _host("train.eval_every_epochs", 10, integer(1, 1_000_000), "epochs between validations"),
    _host("train.patience", 10, integer(0, 1_000_000),
        "validations without a better MRR before stopping; 0: never stop early", resumable=True),
    _host("train.debug_nans", False, BOOL,
        "says which module made the first NaN or infinity; makes every step slower", resumable=True),

    _host("eval.chunk", 256, integer(1, 1_048_576),
        "heads scored at once: memory grows with chunk x entities", resumable=True),
    _host("eval.selection", "seen", choice("seen", "all", "reversed"),
        "facts that validation ranks against (evaluation/ranking.py)"),
    _host("eval.calibration", "relation", choice("global", "relation", "none"),
        "probabilities of scores: relation: a scale of each; global: one for all; or none", resumable=True),
    _host("eval.exclude_self", False, BOOL, "select on ranks without the head itself as a candidate"),
    _host("eval.inductive", 0.0, number(0.0, 1.0, high_open=True),
        "share of entities held out, ranked by attributes (runs/unseen.py); 0: none"),

    Key("mesh.data", 1, integer(1, 65_536),
        "devices that a step's queries are divided over; divides batch_size / relations_per_step",
        resumable=True),
    Key("mesh.entity", 1, integer(1, 65_536),
        "devices that the entity tables are cut over, the last part padded if need be", resumable=True),

    _host("checkpoint.keep", 2, integer(1, 1000),
        "newest checkpoints kept besides the best one", resumable=True),
    _host("checkpoint.every_seconds", 600.0, number(0.0, 1e9),
        "between checkpoints inside a validation interval", resumable=True),
)
# fmt: on
KEYS: dict[str, Key] = {key.name: key for key in _KEYS}

REMOVED: dict[str, tuple[Any, str]] = {  # keys of earlier versions: the value that was off, what came instead
    "score.numeric_order": (False, "score.order_core replaces it"),
}


def default_config() -> ConfigDict:
    """The paper's model with the defaults of this package; a new, unlocked copy on every call."""
    return nested({name: key.default for name, key in KEYS.items()})


def nested(flat: dict[str, Any]) -> ConfigDict:
    """The config with the values of dotted keys, in their order."""
    config: dict[str, Any] = {}
    for key, value in flat.items():
        section, _, name = key.rpartition(".")
        (config.setdefault(section, {}) if section else config)[name] = value
    return ConfigDict(config)


def choices(key: str) -> tuple[str, ...]:
    """The strings that `key` chooses from."""
    return tuple(KEYS[key].allowed.choices)


def looks_at(model: str, key: str) -> bool:
    """Whether `key` has an effect on `model`, its loss or its training."""
    listed, section = MODELS[model].keys, f"{key.partition('.')[0]}."
    return KEYS[key].scope not in ("model", "extension") or key in listed or section in listed
