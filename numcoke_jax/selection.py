"""What validation facts are ranked against while a model is being selected, without looking at the test.

A validation tail is ranked among the candidates that are not filtered out.  Filtering by train and valid
("seen") leaves the true tails of the test split among them: on a graph whose test split is large, as in
the 10/10/80 split of comparative graphs, nearly every candidate above a tail is a true one, and the
metric is noise.  Filtering by the test too ("all") makes the choice depend on test facts.  For relations
that are strict orders there is a third way ("reversed"): rank only against entities that train and valid
facts show to be false, because the reversed fact (t, r, h) holds.
"""

import numpy as np

from numcoke_jax.graph import NumericGraph
from numcoke_jax.ranking import KnownTails
from numcoke_jax.reversed_facts import reversed_facts
from numcoke_jax.tail_index import TailIndex

RULES = ("seen", "all", "reversed")


class AllButReversed:
    """Filters every candidate but the head itself and those whose reversed fact is given.

    Args:
      reversed_facts: index of (t, r) -> h for every given fact (h, r, t).
    """

    def __init__(self, reversed_facts: TailIndex) -> None:
        self._reversed_facts = reversed_facts

    def mask(self, heads: np.ndarray, relations: np.ndarray, num_columns: int) -> np.ndarray:
        """Bool [..., num_columns], True at the candidates that do not count."""
        candidates = self._reversed_facts.mask(heads, relations, num_columns)
        candidates |= np.arange(num_columns) == np.asarray(heads)[..., None]
        return ~candidates


def selection_filter(graph: NumericGraph, rule: str) -> KnownTails:
    """The filter that `eval.selection` names, one of `RULES`.

    Raises:
      UserError: rule "reversed" on a graph where some relation holds in both directions.
    """
    sizes = {"num_entities": graph.num_entities, "num_relations": graph.num_relations}
    if rule == "seen":
        return TailIndex.from_triples(graph.train, graph.valid, **sizes)
    if rule == "all":
        return TailIndex.from_triples(graph.train, graph.valid, graph.test, **sizes)
    facts = np.concatenate([graph.train, graph.valid])
    reverse = reversed_facts(graph, facts, key="eval.selection", instead="seen")
    return AllButReversed(TailIndex.from_triples(reverse, **sizes))
