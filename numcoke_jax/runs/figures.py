"""Small figures as inline SVG, as wide as a phone; each is described in its label, for screen readers.

All text is escaped.  Colours are CSS variables of the page (`--line0`, `--ink`, `--soft`), so one figure
serves its light and its dark scheme, and lines also differ by dashes, for those who do not see the colours.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

WIDTH, HEIGHT = 356, 240  # the least width of phones in use, less the page's margins
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 14, 44
LEGEND_LINE = 18
DASHES = ("", "6 4", "2 3", "8 3 2 3")
TICKS = 6  # of an axis, at most
LONGEST_LABEL = 22
CELL, MOST_COLUMNS = 26, 7  # of a heat map
SCALE_STEPS = 4  # of its scale, from 0 to the highest value
Points = Sequence[tuple[float, float]]


def line_chart(
    title: str,
    lines: Mapping[str, Points],
    x_label: str,
    y_label: str,
    y_range: tuple[float, float] | None = None,
    x_range: tuple[float, float] | None = None,
    mark: tuple[float, str] | None = None,
) -> str:
    """Lines over one pair of axes, with a legend of those that have points; a sentence if none has two.

    `mark` is a place on the x axis, shown by an upright line, and what is there.
    """
    lines = {name: line for name, line in lines.items() if line}
    points = [point for line in lines.values() for point in line]
    if not points:
        return f"<p>{escape(title)}: nothing to show.</p>"
    if all(len(line) == 1 for line in lines.values()):
        only = ", ".join(f"{name} {_tick(y)} at {_tick(x)}" for name, ((x, y),) in lines.items())
        return f"<p>{escape(title)}: {escape(only)} alone.</p>"
    xs, ys = zip(*points, strict=True)
    xs = (*xs, mark[0]) if mark else xs
    x_low, x_high = x_range or _range(xs)
    y_low, y_high = y_range or _range(ys)
    scale = _Scale(x_low, x_high, y_low, y_high)
    parts = [_axes(scale, x_label, y_label)]
    if mark:
        parts.append(_mark(scale.x(mark[0]), mark[1]))
    for number, (name, line) in enumerate(lines.items()):
        path = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in line)
        colour, dash = f"var(--line{number % 4})", DASHES[number % len(DASHES)]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
                     f'stroke-dasharray="{dash}"/>')  # fmt: skip
        for x, y in line if len(line) <= 60 else ():
            parts.append(f'<circle cx="{scale.x(x):.1f}" cy="{scale.y(y):.1f}" r="2.5" fill="{colour}"/>')
        if len(lines) > 1:
            y = HEIGHT + LEGEND_LINE * number + 8
            parts.append(f'<line x1="{LEFT}" x2="{LEFT + 26}" y1="{y}" y2="{y}" '
                         f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
                         f'<text x="{LEFT + 34}" y="{y + 4}">{escape(name)}</text>')  # fmt: skip
    legend = LEGEND_LINE * len(lines) if len(lines) > 1 else 0
    described = _described(lines) + (f"; {mark[1]}" if mark else "")
    return _svg(title, "".join(parts), WIDTH, HEIGHT + legend, described)


def _mark(x: float, text: str) -> str:
    """An upright line with a text beside it, on the side where there is more room."""
    left = x > (LEFT + WIDTH - RIGHT) / 2
    place = f'x="{x - 5:.1f}" text-anchor="end"' if left else f'x="{x + 5:.1f}"'
    line = f'<path d="M{x:.1f},{TOP}V{HEIGHT - BOTTOM}" stroke="var(--ink)" stroke-dasharray="3 3"/>'
    return f'{line}<text {place} y="{TOP - 3}">{escape(text)}</text>'


def _described(lines: Mapping[str, Points]) -> str:
    """Start, end and extremes of each line, for screen readers."""
    found = []
    for name, line in lines.items():
        ys = [y for _, y in line]
        ends = f"from {_tick(ys[0])} at {_tick(line[0][0])} to {_tick(ys[-1])} at {_tick(line[-1][0])}"
        found.append(f"{name}: {ends}, lowest {_tick(min(ys))}, highest {_tick(max(ys))}")
    return "; ".join(found)


def reliability_chart(title: str, bins: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Predicted probability against the share of true labels; the diagonal is perfect."""
    lines: dict[str, Points] = {"perfect": [(0.0, 0.0), (1.0, 1.0)]}
    lines |= {name: [(part["predicted"], part["true"]) for part in parts] for name, parts in bins.items()}
    return line_chart(title, lines, "predicted probability", "share that is true", (0.0, 1.0), (0.0, 1.0))


