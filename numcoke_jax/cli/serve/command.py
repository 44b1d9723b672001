"""`numcoke serve --workdir=RUN`: a local page and a JSON API about a trained model."""

import argparse
import errno
import importlib.util
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from numcoke_jax.cli.commands import OneLineParser, add_cache_option, as_folder
from numcoke_jax.system.errors import UserError, printable

if TYPE_CHECKING:
    import uvicorn

NEEDED = ("starlette", "uvicorn")
LOOPBACK = "127.0.0.1"
BACKLOG = 128  # connections that wait to be taken
LARGEST_PORT = 65_535
THREAD_SECONDS = 1e-3  # of a thread that others wait for: a what-if takes 200 times as long as other answers
SECONDS_TO_END = 5  # for requests under way when the server is told to end
LARGEST_HEAD = 16_384  # bytes of a request's line and headers


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of the command."""
    parser.set_defaults(run=_run)
    parser.description = (
        "Serve a page and a JSON API about a trained model, read-only, until Ctrl-C.\n"
        "Only this machine is served, unless --host says otherwise. GET /api documents\nthe API."
    )
    parser.add_argument("--workdir", required=True, type=as_folder, metavar="FOLDER", help="a finished run")
    parser.add_argument(
        "--host", default=LOOPBACK, metavar="ADDRESS", help="address to listen on (127.0.0.1)"
    )
    parser.add_argument("--port", type=_port, default=8000, metavar="N", help="port (8000); 0: any free one")
    rate = "requests a second from one client (100)"
    parser.add_argument("--rate", type=_rate, default=100.0, metavar="N", help=rate)
    add_cache_option(parser)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"needs an integer from 0 to {LARGEST_PORT}, got {printable(text)}")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.0 < rate <= 1e6:
        raise argparse.ArgumentTypeError(f"needs a number above 0, at most 1000000, got {printable(text)}")
    return rate


def _run(options: argparse.Namespace) -> int:
    check_installed()
    with closing(listening(options.host, options.port)) as opened:
        from numcoke_jax.system.console import LOADING, Console  # mistakes are answered before

        console = Console()
        with console.waiting(LOADING):
            from numcoke_jax.cli.serve.answers import Answers
            from numcoke_jax.cli.serve.app import web_app
            from numcoke_jax.inference.trained import load_trained
            from numcoke_jax.runs.memory import USE_REMEDY, out_of_memory_told
            from numcoke_jax.system.compiled import keep_compiled

        if not options.no_cache:
            keep_compiled()
        with out_of_memory_told(USE_REMEDY), console.waiting("loading the run"):
            trained = load_trained(options.workdir, console.warn)
            answers = Answers(trained, options.workdir.resolve().name)
            answers.warm_up()
        if not ipaddress.ip_address(opened.getsockname()[0]).is_loopback:
            console.warn(f"whoever reaches {printable(options.host)} can ask this model")
        sys.setswitchinterval(THREAD_SECONDS)
        names = ("localhost", options.host.lower(), socket.gethostname().lower())
        app = web_app(answers, names, options.rate)
        console.note(f"serving {answers.name} at {address(opened)}  (Ctrl-C ends it)")
        serve_until_told(app, opened)
        console.note("ended")
    if answers.busy:
        _leave_at_once()
    return 0


def check_installed() -> None:
    """Raises UserError unless the extra `serve` is installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"numcoke serve needs {' and '.join(missing)}, not installed here: "
            f"pip install {' '.join(NEEDED)}, or install numcoke-jax with the extra serve"
        )


def listening(host: str, port: int) -> socket.socket:
    """A socket at an address; who connects waits until the server answers.

    Raises:
      UserError: there is no such address, or the port is taken or not allowed.
    """
    shown = printable(host)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host or "", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise UserError(f"--host={shown}: there is no such address; 127.0.0.1 is this machine") from None
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(place)
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRNOTAVAIL:
            message = f"--host={shown} is not an address of this machine; 127.0.0.1 is"
        else:
            reason = {errno.EADDRINUSE: "is in use", errno.EACCES: "is not allowed"}.get(error.errno or 0)
            reason = reason or f"cannot be opened ({error.strerror})"
            message = f"--port={port} {reason} on {shown}; give another one, or --port=0 for any free one"
        raise UserError(message) from None
    return opened


def address(opened: socket.socket) -> str:
    """The URL of a bound socket."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve_until_told(app: Any, opened: socket.socket) -> None:
    """Answers requests until SIGINT or SIGTERM; those under way are answered before it returns."""
    with _signals_that_end_nothing():
        server_of(app).run(sockets=[opened])


def server_of(app: Any) -> "uvicorn.Server":
    """The HTTP server of an application."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        http="h11",
        loop="asyncio",
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_graceful_shutdown=SECONDS_TO_END,
    )
    return uvicorn.Server(config)


@contextmanager
def _signals_that_end_nothing() -> Iterator[None]:
    """uvicorn sends the signal that ended it once more, to whoever handled it before."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave_at_once() -> None:
    """Ends the process although a thread computes, which would end it with a complaint."""
    sys.stdout.flush()
    os._exit(0)
