"""HTTP on one connection: uvicorn's protocol, with an end to its patience and to its memory.

What comes before the token is read has small limits (the head, its lines, requests that wait
behind each other). What goes out is taken by the client, or the connection ends.
"""

from __future__ import annotations

import asyncio
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
PIECE = 2**16
"""Bytes that are read at once: what may be held beyond the limits, at most."""

RELIED_ON = {
    "HttpToolsProtocol": (
        "connection_made", "connection_lost", "data_received", "on_message_begin", "on_url",
        "on_header", "on_headers_complete", "on_body", "on_message_complete", "pause_writing",
        "resume_writing", "send_400_response", "timeout_keep_alive_handler", "shutdown",
    ),
    "HttpToolsProtocol()": ("transport", "loop", "cycle", "pipeline", "scope"),
    "Server()": ("serve", "shutdown", "capture_signals", "started", "should_exit", "server_state"),
    "ServerState()": ("connections",),
}  # fmt: skip
"""All of uvicorn's inside that is used, here and in `server`; what else is, is documented there.
The protocol is made with config, server_state, app_state and _loop by name; its `cycle` is None, or
has `response_complete`."""


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
        self._held = self._size = self._lines = 0
        """Bytes read that are nobody's yet; bytes and number of the headers so far."""
        self._refusal: Problem | None = None

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
        for at in range(0, len(data), PIECE):
            piece = data if len(data) <= PIECE else memoryview(data)[at : at + PIECE]
            self._held += len(piece)
            super().data_received(piece)
            if self._held > HEAD_BYTES and not self.transport.is_closing():
                self._refusal = _head()
                self.send_400_response("")
            if self.transport.is_closing():
                return

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._size = self._lines = 0
        self.scope["onkel_line"] = self
        if len(self.pipeline) >= WAITING:
            words = f"Up to {WAITING} requests may wait for an answer."
            self._refuse(Problem(400, "too_many_requests", words))

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._size += len(url)
        if self._size > ADDRESS_BYTES:
            self._refuse(_address())
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self._size += len(name) + len(value) + 4
        self._lines += 1
        if self._size > HEAD_BYTES or self._lines > HEADERS:
            self._refuse(_head())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there: the body has a limit of its own."""
        self._held = 0
        self._forget()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """What has come belongs to the body."""
        self._held = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """What comes now is another head."""
        self._held = 0
        super().on_message_complete()

    def _refuse(self, problem: Problem) -> None:
        """Make the parser stop; uvicorn then answers with what follows."""
        self._refusal = problem
        raise problem

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


def _head() -> Problem:
    words = f"The head of a request may have {HEAD_BYTES} bytes and {HEADERS} headers."
    return Problem(431, "head_too_large", words, limit=HEAD_BYTES)


def _address() -> Problem:
    words = f"The address of a request may have {ADDRESS_BYTES} bytes."
    return Problem(414, "address_too_long", words, limit=ADDRESS_BYTES)
