"""Answers from the live page of a running command: read strictly, handed to the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem

LARGEST = 200_000
"""Bytes of what is sent."""
MOST = 1000
"""Answers at once: an incident names as many of its alerts."""
Pair = tuple[str, str]
Take = Callable[[list[Pair]], None]
"""Takes ids with their answers, all or none of them, or raises a Problem."""


def taking(take: Take) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that reads ``{"id": "1234", "answer": "usual"}``, or several of these.

    Host and origin were checked before (:class:`~onkel.app.http.access.Access`); the content type
    is what no form of another site's page can send.
    """

    async def handle(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            words = f"Content-Type must be application/json (curl --json); got {kind[:80]!r}."
            raise Problem(415, "bad_content_type", words, "Content-Type")
        found = read(await _body(request))
        await asyncio.to_thread(take, found)
        return Response(encode({"put": len(found)}), 202, media_type="application/json")

    return handle


async def _body(request: Request) -> bytes:
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > LARGEST:
                raise Problem(413, "too_large", f"Answers have up to {LARGEST} bytes.")
            chunks.append(chunk)
    except ClientDisconnect:
        raise Problem(400, "gone", "The client went away.") from None
    return b"".join(chunks)


def read(body: bytes) -> list[Pair]:
    """Return ids and answers of a body; refuse what is something else.

    Examples
    --------
    >>> read(b'{"id": "7", "answer": "usual"}')
    [('7', 'usual')]
    >>> read(b'{"answers": [{"id": "7", "answer": "usual"}, {"id": "9", "answer": "fault"}]}')
    [('7', 'usual'), ('9', 'fault')]
    """
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad_json", f"The body is no JSON: {str(error)[:200]}.") from None
    if not isinstance(found, dict) or "answers" not in found:
        return [_pair(found, "The body")]
    extra = sorted(found.keys() - {"answers"})
    if extra:
        words = f"There is no field {extra[0][:80]!r} beside answers."
        raise Problem(422, "bad_field", words, extra[0][:80])
    some = found["answers"]
    if not isinstance(some, list) or not 0 < len(some) <= MOST:
        raise Problem(422, "bad_field", f"answers is a list of 1 to {MOST} answers.", "answers")
    return [_pair(one, f"answers[{i}]") for i, one in enumerate(some)]


def _pair(found: Any, where: str) -> Pair:
    if not isinstance(found, dict):
        words = f'{where} is an object: {{"id": ..., "answer": ...}}.'
        raise Problem(422, "bad_field", words)
    for name in ("id", "answer"):
        if not isinstance(found.get(name), str):
            raise Problem(422, "bad_field", f"{name} is a text.", name)
    extra = sorted(found.keys() - {"id", "answer"})
    if extra:
        words = f"There is no field {extra[0][:80]!r}: an answer has id and answer."
        raise Problem(422, "bad_field", words, extra[0][:80])
    return found["id"], found["answer"]
