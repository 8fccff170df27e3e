"""From a fresh process to the first answer, beside `import numpy` alone."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import common
from common import median

LIMITS = {"import onkel": 60, "first answer": 120}
"""Milliseconds beyond `import numpy`."""

CODE = """
import json, sys, time
wall, work, before = time.perf_counter(), time.process_time(), set(sys.modules)
marks = {}
def mark(name):
    marks[name] = [time.perf_counter() - wall, time.process_time() - work]
import numpy
mark("import numpy")
import onkel
mark("import onkel")
rows = [[0.0, 1.0], [1.0, 0.0]]
onkel.KernelClassifier().partial_fit(rows, [0, 1]).predict(rows)
mark("first answer")
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps([marks, sorted(tops - set(sys.stdlib_module_names))]))
"""


def measure(quick: bool) -> dict[str, Any]:
    """Return, for every process, seconds on the wall and of the processor since its start.

    Compiled files are kept in a folder of their own, which the first process fills: an environment
    that forbids them (PYTHONDONTWRITEBYTECODE) would have every process compile onkel again.
    """
    with tempfile.TemporaryDirectory() as cache:
        kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": cache}
        runs = [json.loads(common.fresh("-c", CODE, **kept)) for _ in range(6 if quick else 22)]
    return {"marks": [marks for marks, _ in runs[1:]], "modules": runs[-1][1]}


def tables(report: dict[str, Any]) -> list[tuple[str, list[common.Row]]]:
    """Return milliseconds beyond `import numpy`, which the same process did first."""
    marks = report["marks"]
    rows: list[common.Row] = []
    for name in ("import numpy", *LIMITS):
        base = [0, 0] if name not in LIMITS else None
        ms = [[1e3 * (m[name][i] - (base or m["import numpy"])[i]) for m in marks] for i in (0, 1)]
        row = {"until": name + ("" if base else ", beyond NumPy"), "ms": median(ms[0])}
        row |= {"least ms": min(ms[0]), "ms of the processor": median(ms[1])}
        if name in LIMITS:
            row |= {"limit ms": LIMITS[name], "kept": "yes" if row["ms"] <= LIMITS[name] else "no"}
        rows.append(row)
    loaded = [{"modules loaded, besides Python's own": ", ".join(report["modules"])}]
    return [("start of a fresh process", rows), ("loaded", loaded)]


def figure(report: dict[str, Any], path: Path) -> None:
    """There is nothing to draw."""
