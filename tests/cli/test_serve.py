"""The server: the answers of the commands as JSON, limits, what it refuses, how it ends."""

import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("httpx", reason="Starlette's test client needs httpx")

from starlette.testclient import TestClient

from numcoke_jax.api import Model
from numcoke_jax.cli.serve import command
from numcoke_jax.cli.serve.answers import Answers
from numcoke_jax.cli.serve.app import web_app
from numcoke_jax.cli.serve.endpoints import ENDPOINTS
from numcoke_jax.cli.serve.guard import LARGEST_BODY, Rates
from numcoke_jax.cli.serve.name_search import NameSearch
from numcoke_jax.system.errors import UserError
from tests.tiny_runs import compiled_fast, config_of, untrained, write_folder

URL = "http://127.0.0.1"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = write_folder(tmp_path_factory.mktemp("serve") / "graph")
    return Answers(untrained(config_of(folder)), "tiny")


@pytest.fixture
def client(answers: Answers) -> TestClient:
    return TestClient(web_app(answers, command.LOOPBACK, 1000.0), base_url=URL)


def asked(client: TestClient, path: str, status: int = 200, **parameters: Any) -> Any:
    with compiled_fast():
        response = client.get(path, params=parameters)
    assert response.status_code == status, response.text
    return response.json()


def test_answers_are_those_of_the_model(client: TestClient, answers: Answers) -> None:
    model = Model(answers.trained)
    query = {"head": "e3", "relation": "higher"}
    for end, name in (("tail", "head"), ("head", "tail")):
        found = asked(client, "/api/predict", **{name: "e3"}, relation="higher", known="mark", top=4)
        frame = model.predict(**{name: "e3"}, relation="higher", known="mark", top=4)
        assert [row[end] for row in found["answers"]] == list(frame[end])
        assert [row["score"] for row in found["answers"]] == pytest.approx(list(frame["score"]))
        assert [row["probability"] for row in found["answers"]] == pytest.approx(list(frame["probability"]))
    told = asked(client, "/api/explain", **query, tail="e0")
    assert told["score"] == pytest.approx(model.explain("e3", "higher", "e0")["score"])
    body = {"triples": [["e3", "higher", "e0"]]}
    assert client.post("/api/score", json=body).json()["scores"][0]["score"] == pytest.approx(told["score"])
    changed = asked(client, "/api/predict", **query, set="size=100")
    plain = {row["tail"]: row["probability"] for row in asked(client, "/api/predict", **query)["answers"]}
    assert changed["changes"] == [{"field": "size", "value": 100.0}]
    assert all(row["before"] == pytest.approx(plain[row["tail"]]) for row in changed["answers"])


@pytest.mark.parametrize(
    ("path", "status", "where"),
    [
        ("/api/predict?head=e9&relation=higher", 404, "head"),
        ("/api/predict?head=e1&relation=higer", 404, "relation"),
        ("/api/predict?relation=higher", 400, "head"),
        ("/api/predict?head=e1&relation=higher&top=0", 422, "top"),
        ("/api/predict?head=e1&relation=higher&tpo=3", 400, "tpo"),
        ("/api/predict?head=e1&head=e2&relation=higher", 400, "head"),
        ("/api/predict?head=e1&relation=higher&set=size=tall", 422, "set=size"),
        ("/api/entities?limit=1000", 422, "limit"),
        ("/nothing", 404, "path"),
        ("/..%2f..%2fetc/passwd", 404, "path"),
        ("/page/../../command.py", 404, "path"),
        ("/api/score", 405, "method"),
        ("/?" + "x" * 9000, 414, "address"),
    ],
)
def test_a_mistake_is_told_with_place_and_remedy(
    client: TestClient, path: str, status: int, where: str
) -> None:
    error = asked(client, path, status)["error"]
    assert error["where"] == where and error["what"] and error["remedy"]


def test_bodies_hosts_and_rates_have_limits(client: TestClient, answers: Answers) -> None:
    assert client.post("/api/score", content=b"x" * (LARGEST_BODY + 1)).status_code == 413
    assert client.post("/api/score", content=b"[" * 5000).status_code == 400
    assert client.request("GET", "/", content=b"x").status_code == 413
    assert client.get("/", headers={"host": "evil.example:80"}).status_code == 421
    slow = TestClient(web_app(answers, (), 1.0), base_url=URL)
    assert [slow.get("/").status_code for _ in range(3)] == [200, 200, 429]
    now = [0.0]
    rates = Rates(2.0, lambda: now[0])
    assert [rates.seconds_to_wait("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    now[0] = 0.5
    assert rates.seconds_to_wait("a") == 0 and rates.seconds_to_wait("b") == 0


def test_the_page_loads_nothing_from_elsewhere(client: TestClient) -> None:
    for path in ("/", "/page.js", "/page.css", "/api"):
        response = client.get(path)
        assert response.status_code == 200 and "https://" not in response.text
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert "style=" not in client.get("/").text and "innerHTML" not in client.get("/page.js").text
    page = client.get("/api").text
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
    with command.listening("127.0.0.1", 0) as opened:
        assert opened.getsockname()[1] > 0
        timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
        timer.start()
        command.serve_until_told(web_app(answers, (), 10.0), opened)
    timer.join()


def test_what_keeps_a_server_from_starting_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(UserError, match=r"--port=\d+ is in use on 127.0.0.1; give another one"):
            command.listening("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(UserError, match="there is no such address"):
        command.listening("no.such.host.invalid", 0)
    with pytest.raises(UserError, match="needs starlette and uvicorn, not installed here: pip install"):
        command.check_installed(lambda name: None)
