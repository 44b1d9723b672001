"""The models: an entry each, with the file that has the model and the keys that it and its loss look at.

All else about a model is in its file, as the `ModelSpec` at its end.  The keys stand here because a wrong
value is refused before JAX is imported, and a model's file imports it; tests/config/test_model_keys.py
compares them with what the model reads.

Keys of training, data and evaluation serve all models.  Keys that a model does not look at may have any
value, so that a preset can change the model alone; only switches of a part that a model lacks are refused
when they are on.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ListedModel:
    """An entry.

    Attributes:
      file: in numcoke_jax/models/, with dots instead of slashes and without .py.
      keys: those of scope "model" or "extension" that the model looks at; "okcl." means all of a section.
    """

    file: str
    keys: tuple[str, ...] = ()


_RAKGE = ("attention.heads", "score.order_weight", "okcl.weight")
_TRANSLATION = ("score.norm", "score.margin", "score.dropout")
_QUERY_DROPOUT = ("query.input_dropout", "query.feature_dropout", "query.hidden_dropout")
_SIZES = ("model.dim", "model.attribute_dim")
_JOINED = ("model.dim", "model.attributes")
_VIEWS = ("okcl.weight", "okcl.temperature")
_PARTS = ("numeric.", "experts.", "attention.", "fusion.", "score.", "okcl.")
MODELS: dict[str, ListedModel] = {  # by the name that `model.name` takes, in the order that messages show
    "numcoke": ListedModel(
        "numcoke", (*_SIZES, "model.products", *_PARTS, *_QUERY_DROPOUT, "train.entity_dropout")
    ),
    "rakge": ListedModel("rakge", (*_SIZES, *_TRANSLATION, *_RAKGE)),
    "literale": ListedModel("literale", ("model.dim", "score.decoder", *_TRANSLATION)),
    "transe": ListedModel("transe", (*_JOINED, *_TRANSLATION)),
    "conve": ListedModel("conve", (*_JOINED, "query.filters", *_QUERY_DROPOUT)),
    "tucker": ListedModel("tucker", (*_JOINED, *_QUERY_DROPOUT)),
    "distmult": ListedModel("distmult", (*_JOINED, "score.dropout", "okcl.weight")),
    "complex": ListedModel("complex", (*_JOINED, "score.dropout", "okcl.weight")),
    "rotate": ListedModel("rotate", (*_JOINED, *_TRANSLATION)),
    "hake": ListedModel("hake", (*_JOINED, "score.margin", "score.dropout")),
    "atth": ListedModel("atth", (*_JOINED, "score.dropout")),
    "murp": ListedModel("murp", (*_JOINED, "score.dropout")),
    "rgcn": ListedModel(
        "rgcn",
        (*_JOINED, "graph.layers", "graph.bases", "graph.edge_dropout", "graph.decoder", *_TRANSLATION),
    ),
    "kbln": ListedModel("kbln", ("model.dim", "score.dropout")),
    "mtkgnn": ListedModel("mtkgnn", ("model.dim", "score.dropout", "okcl.weight")),
    "nrn": ListedModel("nrn", ("model.dim", "model.value_encoding", *_TRANSLATION)),
    "nekg": ListedModel("nekg", ("model.dim", *_TRANSLATION)),
    "bigi": ListedModel("bigi", (*_JOINED, "graph.layers", *_TRANSLATION, "okcl.weight")),
    "slice": ListedModel("slice", (*_JOINED, "graph.layers", *_TRANSLATION, "okcl.weight")),
    "simgcl": ListedModel("simgcl", (*_JOINED, "graph.layers", "graph.noise", *_TRANSLATION, *_VIEWS)),
    "dabr": ListedModel("dabr", (*_JOINED, "score.dropout")),
    "cone": ListedModel("cone", (*_JOINED, "score.dropout", "okcl.weight")),
    "kgdm": ListedModel("kgdm", (*_JOINED, "score.dropout", "okcl.weight")),
    "rule": ListedModel("rule", (*_JOINED, "score.margin", "score.dropout", "okcl.weight")),
    "gie": ListedModel("gie", (*_JOINED, "score.dropout")),
    "lorentzkg": ListedModel("lorentzkg", (*_JOINED, "score.margin", "score.dropout")),
    "wgcn": ListedModel("wgcn", (*_JOINED, "graph.layers", "query.filters", *_QUERY_DROPOUT)),
    "raw": ListedModel("references.raw"),
    "bounds": ListedModel("references.bounds"),
    "posterior": ListedModel("references.posterior", ("references.draws",)),
    "bradley_terry": ListedModel("references.bradley_terry", ("references.covariates",)),
    "boosted_pairs": ListedModel("references.boosted_pairs", ("references.trees",)),
}
