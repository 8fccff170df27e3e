"""Answers as JSON, and one shape for whatever goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem

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
    words = f"onkel failed ({type(error).__name__}). The log of the server says more."
    return await on_problem(request, Problem(500, "internal", words))


def _answer(problem: Problem, headers: dict[str, str]) -> Response:
    return Response(encode(problem.content()), problem.status, headers, "application/json")


async def respond(problem: Problem, send: Send) -> None:
    """Send a refusal, where no application has answered."""
    body = encode(problem.content())
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    listed = [(k.lower().encode(), v.encode()) for k, v in (headers | problem.headers).items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": listed})
    await send({"type": "http.response.body", "body": body})
