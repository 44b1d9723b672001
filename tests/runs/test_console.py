"""What a person sees: readable on 80 columns, in logs, in ASCII, without colours, with any names."""

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

from numcoke_jax.config.schema import KEYS, default_config
from numcoke_jax.data.graph import NumericGraph, Vocabulary
from numcoke_jax.runs.screen import Screen as Console
from numcoke_jax.system.progress import ProgressReporter, QuietDisplay, Snapshot, duration

REPOSITORY = Path(__file__).resolve().parents[2]
HARD_NAMES = (
    "[bold]weight[/bold]",
    "[/]",
    ":smiley:",
    "a\tb",
    "bell\x07",
    "escape\x1b[31m",
    "line\u2028separator",
    "naïve",
    "nai\u0308ve",
    "next\x85line",
    "日本の重さ",
    "\U0001f697",
)


class Screen(io.TextIOWrapper):
    """A stream with a given encoding that may claim to be a terminal; `shown` gives what was written."""

    def __init__(self, *, encoding: str = "utf-8", terminal: bool = False) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding=encoding, newline="")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def shown(self) -> str:
        self.flush()
        return self.bytes.getvalue().decode(self.encoding)


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def make_graph(
    fields: tuple[str, ...], observed: np.ndarray | None = None, entities: int = 4
) -> NumericGraph:
    triples = np.zeros((12, 3), np.int32)
    if observed is None:
        observed = np.ones((entities, len(fields)), bool)
    vocabulary = Vocabulary(tuple(f"e{number}" for number in range(entities)), ("heavier",), fields)
    values = np.zeros(observed.shape)
    return NumericGraph(vocabulary, triples[:8], triples[:1], triples[:3], triples[:0], values, observed)


METRICS = {"count": 69184, "mrr": 0.83714, "mr": 1.6749, "hits@1": 0.76, "hits@3": 0.9, "hits@10": 1.0}
NO_METRICS: dict[str, Any] = {"count": 0} | dict.fromkeys(["mrr", "mr", "hits@1", "hits@3", "hits@10"])
REPORT: Any = {
    "seed": 3,
    "best_epoch": 30,
    "seconds": 3723.4,
    "valid": NO_METRICS | {"exclude_self": NO_METRICS},
    "test": METRICS | {"exclude_self": METRICS | {"mrr": 0.9}},
}


def show_everything(console: Console) -> None:
    config = default_config()
    config.data.path = "some/[red]folder[/red]/näive\x1b[0m"
    config.data.relations = HARD_NAMES
    console.config(config, "runs/[x]")
    console.graph(make_graph(HARD_NAMES), [f"dropped {HARD_NAMES}"], "[kg]")
    with console.progress(20) as progress:
        for epoch in range(2):
            progress.advance(10, {"bce": 0.5, "contrastive": 1e-5}, 1234.5)
            console.validation({"epoch": epoch, "step": 10 * epoch, "bce": 0.5, "best": True} | METRICS)
    for name in HARD_NAMES:
        console.table(f"{name}  heavier  ?", name, ("tail", ">score"), [(name, "0.5")])
    console.note("a note [/] of a name: nai\u0308ve")
    console.warn("a warning [bold]")
    console.result_table(REPORT)


# --- where it is written


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "ANSI_X3.4-1968"])
def test_a_log_has_no_control_characters_in_any_encoding(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for forced in (False, True):
        if forced:
            monkeypatch.setenv("FORCE_COLOR", "1")
            monkeypatch.setenv("TTY_COMPATIBLE", "1")
        screen = Screen(encoding=encoding)
        show_everything(Console(screen))
        assert all(line.isprintable() for line in screen.shown().split("\n"))


def test_characters_that_the_encoding_lacks_are_escaped_and_keep_the_columns() -> None:
    screen = Screen(encoding="ascii")
    show_everything(Console(screen))
    shown = screen.shown()
    for text in (r"na\xefve", r"nai\u0308ve", r"line\u2028separator", r"next\x85line", r"escape\x1b[31m"):
        assert text in shown
    shares = [match.end() for match in re.finditer(r"100%", shown)]
    starts = [shown.rfind("\n", 0, end) for end in shares]
    assert len({end - start for end, start in zip(shares, starts, strict=True)}) <= 2, "two columns of shares"


@pytest.mark.parametrize("terminal", [False, True])
def test_names_are_text_and_not_markup(terminal: bool) -> None:
    screen = Screen(terminal=terminal)
    show_everything(Console(screen))
    shown = screen.shown()
    for name in (
        "[bold]weight[/bold]",
        "[/]",
        ":smiley:",
        "naïve",
        "日本の重さ",
        "\U0001f697",
        "[kg]",
        "[x]",
    ):
        assert name in shown
    assert "\x1b[31m" not in shown and "\x07" not in shown and "\u2028" not in shown


@pytest.mark.parametrize("width", [80, 100, 41])
def test_a_terminal_line_is_never_wider_than_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    screen = Screen(terminal=True)
    show_everything(Console(screen))
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.shown())
    assert max(cell_len(line) for line in re.split(r"[\r\n]+", text)) <= width


