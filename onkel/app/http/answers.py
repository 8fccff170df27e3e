"""Answers as JSON, and one shape for whatever goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem, busy

PIECE = 2**16
"""Bytes of a large answer that are on their way at once."""
SLOWEST = 2**18
"""Bytes per second that a client takes, on average, after the seconds that it has in any case."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
"""On every answer. Bokeh sets styles of its own, hence 'unsafe-inline' for these."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def on_http_error(request: Request, error: Exception) -> Response:
    """Give the router's own refusals the one shape."""
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "bad_method"}.get(error.status_code, "bad_request")
    words = f"{request.method} {request.url.path[:80]!r}: {error.detail}."
    problem = Problem(error.status_code, code, words)
    headers = {k: v for k, v in (error.headers or {}).items() if k.lower() == "allow"}
    return _answer(problem, headers)


async def on_problem(request: Request, error: Exception) -> Response:
    """Answer a refusal."""
    assert isinstance(error, Problem)
    return _answer(error, error.headers)


async def on_failure(request: Request, error: Exception) -> Response:
    """Answer an error of the server's own; access writes it to the log."""
    return await on_problem(request, failed(error))


def failed(error: Exception) -> Problem:
    """Return what a client learns of an error of the server's own."""
    words = f"onkel failed ({type(error).__name__}). The log of the server says more."
    return Problem(500, "internal", words)


def _answer(problem: Problem, headers: dict[str, str]) -> Response:
    return Response(encode(problem.content()), problem.status, headers, "application/json")


async def respond(problem: Problem, send: Send) -> None:
    """Send a refusal, where no application has answered."""
    headers, body = _parts(problem)
    listed = [(k.lower().encode(), v.encode()) for k, v in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": listed})
    await send({"type": "http.response.body", "body": body})


def raw(problem: Problem) -> bytes:
    """Return a refusal as bytes, where there is no request to answer; the connection ends."""
    headers, body = _parts(problem)
    first = f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"
    told = {**headers, **HEADERS, "connection": "close"}
    lines = [first, *(f"{k.lower()}: {v}" for k, v in told.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def _parts(problem: Problem) -> tuple[dict[str, str], bytes]:
    body = encode(problem.content())
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    return headers | problem.headers, body


class Streamed(StreamingResponse):
    """A stream without an end that takes a place among others for as long as it lasts.

    Parameters
    ----------
    parts : asynchronous iterator of bytes
    room : context manager
        Entered before the first byte; it may refuse.
    media_type : str
    """

    def __init__(
        self, parts: AsyncIterator[bytes], room: AbstractContextManager[None], media_type: str
    ) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(parts, headers=headers, media_type=media_type)
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts as they come."""
        with self._room:
            await super().__call__(scope, receive, send)


class Large(Response):
    """A large body: made when its turn has come, sent in pieces, and held for a limited time.

    Parameters
    ----------
    make : function
        Makes the body.
    turns : Semaphore
        How many such bodies there may be at once.
    seconds : float
        To wait for a turn, and for the client to take the body, with a second more for each
        `SLOWEST` bytes.
    headers : mapping
    """

    def __init__(
        self, make: Callable[[], Awaitable[bytes]], turns: asyncio.Semaphore, seconds: float,
        headers: Mapping[str, str],
    ) -> None:  # fmt: skip
        super().__init__(None, headers=headers, media_type="application/octet-stream")
        self._make, self._turns, self._seconds = make, turns, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body; hang up on a client that is too slow to take it."""
        async with self._turn():
            body = await self._make()
            headers = [h for h in self.raw_headers if h[0] != b"content-length"]
            headers.append((b"content-length", str(len(body)).encode()))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            try:
                async with asyncio.timeout(self._seconds + len(body) / SLOWEST):
                    await _in_pieces(body, send)
            except TimeoutError:
                scope["onkel_line"].hang_up()

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise busy("busy", "Too many files are being sent.") from None
        try:
            yield
        finally:
            self._turns.release()


async def _in_pieces(body: bytes, send: Send) -> None:
    for at in range(0, len(body), PIECE):
        piece, more = body[at : at + PIECE], at + PIECE < len(body)
        await send({"type": "http.response.body", "body": piece, "more_body": more})
