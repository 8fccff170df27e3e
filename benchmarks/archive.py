"""Replay in the service: a month of seconds from its archive, with two settings.

    python benchmarks/archive.py [--rows N] [--columns D ...] [--batch B ...]

2 592 000 rows unless told, so many of them in a request; the model's own settings and one other.
What is timed is what a request for a replay does, counting the rows included; HTTP and the learning
before it are not. Processor seconds, because other work may share the cores, wall time, and by how
much memory grew.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from onkel import Detector
from onkel.app.service import kept, lookback
from onkel.app.service.archive import Keep
from onkel.app.service.bodies import Entry, Recall
from onkel.app.service.engine import Engine

SECONDS = 30 * 86_400


def filled(folder: Path, rows: int, columns: int, batch: int) -> Engine:
    """Return a service whose model has learned: readings that drift a little, and some faults."""
    engine = Engine(folder, archive=Keep.of("30d"))
    engine.change(Entry("create", 0, name="d", kind="Detector"), Detector()).result()
    X = np.random.default_rng(0).normal(size=(rows, columns))
    X += np.sin(np.arange(rows) / 43_200 * np.pi)[:, None]
    for start in range(50_000, rows, 250_000):
        X[start : start + 30] += 6
    model = engine.slot("d").spec.id
    parts = (X[i : i + batch].tobytes() for i in range(0, rows, batch))
    entries = (Entry("learn", model, width=columns, numbers=part) for part in parts)
    while some := [engine.change(entry) for entry in itertools.islice(entries, 200)]:
        for future in some:
            future.result()
    engine.snapshot()
    return engine


def measured(engine: Engine) -> str:
    """Replay; return what it took."""
    slot, archive = engine.slot("d"), engine.state.archive
    asked = lookback.Lookback(slot, Recall(settings=[{"nu": 0.001}]), engine.limits, archive)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent, begun = time.process_time(), time.perf_counter()
    found = asked.run(kept.standing(slot), lambda: False)
    wall, spent = time.perf_counter() - begun, time.process_time() - spent
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    alerts = [one["alerts"] for one in found["settings"]]
    return (
        f"{found['rows']:,} rows, {archive.bytes / 1e6:.0f} MB: {spent:.1f} processor seconds, "
        f"{wall:.1f} on the wall, {memory / 1000:.0f} MB more memory; alerts {alerts}"
    )


def main() -> None:
    """Print a line for each shape of request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=SECONDS)
    parser.add_argument("--columns", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--batch", type=int, nargs="+", default=[100, 1])
    given = parser.parse_args()
    for columns, batch in itertools.product(given.columns, given.batch):
        with tempfile.TemporaryDirectory() as folder:
            engine = filled(Path(folder) / "s", given.rows, columns, batch)
            try:
                print(f"{columns} columns, {batch} in a request: {measured(engine)}", flush=True)
            finally:
                engine.close()


if __name__ == "__main__":
    main()
