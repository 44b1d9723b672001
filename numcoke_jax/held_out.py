"""Takes entities out of a graph, with everything that names them."""

import dataclasses

import numpy as np

from numcoke_jax.errors import UserError
from numcoke_jax.graph import HEAD, SPLITS, TAIL, NumericGraph, Vocabulary

STREAM = 5  # of `data.seed`, so that no other draw changes


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Entities taken out of a graph.

    Attributes:
      names: n names.
      values: float64 [n, M]; observed: bool [n, M].
      facts: int32 [f, 3], every fact of any split with one of them; their ids follow those of the others.
    """

    names: tuple[str, ...]
    values: np.ndarray
    observed: np.ndarray
    facts: np.ndarray


def hold_out(graph: NumericGraph, share: float, seed: int) -> tuple[NumericGraph, HeldOut]:
    """A graph without a seeded share of its entities, and those entities.

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
    kept = {name: renamed(triples[~touched(triples)]) for name, triples in every.items()}
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
    return reduced, HeldOut(named(out), graph.values[out], graph.observed[out], lost)
