"""The benchmarks: seeded, offline, frozen workloads. Called by ``make bench``.

Writes reports/benchmarks.json, and reports/benchmarks.png where matplotlib is installed. See
README.md beside this file for what each line means. Takes less than two minutes.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onkel import KernelRegressor, core
from onkel.expansions import Window
from onkel.rules import Norma

REPORTS = Path(__file__).resolve().parent.parent / "reports"
TERMS = 1000
RATE = 0.1
ROWS = {2: 20_000, 16: 20_000, 256: 5_000}
"""Timed rows for each number of features."""
WIDTHS = tuple(ROWS)
DTYPES = ("float32", "float64")


def stream(d: int, dtype: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a seeded regression stream."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(rows, d)).astype(dtype)
    return X, np.sin(X.sum(axis=1, dtype=float) / np.sqrt(d)) + 0.1 * rng.normal(size=rows)


def full_model(d: int, dtype: str, terms: int = TERMS) -> KernelRegressor:
    """Return a regressor whose window is full; squared loss stores every example."""
    model = KernelRegressor(
        loss="squared",
        rule=Norma(learning_rate=RATE),
        expansion=Window(terms=terms),
        kernel="gaussian",
        scale=False,
        fit_intercept=False,
    )
    return model.partial_fit(*stream(d, dtype, terms))


def onkel_ns(d: int, dtype: str, rows: int) -> float:
    """Return ns per example and term of predict_then_learn."""
    model = full_model(d, dtype)
    X, y = stream(d, dtype, rows)
    began = time.perf_counter()
    model.predict_then_learn(X, y)
    return (time.perf_counter() - began) / (rows * TERMS) * 1e9


def loop_ns(d: int, dtype: str, rows: int = 1000) -> float:
    """Return ns per example and term of NORMA as a plain NumPy loop over a ring of terms."""
    Z, targets = stream(d, dtype, TERMS)
    X, y = stream(d, dtype, rows)
    coef = (RATE * targets).astype(dtype)
    norms = np.einsum("ij,ij->i", Z, Z)
    gamma, shrink = X.dtype.type(1 / d), X.dtype.type(1 - 1e-5)
    began = time.perf_counter()
    for t in range(rows):
        x = X[t]
        xx = x @ x
        score = coef @ np.exp(-gamma * (norms - 2 * (Z @ x) + xx))
        coef *= shrink
        i = t % TERMS
        Z[i], norms[i], coef[i] = x, xx, RATE * (y[t] - score)
    return (time.perf_counter() - began) / (rows * TERMS) * 1e9


def gemm_flops() -> float:
    """Return floating-point operations per second of one core in a 1024^3 float32 product."""
    A = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)
    began = time.perf_counter()
    A @ A
    return 2 * 1024**3 / (time.perf_counter() - began)


def exp_ns() -> float:
    """Return ns per element of NumPy's float32 exp, in cache."""
    values = -np.random.default_rng(0).random(4096, dtype=np.float32)
    out = np.empty_like(values)
    began = time.perf_counter()
    for _ in range(200):
        np.exp(values, out=out)
    return (time.perf_counter() - began) / (200 * values.size) * 1e9


def learn_one_us() -> float:
    """Return the median latency of learn_one at 300 terms and 50 features, in microseconds."""
    model = full_model(50, "float64", terms=300)
    X, y = stream(50, "float64", 1000)
    times = []
    for row, target in zip(X, y, strict=True):
        began = time.perf_counter()
        model.learn_one(row, target)
        times.append(time.perf_counter() - began)
    return float(np.median(times)) * 1e6


