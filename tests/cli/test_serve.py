"""The server: the answers of the commands as JSON, limits, what it refuses, how it ends."""

import contextlib
import dataclasses
import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")

from numcoke_jax.api import Model
from numcoke_jax.cli.main import main
from numcoke_jax.cli.serve import command
from numcoke_jax.cli.serve.answers import MOST_WAITING, Answers
from numcoke_jax.cli.serve.app import web_app
from numcoke_jax.cli.serve.endpoints import ENDPOINTS
from numcoke_jax.cli.serve.guard import LARGEST_BODY, LONGEST_URL, Rates
from numcoke_jax.cli.serve.name_search import NameSearch
from numcoke_jax.evaluation.calibration import Calibration, Scale
from numcoke_jax.inference.predict import AnswerSettings
from numcoke_jax.system.errors import UserError
from tests.chromium import needs_chromium, opened
from tests.tiny_runs import compiled_fast, config_of, untrained, write_folder

HOSTS = ("localhost",)
QUERY = {"head": "e3", "relation": "higher"}


class Reply(NamedTuple):
    """What the server has sent."""

    status: int
    headers: Any
    text: str


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = write_folder(tmp_path_factory.mktemp("serve") / "graph")
    calibration = Calibration({0: Scale(2.0, 0.5)}, directions=True, entities=6)
    return Answers(dataclasses.replace(untrained(config_of(folder)), calibration=calibration), "tiny")