def test_a_log_line_is_at_most_80_wide_unless_a_name_is() -> None:
    screen = Screen()
    console = Console(screen, verbose=True)
    console.config(default_config(), "runs/cars-seed0")
    console.graph(make_graph(tuple(f"field_{number}" for number in range(40))), [], "cars")
    with console.progress(4000) as progress:
        progress.advance(1200, {"bce": 0.041152, "contrastive": 0.00123444}, 2310.2)
    console.validation(
        {"epoch": 999999, "step": 1234567, "bce": 0.5, "contrastive": 0.1, "best": True} | METRICS
    )
    console.result_table(REPORT)
    assert max(cell_len(line) for line in screen.shown().splitlines()) <= 80


def test_no_color_has_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = Screen(terminal=True)
    show_everything(Console(coloured))
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Screen(terminal=True)
    show_everything(Console(plain))
    colours = r"\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]"
    assert re.search(colours, coloured.shown()) and not re.search(colours, plain.shown())


def test_a_dumb_terminal_gets_lines_instead_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen(terminal=True)
    show_everything(Console(screen))
    assert "\x1b" not in screen.shown() and "\r" not in screen.shown()


def test_a_real_terminal_shows_a_bar_and_gets_its_cursor_back_after_an_error() -> None:
    script = (
        "from numcoke_jax.runs.screen import Screen as Console\n"
        "console = Console()\n"
        "with console.progress(4) as progress:\n"
        "    progress.advance(3, {'bce': 0.25}, 100.0)\n"
        "    console.note('between')\n"
        "    raise ValueError('stop')\n"
    )
    master, slave = pty.openpty()
    environment = os.environ | {"COLUMNS": "80", "LINES": "24", "PYTHONIOENCODING": "utf-8"}
    child = subprocess.Popen(
        [sys.executable, "-c", script], cwd=REPOSITORY, env=environment, stdout=slave, stderr=subprocess.PIPE
    )
    os.close(slave)
    shown = b"".join(read_to_end(master)).decode()
    _, errors = child.communicate(timeout=60)
    assert b"ValueError: stop" in errors
    assert "━" in shown and "3/4" in shown and "100 queries/s" in shown and "bce 0.25" in shown
    assert "between" in shown
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l") >= 0, "the cursor is shown again"


