"""Protocol `eval.inductive`: entities, not triples, are held out, and ranked from their attributes alone.

A seeded share of the entities is taken out of the graph before training, with all their facts: the model
sees neither their names nor their values, nor are they candidates while it trains.  Afterwards every fact
with one of them as head or tail is ranked among all entities, filtered by all facts.  The model is compared
with the rule "compare the raw values", which ranks a tail whose value is on the right side of the head's
before one that is unknown, and that before one on the wrong side; ties share their mean rank.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from numcoke_jax.graph import SPLITS, NumericGraph
from numcoke_jax.metrics import RankSums
from numcoke_jax.new_entities import NewEntities, extended_evaluator, extended_params, knows_unknown
from numcoke_jax.order_accuracy import direction, field_of_relation
from numcoke_jax.placement import unpadded
from numcoke_jax.ranking import FilteredRanks, filtered_ranks
from numcoke_jax.run import Run
from numcoke_jax.tail_index import TailIndex


def rank_held_out(run: Run, params: Any) -> dict[str, Any]:
    """Metrics of the facts of the held-out entities, for report.json.

    Returns:
      {"entities", "unknown_vector", count, mrr, ..., "exclude_self": {...}, "raw_values": {...}}.

    Raises:
      FloatingPointError: a score is not finite.
    """
    assert run.held_out is not None
    new = NewEntities(run.held_out.names, run.held_out.values, run.held_out.observed)
    graph, evaluator = extended_evaluator(run, new)
    more = extended_params(unpadded(params, run.graph.num_entities), len(new.names))
    facts = run.held_out.facts
    sizes = {"num_entities": graph.num_entities, "num_relations": graph.num_relations}
    known = TailIndex.from_triples(facts, *(run.graph.split(split) for split in SPLITS), **sizes)

    def ranked(encode: Callable[[int], Any], score: Callable[[Any, Any], Any]) -> FilteredRanks:
        return filtered_ranks(encode, score, facts, known, graph.num_entities, evaluator.chunk)

    model = ranked(
        lambda relation: evaluator.encode(more, relation),
        lambda encoded, heads: evaluator.score(more, encoded, heads),
    )
    rule = ranked(
        lambda relation: rule_values(graph, relation),
        lambda encoded, heads: rule_scores(encoded, np.asarray(heads)),
    )
    return {
        "entities": len(new.names),
        "unknown_vector": knows_unknown(params),
        **RankSums.from_ranks(model.all).summary(),
        "exclude_self": RankSums.from_ranks(model.exclude_self).summary(),
        "raw_values": RankSums.from_ranks(rule.all).summary(),
    }


def rule_values(graph: NumericGraph, relation: int) -> np.ndarray:
    """Float64 [N]: the compared values, signed so that heads are above their tails; NaN where unknown."""
    field = field_of_relation(graph, relation)
    if field is None:
        return np.full(graph.num_entities, np.nan)
    values = np.where(graph.observed[:, field], graph.values[:, field], np.nan)
    return -values if direction(graph, relation, field) < 0 else values


def rule_scores(values: np.ndarray, heads: np.ndarray) -> Any:
    """Float32 [H, N]: 1 where the head's value is above the tail's, -1 below, 0 equal or unknown."""
    with np.errstate(invalid="ignore"):
        above = np.sign(values[heads][:, None] - values[None, :])
    return jnp.asarray(np.nan_to_num(above), jnp.float32)
