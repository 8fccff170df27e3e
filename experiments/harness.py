"""What the experiments share: real data, tables, checks against expected numbers, reports.

The data sets are not part of the package. The environment variable ONKEL_DATA names the folder
that holds them; without it the parts that need them are left out, and the script says so.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

REPORTS = Path(__file__).resolve().parent.parent / "reports"


@dataclass(frozen=True)
class Check:
    """A measured number and the range in which it is expected."""

    what: str
    value: float
    low: float = -np.inf
    high: float = np.inf

    @property
    def ok(self) -> bool:
        """Whether the number lies in its range (a NaN does not)."""
        return bool(self.low <= self.value <= self.high)

    def __str__(self) -> str:
        word = "ok" if self.ok else "MISSED"
        return f"{word:7s}{self.what}: {self.value:.5g}, expected {_range(self.low, self.high)}"


def _range(low: float, high: float) -> str:
    if np.isinf(low):
        return f"<= {high:.5g}"
    if np.isinf(high):
        return f">= {low:.5g}"
    return f"{low:.5g} to {high:.5g}"


def data_folder() -> Path | None:
    """Return the folder with the real data; None, said aloud, where there is none."""
    folder = os.environ.get("ONKEL_DATA")
    if not folder:
        print("ONKEL_DATA is not set: the parts on real data are left out.")
        return None
    return Path(folder)


def load(folder: Path, name: str, shuffle: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return X and y of one data set (its training part), if asked in the order of seed 0."""
    with np.load(folder / f"{name}.npz") as arrays:
        part = "_train" if "X_train" in arrays else ""
        X, y = arrays[f"X{part}"], arrays[f"y{part}"]
    if shuffle:
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order], y[order]
    return X, y


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as a compact text table; a key may be missing from some."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[cell(row.get(h)) for h in heads] for row in rows]
    widths = [max(len(h), *(len(c[i]) for c in cells)) for i, h in enumerate(heads)]
    lines = [heads, ["-" * w for w in widths], *cells]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in lines)


def cell(value: Any) -> str:
    """Return a value as tables show it."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def finish(name: str, rows: dict[str, Any], checks: list[Check]) -> int:
    """Print the checks, write reports/NAME.json, return the exit code: 1 after a miss."""
    for check in checks:
        print(check)
    REPORTS.mkdir(exist_ok=True)
    report = {
        "experiment": name,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "checks": [{**asdict(c), "ok": c.ok} for c in checks],
        **rows,
    }
    path = REPORTS / f"{name}.json"
    path.write_text(json.dumps(plain(report), indent=1) + "\n")
    print(f"report: {path.relative_to(REPORTS.parent)}")
    return int(not all(c.ok for c in checks))


def plain(value: Any) -> Any:
    """Turn what JSON does not know into what it does; infinities and NaN become null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
