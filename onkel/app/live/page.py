"""The live page: its files, and a stream of what is new. Whatever publishes to a board can show it.

The page's own files are small and hand-written; the charts are drawn by Bokeh's own script, which
comes from its Python package. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from onkel.app.http.answers import Streamed
from onkel.app.http.encoding import encode
from onkel.app.http.exposition import CONTENT_TYPE
from onkel.app.http.problems import Problem, busy
from onkel.app.http.server import Server
from onkel.app.live.answers import Take, taking
from onkel.app.live.board import PERIOD, Board
from onkel.fleet.view import View

STATIC = Path(__file__).parent / "static"
FILES = {
    "page.js": "text/javascript", "times.js": "text/javascript", "charts.js": "text/javascript",
    "keys.js": "text/javascript", "answers.js": "text/javascript", "alerts.js": "text/javascript",
    "page.css": "text/css",
    "icon.svg": "image/svg+xml",
}  # fmt: skip
BOKEH = ("bokeh.min.js", "bokeh-api.min.js")
IDLE = 15.0
"""Seconds after which a silent stream shows that it is alive."""


class Page:
    """The handlers of the page, over one board."""

    def __init__(
        self, board: Board, service: bool = False, most: int = 64,
        known: Callable[[str], object] | None = None, take: Take | None = None,
    ) -> None:  # fmt: skip
        self.board = board
        self.take = take
        """Takes answers to alerts, where this is the page of a run; a service has a route."""
        self.known = known
        """Raises a problem that says why a model is not to be seen."""
        self.service = service
        """Whether there is more than the page: an API, metrics."""
        self.most = most
        """Streams at once."""
        self.open = 0
        self.closing = asyncio.Event()
        """Set when the server goes: streams end, so that it need not wait for them."""

    def routes(self) -> list[Route]:
        """Return the page's routes."""
        answers = (
            []
            if self.take is None
            else [Route("/live/{name}/feedback", taking(self.take), methods=["POST"])]
        )
        return [
            *answers,
            Route("/", self.index),
            Route("/static/{file}", self.static),
            Route("/live", self.models),
            Route("/live/{name}", self.live),
            Route("/live/{name}/alerts", self.alerts),
            Route("/live/{name}/incident", self.incident),
            Route("/live/{name}/keys", self.keys),
            Route("/live/{name}/key", self.key),
        ]

    async def index(self, request: Request) -> Response:
        """The page."""
        return FileResponse(STATIC / "index.html", media_type="text/html")

    async def static(self, request: Request) -> Response:
        """One of the page's files, by a name that is known; nothing else is looked up."""
        name = request.path_params["file"]
        if name in FILES:
            return FileResponse(STATIC / name, media_type=FILES[name])
        script = bokeh_script(name) if name in BOKEH else None
        if script is None:
            raise Problem(404, "not_found", "There is no such file.")
        week = {"Cache-Control": "max-age=604800"}
        return FileResponse(script, media_type="text/javascript", headers=week)

    async def models(self, request: Request) -> Response:
        """The models that can be shown."""
        found = {"models": self.board.models(), "service": self.service}
        return Response(encode(found), media_type="application/json")

    async def live(self, request: Request) -> Response:
        """Server-sent events: what is new of one model, ten times a second at most."""
        name = request.path_params["name"]
        if self.board.changes(name) is None:
            if self.known is not None:
                self.known(name)  # says why, if it is there but cannot be shown
            raise Problem(404, "unknown_model", f"There is no model {name[:80]!r}.")
        return Streamed(self.events(name), self.room(), "text/event-stream")

    async def alerts(self, request: Request) -> Response:
        """Some alerts of a model, newest first."""
        name, asked = request.path_params["name"], request.query_params
        start, count = whole(asked, "start", 0, 10**9), whole(asked, "count", 50, 2000)
        found = self.board.alerts(name, start, count)
        if found is None:
            raise Problem(404, "unknown_model", f"There is no model {name[:80]!r}.")
        return Response(encode(found), media_type="application/json")

    async def incident(self, request: Request) -> Response:
        """One incident, with its alerts."""
        name, number = request.path_params["name"], whole(request.query_params, "number", 0, 10**9)
        found = self.board.incident(name, number)
        if found is None:
            raise Problem(404, "unknown_incident", f"There is no incident {number} (any more).")
        return Response(encode(found), media_type="application/json")

    def _view(self, name: str) -> View:
        found = self.board.keys(name)
        if found is None:
            raise Problem(404, "no_keys", f"The model {name[:80]!r} has no keys.")
        return found

    async def keys(self, request: Request) -> Response:
        """Some keys of a model, those first that are highest."""
        view, asked = self._view(request.path_params["name"]), request.query_params
        by, search = asked.get("by", view.shown[0]), asked.get("search", "")[:200]
        start, count = (whole(asked, n, d, m) for n, d, m in (("start", 0, 10**9),
                                                               ("count", 50, 500)))  # fmt: skip
        if by not in SORTED_BY:
            words = f"by is one of {', '.join(SORTED_BY)}; got {by[:40]!r}."
            raise Problem(422, "bad_field", words, "by")
        found = await asyncio.to_thread(view.table, by, search, start, count)
        return Response(encode(found), media_type="application/json")

    async def key(self, request: Request) -> Response:
        """One key of a model, in detail."""
        view, asked = self._view(request.path_params["name"]), request.query_params
        key = key_of(asked)
        found = await asyncio.to_thread(view.key, key)
        if found is None:
            raise Problem(404, "unknown_key", f"There is no key {str(key)[:80]!r}.", "key")
        return Response(encode(found), media_type="application/json")

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """Count a stream from before its first byte to its end; refuse one too many."""
        if self.open >= self.most:
            raise busy("busy", "Too many pages are open.", seconds=10)
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    async def events(self, name: str) -> AsyncIterator[bytes]:
        """Yield what is new of one model, until it or the server goes."""
        since, told, rows, silent, epoch = 0, -1, -1, 0.0, -1
        while not self.closing.is_set():
            found = self.board.changes(name, since, told)
            if found is not None and found["epoch"] != epoch:  # all buckets are others
                found, silent = self.board.changes(name, 0, told), 0.0
                epoch = -1 if found is None else found["epoch"]
            if found is None:
                yield b"event: gone\ndata: {}\n\n"
                return
            state = found["next"], found["told"], found["rows"]
            if state != (since, told, rows) or 0 < found["speed"] or silent == 0.0:
                yield b"data: " + encode(found) + b"\n\n"
                (since, told, rows), silent = state, PERIOD
            elif silent >= IDLE:
                yield b": alive\n\n"
                silent = PERIOD
            await asyncio.sleep(PERIOD)
            silent += PERIOD


