"""What the tests of the command share: rows in files, and the command itself."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from helpers.sizes import LONG

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["a", "b", "c"]


def write_rows(path: Path, X: np.ndarray, **more: Any) -> Path:
    """Write numbers, and more columns, as CSV."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*NAMES[: X.shape[1]], *more])
        for i, row in enumerate(X.tolist()):
            writer.writerow([*map(repr, row), *(column[i] for column in more.values())])
    return path


def environment(**more: str) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": paths, **more}


def command(*words: Any, dies: str = "", **how: Any) -> Any:
    """Run the command in a process of its own; `dies`: at a moment that helpers.dying knows."""
    module = ["helpers.dying", dies] if dies else ["onkel.app"]
    full = [sys.executable, "-W", "ignore", "-m", *module, *map(str, words)]
    how = {"timeout": 120, "env": environment(), **how}
    return subprocess.run(full, capture_output=True, text=True, **how)


def begin(*words: Any, env: dict[str, str] | None = None, **how: Any) -> subprocess.Popen[bytes]:
    """Start the command in a process of its own."""
    full = [sys.executable, "-W", "ignore", "-m", "onkel.app", *map(str, words)]
    return subprocess.Popen(full, env=env or environment(), **how)


def onkel(*words: Any) -> Any:
    """Run the command in this process."""
    from click.testing import CliRunner

    from onkel.app.cli import main

    return CliRunner().invoke(main, [str(w) for w in words])


def carry_out(*words: Any) -> Any:
    """Run the command as `command` does in a long run, in this process in a quick one."""
    if LONG:
        return command(*words)
    done = onkel(*words)
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
