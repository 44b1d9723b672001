"""Metrics of the ranks of tails, of heads and of both, by relation and by cardinality.

The cardinality of a relation is that of Bordes et al., "Translating Embeddings for Modeling Multi-relational
Data", NeurIPS 2013: a side counts as 1 if a question about it has less than 1.5 answers in the mean, over the
facts of all splits.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from numcoke_jax.data.graph import RELATION, SPLITS, NumericGraph
from numcoke_jax.data.tail_index import sorted_unique
from numcoke_jax.evaluation.metrics import rank_metrics
from numcoke_jax.evaluation.ranking import FilteredRanks, summaries

CARDINALITIES = ("1-1", "1-n", "n-1", "n-n")  # heads of a tail - tails of a head
MANY = 1.5  # answers to a question


def cardinalities(graph: NumericGraph) -> dict[int, str]:
    """The cardinality of each relation (id) that has a fact in any split; inverses are left out."""
    index, count = graph.index(*SPLITS), graph.num_entities
    relations = index.queries[:, RELATION].astype(np.int64)
    asked_tails = sorted_unique(np.repeat(relations, index.counts) * count + index.tails)
    facts = np.bincount(relations, index.counts, graph.num_relations)
    heads, tails = (
        np.bincount(asked, minlength=graph.num_relations) for asked in (relations, asked_tails // count)
    )
    found = {}
    for relation in np.flatnonzero(facts[: graph.own_relations]).tolist():
        answers = facts[relation] / tails[relation], facts[relation] / heads[relation]
        found[relation] = "-".join("n" if mean >= MANY else "1" for mean in answers)
    return found


def side_metrics(ranks: Mapping[str, FilteredRanks], where: np.ndarray | slice = slice(None)) -> dict:
    """The metrics of tails; where heads are ranked, theirs as "heads" and those of all ranks as "both".

    Args:
      ranks: what `Evaluator.sides` returns for a split.
      where: which of the split's facts.
    """
    return rank_metrics(ranks["tails"].all[where]) | other_sides(ranks, where)


def split_metrics(ranks: Mapping[str, FilteredRanks]) -> dict[str, Any]:
    """`side_metrics` of all facts of a split; "exclude_self": of tails, the head not a candidate."""
    tails = summaries(ranks["tails"])
    return {**tails["all"], "exclude_self": tails["exclude_self"], **other_sides(ranks)}


def other_sides(ranks: Mapping[str, FilteredRanks], where: np.ndarray | slice = slice(None)) -> dict:
    """The metrics of "heads" and of "both", of the same arguments; {} where heads are not ranked."""
    if "heads" not in ranks:
        return {}
    heads, tails = (ranks[side].all[where] for side in ("heads", "tails"))
    both = np.concatenate([heads, tails])
    return {side: rank_metrics(found) for side, found in (("heads", heads), ("both", both))}


def relation_metrics(graph: NumericGraph, split: str, ranks: Mapping[str, FilteredRanks]) -> dict[str, dict]:
    """`side_metrics` of each relation that has facts in `split`, with its "cardinality"."""
    relations = graph.split(split)[:, RELATION]
    kinds = cardinalities(graph)
    return {
        graph.vocabulary.relations[relation]: {
            "cardinality": kinds[relation],
            **side_metrics(ranks, relations == relation),
        }
        for relation in np.unique(relations).tolist()
    }


def cardinality_metrics(
    graph: NumericGraph, split: str, ranks: Mapping[str, FilteredRanks]
) -> dict[str, dict]:
    """`side_metrics` by cardinality, for those that have facts in `split`, with the number of "relations"."""
    relations = graph.split(split)[:, RELATION]
    kinds = cardinalities(graph)
    found = {}
    for kind in CARDINALITIES:
        own = [relation for relation in np.unique(relations).tolist() if kinds[relation] == kind]
        if own:
            found[kind] = {"relations": len(own), **side_metrics(ranks, np.isin(relations, own))}
    return found
