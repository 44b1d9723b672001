"""Imputed values on an 80-column terminal, and in files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numcoke_jax.cli.answer_files import answer_writer
from numcoke_jax.inference.intervals import CELL_COLUMNS, WITH, WITHOUT, cell_columns
from numcoke_jax.system.console import Console, shown_value
from numcoke_jax.system.files import write_json_atomically

WHICH = {"masked": "values masked by data.missing_rate", "hidden": "observed values, hidden in turn"}


def show(found: Mapping[str, Any], top: int, console: Console) -> None:
    """Write the coverage on hidden cells, then at most `top` missing cells, the surest ones first."""
    rows = [(name, _relations(field), *_checked(field)) for name, field in found["fields"].items()]
    rows += [(kind, "", *_checked(coverage)) for kind, coverage in found["kinds"].items()]
    rows.append(("all", "", *_checked(found["coverage"])))
    remark = f"on {WHICH[found['tested_on']]}; target {100 * found['level']:g}%"
    columns = ("field", "by relation", ">cells", ">covered", ">mean width")
    console.table("Coverage", remark, columns, rows)
    kinds = {WITH if cell["known_by"] == "facts" else WITHOUT for cell in found["cells"]}
    for kind in (kind for kind, factor in found["factors"].items() if factor is None and kind in kinds):
        console.warn(
            f"too few observed cells {kind} to cover {100 * found['level']:g}% of them: their intervals are "
            "the whole range"
        )
    cells = sorted(found["cells"], key=lambda cell: (cell["high_rank"] - cell["low_rank"]) / cell["of"])
    shown = [
        (cell["entity"], cell["field"], ranks_text(cell), f"{cell['rank']:.1f}", place_text(cell))
        for cell in cells[:top]
    ]
    remark = f"{len(shown)} of {len(cells)}, narrowest first; rank 1 is the lowest value"
    console.table("Missing values", remark, ("entity", "field", ">ranks", ">guess", ">values"), shown)


def write(found: Mapping[str, Any], path: Path) -> None:
    """Write everything that was found (.json), or the missing cells (.csv, .parquet); raises UserError."""
    if path.suffix == ".json":
        write_json_atomically(path, found)
        return
    with answer_writer(path, CELL_COLUMNS) as write_rows:
        write_rows(cell_columns(found["cells"]))


def _relations(field: Mapping[str, Any]) -> str:
    names = field["relations"]
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names) or "other fields"


def _checked(found: Mapping[str, Any]) -> tuple[str, str, str]:
    if not found["cells"]:
        return "0", "-", "-"
    return f"{found['cells']:,}", f"{found['covered']:.1%}", f"{found['mean_width']:.1%}"


def ranks_text(cell: Mapping[str, Any]) -> str:
    """The ranks of an interval, such as "4 to 7 of 50"."""
    low, high = cell["low_rank"], cell["high_rank"]
    return f"{low} of {cell['of']}" if low == high else f"{low} to {high} of {cell['of']}"


def place_text(cell: Mapping[str, Any]) -> str:
    """The values of an interval and what must be said about it; "no value" without a field."""
    if cell["known_by"] == "value":
        return f"= {shown_value(cell['low_value'])}"
    values = interval_text(cell) if cell["field"] else "no value"
    return f"unknown: {values}" if cell["known_by"] == "nothing" else values


def interval_text(cell: Mapping[str, Any]) -> str:
    """The values of an interval in words, such as "up to 3"."""
    low, high = cell["low_value"], cell["high_value"]
    if low is None and high is None:
        return "any"
    if low is None:
        return f"up to {shown_value(high)}"
    return f"{shown_value(low)} or more" if high is None else f"{shown_value(low)} to {shown_value(high)}"