def read_to_end(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            return
        if not part:
            return
        yield part


# --- what is written


def shown_config(*, verbose: bool) -> str:
    config = default_config()
    config.train.epochs = 7
    config.data.relations = ("is longer than", "x")
    screen = Screen()
    Console(screen, verbose=verbose).config(config, "runs/x")
    return screen.shown()


def test_the_config_is_what_differs_from_the_default_or_all_of_it_with_marks() -> None:
    assert shown_config(verbose=False) == (
        f"Config  {len(KEYS) - 2} other keys as by default; --verbose shows them\n"
        "  data        relations=('is longer than',x)\n"
        "  train       epochs=7\n"
        "  workdir     runs/x\n\n"
    )
    shown = shown_config(verbose=True)
    assert re.findall(r"\*(\S+)=", shown) == ["relations", "epochs"]
    assert "\n  train       *epochs=7  batch_size=256  " in shown
    assert "*relations=('is longer than',x)" in shown and "split=(0.1,0.1,0.8)" in shown
    assert "direction='>'" in shown and "path=''" in shown and "noise=True" in shown
    assert "learning_rate=0.001" in shown and "\n  workdir     runs/x\n" in shown


def test_the_graph_summary_counts_and_shares() -> None:
    observed = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0]], bool)  # 4/4, 3/4, 0/4
    screen = Screen()
    Console(screen).graph(make_graph(("width", "power", "price"), observed), ["5 duplicates dropped"], "cars")
    assert screen.shown() == (
        "Graph  cars\n"
        "  sizes       4 entities, 1 relation, 3 fields\n"
        "  triples     8 train, 1 valid, 3 test, 0 negatives\n"
        "  observed    width   100%  power  75.0%  price     0%\n"
        "notice: 5 duplicates dropped\n"
        "\n"
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_a_notice_is_wrapped_at_80_columns(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    notice = f"{'a_long_path/' * 9}: {'dropped 3 rows, ' * 12}which repeat a name"
    screen = Screen(terminal=terminal)
    Console(screen).graph(make_graph(("a",)), [notice])
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.shown())
    first, *lines = text[text.index("notice: ") :].rstrip().splitlines()
    assert first == f"notice: {notice.split()[0]}", "a word that is longer stays whole"
    assert all(line.startswith(" " * 8) and 60 < len(line) <= 80 for line in lines[:-1])
    assert " ".join(line.strip() for line in (first, *lines)) == f"notice: {notice}"


def test_a_share_is_100_or_0_percent_only_if_it_is() -> None:
    observed = np.ones((20000, 2), bool)
    observed[0, 0] = False
    observed[1:, 1] = False
    screen = Screen()
    Console(screen).graph(make_graph(("a", "b"), observed, entities=20000))
    assert "a  99.9%  b   0.1%" in screen.shown()


def test_many_fields_are_cut_to_the_ends_of_the_list() -> None:
    fields = tuple(f"/people/person/height_meters/{number:03d}" for number in range(116))
    observed = np.zeros((116, 116), bool)
    for number in range(116):
        observed[: number + 1, number] = True  # field number is known of number + 1 of 116 entities
    screen = Screen()
    Console(screen).graph(make_graph(fields, observed, entities=116))
    shown = screen.shown()
    names = re.findall(r"meters/(\d+)", shown)
    assert names == ["115", "114", "113", "112", "111", "110", "005", "004", "003", "002", "001", "000"]
    # The 104 between: the 110th field (number 109) with 110/116 = 94.8 % down to number 6 with 7/116 = 6.0 %.
    assert "... 104 more fields, from 94.8% down to 6.0% ..." in shown
    assert len(shown.splitlines()) < 20


def test_a_graph_without_fields_or_entities_is_shown() -> None:
    screen = Screen()
    Console(screen).graph(make_graph(()))
    Console(screen).graph(make_graph(("a",), entities=0))
    assert "0 fields" in screen.shown() and "0 entities" in screen.shown()


@pytest.mark.parametrize(("loss", "title"), [("bce", "BCE"), ("cross_entropy", " CE")])
def test_validations_are_rows_under_one_header(loss: str, title: str) -> None:
    screen = Screen()
    console = Console(screen)
    with console.progress(10):
        console.validation({"epoch": 10, "step": 120, loss: 0.03125, "best": True} | METRICS)
        console.validation({"epoch": 20, "step": 240, loss: 123456.0, "contrastive": 0.5} | NO_METRICS)
    assert screen.shown() == (
        f"epoch    step      {title}  contr.     MRR      MR  Hits@1  Hits@3 Hits@10\n"
        "   10     120   0.0312       -  0.8371    1.67  0.7600  0.9000  1.0000  best\n"
        "   20     240 1.23e+05  0.5000       -       -       -       -       -\n"
    )


def test_order_measures_come_before_ranks() -> None:
    row = {"count": 1200, "order_accuracy": 0.75, "auc": 0.8, "log_loss": 0.5, "tau": 0.5, "tau_values": None}
    relations = {"faster": {**row, "order_accuracy": 0.9}, "slower": {**row, "order_accuracy": 0.6}}
    order = {"all": row, "narrowest_quarter": {**row, "count": 300}, "relations": relations}
    screen = Screen(encoding="ascii")
    Console(screen).result_table(REPORT | {"order": order})
    lines = [line.split() for line in screen.shown().replace("|", " ").splitlines()]
    cells = ["0.8000", "0.5000", "0.5000"]
    assert lines[1] == ["Order", "test", "facts", "against", "their", "reverses"]
    assert lines[2][2:] == ["pairs", "accuracy", "AUC", "log", "loss", "tau"]
    assert lines[4:8] == [
        ["all", "pairs", "1,200", "0.7500", *cells],
        ["narrowest,", "seen", "300", "0.7500", *cells],
        ["slower", "1,200", "0.6000", *cells],
        ["faster", "1,200", "0.9000", *cells],
    ]
    assert lines[9][:3] == ["Results", "tails", "ranked,"]
    assert max(cell_len(line) for line in screen.shown().splitlines()) <= 80


def test_the_result_table_has_a_row_a_split_and_one_without_the_head() -> None:
    screen = Screen(encoding="ascii")
    Console(screen).result_table(REPORT)
    lines = [line.split() for line in screen.shown().replace("|", " ").splitlines()]
    assert lines[1] == [
        "Results",
        "tails",
        "ranked,",
        "filtered;",
        "best",
        "epoch",
        "30,",
        "seed",
        "3,",
        "1:02:03",
    ]
    assert lines[2] == ["facts", "count", "MRR", "MR", "Hits@1", "Hits@3", "Hits@10"]
    assert lines[4:] == [
        ["valid", "0", "-", "-", "-", "-", "-"],
        ["without", "head", "0", "-", "-", "-", "-", "-"],
        ["test", "69,184", "0.8371", "1.67", "0.7600", "0.9000", "1.0000"],
        ["without", "head", "69,184", "0.9000", "1.67", "0.7600", "0.9000", "1.0000"],
    ]


# --- progress


def test_quiet_progress_prints_now_and_then() -> None:
    clock, printed = Clock(), []
    reporter = ProgressReporter(QuietDisplay(lambda parts: printed.append(parts[0])), 1000, 0, clock)
    for _ in range(1000):
        clock.now += 0.1
        reporter.advance(1, {})
    # The first, then after every tenth of 1,000 steps, and the last.
    assert printed == [f"{step}/1000" for step in [1, 101, 201, 301, 401, 501, 601, 701, 801, 901, 1000]]


def test_quiet_progress_is_never_silent_for_long() -> None:
    clock, printed = Clock(), []
    reporter = ProgressReporter(QuietDisplay(lambda parts: printed.append(parts[0])), 10000, 0, clock)
    for _ in range(9):
        clock.now += 10.0
        reporter.advance(1, {})
    assert printed == ["1/10000", "4/10000", "7/10000"], "every 30 seconds, 3 steps"


def test_time_left_is_measured_without_the_first_steps() -> None:
    clock = Clock()
    shown: list[Snapshot] = []
    reporter = ProgressReporter(shown.append, 100, 40, clock)
    clock.now += 60.0  # compilation
    reporter.advance(10, {"bce": 1.0}, 5.0)
    clock.now += 20.0
    reporter.advance(10, {"bce": 0.5}, 5.0)
    reporter.advance(40, {"bce": 0.25})
    # 50 of 100 done, no speed yet; 10 steps in 20 s leave 40 x 2 s; done: nothing is left.
    assert [(state.done, state.seconds_left) for state in shown] == [(50, None), (60, 80.0), (100, 0.0)]
    assert shown[1].parts() == ["60/100", "1:20 left", "5 queries/s", "bce 0.5"]
    assert shown[2].parts() == ["100/100", "0:00 left", "bce 0.25"]


def test_a_log_shows_progress_as_lines() -> None:
    screen, clock = Screen(), Clock()
    with Console(screen, clock=clock).progress(40, start_step=20) as progress:
        progress.advance(10, {"bce": 0.041, "contrastive": 0.0012}, 2310.4)
        clock.now += 2.0
        progress.advance(5, {"bce": 0.04, "contrastive": 0.001}, 2310.4)
    assert screen.shown() == (
        "step  30/40  -:-- left  2,310 queries/s  bce 0.041  contrastive 0.0012\n"
        "step  35/40  0:02 left  2,310 queries/s  bce 0.04  contrastive 0.001\n"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0:00"),
        (9.4, "0:09"),
        (59.5, "1:00"),
        (754, "12:34"),
        (3723, "1:02:03"),
        (86399.6, "1 d 00:00:00"),
        (273906, "3 d 04:05:06"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
