"""How figures of the experiments look: opaque white, so that they read the same in print and on a dark page.

Series differ in colour, in marker or hatch, and in lightness, so they are told apart without colour too.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = ("#1b4f8a", "#d9822b", "#3f9a78", "#a23b72", "#6b6b6b", "#c9b037")  # dark to light, blue to ochre
MARKERS = ("o", "s", "^", "D", "v", "P")
HATCHES = ("", "//", "..", "xx", "\\\\", "++")
LEGEND_ENTRY = 1.8  # inches for a name with its line and marker
RESOLUTION = 150  # dots per inch


def new_figure(
    width: float, height: float, panels: int = 1, columns: int = 1, *, share_y: bool = False
) -> tuple[Any, list[Any]]:
    """A figure of the given size in inches and its axes, one per panel, with `columns` panels in a row.

    With `share_y` all panels have one scale.
    """
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    import matplotlib.pyplot as plt

    plt.rcParams["text.parse_math"] = False  # two dollar signs in a name would make a formula
    rows = -(-panels // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(width, height),
        sharey=share_y,
        layout="constrained",
        squeeze=False,
        facecolor="white",
    )
    flat = list(axes.flat)
    for empty in flat[panels:]:
        empty.set_axis_off()
    for panel in flat[:panels]:
        panel.set_facecolor("white")
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    return figure, flat[:panels]


def save(figure: Any, path: Path) -> None:
    """Write the figure under another name, rename it, and free it."""
    import matplotlib.pyplot as plt

    temporary = path.with_name(f".{path.stem}.part.png")
    figure.savefig(temporary, dpi=RESOLUTION, facecolor="white")
    temporary.replace(path)
    plt.close(figure)


def legend_below(figure: Any, panel: Any) -> None:
    """Put the legend of one panel below all panels of the figure, where it hides nothing."""
    handles, names = panel.get_legend_handles_labels()
    columns = max(1, min(len(names), 4, int(figure.get_figwidth() / LEGEND_ENTRY)))
    figure.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def bars(
    panel: Any,
    groups: Sequence[str],
    series: Mapping[str, Sequence[tuple[float | None, float | None]]],
    *,
    horizontal: bool = False,
) -> None:
    """Draw bars of (mean, deviation) labelled with the mean; each series has its own colour and hatch.

    A mean of None leaves a gap.
    """
    width = 0.8 / len(series)
    for place, (label, numbers) in enumerate(series.items()):
        shift = (place - (len(series) - 1) / 2) * width
        positions = [number + shift for number in range(len(groups))]
        sizes = [mean or 0.0 for mean, _ in numbers]
        errors = [math.nan if deviation is None else deviation for _, deviation in numbers]
        look = {
            "label": label,
            "color": COLOURS[place % 6],
            "hatch": HATCHES[place % 6],
            "edgecolor": "white",
        }
        draw, error = (panel.barh, "xerr") if horizontal else (panel.bar, "yerr")
        shown = draw(positions, sizes, width * 0.92, **{error: errors}, capsize=2, **look)
        texts = ["" if mean is None else f"{mean:.3f}" for mean, _ in numbers]
        panel.bar_label(shown, texts, padding=3, fontsize=7)
    ticks, labels = range(len(groups)), list(groups)
    if horizontal:
        panel.set_yticks(ticks, labels)
        panel.invert_yaxis()
    else:
        panel.set_xticks(ticks, labels)


def points(
    panel: Any,
    groups: Sequence[str],
    series: Mapping[str, Sequence[tuple[float | None, float | None]]],
) -> None:
    """Points of (mean, deviation) with the mean written on, side by side for each group; None leaves a gap.

    For differences that are small beside the values: unlike bars, points need no axis that begins at 0.
    """
    width = 0.7 / len(series)
    for number, (label, numbers) in enumerate(series.items()):
        shift = (number - (len(series) - 1) / 2) * width
        known = [
            (place + shift, mean, deviation)
            for place, (mean, deviation) in enumerate(numbers)
            if mean is not None
        ]
        _with_errors(panel, known, number, label, markersize=4, linestyle="none", capsize=3)
        for place, mean, deviation in known:
            top, above = (place, mean + (deviation or 0.0)), (0, 4)
            panel.annotate(f"{mean:.3f}", top, above, textcoords="offset points", ha="center", fontsize=7)
    panel.set_xticks(range(len(groups)), list(groups))
    panel.set_xlim(-0.6, len(groups) - 0.4)
    panel.margins(y=0.12)
    _level_grid(panel)


def lines(
    panel: Any, places: Sequence[Any], series: Mapping[str, Sequence[tuple[float | None, float | None]]]
) -> None:
    """Draw lines of (mean, deviation) over places, which are evenly spaced and labelled as given."""
    for number, (label, points) in enumerate(series.items()):
        known = [(place, *point) for place, point in enumerate(points) if point[0] is not None]
        _with_errors(panel, known, number, label, linewidth=1.6, capsize=2)
    panel.set_xticks(range(len(places)), [str(place) for place in places])
    _level_grid(panel)


def _with_errors(
    panel: Any,
    known: Sequence[tuple[float, float | None, float | None]],
    number: int,
    label: str,
    **look: Any,
) -> None:
    """The markers of series `number` at (place, mean), with error bars where there is a deviation."""
    panel.errorbar(
        [place for place, _, _ in known],
        [mean for _, mean, _ in known],
        yerr=[math.nan if deviation is None else deviation for _, _, deviation in known],
        label=label,
        color=COLOURS[number % 6],
        marker=MARKERS[number % 6],
        **look,
    )


def _level_grid(panel: Any) -> None:
    panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)
