"""Make the figure of the command-line guide: ``python docs/figures/command.py``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from make import ACCENT, ALARM, INK, SOFT, drifting_cloud, save


def command_line() -> None:
    """What the command wrote; and how far a run had come that was killed again and again."""
    folder = Path(tempfile.mkdtemp())
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    written(left, folder)
    killed(right, folder)
    save(figure, "command_line.png")


def onkel(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "onkel.app", *map(str, words)])


def table(path: Path, X: np.ndarray) -> Path:
    names = ",".join(f"x{j}" for j in range(X.shape[1]))
    np.savetxt(path, X, delimiter=",", header=names, comments="", fmt="%.6g")
    return path


def written(ax: plt.Axes, folder: Path) -> None:
    X, _ = drifting_cloud()
    out = folder / "all.jsonl"
    onkel("detect", table(folder / "rows.csv", X), "--nu", 0.02, "--all", "-o", out, "-q").wait()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    p, limit, alert = (np.array([r[n] for r in rows]) for n in ("p", "threshold", "alert"))
    p = np.maximum(p, 1e-9)
    ax.semilogy(p, ".", ms=1, color=SOFT, label="p")
    ax.semilogy(np.exp(limit), color=INK, lw=0.8, label="level")
    at = np.flatnonzero(alert)
    ax.semilogy(at, p[at], ".", ms=3, color=ALARM, label="alert")
    ax.set(title="onkel detect rows.csv --nu 0.02 --all", xlabel="row", ylabel="p")
    ax.legend(loc="lower right", markerscale=2)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def killed(ax: plt.Axes, folder: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200_000, 4))
    source = table(folder / "long.csv", X)
    words = ["detect", source, "--nu", 0.02, "--window", 3000, "--every", 0.05, "-q", "-o"]
    onkel(*words, folder / "uncut.jsonl").wait()
    out, begun, times, sizes = folder / "cut.jsonl", time.monotonic(), [], []
    for k in range(6):
        process = onkel(*words, out, "--state", folder / "state")
        goal = (k + 1) / 6 * (folder / "uncut.jsonl").stat().st_size
        while process.poll() is None and (k == 5 or size(out) < goal):
            times.append(time.monotonic() - begun)
            sizes.append(size(out) / 1e3)
            time.sleep(0.01)
        if k < 5:
            process.kill()
            ax.axvline(time.monotonic() - begun, color=ALARM, lw=0.8, ls=":")
        process.wait()
    same = out.read_bytes() == (folder / "uncut.jsonl").read_bytes()
    assert same, "the run that was killed wrote something else"
    ax.plot(times, sizes, color=ACCENT)
    ax.set(title="killed five times; in the end identical", xlabel="seconds", ylabel="output, kB")


if __name__ == "__main__":
    command_line()
