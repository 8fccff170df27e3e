"""How far from the machine's limit: ns per example and term of predict_then_learn, one thread.

L(d) = 2d / (operations per second of a float32 matrix product) + one float32 exp.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np
import workloads
from common import clock, median, ratio

ROWS = {2: 20_000, 16: 20_000, 256: 5_000}
"""Timed rows for each number of features."""
DTYPES = ("float32", "float64")
TWO = {"d": 256, "terms": 4000, "rows": 2000}
"""Two threads against one."""


def product_flops() -> float:
    """Return floating-point operations per second of one core in a 1024^3 float32 product."""
    A = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)
    began = clock()
    for _ in range(3):
        A @ A
    return 3 * 2 * 1024**3 / (clock() - began)


def exp_ns() -> float:
    """Return ns per element of NumPy's float32 exp, in cache."""
    values = -np.random.default_rng(0).random(4096, dtype=np.float32)
    out = np.empty_like(values)
    began = clock()
    for _ in range(1000):
        np.exp(values, out=out)
    return (clock() - began) / (1000 * values.size) * 1e9


def plain_ns(d: int) -> float:
    """Return ns per example and term without the compiled core, float32, in a fresh process."""
    code = f"import workloads; print(workloads.onkel_ns({d}, 'float32', 1000))"
    return float(common.fresh("-W", "ignore", "-c", code, ONKEL_PURE="1"))


def jobs() -> dict[str, common.Job]:
    """Return what one round measures; the machine's own speed lies between the workloads."""
    found: dict[str, common.Job] = {}
    for d in ROWS:
        found[f"product {d}"], found[f"exp {d}"] = product_flops, exp_ns
        for dtype in DTYPES:
            found[f"onkel {d} {dtype}"] = partial(workloads.onkel_ns, d, dtype, ROWS[d])
            found[f"loop {d} {dtype}"] = partial(workloads.loop_ns, d, dtype)
    return found


def two_threads(repeats: int) -> dict[str, list[float]]:
    """Return ns per example and term by the clock on the wall, with one thread and with two.

    And how many cores the two had: less than two where others work on the machine.
    """
    d, rows, terms = TWO["d"], TWO["rows"], TWO["terms"]
    X, y = workloads.regression(d, "float32", rows)
    cores: list[float] = []

    def timed(model: Any, threads: int) -> float:
        wall, work = time.perf_counter(), clock()
        model.predict_then_learn(X, y)
        spent = time.perf_counter() - wall
        if threads == 2:
            cores.append((clock() - work) / spent)
        return spent / (rows * terms) * 1e9

    models = {n: workloads.full_regressor(d, "float32", terms, n) for n in (1, 2)}
    found = common.rounds({str(n): partial(timed, m, n) for n, m in models.items()}, repeats)
    return found | {"cores": cores}


def measure(quick: bool) -> dict[str, Any]:
    """Return every round's numbers."""
    repeats = 3 if quick else 9
    plain = {str(d): partial(plain_ns, d) for d in ROWS}
    return {
        "rounds": common.rounds(jobs(), repeats),
        "plain": common.medians(plain, 1 if quick else 3),
        "threads": two_threads(repeats),
    }


def line(r: dict[str, list[float]], plain: dict[str, float], d: int, dtype: str) -> common.Row:
    """Return one line: times are medians, ratios are medians of each round's."""
    ns, loop = r[f"onkel {d} {dtype}"], r[f"loop {d} {dtype}"]
    flops, exps = r[f"product {d}"], r[f"exp {d}"]
    limit = [2 * d / f * 1e9 + e for f, e in zip(flops, exps, strict=True)]
    row: common.Row = {"workload": f"d = {d}, {dtype}", "ns": median(ns), "L(d) ns": median(limit)}
    row |= {"onkel / L": ratio(ns, limit), "NumPy loop / onkel": ratio(loop, ns)}
    if dtype == "float64":
        return row | {"float64 / float32": ratio(ns, r[f"onkel {d} float32"])}
    return row | {"without core / onkel": plain[str(d)] / median(ns)}


def tables(report: dict[str, Any]) -> list[tuple[str, list[common.Row]]]:
    """Return the main table, the machine's own speed, and two threads against one."""
    r, plain, two = report["rounds"], report["plain"], report["threads"]
    rows = [line(r, plain, d, dtype) for d in ROWS for dtype in DTYPES]
    speed = {
        "float32 product, Gflop/s": median(r["product 256"]) / 1e9,
        "exp, ns": median(r["exp 2"]),
    }
    threads = {"workload": f"d = {TWO['d']}, {TWO['terms']} terms, float32, clock on the wall"}
    threads |= {"one thread, ns": median(two["1"]), "two threads, ns": median(two["2"])}
    threads |= {"one / two": ratio(two["1"], two["2"]), "cores that two had": median(two["cores"])}
    return [
        ("ns per example and term, 1000 terms, one thread", rows),
        ("the machine, one thread", [speed]),
        ("two threads", [threads]),
    ]


def figure(report: dict[str, Any], path: Path) -> None:
    """Draw the plain loop, onkel and the limit, side by side."""
    made = common.canvas(1, 1, (6, 3.2))
    if made is None:
        return
    fig, (axis,) = made
    r, at = report["rounds"], np.arange(len(ROWS) * len(DTYPES))
    names = [f"{d} {dtype}" for d in ROWS for dtype in DTYPES]
    rows = tables(report)[0][1]
    bars = {
        "NumPy loop": ([median(r[f"loop {n}"]) for n in names], common.SOFT),
        "onkel": ([row["ns"] for row in rows], common.ACCENT),
        "L(d)": ([row["L(d) ns"] for row in rows], common.INK),
    }
    for i, (label, (values, colour)) in enumerate(bars.items()):
        axis.bar(at + 0.27 * (i - 1), values, 0.27, label=label, color=colour)
    axis.set_xticks(at, [f"d = {n.replace(' ', chr(10))}" for n in names])
    axis.set(yscale="log", ylabel="ns per example and term", title="predict_then_learn, 1000 terms")
    axis.legend(frameon=False)
    common.keep(fig, path)
