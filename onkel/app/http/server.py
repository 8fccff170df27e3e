"""Routes on a socket: uvicorn and Starlette behind the checks of access.

Whoever has routes can be served: the service with its API and page, a running command with its
page alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from onkel.app.http.access import Access, is_loopback
from onkel.app.http.answers import on_failure, on_http_error, on_problem
from onkel.app.http.counts import Requests
from onkel.app.http.door import Door
from onkel.app.http.problems import Problem
from onkel.app.http.protocol import Patient, check_uvicorn
from onkel.app.http.rate import CONNECTIONS, PER_SECOND, SECONDS, Rate

SHORTEST = 16
"""Characters of a token."""
END_SECONDS = 3.0
"""For answers to go out when the server ends; whoever has not taken them by then is hung up on."""
BACKLOG = 256
"""Connections that wait to be taken."""


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


class Server:
    """Routes on a socket, behind the checks of :class:`~onkel.app.http.access.Access`.

    Parameters
    ----------
    routes : sequence of Route
    host, port : str, int
        Port 0 takes a free one; ``url`` says where it is.
    token : str, optional
        What clients must send; needed where other machines can reach the address.
    public : function
        Whether a path may be read without the token.
    closing : function
        Called when the server goes, so that open streams can end.
    requests : Requests, optional
        Counts what comes.
    per_second, connections, seconds : number
        Requests of one client address, connections at once, and how long a client may take to
        take its answer.
    """

    def __init__(
        self, routes: Sequence[Route], host: str, port: int, token: str | None,
        public: Callable[[str], bool], closing: Callable[[], None],
        requests: Requests | None = None, per_second: float = PER_SECOND,
        connections: int = CONNECTIONS, seconds: float = SECONDS,
    ) -> None:  # fmt: skip
        check_uvicorn()
        check_address(host, token)
        handlers = {HTTPException: on_http_error, Problem: on_problem, Exception: on_failure}
        app = Starlette(routes=routes, exception_handlers=handlers)
        self.access = Access(app, token, Rate(per_second), requests or Requests(), public)
        self.door = Door(connections)
        self.socket = _listen(host, port)
        number = self.socket.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{number}"
        protocol: Any = partial(Patient, self.door, seconds)
        config = uvicorn.Config(
            self.access, http=protocol, ws="none", lifespan="off", log_level="warning",
            access_log=False, server_header=False, timeout_keep_alive=30, proxy_headers=False,
            timeout_graceful_shutdown=5, log_config=None, backlog=BACKLOG,
        )  # fmt: skip
        self._server = Unsignalled(config)
        self._closing = closing

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
        self._closing()
        await serving

    def stop(self) -> None:
        """Answer what has come, then end; from any thread."""
        self._server.should_exit = True


class Unsignalled(uvicorn.Server):
    """A server that leaves signals alone: its own way would end the process before we are done.

    It ends in good time, too: readers that do not read are not waited for.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing about signals."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let answers go out for a while, then hang up."""
        cut = asyncio.get_running_loop().call_later(END_SECONDS, self._hang_up)
        try:
            await super().shutdown(sockets)
        finally:
            cut.cancel()

    def _hang_up(self) -> None:
        for line in [*self.server_state.connections]:
            line.hang_up()


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
