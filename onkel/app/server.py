"""The server: ``onkel serve --state DIR``, or :func:`serve` from a program.

Models by name over HTTP, each acknowledged example on the disk, and the live page at ``/``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from onkel.app.dashboard import Page, is_public
from onkel.app.errors import StateProblem, UsageProblem
from onkel.app.service.engine import Engine
from onkel.app.service.guard import Guard, is_loopback
from onkel.app.service.journal import Damaged
from onkel.app.service.limits import MIB, Limits, Rate
from onkel.app.service.metrics import Requests
from onkel.app.service.problems import Problem
from onkel.app.service.routes import Api, on_failure, on_http_error, on_problem
from onkel.app.service.state import InUse

HOST, PORT = "127.0.0.1", 8421
SHORTEST = 16
"""Characters of a token."""
HEAD_SECONDS = 10.0
"""For the head of a request to arrive."""


def serve(
    state: Path, host: str = HOST, port: int = PORT, token: str | None = None,
    limits: Limits | None = None, snapshot_bytes: int = 64 * MIB, snapshot_seconds: float = 300.0,
    ready: Callable[[str], None] | None = None,
) -> None:  # fmt: skip
    """Serve the models of a state folder until interrupted.

    Parameters
    ----------
    state : path
        The folder; made if it is not there. One process at a time.
    host, port : str, int
        Where to listen. An address that others can reach needs a token. Port 0 takes a free one.
    token : str, optional
        What clients must send as ``Authorization: Bearer TOKEN``.
    limits : Limits, optional
    snapshot_bytes, snapshot_seconds : number
        How large the log may grow, and how old, before the models are saved.
    ready : function, optional
        Called with the address when requests are answered.
    """
    check_address(host, token)
    limits = limits or Limits()
    engine = Engine(Path(state), limits, None, snapshot_bytes, snapshot_seconds)
    try:
        service = Service.over(engine, host, port, token)
        service.run(ready)
    finally:
        engine.close()


def check_address(host: str, token: str | None) -> None:
    """Refuse to be open to everyone.

    Examples
    --------
    >>> check_address("127.0.0.1", None)
    """
    if token is not None and (len(token) < SHORTEST or not token.isascii()):
        raise ValueError(f"A token has at least {SHORTEST} ASCII characters.")
    if token is None and not is_loopback(host):
        raise ValueError(
            f"{host} can be reached from other machines: give a token (--token-file), or listen on "
            "127.0.0.1."
        )


class Service:
    """Routes on a socket, behind the guard."""

    def __init__(
        self, routes: Sequence[Route], page: Page, host: str, port: int, token: str | None,
        limits: Limits | None = None, requests: Requests | None = None,
    ) -> None:  # fmt: skip
        check_address(host, token)
        limits = limits or Limits()
        handlers = {HTTPException: on_http_error, Problem: on_problem, Exception: on_failure}
        app = Starlette(routes=routes, exception_handlers=handlers)
        rate = Rate(limits.requests_per_second)
        self.guard = Guard(app, token, rate, requests or Requests(), is_public)
        self.page = page
        self.socket = _listen(host, port)
        number = self.socket.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{number}"
        config = uvicorn.Config(
            self.guard, http=Patient, ws="none", lifespan="off", log_level="warning",
            access_log=False, server_header=False, timeout_keep_alive=30, proxy_headers=False,
            limit_concurrency=limits.connections, timeout_graceful_shutdown=5, log_config=None,
        )  # fmt: skip
        self._server = Unsignalled(config)

    @classmethod
    def over(cls, engine: Engine, host: str, port: int, token: str | None) -> Service:
        """Return the whole service over an engine."""
        requests, page = Requests(), Page(engine.board, service=True)
        routes = [*Api(engine, requests).routes(), *page.routes()]
        return cls(routes, page, host, port, token, engine.limits, requests)

    def run(self, ready: Callable[[str], None] | None = None) -> None:
        """Answer requests until stopped or interrupted."""
        asyncio.run(self._run(ready))

    async def _run(self, ready: Callable[[str], None] | None) -> None:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(signum, self.stop)
        serving = asyncio.ensure_future(self._server.serve(sockets=[self.socket]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        if ready is not None and not serving.done():
            ready(self.url)
        while not self._server.should_exit and not serving.done():
            await asyncio.sleep(0.05)
        self.page.closing.set()
        await serving

    def stop(self) -> None:
        """Answer what has come, then end; from any thread."""
        self._server.should_exit = True


class Unsignalled(uvicorn.Server):
    """A server that leaves signals alone: its own way would end the process before we are done."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing about signals."""
        yield


class Patient(HttpToolsProtocol):
    """HTTP whose patience ends: a client that is slow to say what it wants is hung up on."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for a request, not for ever."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request that has begun."""
        if self._late is None and (self.cycle is None or self.cycle.response_complete):
            self._expect()
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """The head is there: the body has a limit of its own."""
        self._forget()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
        self._forget()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self._hang_up)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _hang_up(self) -> None:
        self._late = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: only then does asyncio send small answers at once (TCP_NODELAY).
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host.strip("[]"), port))
    except OSError as error:
        found.close()
        raise ValueError(f"{host}:{port} cannot be listened on: {error.strerror}.") from error
    return found


# -- the command -------------------------------------------------------------------------------


def run(options: dict[str, Any]) -> int:
    """Serve as the command's options say; return the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    given = {f.name: options[f.name] for f in fields(Limits)}
    path = options["token_file"]
    try:
        token = Path(path).read_text("utf-8").strip() if path else None
        limits = Limits(**{k: v for k, v in given.items() if v is not None})
        serve(Path(options["state"]), options["host"], options["port"], token, limits,
              options["snapshot_bytes"], options["snapshot_seconds"], _say)  # fmt: skip
    except (InUse, Damaged, sqlite3.Error, RuntimeError) as error:
        print(f"onkel: {error}", file=sys.stderr)
        return StateProblem.code
    except (ValueError, OSError) as error:
        print(f"onkel: {error}", file=sys.stderr)
        return UsageProblem.code
    return 0


def _say(url: str) -> None:
    """Tell where the service is; a person also how to end it."""
    print(f"onkel: {url}", flush=True)
    if sys.stderr.isatty():
        print("The live page is there as well. Ctrl-C ends the service.", file=sys.stderr)