def heat_map(title: str, rows: Sequence[str], columns: Sequence[str], values: np.ndarray) -> str:
    """Cells as dark as their value in [0, max], beside the scale; each cell has its number as a tooltip.

    Columns that do not fit a phone go into further maps of the same rows and the same scale.

    Args:
      title: what it shows.
      rows, columns: names.
      values: float [rows, columns], finite and not negative.
    """
    highest = max(float(values.max(initial=0.0)), 1e-12)
    parts = [slice(begin, begin + MOST_COLUMNS) for begin in range(0, max(len(columns), 1), MOST_COLUMNS)]
    titles = (
        [title] if len(parts) == 1 else [f"{title}, {n} of {len(parts)}" for n in range(1, len(parts) + 1)]
    )
    maps = [
        _heat_map(name, rows, columns[part], values[:, part], highest)
        for name, part in zip(titles, parts, strict=True)
    ]
    return "".join(maps)


def _heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], values: np.ndarray, highest: float
) -> str:
    left, top = WIDTH - 10 - CELL * MOST_COLUMNS, 130
    parts = [_color_scale(highest)]
    for column, name in enumerate(columns):
        x = left + CELL * column + CELL / 2
        parts.append(f'<text x="{x:.0f}" y="{top - 6}" transform="rotate(-60 {x:.0f} {top - 6})">'
                     f"{escape(_short(name))}</text>")  # fmt: skip
    for row, name in enumerate(rows):
        y = top + CELL * row
        parts.append(f'<text x="{left - 6}" y="{y + 17}" text-anchor="end">{escape(_short(name))}</text>')
        for column in range(len(columns)):
            share = values[row, column] / highest
            tip = escape(f"{name}, {columns[column]}: {values[row, column]:.3f}")
            parts.append(_cell(left + CELL * column, y, share, f"<title>{tip}</title>"))
    most = [f"{name}: most {columns[int(np.argmax(values[row]))]}" for row, name in enumerate(rows)]
    return _svg(title, "".join(parts), WIDTH, top + CELL * len(rows) + 10, "; ".join(most) if columns else "")


def _color_scale(highest: float) -> str:
    """What the darkness of cells means: a row of them from 0 to the highest value."""
    cells = [_cell(CELL * step, 8, step / SCALE_STEPS) for step in range(SCALE_STEPS + 1)]
    end = CELL * (SCALE_STEPS + 1) - 2
    return (
        f'{"".join(cells)}<text x="0" y="{8 + CELL + 14}">0</text>'
        f'<text x="{end}" y="{8 + CELL + 14}" text-anchor="end">{highest:.3g}</text>'
    )


def _cell(x: float, y: float, share: float, content: str = "") -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" fill="var(--line0)" '
        f'fill-opacity="{share:.3f}" stroke="var(--soft)">{content}</rect>'
    )


class _Scale:
    """From numbers to places inside the axes."""

    def __init__(self, x_low: float, x_high: float, y_low: float, y_high: float) -> None:
        self.x_low, self.x_high, self.y_low, self.y_high = x_low, x_high, y_low, y_high

    def x(self, value: float) -> float:
        """Pixels from the left."""
        return LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return HEIGHT - BOTTOM - (value - self.y_low) / (self.y_high - self.y_low) * (HEIGHT - TOP - BOTTOM)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Lowest and highest with a margin, never equal."""
    low, high = min(values), max(values)
    gap = (high - low) * 0.05 or max(abs(high) * 0.05, 0.5)
    return low - gap, high + gap


def _axes(scale: _Scale, x_label: str, y_label: str) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [f'<path d="M{LEFT},{TOP}V{bottom}H{right}" fill="none" stroke="var(--ink)"/>']
    for x in _ticks(scale.x_low, scale.x_high):
        parts.append(f'<text x="{scale.x(x):.1f}" y="{bottom + 16}" text-anchor="middle">{_tick(x)}</text>')
    for y in _ticks(scale.y_low, scale.y_high):
        parts.append(f'<text x="{LEFT - 5}" y="{scale.y(y) + 4:.1f}" text-anchor="end">{_tick(y)}</text>'
                     f'<path d="M{LEFT},{scale.y(y):.1f}H{right}" stroke="var(--soft)"/>')  # fmt: skip
    middle = (TOP + bottom) / 2
    center = (LEFT + right) / 2
    parts.append(f'<text x="{center}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>'
                 f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">'
                 f"{escape(y_label)}</text>")  # fmt: skip
    return "".join(parts)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers in [low, high]: multiples of 1, 2 or 5 times a power of ten, at most `TICKS`."""
    step = 10.0 ** math.floor(math.log10((high - low) / TICKS))
    for factor in (1, 2, 5, 10):  # ten of these steps leave at most `TICKS`
        first = math.ceil(low / (factor * step) - 1e-9)
        numbers = range(first, math.floor(high / (factor * step) + 1e-9) + 1)
        if len(numbers) <= TICKS:
            break
    return [number * factor * step for number in numbers]


def _tick(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 3] + "..."


def _svg(title: str, content: str, width: float, height: float, description: str = "") -> str:
    width, height = math.ceil(width), math.ceil(height)
    label = f"{title}. {description}" if description else title
    return (
        f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'aria-label="{escape(label)}">{content}</svg>'
    )
