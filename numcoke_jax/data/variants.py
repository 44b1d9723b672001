"""Takes entities out of a graph, with everything that names them.

Controls for a claim about accuracy: the same facts with values that cannot help.

A model that reasons with numbers does worse on shuffled values than on the true ones; one that only
profits from more parameters does not ("Numerical Literals in Link Prediction: A Critical Examination of
Models and Datasets", ISWC 2024).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numcoke_jax.config.schema import choices
from numcoke_jax.data.graph import (
    HEAD,
    RELATION,
    SPLITS,
    TAIL,
    LoadedGraph,
    NumericGraph,
    Vocabulary,
    fact_keys,
)
from numcoke_jax.data.tail_index import distinct_facts
from numcoke_jax.system.errors import UserError, did_you_mean, list_some

STREAM, REVERSED_STREAM = 5, 7  # of `data.seed`, so that no other draw changes
CONTROLS = choices("data.control")
SIDES = ("head", "tail")
INVERSE = "inverse of "  # before the name of a relation


@dataclasses.dataclass(frozen=True)
class NewEntities:
    """Attributes of n entities that are not in a graph, in its fields, and facts about them.

    Attributes:
      names: n different names, none of the graph's.
      values: float64 [n, M] in their own units; 0 where missing.
      observed: bool [n, M].
      facts: int32 [f, 3], whose ids of the new entities follow the graph's.
    """

    names: tuple[str, ...]
    values: np.ndarray
    observed: np.ndarray
    facts: np.ndarray = dataclasses.field(default_factory=lambda: np.empty((0, 3), np.int32))


def hold_out(graph: NumericGraph, share: float, seed: int) -> tuple[NumericGraph, NewEntities]:
    """A graph without a seeded share of its entities, and those entities with every fact of any split.

    Raises:
      UserError: no entity or fact would be held out, or no training fact would be left.
    """
    count = int(share * graph.num_entities)
    drawn = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM,)))
    out = np.zeros(graph.num_entities, bool)
    out[drawn.permutation(graph.num_entities)[:count]] = True
    ids = np.empty(graph.num_entities, np.int32)
    ids[~out] = np.arange(graph.num_entities - count)
    ids[out] = np.arange(graph.num_entities - count, graph.num_entities)

    def renamed(facts: np.ndarray) -> np.ndarray:
        facts = facts.copy()
        facts[:, HEAD], facts[:, TAIL] = ids[facts[:, HEAD]], ids[facts[:, TAIL]]
        return facts

    def touched(facts: np.ndarray) -> np.ndarray:
        return out[facts[:, HEAD]] | out[facts[:, TAIL]]

    every = {name: getattr(graph, name) for name in (*SPLITS, "negatives")}
    kept: dict[str, Any] = {name: renamed(triples[~touched(triples)]) for name, triples in every.items()}
    facts = [renamed(graph.split(split)[touched(graph.split(split))]) for split in SPLITS]
    lost = np.unique(np.concatenate(facts), axis=0)
    if not count or not len(lost) or not len(kept["train"]):
        raise UserError(
            f"eval.inductive={share:g} holds out {count} of {graph.num_entities} entities with "
            f"{len(lost)} facts and leaves {len(kept['train'])} training facts: give another share, "
            "or 0 for none"
        )
    names = graph.vocabulary

    def named(chosen: np.ndarray) -> tuple[str, ...]:
        return tuple(names.entities[place] for place in np.flatnonzero(chosen))

    reduced = dataclasses.replace(
        graph,
        vocabulary=Vocabulary(named(~out), names.relations, names.fields),
        values=graph.values[~out],
        observed=graph.observed[~out],
        **kept,
    )
    return reduced, NewEntities(named(out), graph.values[out], graph.observed[out], lost)


def with_inverses(graph: NumericGraph) -> NumericGraph:
    """The graph with an inverse of every relation: (t, inverse of r, h) for each training fact and negative.

    The heads of a fact (?, r, t) are then ranked as the tails of (t, inverse of r, ?).

    Raises:
      UserError: a relation already has the name of an inverse.
    """
    names = graph.vocabulary
    inverse = tuple(f"{INVERSE}{name}" for name in names.relations)
    if taken := sorted(set(inverse) & set(names.relations)):
        raise UserError(
            f"data.inverse=True: the graph has a relation {taken[0]!r}, the name of an inverse that is to be "
            "added; rename it, or set data.inverse=False"
        )
    graph = dataclasses.replace(
        graph,
        vocabulary=dataclasses.replace(names, relations=(*names.relations, *inverse)),
        first_inverse=len(names.relations),
    )

    def both(facts: np.ndarray) -> np.ndarray:
        added = graph.inverse_facts(facts)
        return np.concatenate(
            [facts, added[np.lexsort((added[:, TAIL], added[:, HEAD], added[:, RELATION]))]]
        )

    return dataclasses.replace(graph, train=both(graph.train), negatives=both(graph.negatives))


def unseen_relations(graph: NumericGraph) -> dict[str, dict[str, int]]:
    """Relations without a training fact -> the number of their facts in valid and in test."""
    seen = np.unique(graph.train[:, RELATION])
    missing = np.setdiff1d(np.arange(graph.own_relations), seen).tolist()
    return {
        graph.vocabulary.relations[relation]: {
            split: int(np.count_nonzero(graph.split(split)[:, RELATION] == relation))
            for split in ("valid", "test")
        }
        for relation in missing
    }


def without_unseen_relations(graph: NumericGraph) -> NumericGraph:
    """The graph that metrics are taken on: no valid or test fact of a relation without a training fact.

    Nothing can be learned of such a relation, and its ranks would say nothing about a model but move every
    mean.  Ids stay the same.  Facts of other relations are ranked as before: a filter knows facts of the
    query's own relation only.
    """
    if not unseen_relations(graph):
        return graph
    seen = np.unique(graph.train[:, RELATION])
    valid, test = (facts[np.isin(facts[:, RELATION], seen)] for facts in (graph.valid, graph.test))
    return dataclasses.replace(graph, valid=valid, test=test)


def hide_fields(graph: NumericGraph, hidden: Sequence[str], where: str = "data.hide") -> NumericGraph:
    """The graph without the literals of some fields; its facts stay.

    Raises:
      UserError: there is no such field.
    """
    fields = graph.vocabulary.fields
    unknown = [name for name in hidden if name not in fields]
    if unknown:
        hint = did_you_mean(unknown[0], fields)
        listed = list_some(list(fields), len(fields), "fields")
        raise UserError(f"{where}: the graph has no field {unknown[0]!r}{hint}; it has {listed}")
    kept = [place for place, name in enumerate(fields) if name not in hidden]
    names = dataclasses.replace(graph.vocabulary, fields=tuple(fields[place] for place in kept))
    return dataclasses.replace(
        graph, vocabulary=names, values=graph.values[:, kept], observed=graph.observed[:, kept]
    )


def without_fields(loaded: LoadedGraph, hidden: Sequence[str]) -> LoadedGraph:
    """The graph without the literals of some fields, which it keeps as the truth that measures look at."""
    if not hidden:
        return loaded
    return dataclasses.replace(loaded, graph=hide_fields(loaded.graph, hidden, "hide"), truth=loaded.graph)


def reversed_facts(graph: NumericGraph, share: float, *, seed: int) -> NumericGraph:
    """The graph with a seeded share of its training facts turned around; other splits keep theirs.

    Negatives that are training facts now are left out; a fact that is there both ways counts once each way.
    """
    facts = graph.train
    drawn = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(REVERSED_STREAM,)))
    turned = drawn.permutation(len(facts))[: round(share * len(facts))]
    facts = _with_turned(facts, turned)
    sizes = graph.num_entities, graph.num_relations
    train, negatives = fact_keys([facts, graph.negatives], *sizes)
    return dataclasses.replace(graph, train=facts, negatives=graph.negatives[~np.isin(negatives, train)])


def controlled_values(graph: NumericGraph, control: str, *, seed: int) -> NumericGraph:
    """The graph with its values as `control` says; facts, negatives and names stay.

    Args:
      graph: any graph.
      control: "true" changes nothing; "shuffled" permutes each field's observed values over the entities
        that have one; "zeroed" sets the observed values to 0; "removed" makes every value missing.
      seed: of the permutations, one stream per field.

    Raises:
      ValueError: control is not one of `CONTROLS`.
    """
    if control not in CONTROLS:
        raise ValueError(f"control must be one of {CONTROLS}, got {control!r}")
    if control == "true":
        return graph
    if control == "zeroed":
        return dataclasses.replace(graph, values=np.zeros_like(graph.values))
    if control == "removed":
        nothing = np.zeros_like(graph.observed)
        return dataclasses.replace(graph, values=np.zeros_like(graph.values), observed=nothing)
    values = graph.values.copy()
    for field in range(graph.num_fields):
        having = np.flatnonzero(graph.observed[:, field])
        order = np.random.default_rng(np.random.SeedSequence([seed, field])).permutation(len(having))
        values[having, field] = values[having[order], field]
    return dataclasses.replace(graph, values=values)


@dataclasses.dataclass(frozen=True)
class Change:
    """Another value for a field of the head or the tail; None: missing."""

    side: str
    field: int
    value: float | None


def changed_graph(graph: NumericGraph, head: int, tail: int, changes: Sequence[Change]) -> NumericGraph:
    """The same facts with other values for the two entities."""
    values, observed = graph.values.copy(), graph.observed.copy()
    entities: Mapping[str, int] = dict(zip(SIDES, (head, tail), strict=True))
    for change in changes:
        cell = entities[change.side], change.field
        observed[cell] = change.value is not None
        values[cell] = 0.0 if change.value is None else change.value
    return dataclasses.replace(graph, values=values, observed=observed)


def facts_as_valued(
    graph: NumericGraph, entities: Sequence[int], signs: Mapping[int, int], field: int
) -> NumericGraph:
    """The graph whose training facts about some entities say what the entities' values of a field say.

    Args:
      graph: with the values.
      entities: ids.
      signs: relations that compare the field -> 1 where the higher value is the head's, else -1.
      field: its id.

    Returns:
      The graph; facts about these entities with a value that is missing or equal are as before.
    """
    facts = graph.train
    heads, tails = facts[:, HEAD], facts[:, TAIL]
    asked = np.isin(facts[:, RELATION], list(signs)) & (np.isin(heads, entities) | np.isin(tails, entities))
    asked &= graph.observed[heads, field] & graph.observed[tails, field]
    sign = np.array([signs.get(int(relation), 0) for relation in facts[:, RELATION]], int)
    wrong = asked & (sign * (graph.values[heads, field] - graph.values[tails, field]) < 0)
    return dataclasses.replace(graph, train=_with_turned(facts, wrong))


def _with_turned(facts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The facts, these rows of them with head and tail exchanged: each once, in the graph's order."""
    facts = facts.copy()
    facts[rows] = facts[rows][:, [TAIL, RELATION, HEAD]]
    return distinct_facts(facts)
