"""Judging rows with Detector on a GPU: 10^6 rows at 8, 64 and 512 features, beside the CPU.

- ``python benchmarks/gpu_density.py prepare FILE.npz`` (with the compiled core) learns a stream for
  each size on the CPU, times its judging of rows there and writes states and scores down;
- ``python benchmarks/gpu_density.py run FILE.npz --out density.json`` judges on the GPU;
  ``--tiles`` tries other tiles, and both ways to add up distances;
- ``python benchmarks/gpu_density.py docs density.json`` writes the table of docs/gpu.md.

The second runs from the source tree, with NumPy, PyTorch and Triton alone. The workload: rows of
normal numbers in float32, independent or each drawn towards the one before, `terms` full.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
warnings.filterwarnings("ignore", message="onkel runs without its compiled core")

from onkel.core.density import DensityState, Plan  # noqa: E402
from onkel.core.layout import Count  # noqa: E402

WIDTHS = (8, 64, 512)
KINDS = {"loose": 0.0, "tied": 0.9}
LEARNED, COMPARED, JUDGED = 12_000, 20_000, 1_000_000
KEPT = ("whole", "real", "center", "scale", "turn", "last", "smooth", "z", "late_z", "sums",
        "late_sums", "ranked")  # fmt: skip
"""What judging needs of a state."""


def stream(rows: int, d: int, tied: float, seed: int) -> np.ndarray:
    """Return rows, each drawn towards the one before."""
    X = np.random.default_rng(seed).standard_normal((rows, d), np.float32)
    for i in range(1, rows if tied else 0):
        X[i] += np.float32(tied) * X[i - 1]
    return X


# -- on a CPU ----------------------------------------------------------------------------------


def prepare(path: str) -> None:
    """Learn and judge with the compiled core."""
    from onkel import Detector

    arrays: dict[str, Any] = {}
    for d in WIDTHS:
        for kind, tied in KINDS.items():
            model = Detector().fit(stream(LEARNED, d, tied, seed=d))
            learner = model._learner
            out, parts = learner.judged(stream(COMPARED, d, tied, seed=d + 1), members=True)
            told = {
                "plan": asdict(learner.plan),
                "tied": parts[0, 8],
                "cpu": _speed(model, d, tied),
            }
            print(d, kind, json.dumps(told), flush=True)
            name = f"{d} {kind}"
            arrays |= {f"{name} {f}": getattr(learner.state, f) for f in KEPT}
            arrays |= {f"{name} out": out, f"{name} told": np.array(json.dumps(told))}
    np.savez(path, **arrays)


def _speed(model: Any, d: int, tied: float) -> float:
    """Return the rows per second of one core: the median of five calls."""
    X, times = stream(max(2000, 200_000 // d), d, tied, seed=d + 2), []
    for _ in range(5):
        began = time.perf_counter()
        model.score_samples(X)
        times.append(time.perf_counter() - began)
    return len(X) / float(np.median(times))


# -- on a GPU ----------------------------------------------------------------------------------


def run(path: str, tiles: bool) -> dict[str, Any]:
    """Judge on the device: agreement, and rows per second from the host and on the device."""
    import torch

    report: dict[str, Any] = {
        "date": date.today().isoformat(), "device": torch.cuda.get_device_name(), "rows": [],
    }  # fmt: skip
    with np.load(path) as file:
        for d in WIDTHS:
            for kind, tied in KINDS.items():
                judge, told, want = _restored(file, f"{d} {kind}", d)
                row = {"d": d, "kind": kind, "tied": told["tied"], "cpu": told["cpu"]}
                row |= _agreement(judge, want, stream(COMPARED, d, tied, seed=d + 1))
                X = np.tile(stream(JUDGED // 20, d, tied, seed=d + 2), (20, 1))
                row["gpu"], row["gpu, rows there"] = _timed(judge, X), _timed(judge, X, there=True)
                row |= _tiles(judge, X[:100_000]) if tiles else {}
                report["rows"].append(row)
                print(json.dumps(row), flush=True)
    return report


def _restored(file: Any, name: str, d: int) -> tuple[Any, dict[str, Any], np.ndarray]:
    from onkel.gpu.density import Judge

    told = json.loads(str(file[f"{name} told"]))
    plan = Plan(**told["plan"])
    state = DensityState.empty(d, plan)
    for field in KEPT:
        setattr(state, field, file[f"{name} {field}"])
    assert state.whole[Count.SIZE] == plan.terms
    return Judge(plan, state, told["tied"], "cuda"), told, file[f"{name} out"]


def _agreement(judge: Any, want: np.ndarray, X: np.ndarray) -> dict[str, float]:
    """Return how far scores (log p) are apart, in units of 1 + |score|; alerts that differ."""
    got, _ = judge.judged(X)
    off = np.abs(got - want)[:, 0] / (1 + np.abs(want[:, 0]))
    return {"median": float(np.median(off)), "99 %": float(np.quantile(off, 0.99)),
            "largest": float(off.max()), "beyond 1e-4": float((off > 1e-4).mean()),
            "alerts that differ": int((got[:, 2] != want[:, 2]).sum())}  # fmt: skip


def _timed(judge: Any, X: np.ndarray, there: bool = False, repeat: int = 3) -> float:
    """Return rows per second, in the pieces in which a detector sends them."""
    import torch

    from onkel.gpu.densities import AT_ONCE

    step, times = AT_ONCE // X.shape[1], []
    rows: Any = torch.from_numpy(X).cuda() if there else X
    for _ in range(repeat + 1):  # the first one warms up
        torch.cuda.synchronize()
        began = time.perf_counter()
        for i in range(0, len(X), step):
            judge.judged(rows[i : i + step])
        times.append(time.perf_counter() - began)
    return len(X) / float(np.median(times[1:]))


def _tiles(judge: Any, X: np.ndarray) -> dict[str, float]:
    from onkel.gpu import density

    found, was = {}, (density.TILE, density.ONE_BY_ONE)
    for way, most in (("one by one", 10**6), ("cdist", 0)):
        for power in (21, 22, 23, 24, 26):
            density.TILE, density.ONE_BY_ONE = 2**power, most
            found[f"{way}, 2^{power}"] = round(_timed(judge, X, there=True, repeat=1))
    density.TILE, density.ONE_BY_ONE = was
    return found


# -- the table ---------------------------------------------------------------------------------


def write_docs(path: str) -> None:
    """Write the table into docs/gpu.md, between its two comments."""
    report = json.loads(Path(path).read_text())
    lines = [
        f"On {report['date']}, one {report['device']}: a million rows judged by `Detector()` with "
        "1000 terms, in rows per second; one core of a CPU beside it. Difference of log p, as a "
        "share of 1 + |log p|, over 20,000 rows:", "",
        "| features | rows are | one core | GPU, rows from the host | GPU, rows there | median "
        "difference | 99 % of rows within | beyond 10⁻⁴ (one rank off) |",
        "| " + " | ".join(["---"] * 8) + " |",
    ]  # fmt: skip
    words = {"loose": "independent", "tied": "tied"}
    lines += [
        f"| {r['d']} | {words[r['kind']]} | {r['cpu']:,.0f} | {r['gpu']:,.0f} | "
        f"{r['gpu, rows there']:,.0f} | {r['median']:.1e} | {r['99 %']:.1e} | "
        f"{r['beyond 1e-4']:.2%} |"
        for r in report["rows"]
    ]
    page = ROOT / "docs" / "gpu.md"
    begin, end = "<!-- density:begin -->", "<!-- density:end -->"
    first, _, rest = page.read_text("utf-8").partition(begin)
    _, _, last = rest.partition(end)
    text = "\n".join(lines)
    page.write_text(f"{first}{begin}\n\n{text}\n\n{end}{last}", "utf-8")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("prepare", "run", "docs"))
    parser.add_argument("file")
    parser.add_argument("--out", help="write everything as JSON here")
    parser.add_argument("--tiles", action="store_true", help="try tiles too")
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.file)
    elif options.what == "docs":
        write_docs(options.file)
    else:
        report = run(options.file, options.tiles)
        if options.out:
            Path(options.out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
