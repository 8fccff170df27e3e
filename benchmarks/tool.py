"""The command: rows per second from a file to a file, beside parsing alone and learning alone.

    python benchmarks/tool.py [--rows N] [--quick]

Eight columns, the papers' detector with its defaults and, in one line, the self-tuning one;
checkpoints once a second; learning alone is that of the command: all threads, single precision.
Rounds in turn, so that a machine that is busy is busy for all. Wall time, start of the process
included (`tool`), and processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np
from common import median

from onkel import NoveltyDetector
from onkel.streams.sources import Reading, open_source

ROWS = 1_000_000
KERNEL = ("--model", "kernel")
LIMITS = {"CSV file to file": 200_000, "JSON lines through a pipe": 60_000}
"""Rows per second, on the reference machine when it is idle."""


def write(folder: Path, rows: int) -> dict[str, Path]:
    """Write the same rows as CSV and as JSON lines."""
    rng = np.random.default_rng(0)
    paths = {"csv": folder / "rows.csv", "jsonl": folder / "rows.jsonl"}
    names = "abcdefgh"
    with open(paths["csv"], "w") as table, open(paths["jsonl"], "w") as objects:
        table.write(",".join(names) + "\n")
        for start in range(0, rows, 10_000):
            X = rng.normal(size=(min(10_000, rows - start), 8)).round(4).tolist()
            table.writelines(",".join(map(repr, row)) + "\n" for row in X)
            objects.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in X)
    return paths


def command(words: list[Any], stdin: Any = None) -> tuple[float, float]:
    """Run the command; return seconds on the wall and of the processor."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    full = [sys.executable, "-m", "onkel.app", *map(str, words)]
    subprocess.run(full, stdin=stdin, check=True, stdout=subprocess.DEVNULL)
    spent, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def timed(job: Callable[[], Any]) -> tuple[float, float]:
    wall, work = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - wall, time.process_time() - work


def learn(X: np.ndarray) -> None:
    model = NoveltyDetector(missing="mean", n_jobs=-1)
    for start in range(0, len(X), 16384):
        model.predict_then_learn(X[start : start + 16384])


def parse(path: Path) -> list[np.ndarray]:
    source = open_source(str(path), Reading())
    found = [block.X for block in source.blocks() if block is not None]
    source.close()
    return found


def anew(folder: Path) -> None:
    shutil.rmtree(folder / "state", ignore_errors=True)
    (folder / "alerts.jsonl").unlink(missing_ok=True)


def to_file(folder: Path, path: Path, *more: Any) -> tuple[float, float]:
    anew(folder)
    return command(
        ["detect", path, "-o", folder / "alerts.jsonl", "--state", folder / "state", "-q", *more]
    )


def through_pipe(folder: Path, path: Path) -> tuple[float, float]:
    anew(folder)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
        words = ["detect", "-", "-o", folder / "alerts.jsonl", "--state", folder / "state", "-q"]
        return command([*words, *KERNEL], cat.stdout)


def measure(rows: int, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Return (wall, processor) rows per second of each job, round by round."""
    folder = Path(tempfile.mkdtemp())
    paths = write(folder, rows)
    X = np.concatenate(parse(paths["csv"])).astype(np.float32)
    jobs: dict[str, Callable[[], tuple[float, float]]] = {
        "parsing CSV alone": lambda: timed(lambda: parse(paths["csv"])),
        "parsing JSON lines alone": lambda: timed(lambda: parse(paths["jsonl"])),
        "learning alone": lambda: timed(lambda: learn(X)),
        "CSV file to file": lambda: to_file(folder, paths["csv"], *KERNEL),
        "CSV, --precision double": lambda: to_file(
            folder, paths["csv"], *KERNEL, "--precision", "double"
        ),
        "CSV, self-tuning": lambda: to_file(folder, paths["csv"]),
        "JSON lines through a pipe": lambda: through_pipe(folder, paths["jsonl"]),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            wall, work = job()
            found[name].append((rows / wall, rows / work))
    shutil.rmtree(folder)
    return found


def table(found: dict[str, list[tuple[float, float]]]) -> list[common.Row]:
    """Return rows per second, and the share of the slower of parsing and learning."""
    middle = {name: [median(r[i] for r in runs) for i in (0, 1)] for name, runs in found.items()}
    rows = []
    for name, (wall, work) in middle.items():
        kind = "CSV" if "CSV" in name else "JSON lines"
        slower = min(middle[f"parsing {kind} alone"][0], middle["learning alone"][0])
        row = {"job": name, "rows/s": round(wall), "rows per s of processor": round(work)}
        if "alone" not in name:
            row |= {"of the slower part": f"{wall / slower:.0%}", "wanted": LIMITS.get(name, "")}
        rows.append(row)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    options = parser.parse_args()
    rows, repeats = (options.rows // 10, 1) if options.quick else (options.rows, 3)
    os.environ.setdefault("PYTHONPATH", str(common.ROOT))
    print(common.table(table(measure(rows, repeats))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
