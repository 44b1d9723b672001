"""An explanation on an 80-column terminal, and as a figure."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from numcoke_jax.data.variants import SIDES
from numcoke_jax.system.console import WHY_UNKNOWN, Console, shown_probability, shown_value
from numcoke_jax.system.files import write_bytes_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_FIELDS = 8  # shown on a terminal, those with most attention
SHOWN_HEADS = 4


def show(found: Mapping[str, Any], console: Console) -> None:
    """Write what `explain` found."""
    known = f"known from {found['known']}" if found["known"] else "not among the known facts"
    console.note(f"{found['head']}  {found['relation']}  {found['tail']}  ({known})")
    console.note(_verdict(found))
    if None in (found["probability"], found.get("what_if", found)["probability"]):
        console.note(WHY_UNKNOWN)
    console.note("")
    if found["terms"]:
        terms = [(name, f"{value:+.3f}") for name, value in found["terms"].items()]
        terms.append(("sum", f"{sum(found['terms'].values()):+.3f}"))
        console.table("Score", "the sum of its terms", ("term", ">value"), terms)
    if "compared" in found or "order" in found:
        rows = [
            (row["field"], f"{row['weight']:+.2f}", _value(row["head"]), _value(row["tail"]))
            for row in found.get("compared", [])
        ]
        remark = _standing(found["order"]) if "order" in found else ""  # a reference has none
        if rows:
            console.table("Compared", remark, ("field", ">weight", ">head's value", ">tail's value"), rows)
        else:  # no field explains the relation
            console.note(remark)
            console.note("")
    if "attention" in found:
        _show_attention(found["attention"], console)
    if "experts" in found:
        experts = [(side, *(f"{w:.2f}" for w in weights)) for side, weights in found["experts"].items()]
        count = len(next(iter(found["experts"].values())))
        console.table("Experts", "", ("entity", *(f">{number + 1}" for number in range(count))), experts)
    if "what_if" in found:
        _show_what_if(found["what_if"], console)


def figure(found: Mapping[str, Any], path: Path) -> None:
    """Write terms, and attention of both entities, as a PNG; raises UserError if that is impossible."""
    import matplotlib  # it takes half as long as JAX

    # Two dollar signs in the names would begin and end a formula, and most texts are not one.
    with matplotlib.rc_context({"text.parse_math": False}):
        drawn = io.BytesIO()
        _panels(found).savefig(drawn, dpi=120, format="png")
    write_bytes_atomically(path, drawn.getvalue())


def _panels(found: Mapping[str, Any]) -> "Figure":
    from matplotlib.figure import Figure

    sides = list(found.get("attention", {}))
    panels = Figure(figsize=(5 + 4 * len(sides), 5), layout="constrained")
    axes = panels.subplots(1, 1 + len(sides), squeeze=False)[0]
    terms = found["terms"] or {"score": found["score"]}
    axes[0].barh(list(terms), list(terms.values()), color="#3b6ea5")
    axes[0].axvline(0, color="black", linewidth=0.8)
    axes[0].set_title(f"terms of the score {found['score']:.2f}")
    for axis, side in zip(axes[1:], sides, strict=True):
        weights = np.array(list(found["attention"][side].values()))
        image = axis.imshow(weights, vmin=0, aspect="auto", cmap="viridis")
        axis.set_yticks(range(len(weights)), list(found["attention"][side]))
        axis.set_xticks(range(weights.shape[1]), [str(head + 1) for head in range(weights.shape[1])])
        axis.set_xlabel("attention head")
        axis.set_title(f"{side}: {found[side]}")
        panels.colorbar(image, ax=axis)
    panels.suptitle(f"{found['head']}  {found['relation']}  {found['tail']}")
    return panels


def _show_attention(attention: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """The fields that both entities' heads look at most, one column per entity and head."""
    fields = list(next(iter(attention.values())))
    weights = {side: np.array([attention[side][field] for field in fields]) for side in attention}
    mean = sum(matrix.mean(axis=1) for matrix in weights.values())
    order = np.argsort(-np.asarray(mean), kind="stable")[:MOST_FIELDS]
    heads = min(next(iter(weights.values())).shape[1], SHOWN_HEADS)
    columns = ["field", *(f">{side[0]}{head + 1}" for side in weights for head in range(heads))]
    rows = [
        (fields[field], *(f"{weights[side][field, head]:.2f}" for side in weights for head in range(heads)))
        for field in order
    ]
    remark = "by field; h1: the head entity, attention head 1; t1: the tail entity"
    console.table("Attention", remark, columns, rows)


def _show_what_if(what_if: Mapping[str, Any], console: Console) -> None:
    changes = ", ".join(f"{c['side']}'s {c['field']} = {_value(c['value'])}" for c in what_if["changes"])
    console.note(f"What if {changes}?")
    console.note(_verdict(what_if))
    console.note("")
    if what_if["moved"]:
        rows = [(row["tail"], f"{row['before']:g}", f"{row['after']:g}") for row in what_if["moved"]]
        console.table("Ranks that move most", "unfiltered", ("tail", ">before", ">after"), rows)


def _standing(order: Mapping[str, Any]) -> str:
    """Where the order core puts both entities, and how sure it is of their order."""
    above = "unknown" if order["above"] is None else f"{order['above']:.3f}"
    places = [f"{side} {order[f'{side}_position']:+.2f}{_width(order[f'{side}_width'])}" for side in SIDES]
    return f"order core: {', '.join(places)}; above with probability {above}"


def _width(width: float) -> str:
    return f" +- {width:.2f}" if width else ""


def _verdict(found: Mapping[str, Any]) -> str:
    probability = shown_probability(found["probability"])
    return f"rank {found['rank']:g}, probability {probability}, score {found['score']:.3f}"


def _value(value: float | None) -> str:
    return "missing" if value is None else shown_value(value)
