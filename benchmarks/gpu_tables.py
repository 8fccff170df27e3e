"""Tables on a GPU: rows of words and numbers beside rows of as many numbers, and beside the CPU.

``python benchmarks/gpu_tables.py`` prints, and with ``--out FILE`` writes as JSON:

- agree: decisions and members' scores after some rows, on the GPU against the CPU;
- rates: examples learned per second in a full window, rows from the host: 8 columns of words (12
  values each, encoded before) and 6 of numbers; 14 numbers; 14 numbers that might be missing, as a
  table's might. Labels of noise: nearly every example is stored;
- sums: milliseconds that a block's sums over the terms take on the device alone, by tile.

``--quick`` measures less; ``--tiny`` has a few rows of each, for Triton's interpreter.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
warnings.filterwarnings("ignore", message="onkel runs without its compiled core")

from onkel import Classifier, KernelClassifier, core, expansions, kernels, rules  # noqa: E402
from onkel.columns import table_of  # noqa: E402

WORDS, NUMBERS, VALUES = 8, 6, 12
TILES = ((64, 64, 4), (64, 128, 4), (64, 128, 8), (128, 64, 4), (128, 64, 8), (128, 128, 8))
"""Rows, terms and warps of the tiles that are tried."""


def table(rows: int) -> tuple[Any, np.ndarray]:
    """Return encoded rows of words and numbers, and labels to which both matter."""
    rng = np.random.default_rng(rows)
    which = rng.integers(VALUES, size=(WORDS, rows))
    words = {f"c{j}": np.array([f"v{i}" for i in range(VALUES)])[which[j]] for j in range(WORDS)}
    numbers = {f"x{j}": rng.normal(size=rows) for j in range(NUMBERS)}
    raw = table_of({**words, **numbers})
    assert raw is not None
    label = np.where((which[0] < VALUES // 2) ^ (numbers["x0"] > 0), 1, -1)
    rows = KernelClassifier().plan_of(raw).encode(raw)
    return replace(rows, X=rows.X.astype(np.float32)), label


def plain(rows: int) -> np.ndarray:
    """Return as many columns of numbers; at a spread of 1 their units would change all the time."""
    rng = np.random.default_rng(rows)
    return (1.5 * rng.normal(size=(rows, WORDS + NUMBERS))).astype(np.float32)


# -- agreement ---------------------------------------------------------------------------------


def agree(rows: int) -> list[dict[str, Any]]:
    """Compare with the CPU: smooth losses, windows that turn often, every kernel."""
    X, y = table(rows)
    found = []
    for precision in ("float32", "tf32x3", "tf32"):
        for name, made in models(rows // 10, precision).items():
            near = [made(device) for device in ("cpu", "cuda")]
            for model in near:
                model.partial_fit(X, y)
            want, got = (answers(model, X[-1000:]) for model in near)
            gap, largest = np.abs(want - got), np.abs(want).max()
            row = {
                "model": name, "precision": precision, "rows": rows,
                "terms": [model.n_terms_ for model in near],
                "median": float(np.median(gap) / largest), "largest": float(gap.max() / largest),
            }  # fmt: skip
            found.append(row)
            print("agree", json.dumps(row), flush=True)
    return found


def answers(model: Any, X: Any) -> Any:
    """Return decisions, or the members' scores."""
    if isinstance(model, Classifier):
        return model._learner.answers(X.X)
    return model.decision_function(X)


def models(terms: int, precision: str) -> dict[str, Any]:
    """Return what makes each model for a device; no decision in them that rounding could turn."""
    own: dict[str, Any] = {"loss": "logistic", "rule": rules.Norma(learning_rate=0.5)}
    own |= {"expansion": expansions.Window(terms=max(terms, 8)), "precision": precision}
    parts = {
        "Gaussian": kernels.Gaussian(), "Laplacian": kernels.Laplacian(),
        "Matern": kernels.Matern(),
        "sum": kernels.Laplacian(0.1) + 0.1 * kernels.Linear(),
        "product": kernels.Gaussian(0.05) * kernels.Laplacian(0.05),
    }  # fmt: skip
    made = {
        name: lambda device, kernel=kernel: KernelClassifier(kernel, device=device, **own)
        for name, kernel in parts.items()
    }
    members = [KernelClassifier(parts[name], **own) for name in ("Gaussian", "Laplacian", "sum")]
    return {**made, "Classifier": lambda device: Classifier(members=members, device=device)}


