"""A receiver of webhooks on this machine: it notes what comes, and answers as it is told to."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Notes bodies and headers; ``with Receiver() as receiver: ... receiver.url``.

    Parameters
    ----------
    answers : list of int
        Statuses of the first answers; then 204. A "hang" never answers.
    port : int
        0 takes a free one.
    certificate : pair of paths, optional
        Of a certificate and its key: it speaks https.
    """

    def __init__(self, answers=(), port=0, headers=None, certificate=None) -> None:
        self.answers, self.got, self.tries = list(answers), [], 0
        self.headers = headers or {}
        self.hanging, self.freed = threading.Event(), threading.Event()
        self._guard = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        if certificate is not None:
            secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            secure.load_cert_chain(*certificate)
            self._server.socket = secure.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"

    def _handler(self):
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) == length:  # else its sender died in the midst of it
                    receiver.answer(self, body)

            def log_message(self, *args):
                pass

        return Handler

    def answer(self, handler, body) -> None:
        with self._guard:
            self.tries += 1
            status = self.answers.pop(0) if self.answers else 204
        if status == "hang":
            self.hanging.set()
            self.freed.wait(60)
            return
        if status < 300:
            with self._guard:
                self.got.append((dict(handler.headers), body))
        handler.send_response(status)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    @property
    def bodies(self):
        """What was taken, as it was meant."""
        return [json.loads(body) for _, body in self.got]

    def rows(self):
        return [body["row"] for body in self.bodies]

    def close(self) -> None:
        self.freed.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error) -> None:
        self.close()
