"""Rules r(x, y) <- a(x, u), b(u, v), c(v, y), of one to three steps, that a graph's facts bear out.

a, b and c are relations or inverses: id a in [0, R) is the relation a, R + a its inverse.  Bodies are looked
for behind a sample of r's facts, each without the fact itself, and counted for the heads of the sample.  Of
those found most often rules are taken one by one, always the one with the largest

    sum over the sampled facts it leads to of 1 / (1 + rules taken before that do) / sqrt(pairs it leads to)

Without the discount this is, but for a factor, the cosine of the facts and of the rule's pairs as sets.  The
confidence, the share of those pairs that are facts (Galárraga et al., "AMIE: Association Rule Mining under
Incomplete Evidence in Ontological Knowledge Bases", WWW 2013), prefers rules that lead to few pairs, and
takes many for the same ones.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Int

RULES = 100  # K, at most, for each relation
LENGTH = 3  # L, steps of a body
SAMPLED_FACTS = 100  # of each relation, behind which bodies are looked for
SAMPLED_EDGES = 100  # of each entity, which are followed
CANDIDATES = 1000  # bodies most often found, whose pairs are counted

Body = tuple[int, ...]


def mined(facts: Int[np.ndarray, "n 3"], entities: int, relations: int, *, seed: int) -> np.ndarray:
    """int64 [R, K, L]: the bodies of each relation's rules in the order in which they are taken.

    Shorter bodies, and relations with fewer than K rules, are filled up with -1.  Relations and inverses with
    the very same pairs are one, by its lowest id, and r itself is no body of r: it would know nothing that r
    does not.
    """
    links = [_pairs(facts[facts[:, 1] == relation], entities) for relation in range(relations)]
    links += [_sorted(matrix.T) for matrix in links]
    first_with: dict[tuple[bytes, bytes], int] = {}
    same_as = [
        first_with.setdefault((link.indices.tobytes(), link.indptr.tobytes()), number)
        for number, link in enumerate(links)
    ]
    rng, found = np.random.default_rng(seed), np.full((relations, RULES, LENGTH), -1)
    walks = _Walks(links, sorted(set(same_as)), rng)
    for relation in range(relations):
        own = facts[facts[:, 1] == relation][:, [0, 2]]
        sample = own[rng.permutation(len(own))[:SAMPLED_FACTS]]
        behind = walks.behind(sample, (same_as[relation], same_as[relation + relations]))
        behind.pop((same_as[relation],), None)
        # Sorted, so that what is taken does not depend on the order of a set.
        often = sorted(behind, key=lambda body: (-len(behind[body]), body))[:CANDIDATES]
        led_to = np.zeros((len(often), len(sample)), bool)
        for row, body in zip(led_to, often, strict=True):
            row[behind[body]] = True
        pairs = _counted_pairs(links, often, np.unique(sample[:, 0]))
        for place, chosen in enumerate(_one_by_one(led_to, pairs)):
            found[relation, place, : len(often[chosen])] = often[chosen]
    return found


def _pairs(facts: np.ndarray, entities: int) -> scipy.sparse.csr_array:
    """bool [N, N]: the head and the tail of a fact."""
    ones = np.ones(len(facts), bool)
    return _sorted(scipy.sparse.coo_array((ones, (facts[:, 0], facts[:, 2])), (entities, entities)))


def _sorted(matrix: scipy.sparse.sparray) -> scipy.sparse.csr_array:
    """The one way to write a matrix down by rows."""
    rows = matrix.tocsr()
    rows.sum_duplicates()
    return rows


class _Walks:
    """The edges of all entities, (relation, entity at the other end), and the relations between two of them.

    Of entities with more than `SAMPLED_EDGES`, that many are followed, the last step of a body excepted.
    """

    def __init__(
        self, links: Sequence[scipy.sparse.csr_array], distinct: Sequence[int], rng: np.random.Generator
    ) -> None:
        entities = links[0].shape[0]
        edges: list[list[tuple[int, int]]] = [[] for _ in range(entities)]
        self._between: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._before: list[set[int]] = [set() for _ in range(entities)]
        for number in distinct:
            for start, end in zip(*(ids.tolist() for ids in links[number].nonzero()), strict=True):
                edges[start].append((number, end))
                self._between[start, end].append(number)
                self._before[end].add(start)
        self._edges = [[out[i] for i in rng.permutation(len(out))[:SAMPLED_EDGES]] for out in edges]

    def behind(self, sample: Int[np.ndarray, "n 2"], own: tuple[int, int]) -> dict[Body, list[int]]:
        """The bodies that lead from head to tail of a sampled fact otherwise than by it, and which facts.

        Args:
          sample: heads and tails of facts of one relation.
          own: ids of that relation and of its inverse.
        """
        found: defaultdict[Body, list[int]] = defaultdict(list)
        for number, (head, tail) in enumerate(sample.tolist()):
            for body in self._bodies(head, tail, {(head, own[0], tail), (tail, own[1], head)}):
                found[body].append(number)
        return found

    def _bodies(self, head: int, tail: int, itself: set[tuple[int, int, int]]) -> set[Body]:
        def followed(start: int) -> list[tuple[int, int]]:
            edges = self._edges[start]
            if start not in (head, tail):
                return edges
            return [(by, end) for by, end in edges if (start, by, end) not in itself]

        to_tail = {start: self._between[start, tail] for start in self._before[tail]}
        for end in {head, tail} & to_tail.keys():
            to_tail[end] = [by for by in to_tail[end] if (end, by, tail) not in itself]
        bodies: set[Body] = {(by,) for by in to_tail.get(head, ())}
        for first, middle in followed(head):
            bodies.update((first, last) for last in to_tail.get(middle, ()))
            for second, end in followed(middle):
                if end in to_tail:
                    bodies.update((first, second, last) for last in to_tail[end])
        return bodies


def _counted_pairs(
    links: Sequence[scipy.sparse.csr_array], bodies: Sequence[Body], heads: Int[np.ndarray, " heads"]
) -> Int[np.ndarray, " bodies"]:
    """To how many tails each body leads from the heads, all together."""
    known: dict[Body, scipy.sparse.csr_array] = {}

    def reached(body: Body) -> scipy.sparse.csr_array:
        if body not in known:
            start = links[body[0]][heads] if len(body) == 1 else reached(body[:-1]) @ links[body[-1]]
            known[body] = start.astype(bool)
        return known[body]

    return np.array([reached(body).nnz for body in bodies], int)


def _one_by_one(led_to: Bool[np.ndarray, "bodies facts"], pairs: Int[np.ndarray, " bodies"]) -> list[int]:
    """Up to K bodies, the next always the best beside those taken before."""
    shares = led_to / np.sqrt(np.maximum(pairs, 1))[:, None]
    before, left = np.zeros(led_to.shape[1]), np.ones(len(led_to), bool)
    taken: list[int] = []
    while left.any() and len(taken) < RULES:
        worth: Float[np.ndarray, " bodies"] = np.where(left, shares @ (1.0 / (1.0 + before)), -1.0)
        taken.append(int(worth.argmax()))
        left[taken[-1]] = False
        before += led_to[taken[-1]]
    return taken
