"""The page: whole, escaped, without outside requests, readable by machines that read to people."""

import itertools
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numcoke_jax.evaluation.metrics import METRICS
from numcoke_jax.runs import figures as svg
from numcoke_jax.runs.order_tables import ABOUT_MRR, ABOUT_ORDER
from numcoke_jax.runs.page import (
    ABOUT_RULES,
    Details,
    Section,
    Table,
    compared_in_words,
    render,
    write_html_report,
)
from numcoke_jax.runs.report import build_report
from numcoke_jax.runs.resume import PatienceState, Progress
from tests.chromium import needs_chromium, opened
from tests.tiny_runs import compiled_fast, config_of, numcoke, train, untrained, write_folder

pytestmark = pytest.mark.usefixtures("one_label_is_enough")
VOID = {"meta", "circle", "line", "polyline", "path", "br"}


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects what a reader meets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.attributes if name == tag]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The page of an untrained NumCoKE, and its report."""
    folder = tmp_path_factory.mktemp("page")
    changes = {"eval__selection": "reversed", "data__inverse": True}
    trained = untrained(numcoke(config_of(write_folder(folder / "graph"), **changes)))
    run = trained.run
    with compiled_fast():
        progress = Progress(patience=PatienceState(best_epoch=2), seconds=61.0)
        report = build_report(run, trained.params, progress, complete=True)
        report["compared_fields"] = {"higher": {"field": "size", "weight": -1.0}}
        rows = [
            {"step": 3 * e, "epoch": e, "kind": kind, **values}
            for e in (1, 2)
            for kind, values in (("train", {"bce": 0.5 / e}), ("valid", {"mrr": 0.2 * e}))
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        write_html_report(run, trained.params, report, folder)
    return (folder / "report.html").read_text(encoding="utf-8"), dict(report)


def test_the_report_has_the_promised_keys_in_a_fixed_order(page: tuple[str, dict[str, Any]]) -> None:
    _, report = page
    assert list(report) == [
        *("seed", "best_epoch", "seconds", "complete", "valid", "test", "protocol", "environment"),
        *("selection_mrr", "relations", "cardinalities", "order", "order_accuracy"),
        *("calibration_kind", "calibration", "compared_fields"),
    ]
    assert (report["seed"], report["best_epoch"], report["seconds"]) == (0, 2, 61.0)
    assert report["complete"] is True and report["protocol"]["ranked"] == "tails and heads"
    for part in (report["valid"], report["test"]):
        assert list(part) == [*METRICS, "exclude_self", "heads", "both"]
        assert all(list(part[side]) == list(METRICS) for side in ("exclude_self", "heads", "both"))


def test_the_page_is_whole_and_asks_nothing_of_the_network(page: tuple[str, dict[str, Any]]) -> None:
    text, _ = page
    parsed = Page(text)
    names = {tag for tag, _ in parsed.attributes}
    assert not names & {"script", "link", "img", "iframe", "object", "base"}
    for _, attributes in parsed.attributes:
        assert not {"src", "srcset", "xlink:href", "action", "data"} & attributes.keys()
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in text and "@import" not in text and "http://" not in text and "https://" not in text
    policy = next(a for a in parsed.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_the_numbers_of_the_report_stand_on_the_page(page: tuple[str, dict[str, Any]]) -> None:
    text, report = page
    words = Page(text).words
    for split in ("valid", "test"):
        assert (
            f"{report[split]['mrr']:.4f}" in words and f"{report[split]['exclude_self']['mrr']:.4f}" in words
        )
    assert f"{report['calibration']['test']['after']['ece']:.4f}" in words
    assert f"{report['relations']['higher']['mrr']:.4f}" in words
    assert {"model.dim (changed)", "data.normalize", "data_sha256"} <= set(words)


def test_order_measures_come_before_ranks_with_what_both_show(page: tuple[str, dict[str, Any]]) -> None:
    text, report = page
    words = Page(text).words
    for found in (report["order"]["all"], report["order"]["relations"]["higher"]):
        for name in ("order_accuracy", "auc", "log_loss", "tau"):
            assert f"{found[name]:.4f}" in words
    assert words.index(f"{ABOUT_ORDER} {ABOUT_RULES}") < words.index(ABOUT_MRR)
    assert f"test order accuracy {report['order']['all']['order_accuracy']:.4f}, test MRR" in text


def test_references_stand_beside_the_model_and_fields_in_words(page: tuple[str, dict[str, Any]]) -> None:
    text, report = page
    words = Page(text).words
    found = report["order"]["references"]
    assert found["relations"].keys() == {"higher"} and found["all"]["model"] is not None
    for name in ("model", "raw values", "win rate", "bounds"):
        assert name in words and f"{found['all'][name]:.4f}" in words
    assert "the head has the lower size" in words and "best epoch 2" in words


def test_what_is_compared_is_said_in_words() -> None:
    assert compared_in_words("weight", 1.0) == "the head has the higher weight"
    assert compared_in_words("rank", -0.4) == "the head has the lower rank, by 0.40 of 1: not rank alone"


@pytest.mark.parametrize("empty", ["valid", "test", "literals"])
def test_graphs_that_lack_a_part_have_a_page_too(empty: str, tmp_path: Path) -> None:
    """One fact a split, and nothing to validate on, to test on, or to compare."""
    data = tmp_path / "data"
    (data / "literals").mkdir(parents=True)
    for split, fact in {
        "train": "a\thigher\tb\n",
        "valid": "b\thigher\tc\n",
        "test": "a\thigher\tc\n",
    }.items():
        (data / f"{split}.txt").write_text("" if split == empty else fact)
    if empty != "literals":
        (data / "literals" / "numerical_literals.txt").write_text("a\tsize\t2\nb\tsize\t1\n")
    report, _ = train(config_of(data, train__epochs=2), tmp_path / "run")
    parsed = Page((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    words = parsed.words
    for split in ("valid", "test"):
        assert ("-" if split == empty else f"{report[split]['mrr']:.4f}") in words
    assert (report["relations"] == {}) == (empty == "test") and ("By relation" in words) == (empty != "test")
    assert ("Validation MRR by epoch: nothing to show." in words) == (empty == "valid")
    assert ("Observed values by field" in words) == (empty != "literals")
    assert not any(word in ("nan", "None") for word in words)


def test_a_screen_reader_finds_its_way(page: tuple[str, dict[str, Any]]) -> None:
    parsed = Page(page[0])
    assert parsed.of("html") == [{"lang": "en"}] and len(parsed.of("h1")) == 1
    titles = {a["id"] for a in parsed.of("h2")}
    assert titles == {a["aria-labelledby"] for a in parsed.of("section")}
    assert {f"#{title}" for title in titles} == {a["href"] for a in parsed.of("a")}
    assert {
        "results",
        "relations",
        "learning",
        "attention",
        "calibration",
        "data",
        "config",
        "environment",
    } <= titles
    assert all(a.get("scope") in ("col", "row") for a in parsed.of("th"))
    assert len(parsed.of("caption")) == len(parsed.of("table"))
    figures = parsed.of("svg")
    assert len(figures) == 4 and all(a["role"] == "img" and a["aria-label"] for a in figures)
    assert all(
        a.get("tabindex") == "0" and a["role"] == "region" and a["aria-label"]
        for a in parsed.of("div")
        if a["class"] == "wide"
    )


def test_the_page_follows_phones_and_dark_mode(page: tuple[str, dict[str, Any]]) -> None:
    text, _ = page
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    light, _, dark = text.partition("prefers-color-scheme: dark")
    for variable in ("--paper", "--ink", "--soft", "--line0", "--line1", "--line2", "--line3"):
        assert f"{variable}: #" in light and f"{variable}: #" in dark.partition("}")[0]
    assert contrast("#fff", "#1b1f24") > 7 and "#fff" in light and "#1b1f24" in light
    assert contrast("#14171b", "#e7eaee") > 7 and "#14171b" in dark and "#e7eaee" in dark


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chromium_shows_the_page_without_complaint(
    page: tuple[str, dict[str, Any]], width: int, scheme: str, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page[0], encoding="utf-8")
    with opened(file.as_uri(), width, scheme) as tab:
        wide = tab.page.evaluate("document.documentElement.scrollWidth")
        inside = tab.page.evaluate(
            "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).length"
        )
        paper = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert tab.complaints == [] and tab.requests == [file.as_uri()]
    assert wide == width and not inside, "neither the page nor anything on it scrolls sideways"
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[scheme]


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_names_from_data_are_text_never_markup() -> None:
    bad = "<script>alert('x')</script>&\""
    figures = [
        svg.line_chart(bad, {bad: [(0, 1)], "b": [(1, 2)]}, bad, bad),
        svg.heat_map(bad, [bad], [bad], np.array([[0.5]])),
        svg.reliability_chart(bad, {bad: [{"predicted": 0.5, "true": 0.25}]}),
    ]
    table = Table(bad, [bad, bad], [[bad, bad]])
    titled = [(bad, figure) for figure in figures]
    section = Section("x", bad, bad, [table], titled, Details(bad, [(bad, bad)]), table)
    text = render(bad, bad, [section])
    assert "<script" not in text
    assert "alert('x')" in "".join(Page(text).words)


def test_points_of_a_line_stand_where_they_belong() -> None:
    """Two points span the axes: 5 % of the range is left free on both sides."""
    drawn = svg.line_chart("t", {"a": [(0.0, 0.0), (10.0, 1.0)]}, "x", "y", (0.0, 1.0))
    inner = svg.WIDTH - svg.LEFT - svg.RIGHT
    left, right = svg.LEFT + inner * 0.5 / 11, svg.LEFT + inner * 10.5 / 11
    assert f'points="{left:.1f},{svg.HEIGHT - svg.BOTTOM:.1f} {right:.1f},{svg.TOP:.1f}"' in drawn
    assert svg.line_chart("t", {}, "x", "y") == "<p>t: nothing to show.</p>"


def test_axes_have_round_numbers() -> None:
    assert svg._ticks(-0.05, 1.05) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert svg._ticks(8, 252) == [50, 100, 150, 200, 250]
    assert svg._ticks(0.772, 0.967) == pytest.approx([0.8, 0.85, 0.9, 0.95])
    for low, width in itertools.product((-3.7, 0.0, 19.2), (1e-4, 0.3, 1.0, 7.77, 9.99, 60_000.0)):
        ticks = svg._ticks(low, low + width)
        assert 2 <= len(ticks) <= svg.TICKS and low - 1e-9 <= ticks[0] and ticks[-1] <= low + width + 1e-9


def test_a_chart_is_described_for_those_who_hear_it() -> None:
    drawn = svg.line_chart("Loss", {"bce": [(1, 0.5), (2, 0.125), (3, 0.25)]}, "epoch", "loss")
    (chart,) = Page(drawn).of("svg")
    assert chart["aria-label"] == "Loss. bce: from 0.5 at 1 to 0.25 at 3, lowest 0.125, highest 0.5"
    (chart,) = Page(svg.heat_map("Look", ["r"], ["a", "b"], np.array([[0.2, 0.4]]))).of("svg")
    assert chart["aria-label"] == "Look. r: most b"


def test_the_darkest_cell_is_the_highest_and_the_scale_says_how_high() -> None:
    drawn = svg.heat_map("t", ["r"], ["a", "b"], np.array([[0.1, 0.4]]))
    cells = [float(a["fill-opacity"] or "") for a in Page(drawn).of("rect")]
    assert cells == [0.0, 0.25, 0.5, 0.75, 1.0, 0.25, 1.0], "the scale, then the cells"
    assert "<title>r, b: 0.400</title>" in drawn
    assert Page(drawn).words[:2] == ["0", "0.4"]
    Page(svg.heat_map("t", ["r"], ["a"], np.zeros((1, 1))))


def test_a_wide_heat_map_goes_on_below_with_the_same_scale() -> None:
    columns = [f"field {number}" for number in range(16)]
    values = np.linspace(0.0, 0.8, 16)[None, :]
    page = Page(svg.heat_map("Look", ["r"], columns, values))
    charts = page.of("svg")
    assert [int(chart["width"] or "") for chart in charts] == [svg.WIDTH] * 3
    assert [(chart["aria-label"] or "").split(". ")[0] for chart in charts] == [
        f"Look, {part} of 3" for part in (1, 2, 3)
    ]
    assert page.words.count("0.8") == 3 and [word for word in page.words if word in columns] == columns
    last = page.of("rect")[-1]
    assert float(last["x"] or "") + float(last["width"] or "") < svg.WIDTH and last["fill-opacity"] == "1.000"


def test_the_best_epoch_is_marked_where_it_is_also_for_those_who_hear_it() -> None:
    """Epochs 1 to 5 with 5 % on both sides: epoch 2 stands at a quarter of them."""
    line = [(float(epoch), 0.1 * epoch) for epoch in range(1, 6)]
    drawn = svg.line_chart("MRR", {"mrr": line}, "epoch", "MRR", mark=(2, "best epoch 2"))
    place = svg.LEFT + (svg.WIDTH - svg.LEFT - svg.RIGHT) * (0.2 + 1) / 4.4
    assert f'd="M{place:.1f},{svg.TOP}V' in drawn and "best epoch 2" in Page(drawn).words
    assert str(Page(drawn).of("svg")[0]["aria-label"]).endswith("; best epoch 2")
