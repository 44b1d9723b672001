"""Which keys of the config each model looks at, its loss included; `docs/models.md` has the same list.

Training, data and evaluation keys serve all models.  Keys that a model does not look at may have any
value, so that a preset can change the model alone; only switches of a part that a model lacks are refused
when they are on.
"""

from collections.abc import Mapping

# Sections and keys that describe a model or its loss, and not how or on what it is trained.
SECTIONS = (
    "model",
    "numeric",
    "experts",
    "attention",
    "fusion",
    "score",
    "okcl",
    "query",
    "graph",
    "references",
)
NOT_A_SETTING = ("model.name",)
EXTENSION_OF_TRAINING = "train.entity_dropout"
# A name that ends in "." stands for all keys of the section.
MODEL_KEYS: Mapping[str, tuple[str, ...]] = {
    "numcoke": (
        "model.dim",
        "model.attribute_dim",
        "model.products",
        "numeric.",
        "experts.",
        "attention.",
        "fusion.",
        "score.",
        "okcl.",
        EXTENSION_OF_TRAINING,
    ),
    "rakge": (
        "model.dim",
        "model.attribute_dim",
        "attention.heads",
        "score.norm",
        "score.margin",
        "score.order_weight",
        "score.dropout",
        "okcl.weight",
    ),
    "literale": ("model.dim", "score.norm", "score.margin", "score.dropout"),
    "transe": ("model.dim", "model.attributes", "score.norm", "score.margin", "score.dropout"),
    "conve": (
        "model.dim",
        "model.attributes",
        "query.filters",
        "query.input_dropout",
        "query.feature_dropout",
        "query.hidden_dropout",
    ),
    "tucker": (
        "model.dim",
        "model.attributes",
        "query.input_dropout",
        "query.feature_dropout",
        "query.hidden_dropout",
    ),
    "hake": ("model.dim", "model.attributes", "score.margin", "score.dropout"),
    "atth": ("model.dim", "model.attributes", "score.dropout"),
    "murp": ("model.dim", "model.attributes", "score.dropout"),
    "rgcn": (
        "model.dim",
        "model.attributes",
        "graph.layers",
        "graph.bases",
        "graph.edge_dropout",
        "score.dropout",
    ),
    "kbln": ("model.dim", "score.dropout"),
    "mtkgnn": ("model.dim", "score.dropout", "okcl.weight"),
    "nrn": ("model.dim", "model.value_encoding", "score.norm", "score.margin", "score.dropout"),
    "simgcl": (
        "model.dim",
        "model.attributes",
        "graph.layers",
        "graph.noise",
        "score.norm",
        "score.margin",
        "score.dropout",
        "okcl.weight",
        "okcl.temperature",
    ),
    "raw": (),
    "bounds": (),
    "posterior": ("references.draws",),
    "bradley_terry": ("references.covariates",),
    "boosted_pairs": ("references.trees",),
}


def describes_a_model(key: str) -> bool:
    """Whether only models look at `key`."""
    described = key.partition(".")[0] in SECTIONS and key not in NOT_A_SETTING
    return described or key == EXTENSION_OF_TRAINING


def looks_at(model: str, key: str) -> bool:
    """Whether `model` looks at the key of a model, such as "score.norm"."""
    section = f"{key.partition('.')[0]}."
    return key in MODEL_KEYS[model] or section in MODEL_KEYS[model]
