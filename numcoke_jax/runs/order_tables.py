"""Rows of order measures, as the terminal, the page and the comparison of runs show them.

Works on report.json alone: needs no model and no data.
"""

import math
from collections.abc import Mapping
from typing import Any

from numcoke_jax.runs.stored import Order

ORDER_TITLES = {
    "count": "pairs",
    "order_accuracy": "accuracy",
    "auc": "AUC",
    "log_loss": "log loss",
    "tau": "tau",
    "tau_values": "tau values",
}
TERMINAL_TITLES = tuple(ORDER_TITLES.values())[:-1]  # 80 columns; report.json and the page have all
ORDER_REMARK = "test facts against their reverses"
ABOUT_ORDER = (
    "Each test fact (h, r, t) is compared with its reverse (t, r, h). Accuracy: how often the fact scores "
    "higher, ties half. AUC: of the difference of both scores. Log loss: of the probability that is shown "
    "of a relation that the order core decides, else of sigmoid(half that difference). Tau: "
    "Kendall's, of one order of all entities, by the share of the others that each is scored above, with the "
    "test facts; tau values: tau-b with the observed values of the compared field. Narrowest, "
    "seen: of the pairs whose values are both observed, the quarter that differs least in position (pairs "
    "with a hidden value, often the hardest, are not among them)."
)
ABOUT_MRR = (
    "MRR and Hits@k show whether true tails rank above false ones for the same head, not whether the head "
    "matters: where every pair of a relation is a fact, filtering removes all other true tails, and one list "
    "of tails for all heads, or a score that is the same in both directions, can reach 1."
)


def order_rows(order: Order | None, most: int) -> tuple[list[tuple[str, Mapping[str, Any]]], str]:
    """The rows of an order table and what its caption adds.

    Args:
      order: of a report; without one there are no rows.
      most: relations shown, those with the lowest accuracy first.

    Returns:
      [(name, measures)]: all pairs, the narrowest quarter if gaps are known, then the relations if there are
      several; and "" or ", the 3 least accurate of 9 relations".
    """
    if not order or not order["all"]["count"]:
        return [], ""
    rows: list[tuple[str, Mapping[str, Any]]] = [("all pairs", order["all"])]
    if order["narrowest_quarter"]["count"]:
        rows.append(("narrowest, seen", order["narrowest_quarter"]))
    measured: dict[str, Any] = {name: row for name, row in order["relations"].items() if row["count"]}
    if len(measured) < 2:
        return rows, ""
    names = sorted(measured, key=lambda name: (measured[name]["order_accuracy"], name))
    for name in names[:most]:
        rows.append((name, measured[name]))
    return rows, f", the {most} least accurate of {len(names)} relations" if len(names) > most else ""


def shown_metric(name: str, value: float | None) -> str:
    """A metric of ranks, a loss or a count in a table, "-" where there is none."""
    if value is None or math.isnan(value):
        return "-"
    if name in ("count", "epoch", "step"):
        return f"{value:,.0f}"
    return f"{value:.2f}" if name == "mr" else f"{value:.4f}" if abs(value) < 100 else f"{value:.3g}"


def order_cells(measures: Mapping[str, Any], missing: str = "-") -> list[str]:
    """The cells of `ORDER_TITLES`; of "narrow" rows the last is missing: tau of values is about entities."""
    return [
        f"{measures['count']:,}",
        *(_cell(measures.get(name), missing) for name in list(ORDER_TITLES)[1:]),
    ]


def _cell(value: float | None, missing: str) -> str:
    return missing if value is None else f"{value:.4f}"
