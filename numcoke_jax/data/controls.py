"""Controls for a claim about accuracy: the same facts with values that cannot help.

A model that reasons with numbers does worse on shuffled values than on the true ones; one that only
profits from more parameters does not ("Numerical Literals in Link Prediction: A Critical Examination of
Models and Datasets", ISWC 2024).
"""

import dataclasses

import numpy as np

from numcoke_jax.graph import NumericGraph

CONTROLS = ("true", "shuffled", "zeroed", "removed")


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
