"""How well a model orders the pairs of held-out facts: measures that need the head, by relation.

A held-out fact (h, r, t) is compared with its reverse (t, r, h), by the margin d = s(h, r, t) - s(t, r, h) of
raw scores; facts with h = t have no order and are left out.  So are relations none of whose tails is ever a
head, such as that of an entity to its class: nobody would take their reverses for facts.

* order accuracy: the share of facts with d > 0; d = 0 counts half.
* log loss: the mean of -log p(h, r, t), where an order core says p; of other models of -log sigmoid(d / 2).
  Scores that are log odds of a fact against its reverse, as Bradley-Terry's are, are each other's negatives:
  d / 2 is the score itself.  (A model trained with binary cross-entropy on both says sigmoid(d): its log loss
  here is of a less confident one.  So would an order core's be where few pairs are facts.)
* AUC: facts with d are positives, their reverses with -d negatives, both of one relation; the share of
  (positive, negative) in the right order, ties half.  It is the AUC of sigmoid(d / 2), without its rounding.
* tau: Kendall's, of one order of all entities with the facts: (concordant - discordant) / facts.  The order
  is by `pair_scores.RelationPairs.strength`, the share of the others that an entity scores above; a fact is
  concordant if its head is stronger than its tail.
* tau of values: Kendall's tau-b of the same order with the observed values of the compared field, turned
  round if heads have the lower ones; for relations named after a field.

MRR cannot show all of this.  Where each pair of a relation is a fact, filtering removes all true tails but
the target, and one order of the tails that is the same for all heads can reach 1.  A score that is symmetric
can reach 1 too: it has an order accuracy of 1/2 and a log loss of log 2.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, SPLITS, TAIL, NumericGraph
from numcoke_jax.evaluation.orders import GAP_QUARTERS, PairOrders, direction, field_of_relation
from numcoke_jax.models.order_core.comparative import BOTH_WAYS
from numcoke_jax.system.errors import plural

ENOUGH_FACTS = 20  # of a relation, to say that it is no order; fewer may look so by chance
ORDER_MEASURES = ("count", "order_accuracy", "auc", "log_loss", "tau")


@dataclasses.dataclass(frozen=True)
class OrderSums:
    """Sums over facts; `+` adds up relations.

    Attributes:
      count: facts.
      right: facts in the right order, a tie half.
      log_loss: sum of -log sigmoid(log odds).
      above: pairs (fact, reversed fact) of one relation in the right order, a tie half.
      compared: pairs (fact, reversed fact) of one relation.
      ranked: facts whose head is the stronger, a tie half.
    """

    count: int = 0
    right: float = 0.0
    log_loss: float = 0.0
    above: float = 0.0
    compared: int = 0
    ranked: float = 0.0

    @classmethod
    def of(cls, margins: np.ndarray, ranked: np.ndarray, log_odds: np.ndarray) -> "OrderSums":
        """The sums of one relation.

        Args:
          margins: float64 [n] d of each fact.
          ranked: [n], 1 where the head is stronger than the tail, 0 where it is weaker, else 1/2.
          log_odds: float64 [n] of each fact against its reverse.

        Raises:
          FloatingPointError: a margin is not finite.
        """
        wrong = int(np.count_nonzero(~np.isfinite(margins)))
        if wrong:
            raise FloatingPointError(
                f"{plural(wrong, 'difference')} of scores not finite, of {len(margins):,}"
            )
        return cls(
            count=len(margins),
            right=int(np.count_nonzero(margins > 0)) + int(np.count_nonzero(margins == 0)) / 2,
            # With `fsum`, the same bits for every order of the facts.
            log_loss=math.fsum(np.logaddexp(0.0, -log_odds).tolist()),
            above=twice_above(margins) / 2,
            compared=len(margins) ** 2,
            ranked=float(np.sum(ranked, dtype=np.float64)),
        )

    def __add__(self, other: "OrderSums") -> "OrderSums":
        """Sums of both parts together; pairs of two relations are not compared."""
        mine, others = dataclasses.astuple(self), dataclasses.astuple(other)
        return OrderSums(*(one + another for one, another in zip(mine, others, strict=True)))

    def summary(self) -> dict[str, float | int | None]:
        """The keys of `ORDER_MEASURES`; without facts the count is 0 and the others are None."""
        if not self.count:
            return {"count": 0, **dict.fromkeys(ORDER_MEASURES[1:])}
        return {
            "count": self.count,
            "order_accuracy": self.right / self.count,
            "auc": self.above / self.compared,
            "log_loss": self.log_loss / self.count,
            "tau": 2 * self.ranked / self.count - 1,
        }


@dataclasses.dataclass(frozen=True)
class TauSums:
    """Kendall's tau-b from counts of pairs of entities; `+` adds up relations.

    Attributes:
      difference: concordant less discordant pairs.
      scale: root of the pairs that differ in one order times those that differ in the other.
    """

    difference: int = 0
    scale: float = 0.0

    @classmethod
    def of(cls, one: np.ndarray, other: np.ndarray) -> "TauSums":
        """The counts of two lists of n finite numbers, in time n log^2 n."""
        first, second = (np.unique(values, return_inverse=True)[1] for values in (one, other))
        pairs = len(one) * (len(one) - 1) // 2
        tied_one, tied_other, tied_both = (
            _equal_pairs(codes) for codes in (first, second, first * (len(one) + 1) + second)
        )
        discordant = _inversions(second[np.lexsort((second, first))])
        # Pairs that differ in both are concordant or discordant.
        concordant = pairs - tied_one - tied_other + tied_both - discordant
        return cls(concordant - discordant, math.sqrt((pairs - tied_one) * (pairs - tied_other)))

    def __add__(self, other: "TauSums") -> "TauSums":
        """Counts of both parts together."""
        return TauSums(self.difference + other.difference, self.scale + other.scale)

    def tau(self) -> float | None:
        """Tau-b, or of several relations the sum of differences by that of scales; None without pairs."""
        return self.difference / self.scale if self.scale else None


def order_measures(graph: NumericGraph, facts: np.ndarray, orders: PairOrders) -> dict[str, Any]:
    """The measures of facts for report.json.

    Args:
      graph: names and values.
      facts: int32 [n, 3], of the graph.
      orders: of these facts, with the strengths.

    Returns:
      {"all": `OrderSums.summary` and "tau_values", "narrowest_quarter": summary of the facts with a known gap
      that is at most "gap", the lowest quartile of all known ones; "relations": {name: summary, "tau_values",
      "narrowest_quarter"}}.
    """
    known = orders.gap[~np.isnan(orders.gap)]
    gap = float(np.quantile(known, 1 / GAP_QUARTERS)) if len(known) else math.nan  # that narrow ones have
    ordered = facts[:, HEAD] != facts[:, TAIL]
    apart = _relations_without_order(np.concatenate([graph.split(split) for split in SPLITS]))
    whole, narrow, values, by_relation = OrderSums(), OrderSums(), TauSums(), {}
    for relation, (entities, strength) in orders.strengths.items():
        members = np.flatnonzero(ordered & (facts[:, RELATION] == relation) & (relation not in apart))
        close = members[orders.gap[members] <= gap]  # NaN is not
        sums, narrow_sums = (
            OrderSums.of(orders.margin[m], orders.ranked[m], orders.log_odds[m]) for m in (members, close)
        )
        tau = _tau_of_values(graph, relation, entities, strength) if len(members) else TauSums()
        whole, narrow, values = whole + sums, narrow + narrow_sums, values + tau
        by_relation[graph.vocabulary.relations[relation]] = {
            **sums.summary(),
            "tau_values": tau.tau(),
            "narrowest_quarter": narrow_sums.summary(),
        }
    return {
        "all": {**whole.summary(), "tau_values": values.tau()},
        "narrowest_quarter": {"gap": None if math.isnan(gap) else gap, **narrow.summary()},
        "relations": by_relation,
    }


def _relations_without_order(facts: np.ndarray) -> set[int]:
    """The relations of `ENOUGH_FACTS` of the facts (int32 [n, 3]) that put nothing above anything.

    Their heads and tails are of two kinds, no entity being both, or most of their facts hold both ways.
    """
    found, width = facts.astype(np.int64), int(facts[:, [HEAD, TAIL]].max(initial=0)) + 1
    heads, tails = (found[:, RELATION] * width + found[:, side] for side in (HEAD, TAIL))
    relations, counts = np.unique(facts[:, RELATION], return_counts=True)
    both = set((np.intersect1d(heads, tails) // width).tolist())
    forwards, backwards = heads * width + found[:, TAIL], tails * width + found[:, HEAD]
    turned = found[np.isin(forwards, backwards), RELATION]
    reversed_counts = (turned[:, None] == relations).sum(axis=0)
    symmetric = set(relations[reversed_counts > BOTH_WAYS * counts].tolist())
    return set(relations[counts >= ENOUGH_FACTS].tolist()) - (both - symmetric)


def _tau_of_values(graph: NumericGraph, relation: int, entities: np.ndarray, strength: np.ndarray) -> TauSums:
    """The tau of values of one relation; no counts if it compares no field, or its direction is unknown."""
    field = field_of_relation(graph, relation)
    sign = 0 if field is None else direction(graph, relation, field)
    if not sign:
        return TauSums()
    seen = graph.observed[entities, field]
    return TauSums.of(strength[seen], sign * graph.values[entities[seen], field])


def twice_above(margins: np.ndarray) -> int:
    """Twice the number of (i, j) with margin i > -margin j, plus that of those with both equal."""
    ascending = np.sort(margins)
    reversed_ = -ascending[::-1]
    return sum(int(np.searchsorted(reversed_, ascending, side=side).sum()) for side in ("left", "right"))


def _equal_pairs(codes: np.ndarray) -> int:
    """Pairs of equal entries among non-negative integers."""
    counts = np.unique(codes, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _inversions(codes: np.ndarray) -> int:
    """Pairs i < j with codes[i] > codes[j], for integers in [0, n): bit by bit from the highest.

    Two entries are told apart by the highest bit in which they differ: among those that agree in all higher
    bits, an inversion has a 1 before a 0.
    """
    count = 0
    for bit in reversed(range(max(len(codes), 1).bit_length())):
        order = np.argsort(codes >> (bit + 1), kind="stable")  # groups that agree above, in their order
        groups, ones = (codes >> (bit + 1))[order], (codes[order] >> bit) & 1
        starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]])) if len(codes) else groups
        before = np.cumsum(ones) - ones
        in_group = before - np.repeat(before[starts], np.diff([*starts, len(codes)]))
        count += int(in_group[ones == 0].sum())
    return count
