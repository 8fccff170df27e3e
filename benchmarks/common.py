"""What the sections share: rounds of jobs in turn, fresh processes, tables, reports, figures.

A section is a module with three functions. ``measure(quick)`` returns a report that JSON can hold,
``tables(report)`` turns it into titled rows, ``figure(report, path)`` draws it. Tables and figures
are made from the report alone, so that they can be made again without a run.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads
os.environ["MKL_NUM_THREADS"] = "1"

import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
REPORTS = ROOT / "reports"

Row = dict[str, Any]
Job = Callable[[], float]

clock = time.process_time
"""Seconds of the processor, all threads: others at work on the machine do not count."""


# -- measuring ---------------------------------------------------------------------------------


def rounds(jobs: dict[str, Job], repeats: int) -> dict[str, list[float]]:
    """Run the jobs in turn, several times, and return what each gave, round by round."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            found[name].append(job())
    return found


def medians(jobs: dict[str, Job], repeats: int) -> dict[str, float]:
    """Run the jobs in turn, several times, and return the median of each."""
    return {name: median(values) for name, values in rounds(jobs, repeats).items()}


def median(values: Iterable[float]) -> float:
    """Return the median as a plain number."""
    return float(np.median(list(values)))


def ratio(over: list[float], under: list[float]) -> float:
    """Return the median of the ratios of each round."""
    return median(a / b for a, b in zip(over, under, strict=True))


def fresh(*args: str, **environment: str) -> str:
    """Run Python on these arguments in a fresh process and return what it prints."""
    path = os.pathsep.join([str(ROOT), str(HERE), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, **environment}
    command = [sys.executable, *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


# -- tables ------------------------------------------------------------------------------------


def cell(value: Any) -> str:
    """Return a number to three digits, nothing for None or NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if type(value) is int and value >= 1000 else str(value)


def columns(rows: list[Row]) -> list[str]:
    """Return the keys of all rows, in order."""
    return list(dict.fromkeys(key for row in rows for key in row))


def table(rows: list[Row]) -> str:
    """Return rows as a compact text table; columns of numbers to the right."""
    keys = columns(rows)
    lines = [keys, *([cell(row.get(key)) for key in keys] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(keys))]
    words = [any(isinstance(row.get(key), str) for row in rows) for key in keys]
    return "\n".join(
        "  ".join(
            c.ljust(w) if text else c.rjust(w)
            for c, w, text in zip(line, widths, words, strict=True)
        ).rstrip()
        for line in lines
    )


def markdown(rows: list[Row]) -> str:
    """Return rows as a Markdown table; columns of numbers to the right."""
    keys = columns(rows)
    cells = [[cell(row.get(key)).replace("|", "\\|") for key in keys] for row in rows]
    sides = ["---" if any(isinstance(r.get(key), str) for r in rows) else "---:" for key in keys]
    return "\n".join("| " + " | ".join(line) + " |" for line in [keys, sides, *cells])


# -- reports -----------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Return what the numbers depend on, without naming the machine."""
    from onkel import core

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    chip = names[0] if names else platform.machine()
    return {"core": core.BACKEND, **versions, "processor": chip, "cores": os.cpu_count()}


def plain(value: Any) -> Any:
    """Return the same without what JSON does not know."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def save(name: str, report: dict[str, Any]) -> None:
    """Write reports/NAME.json."""
    REPORTS.mkdir(exist_ok=True)
    whole = plain({"machine": machine(), **report})
    (REPORTS / f"{name}.json").write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n")
    print(f"report: reports/{name}.json")


def load(name: str) -> dict[str, Any] | None:
    """Return reports/NAME.json, or None where it is not there."""
    path = REPORTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


# -- figures -----------------------------------------------------------------------------------

INK, SOFT, ACCENT, ALARM = "#22303c", "#9fb3c1", "#2a6f97", "#d1495b"


def canvas(panels: int, across: int, size: tuple[float, float]) -> tuple[Any, list[Any]] | None:
    """Return a figure and its panels, or None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("no figure: matplotlib is not installed")
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 8, "axes.titlesize": 9, "axes.titlelocation": "left"})
    down = -(-panels // across)
    fig, grid = plt.subplots(down, across, figsize=size, layout="constrained", squeeze=False)
    axes = list(grid.flat)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[panels:]:
        axis.set_axis_off()
    return fig, axes


def readable(side: Any) -> None:
    """Mark a logarithmic axis at 1, 2, 5, 10 and so on, in plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    side.set_major_locator(LogLocator(subs=(1, 2, 5)))
    side.set_major_formatter(StrMethodFormatter("{x:g}"))
    side.set_minor_formatter(NullFormatter())


def keep(fig: Any, path: Path) -> None:
    """Write a figure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=120)
    print(f"figure: {path.relative_to(ROOT)}")
