"""The settings of a graph that comes without a config: what its training facts look like decides them.

They are the shipped ones, the preset "numeric", which decides comparisons with the order core.  A model is
chosen by facts against their reverses if every relation is a strict order, else among all tails.
"""

from collections.abc import Collection, Iterator

import numpy as np
from ml_collections import ConfigDict

from numcoke_jax.config.presets import apply_preset
from numcoke_jax.config.schema import default_config
from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.models.order_core.comparative import comparative_relations
from numcoke_jax.system.errors import UserError, plural, shown_name

SHIPPED = "numeric"
SHOWN_NOISY = 3
FEWEST_FACTS = 10  # to train on, where no relation compares


def chosen_config(
    graph: NumericGraph, preset: str = "", *, compared: Collection[str] = ()
) -> tuple[ConfigDict, str]:
    """The config for a graph, apart from where it is, and one line that says what was chosen and why.

    Args:
      graph: its training and validation facts are looked at.
      preset: one of `presets.PRESETS`; "": the shipped one.
      compared: relations that compare the values of a table: strict, whatever a few facts look like.

    Raises:
      UserError: there is no such preset, or there are too few facts.
    """
    config = default_config()
    apply_preset(config, preset or SHIPPED)
    facts = np.concatenate([graph.train, graph.valid])
    known = {place for place, name in enumerate(graph.vocabulary.relations) if name in compared}
    ordered = comparative_relations(graph)
    if not ordered and len(graph.train) < FEWEST_FACTS:
        raise UserError(
            f"the graph has {plural(len(graph.train), 'fact')} for training, too few for an order or for "
            f"anything else to be learned; add some, {FEWEST_FACTS} at least"
        )
    compare = known.union(ordered)
    noisy = {name: share for relation, name, share in _noisy(graph, facts) if relation in compare - known}
    others = graph.num_relations - len(compare)
    strict = len(compare) - len(noisy)
    config.eval.selection = "seen" if noisy or others else "reversed"
    found = []
    if strict:
        found.append(plural(strict, "strict comparison"))
    if noisy:
        worst = sorted(noisy, key=lambda name: (-noisy[name], name))
        shown = ", ".join(_told(name, noisy[name]) for name in worst[:SHOWN_NOISY])
        more = ", ..." if len(worst) > SHOWN_NOISY else ""
        found.append(f"{plural(len(noisy), 'noisy comparison')} ({shown}{more})")
    if others:
        found.append(f"{plural(others, 'relation')} of another kind")
    found.append(plural(graph.num_fields, "field"))
    chosen = f"preset {preset or SHIPPED}, eval.selection={config.eval.selection}"
    return config, f"settings: {chosen}; {', '.join(found)}"


def _noisy(graph: NumericGraph, facts: np.ndarray) -> Iterator[tuple[int, str, float]]:
    """Relations (id, name, share of its pairs with facts both ways) whose facts contradict each other."""
    # Imported here: a run with a config of its own need not wait for it.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    for relation, name in enumerate(graph.vocabulary.relations):
        part = facts[facts[:, RELATION] == relation]
        heads, tails = part[:, HEAD].astype(np.int64), part[:, TAIL].astype(np.int64)
        steps = coo_array((np.ones(len(part)), (heads, tails)), shape=(graph.num_entities,) * 2)
        parts = connected_components(steps, directed=True, connection="strong", return_labels=False)
        if int(parts) < graph.num_entities or (heads == tails).any():  # a way back from some entity
            keys = np.unique(heads * graph.num_entities + tails)
            backwards = np.unique(tails * graph.num_entities + heads)
            both = len(np.intersect1d(keys, backwards, assume_unique=True)) / 2
            yield relation, name, both / max(len(keys) - both, 1)


def _told(name: str, share: float) -> str:
    return f"{shown_name(name)}: {share:.0%} of pairs both ways" if share else f"{shown_name(name)}: cycles"
