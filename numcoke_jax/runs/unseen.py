"""Protocol `eval.inductive`: entities, not triples, are held out, and ranked from their attributes alone.

A seeded share of the entities is taken out of the graph before training, with all their facts: the model
sees neither their names nor their values, nor are they candidates while it trains.  Afterwards every fact
with one of them as head or tail is ranked among all entities, filtered by all facts.  The model is compared
with the rule "compare the raw values", which ranks a tail whose value is on the right side of the head's
before one that is unknown, and that before one on the wrong side; ties share their mean rank.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numcoke_jax.data.graph import SPLITS, NumericGraph, Vocabulary
from numcoke_jax.data.variants import NewEntities
from numcoke_jax.evaluation.metrics import rank_metrics
from numcoke_jax.evaluation.orders import direction, field_of_relation
from numcoke_jax.evaluation.ranking import FilteredRanks, filtered_ranks
from numcoke_jax.evaluation.scorer import Scorer
from numcoke_jax.models import create_model
from numcoke_jax.models.interface import KnowsUnseen
from numcoke_jax.models.padding import is_per_entity, unpadded
from numcoke_jax.runs.run import Run, literals_for


def knows_unknown(params: Any) -> bool:
    """Whether the model has learned a vector for entities that it does not know."""
    return "unknown_entity" in params


def has_vectors(params: Any) -> bool:
    """Whether entities have learned vectors: not where every relation is decided by an order core."""
    return not params.keys() <= {"order_core", "value_classes"}


def extended_graph(graph: NumericGraph, new: NewEntities) -> NumericGraph:
    """The same facts and the new ones (and their inverses), with the new entities after the others."""
    names = graph.vocabulary
    return dataclasses.replace(
        graph,
        vocabulary=Vocabulary((*names.entities, *new.names), names.relations, names.fields),
        values=np.concatenate([graph.values, new.values]),
        observed=np.concatenate([graph.observed, new.observed]),
        train=np.concatenate([graph.train, new.facts, graph.inverse_facts(new.facts)]),
    )


def extended_params(params: Any, count: int) -> Any:
    """The parameters with `count` more rows in the arrays of entities, each the mean of the others."""

    def extend(path: Sequence[Any], leaf: Any) -> Any:
        if not is_per_entity(path):
            return leaf
        return jnp.concatenate([leaf, jnp.repeat(leaf.mean(axis=0, keepdims=True), count, axis=0)])

    return jax.tree_util.tree_map_with_path(extend, params)


def extended(run: Run, params: Any, new: NewEntities) -> tuple[NumericGraph, Scorer, Any]:
    """Graph, scorer and parameters over the run's entities and the new ones after them.

    What a model fits (the positions of an order core) is fitted to the extended graph; nothing is trained.

    Args:
      run: of the model.
      params: its parameters, without padding.
      new: the new entities.
    """
    graph, count = extended_graph(run.graph, new), len(new.names)
    model = create_model(run.config, dataclasses.replace(run.sizes, entities=graph.num_entities))
    if isinstance(model, KnowsUnseen):  # others have the mean of the known entities in these rows
        model = model.clone(unseen=count)
    literals = literals_for(run.config, run.scale, graph)
    scorer = Scorer(model, literals, graph.vocabulary, chunk=run.config.eval.chunk)
    return graph, scorer, run.refitted(extended_params(params, count), model, graph)


def rank_held_out(run: Run, params: Any) -> dict[str, Any]:
    """Metrics of the facts of the held-out entities, for report.json.

    Returns:
      {"entities", "unknown_vector", count, mrr, ..., "exclude_self": {...}, "raw_values": {...}}.

    Raises:
      FloatingPointError: a score is not finite.
    """
    assert run.held_out is not None
    new = dataclasses.replace(run.held_out, facts=run.held_out.facts[:0])  # no model is told them
    graph, scorer, more = extended(run, unpadded(params, run.graph.num_entities), new)
    facts = run.held_out.facts
    known = graph.index_of(facts, *map(run.graph.split, SPLITS))

    def ranked(encode: Callable[[int], Any], score: Callable[[Any, Any], Any]) -> FilteredRanks:
        return filtered_ranks(encode, score, facts, known, graph.num_entities, scorer.chunk)

    model = ranked(
        lambda relation: scorer.encode(more, relation),
        lambda encoded, heads: scorer.score(more, encoded, heads),
    )
    rule = ranked(
        lambda relation: rule_values(graph, relation),
        lambda encoded, heads: rule_scores(encoded, np.asarray(heads)),
    )
    return {
        "entities": len(new.names),
        "unknown_vector": knows_unknown(params),
        **rank_metrics(model.all),
        "exclude_self": rank_metrics(model.exclude_self),
        "raw_values": rank_metrics(rule.all),
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
