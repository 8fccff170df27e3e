"""A service's state to try things on: two detectors, rows to learn, a copy as a kill leaves it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra serve: pip install onkel[serve]")

from onkel import files
from onkel.app.service.bodies import Entry
from onkel.app.service.engine import Engine


@contextmanager
def two_models(folder: Path) -> Iterator[Engine]:
    """An engine with the models `good` and `bad`, numbers 1 and 2, which have learned 30 rows."""
    engine = Engine(folder, snapshot_seconds=1e6)
    for name in ("good", "bad"):
        make(engine, name)
        learn(engine, name, 1)
    yield engine
    engine.close()


def make(engine: Engine, name: str, op: str = "create", **extra: Any) -> Any:
    entry = Entry(op, 0, name=name, kind="NoveltyDetector", **extra)
    entry.parameters = b"" if op == "import" else b'{"nu": 0.05, "warmup": 20}'
    return engine.change(entry).result(20)


def rows(
    engine: Engine, name: str, seed: int, n: int = 30, key: str = "", first: float | None = None
) -> Entry:
    """Rows to learn; the very first number may be given."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    if first is not None:
        X[0, 0] = first
    id = engine.models.spec(name).id
    return Entry("learn", id, key=key, digest=key.encode(), width=3, numbers=X.tobytes())


def learn(engine: Engine, name: str, seed: int, **extra: Any) -> Any:
    return engine.change(rows(engine, name, seed, **extra)).result(20)


def bits(engine: Engine, name: str) -> bytes:
    return files.dumps(engine.slot(name).estimator)


def crash(engine: Engine, folder: Path) -> Path:
    """A copy of the state as a kill would leave it."""
    return Path(shutil.copytree(engine.state.folder, folder))


def saved(engine: Engine, folder: Path) -> tuple[Path, Path]:
    """A copy of the state after a snapshot, and the file of the model `bad` in it."""
    engine.snapshot()
    folder = crash(engine, folder)
    (path,) = (folder / "models").glob("2-*.model")
    return folder, path
