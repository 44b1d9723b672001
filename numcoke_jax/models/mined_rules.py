"""Rules of the form r(x, y) <- a(x, y) and r(x, y) <- a(x, z), b(z, y) that a graph's facts bear out.

a and b are relations or inverses: id a in [0, R) is the relation a, R + a its inverse.  A rule's confidence
is the share of the pairs (x, y) its body leads to that are facts of r (Galárraga et al., "AMIE: Association
Rule Mining under Incomplete Evidence in Ontological Knowledge Bases", WWW 2013).  Bodies are looked for
behind a sample of r's facts, so that the time does not grow with the square of the number of relations.
"""

from collections import Counter
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Int

RULES = 10  # K, of the highest confidence, for each relation
SAMPLED_FACTS = 100  # of each relation, behind which bodies are looked for
CANDIDATES = 30  # bodies most often found there, whose confidence is counted
LEAST_SUPPORT = 2  # facts of r that a body must lead to


def mined(facts: Int[np.ndarray, "n 3"], entities: int, relations: int, *, seed: int) -> np.ndarray:
    """int64 [R, K, 2]: the bodies of each relation's rules, the best first.

    A body of one relation is (a, -1); (-1, -1) fills up where there are fewer than K rules.  Relations and
    inverses with the very same pairs are one, by its lowest id, and r itself is no body of r: it would know
    nothing that r does not.
    """
    links = [_pairs(facts[facts[:, 1] == relation], entities) for relation in range(relations)]
    links += [_sorted(matrix.T) for matrix in links]
    first_with: dict[tuple[bytes, bytes], int] = {}
    same_as = [
        first_with.setdefault((link.indices.tobytes(), link.indptr.tobytes()), number)
        for number, link in enumerate(links)
    ]
    distinct = sorted(first_with.values())
    rng, found = np.random.default_rng(seed), np.full((relations, RULES, 2), -1)
    for relation in range(relations):
        bodies = _bodies_behind(links, distinct, relation, rng)
        del bodies[same_as[relation], -1]
        ranked = []
        for body, _ in bodies.most_common(CANDIDATES):
            led_to = links[body[0]] if body[1] < 0 else (links[body[0]] @ links[body[1]]).astype(bool)
            support = led_to.multiply(links[relation]).nnz
            if support >= LEAST_SUPPORT:
                ranked.append((-support / led_to.nnz, -support, body))
        for place, (_, _, body) in enumerate(sorted(ranked)[:RULES]):
            found[relation, place] = body
    return found


def _pairs(facts: np.ndarray, entities: int) -> scipy.sparse.csr_array:
    """bool [N, N]: the head and the tail of a fact."""
    ones = np.ones(len(facts), bool)
    return _sorted(scipy.sparse.coo_array((ones, (facts[:, 0], facts[:, 2])), (entities, entities)))


def _sorted(matrix: Any) -> scipy.sparse.csr_array:
    """The one way to write a matrix down by rows."""
    rows = matrix.tocsr()
    rows.sum_duplicates()
    return rows


def _bodies_behind(
    links: list[scipy.sparse.csr_array], distinct: list[int], relation: int, rng: np.random.Generator
) -> Counter:
    """How many of a sample of the relation's facts each body leads from head to tail of."""
    heads, tails = links[relation].nonzero()
    chosen = rng.permutation(len(heads))[:SAMPLED_FACTS]
    counts: Counter = Counter()
    half = len(links) // 2
    turned = {number: links[(number + half) % len(links)] for number in distinct}
    for head, tail in zip(heads[chosen].tolist(), tails[chosen].tolist(), strict=True):
        from_head = {number: around for number in distinct if (around := _row(links[number], head))}
        to_tail = {number: around for number in distinct if (around := _row(turned[number], tail))}
        for first, reached in from_head.items():
            counts[first, -1] += tail in reached
            for second, before in to_tail.items():
                # A way by way of the head or the tail itself may be the fact in question.
                counts[first, second] += not reached.isdisjoint(before - {head, tail})
    return counts


def _row(links: scipy.sparse.csr_array, entity: int) -> set[int]:
    return set(links.indices[links.indptr[entity] : links.indptr[entity + 1]].tolist())
