"""The table of published figures in docs/models.md: whose they are, ours beside them, and their ratios."""

import re
from collections.abc import Iterator

import pytest

from experiments.paper_table2 import MODELS, PRINTED
from tests.tiny_runs import REPOSITORY

RESULTS = (REPOSITORY / "RESULTS.md").read_text(encoding="utf-8")
NUMCOKE = {"NumCoKE, `paper`": "paper", "... `printed`": "printed", "... shipped": "paper"}
BESIDE_THE_PAPER = {"DistMult", "ComplEx", "RotatE"}  # not in its Table 2


def table() -> list[list[str]]:
    """The cells of every line; a line without a model belongs to the one above."""
    page = (REPOSITORY / "docs" / "models.md").read_text(encoding="utf-8")
    section = page.partition("\n## Published figures, and ours\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def figures() -> Iterator[tuple[str, str, str, str]]:
    """The graph, the published figure, ours and the ratio, of every pair."""
    for cells in table():
        for graph, (printed, ours, ratio) in (
            ("Credit", cells[1:4]),
            ("Spotify", cells[4:7]),
            (cells[7], cells[8:11]),
        ):
            if printed not in ("", "-"):
                yield graph, printed, ours, ratio


def test_every_model_of_the_papers_table_has_its_line_and_the_figures_that_the_paper_prints() -> None:
    named = {cells[0]: cells for cells in table() if cells[0]}
    presets = {model.name: preset for preset, model in MODELS.items() if preset in PRINTED}
    assert set(named) == set(presets) - {"NumCoKE", "NumCoKE, as printed"} | set(NUMCOKE) | BESIDE_THE_PAPER
    for name, cells in named.items():
        if name in BESIDE_THE_PAPER:
            assert cells[1] == cells[4] == "-"
            continue
        printed = PRINTED[NUMCOKE.get(name) or presets[name]]
        assert (float(cells[1]), float(cells[4])) == (printed["credit"][-1], printed["spotify"][-1])


def test_a_ratio_is_ours_over_the_published_figure_and_missing_without_ours() -> None:
    for graph, printed, ours, ratio in figures():
        if ours == "not run":
            assert ratio == "", graph
        else:
            assert float(ratio) == pytest.approx(float(ours) / float(printed), abs=0.005001), (graph, printed)


def test_ours_are_figures_of_the_results() -> None:
    known = set(re.findall(r"\d\.\d+", RESULTS))
    rounded = known | {f"{float(figure):.3f}" for figure in known}
    missing = [(graph, ours) for graph, _, ours, _ in figures() if ours not in rounded | {"not run"}]
    assert not missing
