"""Reference: the share of all orders that fit the values and the training facts in which the head is above.

A missing value may be anywhere from 0 to 1 as long as all facts hold: a uniform distribution over a polytope.
Gibbs sampling draws from it (Geman and Geman, IEEE Transactions on Pattern Analysis and Machine Intelligence
6(6), 1984): each missing value in turn anew, uniformly between the highest current value below it and the
lowest above it.  If no value is known, each order of the entities that keeps all facts has the same
probability.

    c     = draws with x_h > x_t, out of D
    score = log (c + 1/2) / (D - c + 1/2) + (x'_h - x'_t) 2 / D      x' the mean over the draws

The last term breaks ties of the first and never overrules it: two counts differ by 4 / D or more.

Values that do not explain a relation's facts are forgotten (`compared.EXPLAINED`): its facts alone count
then.  Of facts between missing values that go round in circles only those are kept whose head is above in a
larger share of its facts than the tail (`without_circles`); where facts contradict the values, the upper and
the lower limit of a place change sides.  For relations full of contradictions, such as who beat whom,
`bradley_terry` is the better reference.
"""

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.references.compared import EXPLAINED, Reference, places_of, unknown_last
from numcoke_jax.models.references.comparisons import Neighbours, bounds_by_facts, fact_nodes

CHAINS = 16  # sampled side by side
FORGOTTEN_SWEEPS = 200  # at the start of each chain
SWEEPS_PER_DRAW = 20  # of each chain
GOLDEN_SECTION = 0.6180339887
LONGEST_CHAIN = 2000  # facts in a row that the start of the chains takes into account


@struct.dataclass
class Draws:
    """Orders of all entities under S relations."""

    positions: Any  # float32 [S, N, D]
    known: Any  # bool [S, N]


