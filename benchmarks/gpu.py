"""Learning on a GPU: speed at 10^4 to 10^6 terms, share of the peak, agreement, a long run.

- ``python benchmarks/gpu.py prepare FILE.npz`` (with the compiled core) learns a stream on the CPU
  and writes the scores down;
- ``python benchmarks/gpu.py run --truth FILE.npz --out gpu.json`` measures on the GPU;
- ``python benchmarks/gpu.py cpu --out cpu.json`` measures the same workload on a CPU;
- ``python benchmarks/gpu.py docs gpu.json cpu.json`` writes the tables of docs/gpu.md.

``--quick`` takes the smaller sizes; ``--only table`` (or agree, long) one part. The package runs
from its source tree, with NumPy, PyTorch and Triton alone.

The workload: rows of independent normal numbers, targets of noise, squared loss, every example
stored, a full window (the oldest term goes whenever one comes), Gaussian kernel with gamma = 1/d.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
warnings.filterwarnings("ignore", message="onkel runs without its compiled core")

from onkel import KernelClassifier, KernelRegressor, expansions, kernels, losses, rules  # noqa: E402

SIZES = (10_000, 100_000, 1_000_000)
WIDTHS = (16, 256, 784)
PRECISIONS = ("tf32", "tf32x3", "float32")
WANTED = {
    ("tf32", 10_000, 16): 3e6,
    ("tf32", 100_000, 16): 1.9e6, ("tf32", 100_000, 256): 1.35e6, ("tf32", 100_000, 784): 840e3,
    ("tf32", 1_000_000, 16): 501e3, ("tf32", 1_000_000, 256): 278e3,
    ("tf32", 1_000_000, 784): 128e3,
    ("float32", 100_000, 16): 1.24e6, ("float32", 100_000, 256): 328e3,
    ("float32", 100_000, 784): 118e3,
}  # fmt: skip
"""Examples per second that a prototype learned on an H200 (10^4 terms: what is asked for)."""
STREAM, QUICK = 100_000, 20_000
GAP = 1e-4
"""Rows whose margin comes so near to the threshold are taken out of the stream beforehand."""


def regressor(d: int, terms: int, **own: Any) -> KernelRegressor:
    """A regressor that stores every example."""
    return KernelRegressor(
        kernel=kernels.Gaussian(1.0 / d), loss="squared", fit_intercept=False, scale=False,
        rule=rules.Norma(learning_rate=0.1, memory=1e5), expansion=expansions.Window(terms=terms),
        **own,
    )  # fmt: skip


# -- agreement ---------------------------------------------------------------------------------


def classifier(**own: Any) -> KernelClassifier:
    """The model whose decisions are compared: a soft margin, a window of 10 000 terms."""
    return KernelClassifier(
        kernel=kernels.Gaussian(0.1), loss=losses.SoftMargin(margin=1.0), scale=False,
        rule=rules.Norma(learning_rate=0.2, memory=20_000),
        expansion=expansions.Window(terms=10_000), **own,
    )  # fmt: skip


def stream(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a drifting stream: two classes, 16 features, float32."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(rows, 16)).astype(np.float32)
    turn = np.linspace(0, 2, rows)
    edge = X[:, 0] * np.cos(turn) + X[:, 1] * np.sin(turn) + 0.5 * X[:, 2] * X[:, 3]
    return X, np.where(edge + 0.3 * rng.normal(size=rows) > 0, 1, -1)


def prepare(path: str, rows: int = STREAM) -> None:
    """Learn the stream on the CPU; write down which rows were taken and how they scored."""
    X, y = stream(rows)
    model, kept, scores = classifier(n_jobs=1), [], []
    step = 1000
    for start in range(0, rows, step):
        at = np.arange(start, min(start + step, rows))
        while len(at):
            trial = model.__class__(**model.get_params(deep=False))
            vars(trial).update(model.__getstate__())
            found = trial.predict_then_learn(X[at], y[at], output="decision")
            near = np.flatnonzero(np.abs(y[at] * found - 1.0) < GAP)
            if not len(near):
                model = trial
                kept.append(at)
                scores.append(found)
                break
            at = np.delete(at, near[0])
    probe = np.random.default_rng(10).normal(size=(10_000, 16)).astype(np.float32)
    np.savez_compressed(
        path, kept=np.concatenate(kept), scores=np.concatenate(scores),
        probe=model.decision_function(probe), terms=model.n_terms_, updates=_updates(model),
    )  # fmt: skip
    left = rows - sum(map(len, kept))
    print(f"{path}: {rows - left} rows, {left} within {GAP} of the threshold left out")


def _updates(model: Any) -> float:
    return float(np.ravel(model.diagnostics_["updates"])[0])


def agree(path: str, quick: bool) -> list[dict[str, Any]]:
    """Compare with the CPU's scores: the stream in float32 and tf32x3, a fixed f in all three."""
    with np.load(path) as file:
        truth = {name: file[name] for name in file.files}
    X, y = stream(STREAM)
    kept = truth["kept"][: QUICK if quick else None]
    X, y, scores = X[kept], y[kept], truth["scores"][: len(kept)]
    probe = np.random.default_rng(10).normal(size=(10_000, 16)).astype(np.float32)
    found = []
    for precision in ("float32", "tf32x3"):
        model = classifier(device="cuda", precision=precision)
        began = time.perf_counter()
        got = np.concatenate([
            model.predict_then_learn(X[i : i + 20_000], y[i : i + 20_000], output="decision")
            for i in range(0, len(X), 20_000)
        ])  # fmt: skip
        took = time.perf_counter() - began
        size = float(np.abs(scores).max())
        off = np.abs(got - scores) / size
        flips = np.flatnonzero((y * got <= 1) != (y * scores <= 1))
        row = {
            "precision": precision, "rows": len(X), "largest": float(off.max()),
            "median": float(np.median(off)), "decisions that differ": len(flips),
            "seconds": took, "agrees": bool(off.max() < 1e-4),
        }  # fmt: skip
        if not quick and precision == "float32":
            want, size = truth["probe"], float(np.abs(truth["probe"]).max())
            row["terms"] = [model.n_terms_, int(truth["terms"])]
            for other in PRECISIONS:
                model._learner.terms.multiplied_by(other)
                gap = np.abs(model.decision_function(probe) - want) / size
                row[f"fixed f, {other}"] = [float(np.median(gap)), float(gap.max())]
        found.append(row)
        print("agree", json.dumps(row), flush=True)
    return found


