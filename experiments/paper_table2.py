"""The models and figures of the paper's Table 2 that this package has: groups, names, presets, numbers.

The printed numbers belong to the authors' own folders.  Graphs built anew from the same tables have other
entities, facts and splits, so numbers on them are not comparable with the printed ones.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

METRICS = ("hits@1", "hits@3", "hits@10", "mr", "mrr")  # in the order of the paper's columns
LOWER_IS_BETTER = ("mr",)
DATA_SETS = ("us_cities", "spotify", "credit")  # in the paper's order
# Configs whose training facts are the authors' own: the printed figures are shown beside runs of these too.
AUTHORS_GRAPHS = {"rakge_spotify": "spotify", "rakge_credit": "credit"}


@dataclasses.dataclass(frozen=True)
class TableModel:
    """A row of the table.

    Attributes:
      name: as the paper prints it.
      group: the paper's group of models.
      preset: of `numcoke_jax/config/presets.py`.
      values: config keys on top of it.
      ours: whether it is NumCoKE.
    """

    name: str
    group: str
    preset: str
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ours: bool = False


MODELS: dict[str, TableModel] = {
    "transe": TableModel("TransE", "Euclidean", "transe", {"model.attributes": "concat"}),
    "conve": TableModel("ConvE", "Euclidean", "conve"),
    "tucker": TableModel("TuckER", "Euclidean", "tucker"),
    "hake": TableModel("HAKE", "Euclidean", "hake"),
    "dabr": TableModel("DaBR", "Euclidean", "dabr"),
    "kgdm": TableModel("KGDM", "Euclidean", "kgdm"),
    "rule": TableModel("RulE", "Euclidean", "rule"),
    "atth": TableModel("AttH", "Hyperbolic", "atth"),
    "murp": TableModel("MuRP", "Hyperbolic", "murp"),
    "cone": TableModel("ConE", "Hyperbolic", "cone"),
    "gie": TableModel("GIE", "Hyperbolic", "gie"),
    "lorentzkg": TableModel("LorentzKG", "Hyperbolic", "lorentzkg"),
    "rgcn": TableModel("R-GCN", "GNNs", "rgcn"),
    "wgcn": TableModel("WGCN", "GNNs", "wgcn"),
    "kbln": TableModel("KBLN", "Attributed", "kbln"),
    "mtkgnn": TableModel("MT-KGNN", "Attributed", "mtkgnn"),
    "literale": TableModel("LiteralE", "Attributed", "literale"),
    "nekg": TableModel("NEKG", "Deterministic", "nekg"),
    "nrn": TableModel("NRN", "Deterministic", "nrn"),
    "bigi": TableModel("BiGI", "Self-supervised", "bigi"),
    "slice": TableModel("SLiCE", "Self-supervised", "slice"),
    "simgcl": TableModel("SimGCL", "Self-supervised", "simgcl"),
    "rakge": TableModel("RAKGE", "Self-supervised", "rakge"),
    "paper": TableModel("NumCoKE", "NumCoKE", "paper", ours=True),
    "printed": TableModel("NumCoKE, as printed", "NumCoKE", "printed", ours=True),
    "numeric": TableModel("NumCoKE, order core", "NumCoKE", "numeric", ours=True),
    # Not the paper's: arithmetic on values and training facts.  `boosted_pairs` needs a package of its own.
    "raw": TableModel("raw values", "References", "raw"),
    "bounds": TableModel("bounds", "References", "bounds"),
    "posterior": TableModel("posterior", "References", "posterior"),
    "bradley_terry": TableModel("Bradley-Terry", "References", "bradley_terry"),
    "bradley_terry_compared": TableModel(
        "Bradley-Terry, compared value", "References", "bradley_terry", {"references.covariates": "compared"}
    ),
}

# By model and data set: Hits@1, Hits@3, Hits@10, MR, MRR.  KBLRN is printed for KBLN, RuIE for RulE.
PRINTED: dict[str, dict[str, tuple[float, float, float, float, float]]] = {
    "transe": {
        "us_cities": (0.189, 0.248, 0.324, 367, 0.239),
        "spotify": (0.259, 0.355, 0.462, 115, 0.332),
        "credit": (0.421, 0.520, 0.630, 39, 0.493),
    },
    "conve": {
        "us_cities": (0.158, 0.202, 0.274, 385, 0.198),
        "spotify": (0.231, 0.307, 0.414, 110, 0.295),
        "credit": (0.171, 0.281, 0.430, 58, 0.261),
    },
    "tucker": {
        "us_cities": (0.156, 0.212, 0.308, 321, 0.207),
        "spotify": (0.211, 0.296, 0.411, 98, 0.278),
        "credit": (0.405, 0.512, 0.638, 36, 0.485),
    },
    "hake": {
        "us_cities": (0.003, 0.025, 0.064, 981, 0.024),
        "spotify": (0.008, 0.085, 0.120, 196, 0.075),
        "credit": (0.051, 0.151, 0.273, 128, 0.134),
    },
    "dabr": {
        "us_cities": (0.202, 0.256, 0.337, 352, 0.241),
        "spotify": (0.266, 0.367, 0.477, 104, 0.334),
        "credit": (0.425, 0.526, 0.621, 36, 0.498),
    },
    "kgdm": {
        "us_cities": (0.232, 0.271, 0.353, 329, 0.246),
        "spotify": (0.274, 0.374, 0.489, 99, 0.345),
        "credit": (0.419, 0.532, 0.626, 39, 0.482),
    },
    "rule": {
        "us_cities": (0.084, 0.126, 0.185, 587, 0.120),
        "spotify": (0.124, 0.188, 0.284, 173, 0.182),
        "credit": (0.291, 0.388, 0.513, 65, 0.366),
    },
    "atth": {
        "us_cities": (0.051, 0.069, 0.108, 1255, 0.076),
        "spotify": (0.052, 0.082, 0.146, 348, 0.087),
        "credit": (0.176, 0.261, 0.395, 101, 0.251),
    },
    "murp": {
        "us_cities": (0.082, 0.113, 0.175, 457, 0.115),
        "spotify": (0.024, 0.179, 0.324, 135, 0.119),
        "credit": (0.151, 0.246, 0.432, 80, 0.228),
    },
    "cone": {
        "us_cities": (0.009, 0.042, 0.114, 239, 0.048),
        "spotify": (0.001, 0.006, 0.064, 227, 0.028),
        "credit": (0.006, 0.241, 0.395, 82, 0.156),
    },
    "gie": {
        "us_cities": (0.095, 0.134, 0.206, 570, 0.132),
        "spotify": (0.121, 0.183, 0.281, 185, 0.174),
        "credit": (0.285, 0.388, 0.512, 76, 0.359),
    },
    "lorentzkg": {
        "us_cities": (0.179, 0.221, 0.286, 368, 0.209),
        "spotify": (0.239, 0.312, 0.412, 126, 0.320),
        "credit": (0.402, 0.509, 0.597, 38, 0.482),
    },
    "rgcn": {
        "us_cities": (0.212, 0.271, 0.355, 314, 0.263),
        "spotify": (0.288, 0.382, 0.504, 89, 0.364),
        "credit": (0.480, 0.570, 0.675, 34, 0.546),
    },
    "wgcn": {
        "us_cities": (0.029, 0.056, 0.104, 968, 0.057),
        "spotify": (0.095, 0.162, 0.261, 331, 0.153),
        "credit": (0.170, 0.256, 0.369, 100, 0.241),
    },
    "kbln": {
        "us_cities": (0.006, 0.018, 0.046, 2164, 0.021),
        "spotify": (0.017, 0.039, 0.086, 347, 0.044),
        "credit": (0.007, 0.020, 0.079, 271, 0.061),
    },
    "mtkgnn": {
        "us_cities": (0.071, 0.109, 0.156, 653, 0.102),
        "spotify": (0.108, 0.182, 0.302, 142, 0.176),
        "credit": (0.211, 0.304, 0.436, 74, 0.285),
    },
    "literale": {
        "us_cities": (0.246, 0.308, 0.402, 228, 0.299),
        "spotify": (0.264, 0.371, 0.498, 76, 0.345),
        "credit": (0.475, 0.562, 0.676, 36, 0.549),
    },
    "nekg": {
        "us_cities": (0.196, 0.230, 0.304, 376, 0.217),
        "spotify": (0.246, 0.323, 0.423, 121, 0.336),
        "credit": (0.398, 0.512, 0.589, 41, 0.477),
    },
    "nrn": {
        "us_cities": (0.298, 0.326, 0.432, 155, 0.323),
        "spotify": (0.342, 0.442, 0.546, 102, 0.414),
        "credit": (0.560, 0.639, 0.740, 21, 0.620),
    },
    "bigi": {
        "us_cities": (0.185, 0.249, 0.331, 359, 0.236),
        "spotify": (0.260, 0.354, 0.468, 118, 0.331),
        "credit": (0.418, 0.507, 0.622, 39, 0.487),
    },
    "slice": {
        "us_cities": (0.185, 0.250, 0.331, 359, 0.237),
        "spotify": (0.261, 0.354, 0.469, 117, 0.332),
        "credit": (0.420, 0.510, 0.622, 38, 0.490),
    },
    "simgcl": {
        "us_cities": (0.344, 0.415, 0.502, 162, 0.399),
        "spotify": (0.000, 0.255, 0.467, 59, 0.167),
        "credit": (0.000, 0.399, 0.645, 22, 0.239),
    },
    "rakge": {
        "us_cities": (0.395, 0.455, 0.529, 199, 0.442),
        "spotify": (0.502, 0.608, 0.674, 37, 0.573),
        "credit": (0.647, 0.733, 0.823, 12, 0.708),
    },
    "paper": {
        "us_cities": (0.439, 0.536, 0.640, 119, 0.508),
        "spotify": (0.636, 0.694, 0.758, 30, 0.680),
        "credit": (0.745, 0.818, 0.888, 7, 0.794),
    },
}
PRINTED["printed"] = PRINTED["paper"]  # two readings of one model