@contextlib.contextmanager
def serving(app: Any) -> Iterator[int]:
    """The port of a server with an application, which ends with the block."""
    listener = command.listening("127.0.0.1", 0)
    port, server = listener.getsockname()[1], command.server_of(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        with compiled_fast():
            yield port
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def port(answers: Answers) -> Iterator[int]:
    with serving(web_app(answers, HOSTS, 1000.0)) as port:
        yield port


def send(port: int, path: str, method: str = "GET", body: Any = None, **headers: str) -> Reply:
    """One request, its path as it stands: a client of more comfort would tidy it up."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return Reply(answer.status, answer.headers, answer.read().decode())


def asked(port: int, path: str, *more: tuple[str, str], **parameters: str) -> Any:
    reply = send(port, f"{path}?{urlencode([*parameters.items(), *more])}")
    assert reply.status == 200, reply.text
    return json.loads(reply.text)


def test_answers_are_those_of_the_model(port: int, answers: Answers) -> None:
    model = Model(answers.trained)
    shown: Any = {"relation": "higher", "known": "mark", "top": 4}
    for end, given in (("tail", "head"), ("head", "tail")):
        found = asked(port, "/api/predict", **{given: "e3"}, **shown)["answers"]
        query: Any = {given: "e3"}
        frame = model.predict(**query, **shown)
        for column in (end, "known"):
            assert [row[column] for row in found] == list(frame[column])
        for column in ("rank", "score", "probability"):
            assert [row[column] for row in found] == pytest.approx(list(frame[column]))
    told = asked(port, "/api/explain", **QUERY, tail="e0")
    assert told["score"] == pytest.approx(model.explain("e3", "higher", "e0")["score"])
    scored = send(port, "/api/score", "POST", json.dumps({"triples": [["e3", "higher", "e0"]]}))
    assert json.loads(scored.text)["scores"][0]["score"] == pytest.approx(told["score"])


def test_without_validation_facts_enough_probabilities_are_null(answers: Answers) -> None:
    unknown = Answers(dataclasses.replace(answers.trained, calibration=Calibration()), "tiny")
    assert unknown.run()["relations"][0]["calibrated"] is False
    assert unknown.run()["why_unknown"].endswith("too few validation facts like it")
    with compiled_fast():
        found = unknown.predict("e3", None, "higher", AnswerSettings(top=2), ["size=100"])["answers"]
        scored = unknown.score([("e3", "higher", "e0")])["scores"]
        told = unknown.explain("e3", "higher", "e0", [])
    assert [(row["probability"], row["before"]) for row in found] == [(None, None)] * 2
    assert scored[0]["probability"] is told["probability"] is None


@pytest.mark.parametrize(("given", "other"), [("head", "tail"), ("tail", "head")])
def test_a_changed_value_moves_what_the_command_says(
    port: int, answers: Answers, given: str, other: str
) -> None:
    query = {given: "e3", "relation": "higher"}
    changed = asked(port, "/api/predict", ("set", "noise="), **query, set="size=100")
    assert changed["changes"] == [{"field": "size", "value": 100.0}, {"field": "noise", "value": None}]
    plain = {row[other]: row["probability"] for row in asked(port, "/api/predict", **query)["answers"]}
    assert [row["before"] for row in changed["answers"]] == pytest.approx(
        [plain[row[other]] for row in changed["answers"]]
    )
    best = changed["answers"][0]
    sets = (("set", f"{given}.size=100"), ("set", f"{given}.noise="))
    told = asked(port, "/api/explain", *sets, **query, **{other: best[other]})
    assert told["what_if"]["probability"] == pytest.approx(best["probability"])
    assert told["probability"] == pytest.approx(best["before"])


def test_missing_values_have_the_intervals_of_the_command(port: int, answers: Answers) -> None:
    found = Model(answers.trained).impute()
    while (reply := send(port, "/api/cells?entity=e4")).status == 202:  # it waits a while for them itself
        assert reply.headers["retry-after"]
    cells = json.loads(reply.text)["cells"]
    columns = ("entity", "field", "low_rank", "high_rank", "of")
    assert [[cell[name] for name in columns] for cell in cells] == found[list(columns)].to_numpy().tolist()
    assert {cell["field"] for cell in cells} == {"size", "noise"}
    assert asked(port, "/api/cells", entity="e3")["cells"] == []
    values = asked(port, "/api/entity", name="e3")["values"]
    assert {row["field"]: row["value"] for row in values} == {"size": 4.5, "noise": 1.0}
    assert asked(port, "/api/entity", name="e4")["values"][0]["value"] is None


def test_a_run_is_described_and_its_names_are_found(port: int) -> None:
    run = asked(port, "/api/run")
    assert run["entities"] == 6 and run["facts"] == {"train": 7, "valid": 1, "test": 7}
    (relation,) = run["relations"]
    assert relation["relation"] == "higher" and relation["train_facts"] == 7 and not relation["unknown"]
    assert (relation["probability_of"], relation["calibrated"]) == ("order", True)
    assert {row["field"]: (row["low"], row["high"]) for row in run["fields"]}["size"] == (0.0, 7.5)
    found = asked(port, "/api/entities", prefix="E", limit="2")
    assert found == {"entities": ["e0", "e1"], "more": True, "of": 6}


@pytest.mark.parametrize(
    ("path", "status", "where"),
    [
        ("/api/predict?head=e9&relation=higher", 404, "head"),
        ("/api/predict?head=e1&relation=higer", 404, "relation"),
        ("/api/predict?relation=higher", 400, "head"),
        ("/api/predict?head=e1&tail=e2&relation=higher", 400, "head"),
        ("/api/predict?head=e1&relation=higher&top=0", 422, "top"),
        ("/api/predict?head=e1&relation=higher&known=all", 422, "known"),
        ("/api/predict?head=e1&relation=higher&tpo=3", 400, "tpo"),
        ("/api/predict?head=e1&head=e2&relation=higher", 400, "head"),
        ("/api/predict?head=e1&relation=higher&set=size=tall", 422, "set"),
        ("/api/predict?head=e1&relation=higher&set=size=1&set=size=2", 422, "set"),
        ("/api/predict?head=e1&relation=higher&set=tail.size=1", 422, "set"),
        (f"/api/predict?head=e1&relation=higher{'&set=size=1' * 51}", 400, "set"),
        ("/api/entities?limit=1000", 422, "limit"),
        ("/nothing", 404, "path"),
        ("/..%2f..%2fetc/passwd", 404, "path"),
        ("/page/../../command.py", 404, "path"),
        ("/api/score", 405, "method"),
        (f"/?{'x' * LONGEST_URL}", 414, "address"),
    ],
)
def test_a_mistake_is_told_with_place_and_remedy(port: int, path: str, status: int, where: str) -> None:
    reply = send(port, path)
    error = json.loads(reply.text)["error"]
    assert reply.status == status and error["where"] == where and error["what"] and error["remedy"]


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        (b"[" * 5000, 400, "body"),
        (b"\xff", 400, "body"),
        (b'{"triples": 3}', 400, "triples"),
        (b'{"triples": []}', 422, "triples"),
        (b'{"triples": [["e1", "higher"]]}', 400, "triples[0]"),
        (b'{"triples": [["e1", "higher", "e0"], ["e1", "higher", "e9"]]}', 404, "triples[1][2]"),
        (b"x" * (LARGEST_BODY + 1), 413, "body"),
    ],
)
def test_a_wrong_body_is_told_with_its_place(port: int, body: bytes, status: int, where: str) -> None:
    reply = send(port, "/api/score", "POST", body)
    assert reply.status == status and json.loads(reply.text)["error"]["where"] == where


def test_only_own_names_and_addresses_are_answered(port: int) -> None:
    """A name that leads here although it is another site's is how DNS rebinding comes in."""
    for host, status in {
        "evil.example:80": 421,
        "127.0.0.1.evil.example": 421,
        "localhost.evil.example": 421,
        "": 421,
        "localhost:8000": 200,
        "LOCALHOST": 200,
        "127.0.0.1": 200,
        "[::1]:8000": 200,
    }.items():
        assert send(port, "/", Host=host).status == status, host


def test_a_fault_shows_nothing_of_the_program(
    answers: Answers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise KeyError("a secret place")

    monkeypatch.setattr(answers, "run", fail)
    with serving(web_app(answers, HOSTS, 1000.0)) as port:
        reply = send(port, "/api/run")
    assert reply.status == 500 and json.loads(reply.text)["error"]["what"] == "the server failed"
    assert "secret" not in reply.text and "Traceback" not in reply.text
    assert "a secret place" in capsys.readouterr().err


def test_questions_that_take_long_leave_threads_to_others(port: int, answers: Answers) -> None:
    query = urlencode({**QUERY, "set": "size=7"})
    with contextlib.ExitStack() as under_way:
        for _ in range(MOST_WAITING):
            answers._waiting.acquire()
            under_way.callback(answers._waiting.release)
        refused = send(port, f"/api/predict?{query}")
        assert refused.status == 503 and json.loads(refused.text)["error"]["where"] == "set"
        assert asked(port, "/api/predict", **QUERY)["answers"]
    assert send(port, f"/api/predict?{query}").status == 200


def test_requests_have_a_rate(answers: Answers) -> None:
    with serving(web_app(answers, HOSTS, 0.1)) as slow:
        assert send(slow, "/").status == 200
        refused = send(slow, "/")
        assert refused.status == 429 and refused.headers["retry-after"]
        assert "start the server with --rate" in refused.text
        assert send(slow, "/", "GET", b"x").status == 429
    now = [0.0]
    rates = Rates(2.0, lambda: now[0])
    assert [rates.seconds_to_wait("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    now[0] = 0.5
    assert rates.seconds_to_wait("a") == 0 and rates.seconds_to_wait("b") == 0


def test_the_page_loads_nothing_from_elsewhere(port: int) -> None:
    for path in ("/", "/page.js", "/page.css", "/api"):
        reply = send(port, path)
        assert reply.status == 200 and "https://" not in reply.text
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert send(port, "/", "GET", b"x").status == 413
    assert "style=" not in send(port, "/").text and "innerHTML" not in send(port, "/page.js").text
    page = send(port, "/api").text
    document = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    for endpoint in ENDPOINTS:
        assert endpoint.path in page and f"GET {endpoint.path}" in document


def test_names_are_found_by_their_beginning_and_by_their_words() -> None:
    search = NameSearch(["Plymouth Fury", "fury road", "amc", "Furtive"])
    assert search.starting_with("FUR", 5) == (["Furtive", "fury road", "Plymouth Fury"], False)
    assert search.starting_with("fur", 2) == (["Furtive", "fury road"], True)
    assert search.starting_with("", 1) == (["amc"], True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_and_nothing_else(answers: Answers, number: int) -> None:
    with command.listening("127.0.0.1", 0) as listener:
        timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
        timer.start()
        command.serve_until_told(web_app(answers, HOSTS, 10.0), listener)
    timer.join()


def test_what_keeps_a_server_from_starting_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with command.listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", f"--workdir={tmp_path}", f"--port={port}"]) == 2
    told = capsys.readouterr().err
    assert told == (
        f"error: --port={port} is in use on 127.0.0.1; give another one, or --port=0 for any free one\n"
    )
    with pytest.raises(UserError, match="there is no such address"):
        command.listening("no.such.host.invalid", 0)
    monkeypatch.setattr(command, "NEEDED", ("starlette", "not_here"))
    assert main(["serve", f"--workdir={tmp_path}"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: numcoke serve needs not_here, not installed here: pip install starlette")
    assert told.count("\n") == 1


@needs_chromium
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_the_page_works_by_keyboard_alone(port: int, width: int, scheme: str) -> None:
    expect = pytest.importorskip(
        "playwright.sync_api", reason="pip install playwright drives Chromium"
    ).expect
    own = f"http://127.0.0.1:{port}/"
    with opened(own, width, scheme) as tab:
        page = tab.page
        page.wait_for_selector("#answers tr")
        assert page.input_value("#name") == "e0"

        def tab_to(selector: str) -> None:
            for _ in range(40):
                page.keyboard.press("Tab")
                if page.evaluate("s => document.activeElement === document.querySelector(s)", selector):
                    return
            raise AssertionError(f"Tab never comes to {selector}")

        tab_to("#name")
        page.keyboard.press("Control+a")
        page.keyboard.type("e")
        page.wait_for_selector("#names li")
        page.keyboard.press("ArrowUp")  # the last one, e5
        page.keyboard.press("Enter")
        label = page.locator("#fields label").first
        expect(label).to_have_text("noise: 5")
        tab_to("#answers button")
        name = page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Enter")
        expect(page.locator("#why")).to_contain_text(f"e5, higher, {name}: ")
        tab_to("#fields input")
        page.keyboard.press("End")
        expect(label).to_have_text("noise: 7")
        expect(page.locator("#answers .was").first).to_be_attached()
        expect(page.locator("#cells")).to_have_text("None is missing.")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[scheme]
    assert tab.complaints == [] and all(url.startswith(own) for url in tab.requests)
    assert any("head=e5" in url and "set=noise%3D7" in url for url in tab.requests)