# -- speed -------------------------------------------------------------------------------------


def peak() -> float:
    """Return the TFLOP/s of a large TF32 matrix product."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    a = torch.randn(8192, 8192, device="cuda")
    found = []
    for _ in range(8):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(10):
            a @ a
        torch.cuda.synchronize()
        found.append((time.perf_counter() - began) / 10)
    return 2 * 8192**3 / float(np.median(found)) / 1e12


def rows_on_gpu(n: int, d: int, seed: int) -> tuple[Any, Any]:
    """Return fresh rows on the device, and targets."""
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    X = torch.randn(n, d, device="cuda", generator=generator)
    return X, np.random.default_rng(seed).normal(size=n)


def filled(d: int, terms: int, precision: str) -> KernelRegressor:
    """A model whose window is full."""
    model = regressor(d, terms, device="cuda", precision=precision)
    for start in range(0, terms + 2048, 65_536):
        model.partial_fit(*rows_on_gpu(min(65_536, terms + 2048 - start), d, start))
    return model


def rate(model: KernelRegressor, d: int, terms: int, seconds: float) -> float:
    """Return examples learned per second, the median of three rounds after one to warm up."""
    n = 262_144
    X, y = rows_on_gpu(n, d, 1)
    for _ in range(4):  # the first ones compile, and record what is launched
        began = time.perf_counter()
        model.partial_fit(X[:8192], y[:8192])
        each = (time.perf_counter() - began) / 8192
    n = int(np.clip(seconds / each, 8192, n)) // 8192 * 8192
    found = []
    for _ in range(3):
        began = time.perf_counter()
        model.partial_fit(X[:n], y[:n])
        found.append(n / (time.perf_counter() - began))
    return float(np.median(found))


def table(quick: bool, sizes: tuple[int, ...], widths: tuple[int, ...]) -> list[dict[str, Any]]:
    """Measure every size, width and precision."""
    import torch

    top, found = peak(), []
    print(f"peak: {top:.0f} TFLOP/s in TF32, {torch.cuda.get_device_name()}", flush=True)
    titles = ("terms", 9), ("d", 4), ("precision", 9), ("examples/s", 12), ("TFLOP/s", 8)
    print(" ".join(f"{t:>{w}}" for t, w in (*titles, ("of peak", 8), ("asked for", 10))))
    for d in widths:
        for terms in sizes:
            model = filled(d, terms, "tf32")
            for precision in PRECISIONS:
                model._learner.terms.multiplied_by(precision)
                try:
                    speed = rate(model, d, terms, 0.2 if quick else 0.6)
                except Exception as problem:
                    print(f"FAIL {terms} {d} {precision}: {problem}"[:800], flush=True)
                    continue
                flops = 2e-12 * speed * terms * d
                wanted = WANTED.get((precision, terms, d))
                row = {
                    "terms": terms, "d": d, "precision": precision, "examples/s": speed,
                    "TFLOP/s": flops, "of peak": flops / top, "asked for": wanted,
                }  # fmt: skip
                found.append(row)
                met = (
                    ""
                    if wanted is None
                    else f"{wanted:>10,.0f} {'met' if speed >= wanted else 'NOT MET'}"
                )
                print(f"{terms:>9} {d:>4} {precision:>9} {speed:>12,.0f} {flops:>8.1f} "
                      f"{flops / top:>8.1%} {met}", flush=True)  # fmt: skip
            del model
            torch.cuda.empty_cache()
    return [{"peak": top, "device": torch.cuda.get_device_name()}, *found]


def long_run(rows: int, terms: int = 100_000, d: int = 16) -> list[dict[str, Any]]:
    """Learn many examples; time and memory must stay flat."""
    import torch

    model, part, found = filled(d, terms, "tf32x3"), rows // 10, []
    for i in range(10):
        X, y = rows_on_gpu(part, d, 100 + i)
        torch.cuda.synchronize()
        began = time.perf_counter()
        model.partial_fit(X, y)
        took = time.perf_counter() - began
        del X
        row = {
            "t": model.t_, "examples/s": part / took, "terms": model.n_terms_,
            "bytes": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
        }  # fmt: skip
        found.append(row)
        print("long", json.dumps(row), flush=True)
    return found


def on_cpu(quick: bool) -> list[dict[str, Any]]:
    """Measure the same workload on this machine's CPU, all cores and one."""
    found = []
    for d in WIDTHS[:1] if quick else WIDTHS:
        for terms in SIZES[:1] if quick else SIZES:
            if terms * d < 5e8:  # more does not fit into the memory of a small machine
                found += _cpu_row(d, terms)
    return found


