"""The service under siege: learners, fuzzers and kills at once, then a look at what is left.

    python experiments/soak.py [--minutes 30] [--folder DIR]

Two services run side by side. To each, three senders give rows to a model of their own and compare
every answer with that of the same estimator in this process; two fuzzers send what the service's
own description allows, nearly; one opens connections that never say what they want. The first
service is killed (``kill -9``) every ten seconds or so and started again on the same state; the
second is left alone, and its memory is looked at every second.

Expected: every answer the same, none but refusals below 500, all models of the senders as they are
here at the end, byte for byte; the second service's memory no more than 10 % above what it was
after a tenth of the time.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / name) for name in (".", "tests")]

from helpers.fuzzing import Requests  # noqa: E402
from helpers.serving import Client, Process  # noqa: E402

from onkel import Classifier, Detector, NoveltyDetector, files  # noqa: E402

ROWS, GROWTH = 40, 1.1
OPTIONS = ("--snapshot-bytes", "300000", "--snapshot-seconds", "2", "--models", "12",
           "--model-bytes", str(2**21), "--seconds", "10")  # fmt: skip
MODELS = {"novel": NoveltyDetector, "detect": Detector, "classify": Classifier}
LOST = (OSError, http.client.HTTPException)


class Siege:
    """One service, those who use it, and what they saw."""

    def __init__(self, state: Path, seed: int) -> None:
        self.state, self.seed = state, seed
        self.process = Process(state, *OPTIONS)
        self.over = threading.Event()
        self.kills = 0
        self.seen: dict[str, int] = {}
        self.problems: list[str] = []
        self.twins = {name: kind() for name, kind in MODELS.items()}
        for name, kind in MODELS.items():
            self.client().ok("POST", "/models", {"name": name, "kind": kind.__name__})
        jobs = [lambda n=name: self.learn(n) for name in MODELS]
        jobs += [lambda i=i: self.fuzz(i) for i in range(2)] + [self.loiter]
        self.threads = [threading.Thread(target=self.watched, args=(job,)) for job in jobs]

    def client(self) -> Client:
        """Return a new connection to the service of the moment."""
        return Client(self.process.url)

    def watched(self, job: Any) -> None:
        """Run a job; what it trips over is kept."""
        try:
            job()
        except BaseException as problem:
            self.problems.append(f"{type(problem).__name__}: {str(problem)[:500]}")
            self.over.set()

    def count(self, what: str) -> None:
        """Count something that was seen."""
        self.seen[what] = self.seen.get(what, 0) + 1

    # -- those who use it ------------------------------------------------------------------------

    def learn(self, name: str) -> None:
        """Send batches, each until it is acknowledged; the twin here must answer the same."""
        rng, twin, number = np.random.default_rng([self.seed, len(name)]), self.twins[name], 0
        while not self.over.is_set():
            X, number = rng.normal(size=(ROWS, 3)), number + 1
            y = np.where(X[:, 0] * X[:, 1] > 0, "a", "b").tolist() if name == "classify" else None
            body = {"X": X.tolist(), **({"y": y} if y else {})}
            told = self.until_heard(name, body, f"{name}-{number}")
            own = twin.predict_then_learn(X, y) if y else twin.predict_then_learn(X)
            assert told == own.tolist(), f"{name}: another answer to batch {number}"
            self.count("batches")

    def until_heard(self, name: str, body: dict[str, Any], key: str) -> Any:
        """Send one batch until an answer comes."""
        while True:
            try:
                path = f"/models/{name}/predict-then-learn"
                status, _, data = self.client().send("POST", path, body, {"Idempotency-Key": key})
            except LOST:
                self.count("sent again")
                time.sleep(0.05)
                continue
            if status != 503:  # too much to do: to be sent again, it says so itself
                assert status == 200, (status, data[:300])
                return json.loads(data)["values"]
            time.sleep(0.05)

    def fuzz(self, number: int) -> None:
        """Send what the description allows, nearly, to any model but the senders'."""
        rng = np.random.default_rng([self.seed, number])
        requests = Requests(self.client().ok("GET", "/openapi.json"), rng)
        while not self.over.is_set():
            method, path, body, headers = requests.next()
            try:
                status, _, data = self.client().send(method, path, body, headers)
            except LOST:
                time.sleep(0.02)
                continue
            self.count(f"{status // 100}xx" if status != 503 else "503")
            assert status < 500 or status == 503, (method, path, body, headers, data[:300])

    def loiter(self) -> None:
        """Open connections that say half of what they want, or far too much."""
        held: list[socket.socket] = []
        while not self.over.is_set():
            host, _, port = self.process.url.removeprefix("http://").rpartition(":")
            try:
                one = socket.create_connection((host, int(port)), timeout=5)
                one.sendall(b"GET /health HTTP/1.1\r\nX-Long: " + b"x" * random.choice([5, 10**5]))
                held.append(one)
            except OSError:
                self.count("turned away")
            if len(held) > 30:
                held.pop(0).close()
            time.sleep(0.1)
        for one in held:
            one.close()

    # -- what happens to it ----------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the service and start it again."""
        self.process.kill()
        self.process = Process(self.state, *OPTIONS)
        self.kills += 1

    def resident_mb(self) -> float:
        """Return the memory of the service's process."""
        text = Path(f"/proc/{self.process.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) / 1024

    def end(self) -> None:
        """Let all stop; the models must be what they are here, before and after a last kill."""
        self.over.set()
        for thread in self.threads:
            thread.join()
        for _ in range(2):
            for name, twin in self.twins.items():
                if self.client().send("GET", f"/models/{name}/file")[2] != files.dumps(twin):
                    self.problems.append(f"{name}: another model than here")
            self.kill()
        health = self.client().ok("GET", "/health")
        if health["status"] != "ok":
            self.problems.append(f"health: {health}")
        if self.process.stop() != 0:
            self.problems.append("it did not end as asked to")


def main() -> int:
    """Run the siege; return 0 if all held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    killed, alone = (Siege(folder / name, i) for i, name in enumerate(("killed", "alone")))
    for thread in [*killed.threads, *alone.threads]:
        thread.start()
    memory = watch(killed, alone, 60 * options.minutes)
    for one in (killed, alone):
        one.end()
        print(f"{one.state.name}: {one.kills} kills, {dict(sorted(one.seen.items()))}")
        print("\n".join(one.problems) or "every answer and every model the same")
    early, late = (np.median(memory[int(a * len(memory)) : int(b * len(memory)) + 1])
                   for a, b in ((0.1, 0.2), (0.9, 1.0)))  # fmt: skip
    print(f"memory of the second: {early:.0f} MB after a tenth, {late:.0f} MB at the end, "
          f"{max(memory):.0f} MB at most")  # fmt: skip
    return 0 if late < GROWTH * early and not (killed.problems or alone.problems) else 1


def watch(killed: Siege, alone: Siege, seconds: float) -> list[float]:
    """Kill the one, look at the other's memory every second, until the time is over."""
    memory, begun, chance = [], time.monotonic(), random.Random(0)
    next_kill = begun + 10
    while (now := time.monotonic()) < begun + seconds:
        memory.append(alone.resident_mb())
        if now > next_kill:
            killed.kill()
            next_kill = now + chance.uniform(2, 18)
        if len(memory) % 60 == 0:
            print(f"{(now - begun) / 60:.0f} min, {killed.kills} kills, {memory[-1]:.0f} MB, "
                  f"{killed.seen.get('batches', 0)} and {alone.seen.get('batches', 0)} batches",
                  flush=True)  # fmt: skip
        if killed.over.is_set() or alone.over.is_set():
            break
        time.sleep(1)
    return memory


if __name__ == "__main__":
    sys.exit(main())
