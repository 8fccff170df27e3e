"""How many may look at the live page at once."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack

from helpers.serving import Client, served

LOOK = b"GET /live/a HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_no_more_streams_than_there_may_be(tmp_path):
    """Even if all ask in the same moment."""
    with served(tmp_path) as one, ExitStack() as held:
        one.client.ok("POST", "/models", {"name": "a", "kind": "NoveltyDetector"})
        address = Client(one.url).address
        lines = [held.enter_context(socket.create_connection(address, 10)) for _ in range(80)]
        for line in lines:
            line.sendall(LOOK)
        answers = [line.recv(65536) for line in lines]
        refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503 ")]
        assert sum(answer.startswith(b"HTTP/1.1 200 ") for answer in answers) == 64
        assert len(refused) == 16
        late = next(line for line, a in zip(lines, answers, strict=True) if a == refused[0])
        head, _, body = refused[0].partition(b"\r\n\r\n")
        body = body or late.recv(65536)  # it may come by itself
        assert b"\r\nretry-after: " in head and json.loads(body)["error"]["code"] == "busy"
        for line in lines:
            line.close()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with socket.create_connection(address, 10) as line:
                line.sendall(LOOK)
                if line.recv(65536).startswith(b"HTTP/1.1 200 "):
                    return
        raise AssertionError("places are free again when the pages are closed")
