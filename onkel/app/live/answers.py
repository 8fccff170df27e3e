"""Answers from the live page of a running command: read strictly, handed to the run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem

LARGEST = 10_000
"""Bytes of an answer."""
Take = Callable[[str, str], None]
"""Takes an id and an answer, or raises a Problem."""


def taking(take: Take) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that reads ``{"id": "1234", "answer": "usual"}``.

    Host and origin were checked before (:class:`~onkel.app.http.access.Access`); the content type
    is what no form of another site's page can send.
    """

    async def handle(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            words = f"Content-Type must be application/json (curl --json); got {kind[:80]!r}."
            raise Problem(415, "bad_content_type", words, "Content-Type")
        found = read(await _body(request))
        take(found["id"], found["answer"])
        return Response(encode(found), 202, media_type="application/json")

    return handle


async def _body(request: Request) -> bytes:
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > LARGEST:
                raise Problem(413, "too_large", f"An answer has up to {LARGEST} bytes.")
            chunks.append(chunk)
    except ClientDisconnect:
        raise Problem(400, "gone", "The client went away.") from None
    return b"".join(chunks)


def read(body: bytes) -> dict[str, str]:
    """Return id and answer of a body; refuse what is something else.

    Examples
    --------
    >>> read(b'{"id": "7", "answer": "usual"}')
    {'id': '7', 'answer': 'usual'}
    """
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad_json", f"The body is no JSON: {str(error)[:200]}.") from None
    if not isinstance(found, dict):
        raise Problem(422, "bad_field", 'The body is an object: {"id": ..., "answer": ...}.')
    for name in ("id", "answer"):
        if not isinstance(found.get(name), str):
            raise Problem(422, "bad_field", f"{name} is a text.", name)
    extra = sorted(found.keys() - {"id", "answer"})
    if extra:
        words = f"There is no field {extra[0][:80]!r}: an answer has id and answer."
        raise Problem(422, "bad_field", words, extra[0][:80])
    return found
