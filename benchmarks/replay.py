"""Replay: a month of seconds with two settings, from a CSV and from a Parquet file.

    python benchmarks/replay.py [--rows N] [--columns D ...] [--quick]

30 days of seconds, 2 592 000 rows with their times; the run's own settings and one other, side by
side, as the command does it: the start of the process, the checksum of the whole file and the
comparison included. Wall time and processor time. The run whose state is replayed is not counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 30 * 86_400
LIMIT = 60.0
"""Seconds, on two cores."""


def write(folder: Path, rows: int, columns: int) -> dict[str, Path]:
    """Write the same rows as CSV and as Parquet: readings that drift a little, and some faults."""
    import pyarrow
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns)) + np.sin(np.arange(rows) / 43_200 * np.pi)[:, None]
    for start in range(50_000, rows, 250_000):
        X[start : start + 30] += 6
    when = np.datetime64("2026-09-01T00:00:00") + np.arange(rows)
    named = {"at": pyarrow.array(when)} | {f"x{j}": X[:, j].round(4) for j in range(columns)}
    table = pyarrow.table(named)
    paths = {"csv": folder / "rows.csv", "parquet": folder / "rows.parquet"}
    csv.write_csv(table, paths["csv"])
    parquet.write_table(table, paths["parquet"])
    return paths


def command(*words: Any) -> tuple[float, float, str]:
    """Run the command; return seconds on the wall and of the processor, and what it said."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    full = [sys.executable, "-m", "onkel.app", *map(str, words)]
    said = subprocess.run(full, check=True, stdout=subprocess.PIPE, text=True).stdout
    spent, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, said


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=SECONDS)
    parser.add_argument("--columns", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--quick", action="store_true", help="A twentieth of the rows.")
    given = parser.parse_args()
    rows = given.rows // 20 if given.quick else given.rows
    print(f"{rows:,} rows, two settings, {os.cpu_count()} cores; at most {LIMIT:.0f} s wanted")
    print(f"{'file':>10} {'columns':>8} {'wall s':>8} {'processor s':>12} {'rows/s':>10}")
    for columns in given.columns:
        with tempfile.TemporaryDirectory() as folder:
            for kind, path in write(Path(folder), rows, columns).items():
                state, out = Path(folder) / f"state-{kind}", Path(folder) / f"{kind}.jsonl"
                command("detect", path, "--time", "at", "--state", state, "-o", out, "-q")
                wall, work, said = command("replay", state, "--nu", "0.001", "--since", "30d")
                assert "the run's alerts came out again" in said, said
                print(f"{kind:>10} {columns:>8} {wall:8.1f} {work:12.1f} {rows / wall:10,.0f}")


if __name__ == "__main__":
    main()