# -- rates -------------------------------------------------------------------------------------


def kinds(rows: int) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return the rows of each kind, and what a model for them is given."""
    numbers = plain(rows)
    return {
        "8 words + 6 numbers": (table(rows)[0], {}),
        "14 numbers": (numbers, {}),
        "14 numbers, gaps allowed": (numbers, {"missing": "mean"}),
    }


def rates(at_once: int, rounds: int, windows: tuple[int, ...]) -> list[dict[str, Any]]:
    """Measure every model on every kind of rows, in turn."""
    held = kinds(at_once)
    y = np.where(np.random.default_rng(1).random(at_once) < 0.5, -1, 1)
    found = []
    for name, make in {
        **{f"KernelClassifier, window {w:,}": single(w) for w in windows}, "Classifier": Classifier
    }.items():  # fmt: skip
        # a mixture's members say themselves whether values may be missing
        fitting = {k: v for k, v in held.items() if make is not Classifier or not v[1]}
        every = {kind: make(device="cuda", **own) for kind, (_, own) in fitting.items()}
        took: dict[str, list[float]] = {kind: [] for kind in every}
        for turn in range(rounds + 2):  # two: windows are filled, and what is launched is recorded
            for kind, model in every.items():
                began = time.perf_counter()
                model.partial_fit(fitting[kind][0], y)
                if turn > 1:
                    took[kind].append(at_once / (time.perf_counter() - began))
        row = {"model": name, **{kind: float(np.median(took[kind])) for kind in took}}
        row["of numbers"] = row["8 words + 6 numbers"] / row["14 numbers"]
        found.append(row)
        print("rates", json.dumps(row), flush=True)
    return found


def single(terms: int) -> Any:
    """Return what makes a classifier with such a window."""
    return lambda **own: KernelClassifier(expansion=expansions.Window(terms=terms), **own)


# -- on the device alone -----------------------------------------------------------------------


def sums(window: int, rows: int) -> list[dict[str, Any]]:
    """Time a block's sums over a full window, with the usual tile and with others."""
    y = np.where(np.random.default_rng(2).random(rows) < 0.5, -1, 1)
    found = []
    for kernel in (kernels.Gaussian(), kernels.Laplacian()):
        for kind, (X, _) in list(kinds(rows).items())[:2]:
            model = single(window)(device="cuda", kernel=kernel).partial_fit(X, y)
            learner = model._learner
            share = learner.terms.launcher.shares[0]
            usual = share.tiles
            row: dict[str, Any] = {"kernel": repr(kernel), "rows": kind, "terms": learner.size}
            row["usual"] = (
                f"{usual.bm}x{usual.bn}, {usual.warps} warps: {timed(learner, share):.4f}"
            )
            for bm, bn, warps in TILES:
                share.tiles = replace(usual, bm=bm, bn=bn, warps=warps)
                row[f"{bm}x{bn}, {warps} warps"] = timed(learner, share)
            share.tiles = usual
            found.append(row)
            print("sums, ms", json.dumps(row), flush=True)
    return found


def timed(learner: Any, share: Any, many: int = 20) -> float:
    """Return the time of a block's sums, in milliseconds."""
    import torch

    from onkel.gpu.track import BLOCK, sum_up

    track, terms = learner.track, learner.terms
    terms.tell()

    def call() -> None:
        for _ in range(many):
            sum_up(terms.launcher, share, track.rows, 0, BLOCK, terms.held, track.buffers,
                   track.buffers.base)  # fmt: skip

    call()
    times = []
    for _ in range(5):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        call()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) / many)
    return sorted(times)[2]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", help="write everything as JSON here")
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    parser.add_argument("--tiny", action="store_true", help="a few rows, for the interpreter")
    options = parser.parse_args()
    import torch

    where = "none" if options.tiny else torch.cuda.get_device_name()
    report: dict[str, Any] = {
        "date": date.today().isoformat(), "device": where, "core": core.BACKEND
    }  # fmt: skip
    print(json.dumps(report), flush=True)
    report["agree"] = agree(40 if options.tiny else 5000 if options.quick else 20_000)
    if options.tiny:
        report["rates"] = rates(12, 1, (8,))
    else:
        report["rates"] = rates(65_536, 3 if options.quick else 7, (10_000, 100_000))
        report["sums"] = sums(10_000, 16_384) + sums(100_000, 131_072)
    if options.out:
        Path(options.out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