SORTED_BY = ("unusual", "alerts", "share", "error", "drift", "rows", "latest")
"""What keys may be sorted by."""


def whole(asked: Any, name: str, default: int, most: int, least: int = 0) -> int:
    """Return a whole number of a query."""
    text = asked.get(name)
    if text is None:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise Problem(422, "bad_field", f"{name} is a whole number; got {text[:40]!r}.", name)
    if not least <= int(text) <= most:
        raise Problem(422, "bad_field", f"{name} lies between {least} and {most}.", name)
    return int(text)


def key_of(asked: Any) -> str | int:
    """Return the key that a query names."""
    key: str = asked.get("key", "")
    kind = asked.get("kind", "text")
    if kind not in ("text", "number"):
        words = f"kind is text or number; got {kind[:40]!r}."
        raise Problem(422, "bad_field", words, "kind")
    if kind == "number":
        return whole({"key": key}, "key", 0, 2**63 - 1, -(2**63))
    return key


def _metrics_route(metrics: Callable[[], str]) -> Route:
    async def answer(request: Request) -> Response:
        return Response(metrics(), media_type=CONTENT_TYPE)

    return Route("/metrics", answer)


def is_public(path: str) -> bool:
    """Whether a path holds nothing but the page's own files."""
    return path == "/" or path.startswith("/static/")


def bokeh_script(name: str) -> Path | None:
    """Return where Bokeh's package has its script; None without Bokeh."""
    found = importlib.util.find_spec("bokeh")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "server" / "static" / "js" / name
    return path if path.is_file() else None


class Dashboard:
    """The page alone, in a thread, for a command that runs: ``with Dashboard(board): ...``.

    Parameters
    ----------
    board : Board
        What the command publishes to.
    host, port : str, int
        A loopback address; port 0 takes a free one. ``url`` says where it is.
    metrics : function, optional
        Returns counters as text, for ``/metrics``.
    take : function, optional
        Takes answers to alerts.
    """

    def __init__(
        self, board: Board | None, host: str = "127.0.0.1", port: int = 0,
        metrics: Callable[[], str] | None = None, take: Take | None = None,
    ) -> None:  # fmt: skip
        page = Page(board or Board(), take=take)
        routes = page.routes() if board is not None else []
        routes += [] if metrics is None else [_metrics_route(metrics)]
        self._server = Server(routes, host, port, None, is_public, page.closing.set)
        self._ready = threading.Event()
        said = lambda url: self._ready.set()  # noqa: E731
        self._thread = threading.Thread(target=self._server.run, args=(said,), daemon=True)
        self.url = self._server.url

    def __enter__(self) -> Dashboard:
        self._thread.start()
        self._ready.wait(10.0)
        return self

    def __exit__(self, *error: Any) -> None:
        self._server.stop()
        self._thread.join(10.0)