def _cpu_row(d: int, terms: int) -> list[dict[str, Any]]:
    """Fill the window from a file's view of it: learning 10^6 x 784 on a CPU takes hours."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((terms + 64, d), np.float32)
    y = rng.normal(size=len(X))
    model = regressor(d, terms, n_jobs=-1)
    model.partial_fit(X[:64], y[:64])
    _stuff(model, X, y)
    found, cores = [], os.cpu_count() or 1
    n = int(np.clip(2e9 / (terms * d), 32, 4096))
    each = []
    for _ in range(4):  # the first one warms up
        began = time.perf_counter()
        model.partial_fit(X[:n], y[:n])
        each.append(n / (time.perf_counter() - began))
    speed = float(np.median(each[1:]))
    found.append({"terms": terms, "d": d, "threads": cores, "examples/s": speed})
    print("cpu", json.dumps(found[-1]), flush=True)
    return found


def _stuff(model: KernelRegressor, X: np.ndarray, y: np.ndarray) -> None:
    """Fill a window without learning: terms with small coefficients, as if born one by one."""
    learner = model._learner
    room = learner.window.cap - learner.size
    queries = learner.terms.prepare(X[:room])
    births = learner.t + 1 + np.arange(room)
    learner.terms.append(queries, 1e-3 * y[:room, None], births)
    learner.t += room


# -- tables ------------------------------------------------------------------------------------


def write_docs(gpu: str, cpu: str | None = None) -> None:
    """Write the measured tables into docs/gpu.md, between its two comments."""
    report = json.loads(Path(gpu).read_text())
    beside = json.loads(Path(cpu).read_text()) if cpu else {"rows": []}
    text = _speed_table(report, beside) + _agreement_table(report) + _long_table(report)
    page = Path(__file__).resolve().parent.parent / "docs" / "gpu.md"
    old = page.read_text("utf-8")
    begin, end = "<!-- gpu:begin -->", "<!-- gpu:end -->"
    first, _, rest = old.partition(begin)
    _, _, last = rest.partition(end)
    page.write_text(f"{first}{begin}\n\n{text.strip()}\n\n{end}{last}", "utf-8")


def _lines(titles: list[str], rows: list[list[str]]) -> str:
    table = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in table) + "\n"


def _speed_table(report: dict[str, Any], beside: dict[str, Any]) -> str:
    head, *rows = report["table"]
    slow = {(r["terms"], r["d"]): r for r in beside["rows"]}
    found = []
    for d in sorted({r["d"] for r in rows}):
        for terms in sorted({r["terms"] for r in rows}):
            mine = {r["precision"]: r for r in rows if (r["d"], r["terms"]) == (d, terms)}
            cells = [
                f"{mine[p]['examples/s']:,.0f} ({mine[p]['of peak']:.0%})" if p in mine else ""
                for p in PRECISIONS
            ]
            cpu = slow.get((terms, d))
            cells.append("" if cpu is None else f"{cpu['examples/s']:,.0f}")
            found.append([f"{terms:,}", str(d), *cells])
    threads = beside["rows"][0]["threads"] if beside["rows"] else 0
    titles = ["terms", "features", *PRECISIONS, f"a CPU, {threads} threads"]
    text = f"On {report['date']}, one {head['device']}; a large TF32 matrix product reached "
    text += f"{head['peak']:.0f} TFLOP/s there. Examples learned per second, in a full window (and "
    return (
        text
        + "the share of that peak that the products' flops make up):\n\n"
        + _lines(titles, found)
    )


def _agreement_table(report: dict[str, Any]) -> str:
    rows = report.get("agree") or []
    if not rows:
        return ""
    fixed = {k.split(", ")[1]: v for k, v in rows[0].items() if k.startswith("fixed f")}
    text = f"\nScores of {rows[0]['rows']:,} rows before each was learned, against the compiled "
    text += "core on a CPU (largest difference by the largest score), and of one f on 10,000 rows:"
    text += "\n\n"
    learned = {r["precision"]: f"{r['largest']:.1e}" for r in rows}
    cells = [
        [p, learned.get(p, ""), *([f"{v:.1e}" for v in fixed.get(p, ())] or ["", ""])]
        for p in PRECISIONS[::-1]
    ]
    return text + _lines(["precision", "while learning", "one f, median", "one f, largest"], cells)


def _long_table(report: dict[str, Any]) -> str:
    rows = report.get("long") or []
    if not rows:
        return ""
    speeds, sizes = [r["examples/s"] for r in rows], [r["bytes"] for r in rows]
    return (
        f"\nA run of {rows[-1]['t']:,} examples at {rows[-1]['terms']:,} terms: between "
        f"{min(speeds):,.0f} and {max(speeds):,.0f} examples a second in its tenths, "
        f"{min(sizes) / 1e6:,.0f} to {max(sizes) / 1e6:,.0f} MB on the device after each.\n"
    )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("prepare", "run", "cpu", "docs"))
    parser.add_argument("files", nargs="*", default=["gpu_truth.npz"])
    parser.add_argument("--truth", help="what `prepare` wrote")
    parser.add_argument("--out", help="write everything as JSON here")
    parser.add_argument("--only", choices=("agree", "table", "long"))
    parser.add_argument("--sizes", help="of the table, for example 10000,100000")
    parser.add_argument("--widths", help="of the table, for example 16,784")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.files[0])
        return
    if options.what == "docs":
        write_docs(*options.files)
        return
    report: dict[str, Any] = {"date": date.today().isoformat()}
    if options.what == "cpu":
        from onkel import core

        report |= {"core": core.BACKEND, "rows": on_cpu(options.quick)}
    else:
        _run(options, report)
    if options.out:
        Path(options.out).write_text(json.dumps(report, indent=1) + "\n")


def _run(options: Any, report: dict[str, Any]) -> None:
    def numbers(given: str | None, default: tuple[int, ...]) -> tuple[int, ...]:
        return default if given is None else tuple(int(v) for v in given.split(","))

    quick = options.quick
    sizes = numbers(options.sizes, SIZES[:2] if quick else SIZES)
    widths = numbers(options.widths, WIDTHS[::2] if quick else WIDTHS)
    parts: dict[str, Callable[[], Any]] = {
        "agree": lambda: agree(options.truth, quick) if options.truth else [],
        "table": lambda: table(quick, sizes, widths),
        "long": lambda: long_run(1_000_000 if quick else 10_000_000),
    }
    for name, part in parts.items():
        if options.only in (None, name):
            began = time.perf_counter()
            report[name] = part()
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
            if options.out:
                Path(options.out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
