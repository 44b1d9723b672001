"""What a fact of a strict order rules out: its reverse."""

import numpy as np

from numcoke_jax.errors import UserError
from numcoke_jax.graph import HEAD, RELATION, TAIL, NumericGraph, fact_keys


def reversed_facts(graph: NumericGraph, facts: np.ndarray, *, key: str, instead: str) -> np.ndarray:
    """(t, r, h) for every fact (h, r, t): false where relations are strict orders.

    Args:
      graph: names and sizes.
      facts: int32 [T, 3], triples of the graph that are known to hold.
      key: the config key whose value "reversed" assumes strict orders, for the message.
      instead: its value that does not.

    Returns:
      int32 [T, 3].

    Raises:
      UserError: a relation holds in both directions for some pair of entities.
    """
    reverse = facts[:, [TAIL, RELATION, HEAD]]
    keys, reverse_keys = fact_keys([facts, reverse], graph.num_entities, graph.num_relations)
    both_ways = np.isin(keys, reverse_keys) & (facts[:, HEAD] != facts[:, TAIL])
    if both_ways.any():
        relation = graph.vocabulary.relations[facts[np.argmax(both_ways), RELATION]]
        raise UserError(
            f"{key}='reversed' needs relations that are strict orders, but {relation!r} holds in "
            f"both directions for some entities; set {key}={instead!r}"
        )
    return reverse
