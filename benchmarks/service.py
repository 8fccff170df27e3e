"""The service's throughput: ``python benchmarks/service.py [--seconds 10]``.

A detector at its defaults, 8 columns, batches of 100 from two clients (processes of their own),
each batch acknowledged when it is on the disk; a third client sends single predictions meanwhile
and notes how long each takes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
ROWS, COLUMNS, CLIENTS = 100, 8, 2
JSON = {"Content-Type": "application/json"}


def bodies(seed: int, count: int = 200) -> list[bytes]:
    """Batches ready to send: the clients' own work is not what is measured."""
    rng = np.random.default_rng(seed)
    blocks = rng.normal(size=(count, ROWS, COLUMNS)).round(6)
    return [json.dumps({"X": block.tolist()}).encode() for block in blocks]


def call(connection: http.client.HTTPConnection, path: str, body: bytes) -> bytes:
    connection.request("POST", path, body, JSON)
    answer = connection.getresponse()
    data = answer.read()
    if answer.status not in (200, 201):
        raise RuntimeError(f"{path}: {answer.status} {data[:300]!r}")
    return data


def learn(port: int, seed: int, until: float, found: Any) -> None:
    """Send batches, one after the other; note how many, and how long each took."""
    ready, times = bodies(seed), []
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while time.time() < until:
        began = time.perf_counter()
        call(connection, "/models/bench/predict-then-learn", ready[len(times) % len(ready)])
        times.append(time.perf_counter() - began)
    found.put(("learn", times))


def ask(port: int, until: float, pause: float, found: Any) -> None:
    """Send single predictions, about 1/pause a second."""
    one = json.dumps({"X": [[0.1] * COLUMNS]}).encode()
    connection, times = http.client.HTTPConnection("127.0.0.1", port), []
    while time.time() < until:
        began = time.perf_counter()
        call(connection, "/models/bench/predict", one)
        times.append(time.perf_counter() - began)
        time.sleep(pause)
    found.put(("ask", times))


def measure(seconds: float, pause: float) -> dict[str, float]:
    """Return examples per second, and percentiles in milliseconds."""
    with tempfile.TemporaryDirectory() as state:
        command = [sys.executable, "-m", "onkel.app", "serve", "--state", state, "--port", "0"]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().rpartition(":")[2])
            return _measure(port, seconds, pause)
        finally:
            server.terminate()
            server.wait()


def _measure(port: int, seconds: float, pause: float) -> dict[str, float]:
    first = http.client.HTTPConnection("127.0.0.1", port)
    call(first, "/models", json.dumps({"name": "bench", "kind": "NoveltyDetector"}).encode())
    call(first, "/models/bench/learn", bodies(99, 1)[0])
    found: Any = multiprocessing.Queue()
    until = time.time() + seconds + 0.5
    jobs = [(learn, (port, i, until, found)) for i in range(CLIENTS)]
    workers = [
        multiprocessing.Process(target=job, args=given)
        for job, given in [*jobs, (ask, (port, until, pause, found))]
    ]
    began = time.time()
    for worker in workers:
        worker.start()
    answers = [found.get() for _ in workers]
    took = time.time() - began
    for worker in workers:
        worker.join()
    learned = np.concatenate([times for kind, times in answers if kind == "learn"])
    asked = np.concatenate([times for kind, times in answers if kind == "ask"])
    return {
        "examples per second": ROWS * len(learned) / took,
        "batch p50 ms": 1e3 * float(np.quantile(learned, 0.5)),
        "batch p99 ms": 1e3 * float(np.quantile(learned, 0.99)),
        "single predictions per second": len(asked) / took,
        "prediction p50 ms": 1e3 * float(np.quantile(asked, 0.5)),
        "prediction p99 ms": 1e3 * float(np.quantile(asked, 0.99)),
        "prediction max ms": 1e3 * float(asked.max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=0.01, help="between single predictions")
    options = parser.parse_args()
    for name, value in measure(options.seconds, options.pause).items():
        print(f"{name:32} {value:12,.2f}")


if __name__ == "__main__":
    main()
