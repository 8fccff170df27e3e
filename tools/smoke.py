"""A built wheel, tried in seconds where it is installed: ``python smoke.py [compiled|numpy]``.

The word says which core is expected. The library learns, saves and loads; where the command's own
packages are, and locks on files as it needs them, the command runs over a small file.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import onkel
from onkel import files
from onkel.core import BACKEND

COMMAND = ("click", "msgspec", "fcntl")
"""What the command needs; the last is not to be had on Windows."""


def learns() -> None:
    """A classifier that tunes itself learns, is saved, and says the same when it is loaded."""
    X = np.random.default_rng(0).normal(size=(1000, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    model = onkel.Classifier()
    right = model.predict_then_learn(X, y) == y
    assert right[500:].mean() > 0.85, right[500:].mean()
    loaded = files.loads(files.dumps(model))
    assert np.array_equal(loaded.predict_proba(X[:9]), model.predict_proba(X[:9]))


def commands(folder: str) -> None:
    """The command says what it can do, and judges a small file."""
    table = np.random.default_rng(1).normal(size=(500, 3))
    np.savetxt(Path(folder, "rows.csv"), table, delimiter=",", header="a,b,c", comments="")
    for words in (["--help"], ["detect", "rows.csv", "--all", "-o", "alerts.jsonl"]):
        # In that folder, where no source tree stands in for what is installed.
        subprocess.run([sys.executable, "-m", "onkel.app", *words], check=True, cwd=folder)
    assert len(Path(folder, "alerts.jsonl").read_text().splitlines()) == len(table)


def main(expected: str) -> None:
    """Try what is there."""
    assert BACKEND.startswith(expected), f"the core is {BACKEND}, not {expected}"
    learns()
    there = all(importlib.util.find_spec(name) for name in COMMAND)
    if there:
        with tempfile.TemporaryDirectory() as folder:
            commands(folder)
    print(
        f"onkel {onkel.__version__} works: {BACKEND}, {'with' if there else 'without'} the command"
    )


if __name__ == "__main__":
    main(*sys.argv[1:] or ["compiled"])
