"""HTTP on one connection: uvicorn's protocol, with an end to its patience and to its memory.

What comes before the token is read has small limits (the head, its lines, requests that wait
behind each other). What goes out is taken by the client, or the connection ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from onkel.app.http.answers import SLOWEST, raw
from onkel.app.http.door import Door
from onkel.app.http.problems import Problem

HEAD_SECONDS = 10.0
"""For the head of a request to arrive."""
ADDRESS_BYTES = 2**13
HEAD_BYTES = 2**14
"""Address and headers together; trailers as well."""
HEADERS = 100
WAITING = 32
"""Requests that a client sends without waiting for an answer."""
PIECE = 2**14
"""Bytes that are read at once: what may be held beyond the limits, at most."""

RELIED_ON = {
    "HttpToolsProtocol": (
        "connection_made", "connection_lost", "data_received", "on_header", "on_headers_complete",
        "on_body", "pause_writing", "resume_writing", "send_400_response",
        "timeout_keep_alive_handler",
    ),
    "HttpToolsProtocol()": (
        "transport", "loop", "client", "cycle", "pipeline", "scope", "headers",
    ),
    "Server()": ("serve", "shutdown", "capture_signals", "started", "should_exit", "server_state"),
    "ServerState()": ("connections",),
}  # fmt: skip
"""All of uvicorn's inside that is used, here and in `server`; what else is, is documented there.
The protocol is made with config, server_state, app_state and _loop by name. Its `cycle` is None, or
has `response_complete`; when a head is whole, `url` and `headers` are there; what its parser's
callbacks raise ends in `send_400_response`; a stream ends when its client has gone."""


def check_uvicorn() -> None:
    """Refuse a uvicorn whose inside is another than the one that was built upon."""
    lacks = None
    try:
        config = uvicorn.Config(_nobody, http=HttpToolsProtocol, log_config=None, ws="none")
        state = ServerState()
        made = HttpToolsProtocol(config=config, server_state=state, app_state={}, _loop=_nobody)
        things = (HttpToolsProtocol, made, uvicorn.Server(config), state)
        for thing, (name, wanted) in zip(things, RELIED_ON.items(), strict=True):
            lacks = lacks or next((f"{name}.{w}" for w in wanted if not hasattr(thing, w)), None)
    except (TypeError, AttributeError) as error:
        lacks = f"HttpToolsProtocol as it was ({error})"
    if lacks is not None:
        raise ValueError(
            f"uvicorn {uvicorn.__version__} has no {lacks}, on which onkel relies. Install a "
            "uvicorn that onkel was tried with: pip install 'onkel[serve]'."
        )


async def _nobody(scope: Any, receive: Any, send: Any) -> None:
    """Stand where an application is asked for."""


class Patient(HttpToolsProtocol):
    """HTTP whose patience ends: a client that is slow to ask, or to listen, is hung up on.

    Parameters
    ----------
    door : Door
        Who else is connected.
    seconds : float
        For an answer to be taken, and a second more for each `SLOWEST` bytes of it.
    config, server_state, app_state, _loop
        What uvicorn gives.
    """

    def __init__(self, door: Door, seconds: float, **given: Any) -> None:
        super().__init__(**given)
        self.door, self.seconds = door, seconds
        self._late: asyncio.TimerHandle | None = None
        """Ends the wait for a head."""
        self._stuck: asyncio.TimerHandle | None = None
        """Ends the wait for a client to take what was sent."""
        self._held = 0
        """Bytes read since a head or a part of a body was whole: of a head, or of trailers."""
        self._refusal: Problem | None = None

    @property
    def host(self) -> str:
        """The client's address."""
        return str(self.client[0]) if self.client else ""

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def hang_up(self) -> None:
        """End the connection now, whatever is still on its way."""
        if self.transport is not None:
            self.transport.abort()

    def admit(self) -> None:
        """Note that a request was let in; what access checks calls it."""
        self.door.admit(self)

    # -- the connection ------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Wait for a request, not for ever."""
        transport.set_write_buffer_limits(high=0)  # pauses, and the clock runs, if a byte is left
        super().connection_made(transport)
        self._expect()
        self.door.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
        self._forget()
        self.door.leave(self)
        self.resume_writing()
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """End a connection on which nothing more was asked."""
        self.hang_up()

    # -- what comes in -------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Read what has come, in pieces; refuse a head that grows too large before it ends."""
        if self._late is None and self.idle:
            self._expect()
        for piece in (data,) if len(data) <= PIECE else _pieces(data):
            self._held += len(piece)
            super().data_received(piece)
            if self._held > HEAD_BYTES and not self.transport.is_closing():
                self._refusal = _head()
                self.send_400_response("")
            if self.transport.is_closing():
                return

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer; each takes many times its bytes."""
        if len(self.headers) >= HEADERS:
            self._refusal = _head()
            raise self._refusal
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there: what follows has limits of its own."""
        held, self._held = self._held, 0
        self._forget()
        self.scope["onkel_line"] = self
        self._refusal = self._wrong_with_head(held)
        if self._refusal is not None:
            raise self._refusal  # the parser stops, and uvicorn says that it was no request
        super().on_headers_complete()

    def _wrong_with_head(self, held: int) -> Problem | None:
        """Return why a head of so many bytes at the most, and what came with it, is refused."""
        if len(self.url) > ADDRESS_BYTES:
            words = f"The address of a request may have {ADDRESS_BYTES} bytes."
            return Problem(414, "address_too_long", words, limit=ADDRESS_BYTES)
        if held > HEAD_BYTES and len(self.url) + _size(self.headers) > HEAD_BYTES:
            return _head()
        if len(self.pipeline) >= WAITING:
            words = f"Up to {WAITING} requests of a connection may wait for an answer."
            return Problem(400, "too_many_requests", words, limit=WAITING)
        return None

    def on_body(self, body: bytes) -> None:
        """What has come belongs to the body, which has a limit elsewhere."""
        self._held = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request in the one shape, unless another answer is on its way."""
        if not self.idle:
            return self.hang_up()
        problem = self._refusal or Problem(400, "bad_request", "This is no request of HTTP/1.1.")
        self.transport.write(raw(problem))
        self.transport.close()
        return None

    def _expect(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self.hang_up)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    # -- what goes out -------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """What was sent has to be taken."""
        super().pause_writing()
        patience = self.seconds + self.transport.get_write_buffer_size() / SLOWEST
        self._stuck = self.loop.call_later(patience, self.hang_up)

    def resume_writing(self) -> None:
        """It was."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        super().resume_writing()


def _pieces(data: bytes) -> Iterator[memoryview]:
    whole = memoryview(data)
    return (whole[at : at + PIECE] for at in range(0, len(data), PIECE))


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers)


def _head() -> Problem:
    words = f"The head of a request may have {HEAD_BYTES} bytes and {HEADERS} headers."
    return Problem(431, "head_too_large", words, limit=HEAD_BYTES)
