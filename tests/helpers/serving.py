"""A service to test: in this process or in one of its own, and a client of the standard library."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

for needed in ("starlette", "uvicorn", "httptools", "msgspec"):
    pytest.importorskip(needed, reason="needs the extra serve: pip install onkel[serve]")

ROOT = Path(__file__).resolve().parents[2]
JSON = {"Content-Type": "application/json"}


class Client:
    """One kept connection; a new one if it was lost."""

    def __init__(self, url: str, **headers: str) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self.address = host.strip("[]"), int(port)
        self.headers = headers
        self.connection = http.client.HTTPConnection(*self.address, timeout=60)

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the answer; lists and dicts are sent as JSON."""
        told = {**self.headers, **(headers or {})}
        if isinstance(body, (dict, list)):
            body, told = json.dumps(body).encode(), {**JSON, **told}
        try:
            self.connection.request(method, path, body, told)
            answer = self.connection.getresponse()
            found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        except BaseException:
            self.connection.close()
            raise
        return found

    def ok(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the JSON of an answer that must be a good one."""
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        status, _, data = self.send(method, path, body, named)
        assert status in (200, 201), (status, data[:500])
        return json.loads(data)

    def refused(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return status and error of an answer that must be a refusal in the one shape."""
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        status, told, data = self.send(method, path, body, named)
        assert 400 <= status < 500, (status, data[:500])
        assert told["content-type"] == "application/json"
        error = json.loads(data)["error"]
        assert isinstance(error["code"], str) and isinstance(error["message"], str)
        assert error["field"] is None or isinstance(error["field"], str)
        return status, error


@contextmanager
def served(
    state: Path,
    token: str | None = None,
    delivery: Any = None,
    archive: Any = None,
    **options: Any,
) -> Iterator[Any]:
    """A service in a thread; its ``url``, ``engine`` and ``client`` are there."""
    from onkel.app.service.engine import Engine
    from onkel.app.service.limits import Limits
    from onkel.app.service.serve import server_of

    engine = Engine(state, Limits(**options), delivery=delivery, archive=archive)
    service = server_of(engine, "127.0.0.1", 0, token)
    ready = threading.Event()
    thread = threading.Thread(target=service.run, args=(lambda url: ready.set(),))
    thread.start()
    try:
        assert ready.wait(20)
        service.engine = engine
        service.client = Client(
            service.url, **({"Authorization": f"Bearer {token}"} if token else {})
        )
        yield service
    finally:
        service.stop()
        thread.join()
        engine.close()


NAMES = ["pressure", "flow", "heat"]


def examples(seed: int = 0, rows: int = 60) -> tuple[Any, Any, Any]:
    """Rows of three numbers, a number to predict and a label."""
    X = np.random.default_rng(seed).normal(size=(rows, 3))
    return X, X.sum(axis=1), np.where(X[:, 0] > 0, "up", "down")


@contextmanager
def with_models(state: Path) -> Iterator[Any]:
    """A service with a detector, a regressor and a classifier, and small limits."""
    parameters = {
        "det": ("NoveltyDetector", {}, NAMES),
        "reg": ("KernelRegressor", {"loss": {"name": "huber", "nu": 0.1}}, None),
        "clf": ("KernelClassifier", {"loss": "logistic"}, None),
    }
    with served(state, seconds=2.0, rows=500, body_bytes=300_000) as one:
        for name, (kind, given, features) in parameters.items():
            body = {"name": name, "kind": kind, "parameters": given, "features": features}
            one.client.ok("POST", "/models", body)
        yield one


class Process:
    """A service in a process of its own, that can be killed."""

    def __init__(self, state: Path, *options: str) -> None:
        command = [sys.executable, "-m", "onkel.app", "serve", "--state", str(state), "--port", "0"]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("onkel: http"), (line, self.process.communicate(timeout=20))
        self.url = line.split()[-1]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> int:
        """End it as a person would; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        return self.process.returncode
