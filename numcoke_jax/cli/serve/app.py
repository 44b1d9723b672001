"""The web application: the JSON API, its documentation and one page, whose files are kept in memory."""

import importlib.resources
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from numcoke_jax.cli.serve.endpoints import ENDPOINTS, SCORE_ABOUT, SCORE_PATH, Endpoint, scored
from numcoke_jax.cli.serve.guard import LARGEST_BODY, LONGEST_URL, Guard
from numcoke_jax.cli.serve.request_errors import FAULT, NOT_FOUND, WRONG_METHOD, RequestError
from numcoke_jax.system.errors import UserError, printable

if TYPE_CHECKING:
    from numcoke_jax.cli.serve.answers import Answers

PAGES = {  # path -> file, type
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
NOT_YET = 202


def web_app(answers: "Answers", hosts: Sequence[str], rate: float) -> Any:
    """The whole application.

    Args:
      answers: about the model.
      hosts, rate: see `Guard`.
    """
    routes = [Route(path, _file(*what)) for path, what in PAGES.items()]
    routes.append(Route("/api", _documentation(rate)))
    routes += [Route(endpoint.path, _asked(answers, endpoint)) for endpoint in ENDPOINTS]
    routes.append(Route(SCORE_PATH, _scored(answers), methods=["POST"]))
    handlers: Any = {
        RequestError: _told,
        UserError: lambda request, error: _told(request, RequestError.of(error, request.url.path)),
        FloatingPointError: _not_finite,
        HTTPException: _no_such,
        Exception: _fault,
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers), hosts, rate)


def _page_file(name: str) -> bytes:
    return importlib.resources.files("numcoke_jax.cli.serve").joinpath(f"page/{name}").read_bytes()


def _file(name: str, kind: str) -> Callable[[Request], Any]:
    content = _page_file(name)

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def _documentation(rate: float) -> Callable[[Request], Any]:
    source = _page_file("api.html").decode()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    limits = {"rate": f"{rate:g}", "url": f"{LONGEST_URL:,}", "body": f"{LARGEST_BODY:,}"}
    text = environment.from_string(source).render(
        endpoints=ENDPOINTS, score_path=SCORE_PATH, score_about=SCORE_ABOUT, limits=limits
    )

    async def answer(request: Request) -> Response:
        return Response(text, media_type="text/html")

    return answer


def _asked(answers: "Answers", endpoint: Endpoint) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        given = endpoint.checked(request.query_params.multi_items())
        found = await run_in_threadpool(endpoint.answer, answers, given)
        if found is None:
            return JSONResponse({"state": "computing"}, NOT_YET, {"retry-after": "1"})
        return JSONResponse(found)

    return answer


def _scored(answers: "Answers") -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(scored, answers, await request.body()))

    return answer


def _told(request: Request, error: RequestError) -> Response:
    return JSONResponse(error.as_json(), error.status)


def _not_finite(request: Request, error: Exception) -> Response:
    remedy = "ask about another relation, or train again with a smaller train.learning_rate"
    return _told(request, RequestError(FAULT, str(error), request.url.path, remedy))


def _no_such(request: Request, error: HTTPException) -> Response:
    path = printable(request.url.path)
    if error.status_code == WRONG_METHOD:
        allowed = (error.headers or {}).get("Allow", "GET")
        what = f"{path} does not take {printable(request.method)}"
        return _told(request, RequestError(WRONG_METHOD, what, "method", f"use {allowed}"))
    what = f"there is nothing at {path}"
    return _told(request, RequestError(NOT_FOUND, what, "path", "GET /api lists the addresses"))


def _fault(request: Request, error: Exception) -> Response:
    remedy = "the terminal of the server has the details"
    return _told(request, RequestError(FAULT, "the server failed", printable(request.url.path), remedy))
