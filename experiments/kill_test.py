"""One hundred kills over a run of a million rows: the outputs must equal those of an uncut run.

    python experiments/kill_test.py [--rows N] [--kills N] [--folder DIR]

Kills are spread over the run. Three of four come at a random moment from outside (``kill -9``); the
fourth is the process's own death at a chosen one: half of an output or of a model file written,
just before or after the transaction, old files half removed. Expected: ``identical``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.append(str(TESTS))
from helpers.dying import POINTS  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    source = write_rows(folder / "rows.csv", options.rows)
    begun = time.perf_counter()
    uncut = start(source, folder / "uncut")
    assert uncut.wait() == 0
    print(f"uncut: {options.rows / (time.perf_counter() - begun):,.0f} rows/s", flush=True)
    counts = kill_and_go_on(source, folder / "cut", options.rows, options.kills)
    same = results(folder / "uncut") == results(folder / "cut")
    print(f"{sum(counts.values())} kills: {counts}")
    sizes = [len(data) for data in results(folder / "cut")]
    print(f"output {sizes[0]:,} bytes, broken rows {sizes[1]:,} bytes:", end=" ")
    print("identical" if same else "DIFFERENT")
    return 0 if same else 1


def write_rows(path: Path, rows: int) -> Path:
    """Write eight columns that drift, with a broken row now and then."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write("a,b,c,d,e,f,g,h\n")
        for start_row in range(0, rows, 10_000):
            X = rng.normal(size=(min(10_000, rows - start_row), 8)) + 2 * start_row / rows
            lines = [",".join(f"{v:.6g}" for v in row) for row in X.tolist()]
            lines[77 % len(lines)] = "this,is,broken"
            file.write("\n".join(lines) + "\n")
    return path


def start(source: Path, folder: Path, fault: str = "") -> subprocess.Popen[bytes]:
    """Start the command, or let it go on."""
    folder.mkdir(exist_ok=True)
    words = ["detect", source, "--state", folder / "state", "-o", folder / "alerts.jsonl"]
    words += ["--every", "0.05", "--window", "2000", "--block", "4096"]
    module = ["helpers.dying", fault] if fault else ["onkel.app"]
    full = [sys.executable, "-m", *module, *map(str, words)]
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(full, env={**os.environ, "PYTHONPATH": paths})


def kill_and_go_on(source: Path, folder: Path, rows: int, kills: int) -> dict[str, int]:
    """Kill so many times, spread over the run, then let it finish."""
    chance = random.Random(0)
    counts: dict[str, int] = {}
    for k in range(kills):
        goal = (k + chance.random()) / (kills + 1) * rows
        point = chance.choice(POINTS) if k % 4 == 1 else ""
        process = start(source, folder, f"{point}:{chance.randint(1, 3)}" if point else "")
        while process.poll() is None and (point or done(folder) < goal):
            time.sleep(0.002)
        if not point:
            time.sleep(chance.uniform(0.0, 0.05))
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it was finished too soon"
        name = point or "random"
        counts[name] = counts.get(name, 0) + 1
    assert start(source, folder).wait() == 0
    return counts


def done(folder: Path) -> int:
    """Return the rows that were committed."""
    try:
        path = folder / "state" / "state.sqlite"
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)
        row = db.execute("SELECT data FROM checkpoints ORDER BY generation DESC").fetchone()
        db.close()
    except sqlite3.Error:
        return 0
    return int(json.loads(row[0])["counters"]["rows"]) if row else 0


def results(folder: Path) -> list[bytes]:
    paths = [folder / "alerts.jsonl", folder / "state" / "dead_letters.jsonl"]
    return [path.read_bytes() for path in paths]


if __name__ == "__main__":
    sys.exit(main())
