"""Does the attention look at the field that a relation compares?  For each relation of finished runs.

    python -m experiments.attention_fields --workdir=runs/credit-paper-seed0 [--workdir=...] [--json=FILE]

For every relation FIELD_comp: the weight of FIELD, a mean over all entities and heads, to compare with 1 / M,
the weight under uniform attention over M fields; its place among the fields by that weight; the field with
the largest weight; and the selectivity, 1 - entropy / log M (0: uniform, 1: a single field).  A final line
has the means over the relations.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rich.console
from rich.table import Table

from experiments import sweep
from experiments.attention_heatmap import attention_weights, selectivity
from experiments.commands import command
from numcoke_jax.cli.commands import OneLineParser, as_file
from numcoke_jax.data.tables.known import RELATION_SUFFIX
from numcoke_jax.inference.trained import load_trained
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError, printable, shown_path
from numcoke_jax.system.files import home_path, write_json_atomically


def row_of(weights: np.ndarray, fields: Sequence[str], compared: str) -> dict[str, Any]:
    """What the attention does for one relation.

    Args:
      weights: float [N, M], of the fields for every entity; a row sums to 1.
      fields: M names.
      compared: the field that the relation compares.

    Returns:
      field: `compared`; weight: its mean weight; place: 1 for the largest mean weight, counting ties before
      it; largest, "largest weight": the field with the largest mean weight, and that weight; selectivity.
    """
    means = weights.mean(axis=0)
    place = fields.index(compared)
    return {
        "field": compared,
        "weight": float(means[place]),
        "place": int((means >= means[place]).sum()),
        "largest": fields[int(means.argmax())],
        "largest weight": float(means.max()),
        "selectivity": selectivity(weights),
    }


def rows_of(workdir: Path) -> list[dict[str, Any]]:
    """One row per relation that is named after a field.

    Raises:
      UserError: no run, a model without attention, or no such relation.
    """
    trained = load_trained(workdir, Console().warn)
    vocabulary = trained.run.graph.vocabulary
    rows = []
    for relation, name in enumerate(vocabulary.relations):
        field = name.removesuffix(RELATION_SUFFIX)
        if field != name and field in vocabulary.fields:
            found = row_of(attention_weights(trained, relation), vocabulary.fields, field)
            rows.append({"relation": name, "fields": len(vocabulary.fields), **found})
    if not rows:
        raise UserError(f"{shown_path(workdir)}: no relation of its graph is named FIELD{RELATION_SUFFIX}")
    return rows


def show(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print the rows and their means as a table of at most 80 columns."""
    table = Table(title=title, caption=f"uniform attention: weight {1 / rows[0]['fields']:.3f}")
    for name in ("compared field", "weight", "place", "largest weight", "selectivity"):
        table.add_column(name, justify="left" if name in ("compared field", "largest weight") else "right")
    for row in rows:
        largest = f"{row['largest weight']:.3f} {printable(row['largest'])}"
        place = f"{row['place']} of {row['fields']}"
        name = printable(row["field"])
        table.add_row(name, f"{row['weight']:.3f}", place, largest, f"{row['selectivity']:.3f}")
    mean = {
        key: statistics.fmean(row[key] for row in rows)
        for key in ("weight", "place", "largest weight", "selectivity")
    }
    first = sum(row["place"] == 1 for row in rows)
    table.add_section()
    table.add_row(
        f"mean; {first} of {len(rows)} first",
        f"{mean['weight']:.3f}",
        f"{mean['place']:.1f}",
        f"{mean['largest weight']:.3f}",
        f"{mean['selectivity']:.3f}",
    )
    rich.console.Console(width=80, markup=False, highlight=False).print(table)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.attention_fields", description=__doc__)
    options.add_argument(
        "--workdir",
        required=True,
        type=home_path,
        action="append",
        help="folder of a finished run; repeatable",
    )
    options.add_argument("--json", type=as_file, help="file for the same numbers")
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Prints the tables; returns the exit code."""
    options = parser().parse_args(arguments)
    tables = {str(workdir): rows_of(workdir) for workdir in options.workdir}
    for workdir, rows in tables.items():
        show(rows, shown_path(workdir))
    if options.json:
        write_json_atomically(options.json, tables)
    return 0


if __name__ == "__main__":
    sweep.main_of(main)
