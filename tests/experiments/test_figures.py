"""Figures of the experiments: nothing of a legend is cut off, however narrow the figure."""

import pytest

from experiments import figures

SERIES = {
    name: [(0.5, 0.1), (0.7, None)] for name in ("Hits@1", "MRR", "MRR, shuffled values", "another one")
}


@pytest.mark.parametrize("panels", [1, 2, 4])
def test_a_legend_lies_inside_its_figure(panels: int) -> None:
    figure, axes = figures.new_figure(3.1 * panels, 2.8, panels=panels, columns=panels)
    for panel in axes:
        figures.lines(panel, [0, 1], SERIES)
    figures.legend_below(figure, axes[0])
    figure.canvas.draw()
    legend = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= legend.x0 and legend.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= legend.y0 and legend.y1 <= min(panel.get_window_extent().y0 for panel in axes)
