"""FB15k-237 with the numbers of the mmkb project: the splits as released, and literals of their entities.

The 237 relations and 116 numeric fields are those of the public evaluations with numbers.  One of the
fields, `tv.tv_series_season.to`, has values only for entities of FB15k that FB15k-237 lacks; it stays, as
a field that is missing everywhere, so that the shapes are the published ones.
"""

import dataclasses

import numpy as np
import pyarrow as pa

from numcoke_jax.data.files.encode import encode_graph
from numcoke_jax.data.files.lines import FACT_COLUMNS, LITERAL_COLUMNS, DataError, TextFile, read_triples
from numcoke_jax.data.files.numbers import parse_values
from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.data.public.sources import find_fb15k_237
from numcoke_jax.system.errors import plural


def load_fb15k_237(directory: str = "") -> tuple[NumericGraph, list[str]]:
    """The graph, and what its user should know about it.

    Args:
      directory: the folder in which its files are looked for first (config.data.dir); "" for none.

    Raises:
      UserError: a file is neither found nor can be downloaded, or is malformed.
    """
    files = find_fb15k_237(directory)
    splits = {split: read_triples(file, FACT_COLUMNS) for split, file in files.splits.items()}
    literals = read_numbers(files.numbers)
    graph, report = encode_graph(splits, None, literals)
    report.dropped_fields = ()  # they stay
    graph, empty = with_all_fields(graph, literals["field"].unique().to_pylist())
    notices = [*files.notices]
    if empty:
        notices.append(
            f"{graph.num_fields} numeric fields, of which {plural(len(empty), 'field')} without a value of "
            f"an entity of the graph: {', '.join(empty)}"
        )
    return graph, [*notices, *report.notices()]


def read_numbers(file: TextFile) -> pa.Table:
    """Columns entity, field (strings) and value (float64) of the numeric triples.

    Raises:
      UserError: a line does not have three fields, or a value is not a number.
    """
    table = read_triples(file, LITERAL_COLUMNS, plain=("value",))
    parsed = parse_values(table["value"])
    if parsed.bad:
        row, why = next(iter(sorted(parsed.bad.items())))
        text = table["value"][row].as_py()
        raise DataError([f"{file.name}: {text!r} in row {row + 1}: {why}; fetch the file again"])
    return pa.table({"entity": table["entity"], "field": table["field"], "value": parsed.values})


def with_all_fields(graph: NumericGraph, fields: list[str]) -> tuple[NumericGraph, list[str]]:
    """The graph with a column for each of `fields`, and the fields whose column is missing everywhere.

    Args:
      graph: its own fields are among `fields`.
      fields: different names, in any order.
    """
    names = sorted(fields)  # by code point, as everywhere
    columns = [names.index(field) for field in graph.vocabulary.fields]
    values = np.zeros((graph.num_entities, len(names)))
    observed = np.zeros((graph.num_entities, len(names)), dtype=bool)
    values[:, columns], observed[:, columns] = graph.values, graph.observed
    empty = [names[field] for field in np.flatnonzero(~np.any(observed, axis=0))]
    vocabulary = Vocabulary(graph.vocabulary.entities, graph.vocabulary.relations, tuple(names))
    return dataclasses.replace(graph, vocabulary=vocabulary, values=values, observed=observed), empty
