"""What is checked before a request is served: host, origin, token, rate."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from onkel.app.http.answers import HEADERS, Receive, Scope, Send, failed, respond
from onkel.app.http.counts import Requests
from onkel.app.http.problems import Problem
from onkel.app.http.rate import Rate

App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("onkel.server")

_HEADERS = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Checks host, origin, token and rate of each request; gives each failure the same shape.

    Without a token only names of this machine are taken in the Host header: a page from elsewhere
    whose name was pointed here (DNS rebinding) is refused. A request that another site's page
    makes is refused in any case.
    """

    def __init__(
        self, app: App, token: str | None, rate: Rate, requests: Requests,
        public: Callable[[str], bool],
    ) -> None:  # fmt: skip
        self.app = app
        self.token = None if token is None else token.encode()
        self.rate = rate
        self.requests = requests
        self.public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def answering(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            self._check(scope)
            await self.app(scope, receive, answering)
        except Problem as problem:
            await respond(problem, answering)
        except Exception as error:  # as a rule it was answered by the application
            log.exception("a request failed")
            if not status:
                await respond(failed(error), answering)
        finally:
            route = str(scope.get("onkel_route", "other"))
            self.requests.note(route, status, time.perf_counter() - began)

    def _check(self, scope: Scope) -> None:
        headers = {k: v for k, v in scope["headers"]}
        self.rate.spend((scope.get("client") or ("?", 0))[0])
        host = headers.get(b"host", b"").decode("latin-1")
        self._check_host(host)
        _check_origin(headers, host)
        if self.token is None:
            scope["onkel_line"].admit()
        elif not self.public(scope["path"]):
            given = headers.get(b"authorization", b"")
            scheme, _, token = given.partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.token):
                words = "This service needs its token: 'Authorization: Bearer TOKEN'."
                problem = Problem(401, "unauthorized", words, "Authorization")
                problem.headers["WWW-Authenticate"] = "Bearer"
                raise problem
            scope["onkel_line"].admit()

    def _check_host(self, host: str) -> None:
        if self.token is None and not is_loopback(_hostname(host)):
            words = "Without a token this service answers to localhost only."
            raise Problem(403, "bad_host", words, "Host")


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _check_origin(headers: dict[bytes, bytes], host: str) -> None:
    origin = headers.get(b"origin", b"").decode("latin-1")
    site = headers.get(b"sec-fetch-site", b"same-origin")
    try:
        same = not origin or urlsplit(origin).netloc == host
    except ValueError:
        same = False
    if not same or site not in (b"same-origin", b"none"):
        raise Problem(403, "bad_origin", "Pages of other sites may not use this service.", "Origin")
