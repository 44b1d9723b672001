"""What every request must pass, and what every answer carries: limits, hosts, headers.

A page of another site can send requests to a server on the reader's own machine.  It cannot read the
answers: no header allows it, and a name of its own that leads here (DNS rebinding) is none that is answered.
"""

import asyncio
import ipaddress
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from numcoke_jax.cli.serve.request_errors import (
    BAD_REQUEST,
    BUSY,
    TOO_LARGE,
    TOO_LONG,
    TOO_MANY,
    WRONG_HOST,
    RequestError,
)
from numcoke_jax.system.errors import printable

LONGEST_URL = 8192  # bytes
LARGEST_BODY = 65_536  # bytes
SECONDS_A_BODY = 10.0  # until a body must be there
MOST_AT_ONCE = 64  # requests
MOST_CLIENTS = 1024  # whose rate is remembered
BURST = 2.0  # seconds' worth of requests that may come at once
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Rates:
    """A bucket of permits for each client, filled at a rate; the clients longest unheard of are forgotten."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # permits, at what time

    def seconds_to_wait(self, client: str) -> float:
        """0 if the client may ask now, which takes a permit; otherwise the seconds until it may."""
        now, most = self._clock(), max(self._rate * BURST, 1.0)
        permits, then = self._buckets.pop(client, (most, now))
        permits = min(permits + (now - then) * self._rate, most)
        allowed = permits >= 1.0
        self._buckets[client] = (permits - allowed, now)
        while len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - permits) / self._rate


class Guard:
    """An ASGI application around another.

    Args:
      app: the other one.
      hosts: names in the Host header that are answered; addresses always are.
      rate: requests a second that one client may send.
    """

    def __init__(self, app: Any, hosts: Sequence[str], rate: float) -> None:
        self._app, self._hosts, self._rates = app, hosts, Rates(rate)
        self._at_once = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self._at_once += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            self._at_once -= 1

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            self._check(scope)
            body = await asyncio.wait_for(_body(scope, receive), SECONDS_A_BODY)
        except TimeoutError:
            late = RequestError(BAD_REQUEST, "the body does not come", "body", "send it at once")
            await _send_error(late, send)
        except RequestError as error:
            await _send_error(error, send)
        else:
            await self._app(scope, _once(body, receive), _with_headers(send))

    def _check(self, scope: Any) -> None:
        """Raises RequestError for a request that is refused before anyone looks at what it asks."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        name = name.strip("[]").lower()
        if name not in self._hosts and not _is_address(name):
            what = f"this server is not called {printable(name)}"
            raise RequestError(WRONG_HOST, what, "Host", "use its address, or start it with --host=NAME")
        length = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if length > LONGEST_URL:
            what = f"the address has {length:,} bytes"
            raise RequestError(
                TOO_LONG, what, "address", f"at most {LONGEST_URL:,}; POST /api/score takes more"
            )
        wait = self._rates.seconds_to_wait((scope.get("client") or ("",))[0])
        if wait:
            what = "too many requests from this client"
            raise RequestError(TOO_MANY, what, "rate", f"wait {wait:.2f} s, or start the server with --rate")
        if self._at_once > MOST_AT_ONCE:
            raise RequestError(BUSY, f"{MOST_AT_ONCE} requests are under way", "server", "ask again later")


def _is_address(name: str) -> bool:
    """Whether it is an IP address, which no other site can have as its name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _body(scope: Any, receive: Any) -> bytes:
    """The whole body; raises RequestError if it is too large."""
    limit = LARGEST_BODY if scope["method"] == "POST" else 0
    told = dict(scope["headers"]).get(b"content-length", b"0")
    size, found = int(told) if told.isdigit() and len(told) < 19 else limit + 1, b""
    more = size <= limit
    while more:
        message = await receive()
        found += message.get("body", b"")
        size = max(size, len(found))
        more = message.get("more_body", False) and size <= limit
    if size > limit:
        where = "a body that is larger" if limit else "a body"
        raise RequestError(TOO_LARGE, f"the request has {where}", "body", f"at most {limit:,} bytes")
    return found


def _once(body: bytes, receive: Any) -> Any:
    """`receive` with the body, which was read already."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Any:
        return messages.pop() if messages else await receive()

    return given


def _with_headers(send: Any) -> Any:
    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *HEADERS]
        await send(message)

    return sent


async def _send_error(error: RequestError, send: Any) -> None:
    body = json.dumps(error.as_json()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.status in (TOO_MANY, BUSY):
        headers.append((b"retry-after", b"1"))
    start = {"type": "http.response.start", "status": error.status, "headers": headers}
    await _with_headers(send)(start)
    await send({"type": "http.response.body", "body": body})