def import_ms(module: str) -> float:
    """Return the time of an import in a fresh process, in milliseconds."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return 1e3 * float(_fresh("-c", code))


def plain_ns(d: int) -> float:
    """Return ns per example and term without the compiled core, float32, in a fresh process."""
    return float(_fresh(__file__, "--worker", str(d), ONKEL_PURE="1"))


def _fresh(*args: str, **environment: str) -> str:
    env = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, *args], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def medians(jobs: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Run the jobs in turn, several times, and return the median of each."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            found[name].append(job())
    return {name: float(np.median(values)) for name, values in found.items()}


def measure(repeats: int) -> dict[str, Any]:
    """Run everything; the machine's limits are measured between the workloads."""
    jobs: dict[str, Callable[[], float]] = {"gemm": gemm_flops, "exp": exp_ns}
    for d in WIDTHS:
        for dtype in DTYPES:
            jobs[f"onkel {d} {dtype}"] = lambda d=d, t=dtype: onkel_ns(d, t, ROWS[d])
            jobs[f"loop {d} {dtype}"] = lambda d=d, t=dtype: loop_ns(d, t)
    jobs["learn_one"] = learn_one_us
    fast = medians(jobs, repeats)
    slow = {f"plain {d}": lambda d=d: plain_ns(d) for d in WIDTHS}
    slow |= {name: lambda n=name: import_ms(n) for name in ("numpy", "onkel")}
    return fast | medians(slow, max(repeats // 2, 1))


def rows_of(m: dict[str, float]) -> list[dict[str, Any]]:
    """Return the main table: ns per example and term, and its ratios."""
    rows = []
    for d in WIDTHS:
        limit = 2 * d / m["gemm"] * 1e9 + m["exp"]
        for dtype in DTYPES:
            ns, loop = m[f"onkel {d} {dtype}"], m[f"loop {d} {dtype}"]
            row = {"d": d, "dtype": dtype, "ns": ns, "loop ns": loop, "loop/onkel": loop / ns}
            row |= {"L(d) ns": limit, "onkel/L": ns / limit}
            row["plain/onkel"] = m[f"plain {d}"] / ns if dtype == "float32" else float("nan")
            rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows of equal keys as a compact text table."""
    cells = [[f"{v:.3g}" if isinstance(v, float) else str(v) for v in r.values()] for r in rows]
    lines = [list(rows[0]), *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in lines
    )


def save(name: str, report: dict[str, Any]) -> None:
    """Write reports/NAME.json."""
    REPORTS.mkdir(exist_ok=True)
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    text = json.dumps({**versions, "core": core.BACKEND, **report}, indent=1)
    (REPORTS / f"{name}.json").write_text(text.replace("NaN", "null") + "\n")
    print(f"report: reports/{name}.json")


def figure(rows: list[dict[str, Any]]) -> None:
    """Draw the main table, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        print("no figure: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
    at = np.arange(len(rows))
    for i, key in enumerate(("loop ns", "ns", "L(d) ns")):
        label = {"loop ns": "NumPy loop", "ns": "onkel", "L(d) ns": "L(d)"}[key]
        axis.bar(at + 0.27 * (i - 1), [r[key] for r in rows], 0.27, label=label)
    axis.set_xticks(at, [f"d={r['d']}\n{r['dtype']}" for r in rows], fontsize=8)
    axis.set(yscale="log", ylabel="ns per example and term", title="predict_then_learn, 1000 terms")
    axis.legend()
    fig.savefig(REPORTS / "benchmarks.png", dpi=120)
    print("figure: reports/benchmarks.png")


def main(argv: list[str] | None = None) -> int:
    """Run, print, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one repeat instead of seven")
    parser.add_argument("--worker", type=int, metavar="D", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        print(min(onkel_ns(args.worker, "float32", 1000) for _ in range(3)))
        return 0
    m = measure(1 if args.quick else 7)
    rows = rows_of(m)
    print(f"core: {core.BACKEND}; one thread; medians; plain: the same without the compiled core")
    print(table(rows))
    print(f"float32 product 1024^3: {m['gemm'] / 1e9:.0f} Gflop/s; exp: {m['exp']:.2f} ns")
    print(f"learn_one, 300 terms, d = 50: {m['learn_one']:.0f} us")
    print(f"import onkel: {m['onkel']:.0f} ms; import numpy alone: {m['numpy']:.0f} ms")
    save("benchmarks", {"rows": rows, "medians": m})
    figure(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
