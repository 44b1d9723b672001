"""The training facts of all relations as pairs of nodes: node r * N + i is entity i under relation r.

Relations share no node, so what is done to all nodes at once is done to every relation by itself.
"""

import dataclasses

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph


@dataclasses.dataclass(frozen=True)
class Neighbours:
    """The nodes on one side of some nodes.

    Attributes:
      nodes: int64 [k] ascending, those that have neighbours.
      others: int64 [n] their neighbours, one node's after the other's.
      starts: int64 [k] where those of each node begin.
    """

    nodes: np.ndarray
    others: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, nodes: np.ndarray, others: np.ndarray) -> "Neighbours":
        """From int64 [n] pairs of a node and its neighbour, in any order."""
        order = np.argsort(nodes, kind="stable")
        distinct, starts = np.unique(nodes[order], return_index=True)
        return cls(distinct, others[order], starts)

    def extreme(self, of: np.ufunc, values: np.ndarray) -> np.ndarray:
        """`np.maximum` or `np.minimum` over each node's neighbours: [k, ...] from values [nodes, ...]."""
        return of.reduceat(values[self.others], self.starts, axis=0)


def fact_nodes(graph: NumericGraph) -> tuple[np.ndarray, np.ndarray]:
    """Int64 [n] nodes of heads and of tails of the training facts, without those of an entity and itself."""
    facts = graph.train[graph.train[:, HEAD] != graph.train[:, TAIL]].astype(np.int64)
    first = facts[:, RELATION] * graph.num_entities
    return first + facts[:, HEAD], first + facts[:, TAIL]


def spread(bounds: np.ndarray, neighbours: Neighbours, extreme: np.ufunc) -> np.ndarray:
    """Bounds that facts pass on along chains, until nothing changes.

    Args:
      bounds: float64 [nodes].
      neighbours: those that pass their bounds on to each node.
      extreme: `np.maximum` for lower bounds, `np.minimum` for upper ones.
    """
    # Ends also where facts contradict each other: a bound is some node's value.
    while len(neighbours.nodes):
        passed = extreme(bounds[neighbours.nodes], neighbours.extreme(extreme, bounds))
        if np.array_equal(passed, bounds[neighbours.nodes]):
            break
        bounds = bounds.copy()
        bounds[neighbours.nodes] = passed
    return bounds


def bounds_by_facts(
    values: np.ndarray, heads: np.ndarray, tails: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Between which two values each node lies by what is known of its neighbours, whatever its own value.

    It is above those known below it and below those known above it, also at the end of a chain of facts
    between missing values.  Where facts contradict the values, the lower bound is the higher one.

    Args:
      values: float64 [nodes] from 0 to 1; NaN where missing.
      heads, tails: int64 [n] nodes of the facts.

    Returns:
      Lower and upper bounds, float64 [nodes]; 0 and 1 without facts.
    """
    missing = np.isnan(values)
    ends = []
    for own, others, extreme, end in ((heads, tails, np.maximum, 0.0), (tails, heads, np.minimum, 1.0)):
        free = missing[own]
        known = spread(np.where(missing, end, values), Neighbours.of(own[free], others[free]), extreme)
        neighbours, bounds = Neighbours.of(own, others), np.full(len(values), end)
        if len(neighbours.nodes):
            bounds[neighbours.nodes] = neighbours.extreme(extreme, known)
        ends.append(bounds)
    return ends[0], ends[1]
