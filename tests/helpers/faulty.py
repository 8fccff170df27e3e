"""A process that learns and fails at random, to be killed: ``python faulty.py FOLDER [check]``.

Four senders, two models. Every fifth batch fails half of the times, after it was learned; every
seventh is refused. What was answered goes to a file, and a sender goes on behind its last answer,
with the same key. ``check`` compares the models with a library run over what was acknowledged.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from onkel import NoveltyDetector, files
from onkel.app.http.problems import Problem
from onkel.app.service.bodies import Entry
from onkel.app.service.engine import Engine

SENDERS, MODELS = 4, ("a", "b")
ERRORS = (IndexError, MemoryError, RecursionError, ValueError)
FIRST = threading.local()
Answers = dict[tuple[int, int], int]


def rows(sender: int, number: int) -> Any:
    X = np.random.default_rng([sender, number]).normal(size=(20, 3))
    if number % 5 == 2:
        X[0, 0] = 777.0
    return np.zeros((5, 4)) if number % 7 == 3 else X


def lit(engine: Engine) -> None:
    """Let learning fail at random the first time that a record is applied, never at a replay."""
    own, apply = NoveltyDetector.predict_then_learn, engine._apply

    def failing(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        found = own(self, X, *args, **kwargs)
        if getattr(FIRST, "now", False) and np.asarray(X)[0, 0] == 777.0 and random.random() < 0.5:
            raise random.choice(ERRORS)("no such place")
        return found

    def first(*args: Any) -> Any:
        FIRST.now = True
        try:
            return apply(*args)
        finally:
            FIRST.now = False

    NoveltyDetector.predict_then_learn = failing  # type: ignore[method-assign]
    engine._apply = first  # type: ignore[method-assign]


def answered(folder: Path) -> Answers:
    """What was answered: sender and number, and the position or -1 for a refusal."""
    lines = [json.loads(line) for line in (folder / "answers").read_text().splitlines()]
    return {(sender, number): position for sender, number, position in lines}


def following(known: Answers, sender: int) -> int:
    return max([n for s, n in known if s == sender], default=-1) + 1


def send(engine: Engine, sender: int, number: int, file: int) -> None:
    """Send batches for ever; note what was answered to each."""
    while True:
        X, key = rows(sender, number), f"{sender}-{number}"
        entry = Entry("learn", sender % 2 + 1, key=key, digest=key.encode(), width=X.shape[1])
        entry.numbers = X.tobytes()
        try:
            position = engine.change(entry).result().position
        except Problem as problem:
            if problem.code not in ("fault", "refused"):
                print(f"unexpected: {problem.message}", flush=True)
                os._exit(4)
            position = -1
        os.write(file, f"[{sender}, {number}, {position}]\n".encode())
        number += 1


def check(engine: Engine, known: Answers) -> None:
    for sender in range(SENDERS):  # what was on its way, and is there now
        number = following(known, sender)
        found = engine.keys.get(f"{sender}-{number}")
        known[sender, number] = found.position if found else -1
    for model in (1, 2):
        fresh = NoveltyDetector()
        done = sorted((p, s, n) for (s, n), p in known.items() if p > 0 and s % 2 + 1 == model)
        for _, sender, number in done:
            fresh.partial_fit(rows(sender, number))
        assert len({position for position, _, _ in done}) == len(done) > 0
        assert files.dumps(engine.models.slots[model].estimator) == files.dumps(fresh)


def main(folder: Path, what: str = "") -> None:
    (folder / "answers").touch()
    known = answered(folder)
    engine = Engine(folder / "state", snapshot_bytes=30_000, snapshot_seconds=1.0)
    assert engine.troubles() == []
    if what == "check":
        check(engine, known)
        engine.close()
        print("same", flush=True)
        return
    for name in MODELS:
        if name not in engine.models:
            engine.change(Entry("create", 0, name=name, kind="NoveltyDetector")).result()
    lit(engine)
    file = os.open(folder / "answers", os.O_WRONLY | os.O_APPEND)
    for sender in range(SENDERS):
        args = (engine, sender, following(known, sender), file)
        threading.Thread(target=send, args=args, daemon=True).start()
    print("up", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