class Posterior(Reference):
    """Ranks by the share of sampled orders.

    Attributes:
      draws: D.
    """

    draws: int = 256
    least = EXPLAINED

    def setup(self) -> None:
        super().setup()
        self.entity_draws = self.zeros("entity_draws", self.sizes.entities, self.sizes.relations, self.draws)

    def own_arrays(
        self, graph: NumericGraph, positions: np.ndarray, weight: np.ndarray, seed: int
    ) -> dict[str, Any]:
        places, rng = places_of(positions, weight), np.random.default_rng(seed)
        draws = sampled_places(places.T.ravel(), *fact_nodes(graph), draws=self.draws, rng=rng)
        return {"entity_draws": draws.reshape(*places.T.shape, self.draws).swapaxes(0, 1)}

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> Draws:
        """The draws of all entities; an observed value is the same in all of them."""
        places = self.places(relations, literals)
        anywhere = (jnp.arange(self.draws) + 0.5) * GOLDEN_SECTION % 1.0  # evenly, in an order of its own
        drawn = jnp.where(places.new[..., None], anywhere, self.entity_draws[:, relations].swapaxes(0, 1))
        return Draws(jnp.where(places.observed[..., None], places.place[..., None], drawn), places.known)

    def score(self, encoded: Draws, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        """Logits of the smoothed shares."""
        slots, tails = np.arange(heads.shape[0])[:, None], encoded.positions
        of_heads = tails[slots, heads]
        above = jnp.sum(of_heads[:, :, None] > tails[:, None], axis=3, dtype=jnp.float32)
        logits = jnp.log(above + 0.5) - jnp.log(self.draws - above + 0.5)
        ties = jnp.mean(of_heads, axis=2)[:, :, None] - jnp.mean(tails, axis=2)[:, None]
        return unknown_last(logits + ties * (2.0 / self.draws), encoded.known)


def sampled_places(
    values: np.ndarray, heads: np.ndarray, tails: np.ndarray, *, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Draws of all nodes' places given the known ones and the facts; of a known one, given the others.

    Args:
      values: float64 [nodes] from 0 to 1; NaN where missing.
      heads, tails: int64 [n] nodes of the facts.
      draws: D.
      rng: what is drawn.

    Returns:
      float32 [nodes, D].
    """
    missing = np.isnan(values)
    heads, tails = without_circles(missing, heads, tails)
    chains = min(CHAINS, draws)
    state = np.repeat(_start(values, heads, tails)[:, None], chains, axis=1)
    groups = [_Group(nodes, values, heads, tails) for nodes in independent_groups(missing, heads, tails)]
    known = _Group(np.flatnonzero(~missing), values, heads, tails)
    kept = np.empty((len(values), -(-draws // chains), chains), np.float32)
    for sweep in range(FORGOTTEN_SWEEPS + kept.shape[1] * SWEEPS_PER_DRAW):
        for group in groups:
            group.draw(state, rng)
        done = sweep + 1 - FORGOTTEN_SWEEPS
        if done > 0 and done % SWEEPS_PER_DRAW == 0:
            as_missing = state.copy()  # what is left of a value's place if a user takes it away
            known.draw(as_missing, rng)
            kept[:, done // SWEEPS_PER_DRAW - 1] = as_missing
    return kept.reshape(len(values), -1)[:, :draws]


class _Group:
    """Nodes that are drawn at once given the others: no fact joins two of them that are missing."""

    def __init__(self, nodes: np.ndarray, values: np.ndarray, heads: np.ndarray, tails: np.ndarray) -> None:
        member, missing = np.zeros(len(values), bool), np.isnan(values)
        member[nodes] = True
        self._nodes = nodes
        sides = ((heads, tails, np.maximum, 0.0), (tails, heads, np.minimum, 1.0))
        self._limits, self._drawn = [], []
        for own, others, extreme, end in sides:
            fixed = member[own] & ~missing[others]
            limit = np.full(len(values), end)
            extreme.at(limit, own[fixed], values[others[fixed]])
            self._limits.append(limit[nodes])
            free = member[own] & missing[others]
            neighbours = Neighbours.of(own[free], others[free])
            self._drawn.append((extreme, neighbours, np.searchsorted(nodes, neighbours.nodes)))

    def draw(self, state: np.ndarray, rng: np.random.Generator) -> None:
        """New places of the nodes in `state`, float64 [nodes, chains]."""
        ends: list[np.ndarray] = []
        for limit, (extreme, neighbours, rows) in zip(self._limits, self._drawn, strict=True):
            end = np.repeat(limit[:, None], state.shape[1], axis=1)
            if len(rows):
                end[rows] = extreme(end[rows], neighbours.extreme(extreme, state))
            ends.append(end)
        lower, upper = ends  # the other way round where facts contradict each other
        state[self._nodes] = lower + (upper - lower) * rng.random(lower.shape)


def without_circles(
    missing: np.ndarray, heads: np.ndarray, tails: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The facts, of which none between missing nodes go round in circles: heads and tails, int64.

    A fact is in a circle if its ends are in one strongly connected component.  There, facts are left out
    whose head is above in no larger share of its facts than the tail, with one more fact of both kinds.
    """
    nodes, both = len(missing), missing[heads] & missing[tails]
    ends = heads[both], tails[both]
    graph = scipy.sparse.coo_array((np.ones(len(ends[0]), bool), ends), (nodes, nodes))
    component = scipy.sparse.csgraph.connected_components(graph, connection="strong")[1]
    above, under = (np.bincount(side, minlength=nodes) + 1 for side in (heads, tails))
    share = above / (above + under)
    kept = ~both | (component[heads] != component[tails]) | (share[heads] > share[tails])
    return heads[kept], tails[kept]


def independent_groups(missing: np.ndarray, heads: np.ndarray, tails: np.ndarray) -> Iterator[np.ndarray]:
    """The missing nodes in groups (int64, ascending) such that no fact joins two of the same group.

    Greedy: each node, those with most neighbours first, gets the first group that none of its neighbours has.
    """
    both = missing[heads] & missing[tails]
    neighbours = Neighbours.of(
        np.concatenate([heads[both], tails[both]]), np.concatenate([tails[both], heads[both]])
    )
    ends = np.append(neighbours.starts[1:], len(neighbours.others))
    group = np.where(missing, 0, -1)  # without a missing neighbour: the first
    group[neighbours.nodes] = -1
    for row in np.argsort(neighbours.starts - ends, kind="stable"):
        taken = set(group[neighbours.others[neighbours.starts[row] : ends[row]]].tolist())
        group[neighbours.nodes[row]] = next(free for free in range(len(taken) + 1) if free not in taken)
    for number in range(group.max(initial=-1) + 1):
        yield np.flatnonzero(group == number)


def _start(values: np.ndarray, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Places, float64 [nodes], that keep all facts, if any do.

    A node lies between its bounds as far up as its longest chain of missing nodes below is long, compared
    with that above: a node above another has higher or equal bounds, more below and less above it.
    """
    lower, upper = bounds_by_facts(values, heads, tails)
    both = np.isnan(values[heads]) & np.isnan(values[tails])
    under = 1 + _longest_chains(Neighbours.of(heads[both], tails[both]), len(values))
    over = 1 + _longest_chains(Neighbours.of(tails[both], heads[both]), len(values))
    return np.where(np.isnan(values), lower + (upper - lower) * under / (under + over), values)


def _longest_chains(neighbours: Neighbours, nodes: int) -> np.ndarray:
    """Int64 [nodes], facts in the longest chain from each node on; at most `LONGEST_CHAIN`."""
    length = np.zeros(nodes, np.int64)
    for _ in range(LONGEST_CHAIN if len(neighbours.nodes) else 0):
        longer = 1 + neighbours.extreme(np.maximum, length)
        if np.array_equal(longer, length[neighbours.nodes]):
            break
        length[neighbours.nodes] = longer
    return length


MODEL = ModelSpec(
    lambda config, sizes: Posterior(sizes, draws=config.references.draws),
    per_entity=("entity_seen", "entity_draws"),
    fitted=True,
)
