"""The self-tuning estimators on a GPU: their rate beside a single model's, agreement with the CPU.

- ``python benchmarks/gpu_bank.py run --out gpu_bank.json`` measures on the GPU (``--quick``: less);
- ``python benchmarks/gpu_bank.py docs gpu_bank.json`` writes the tables of docs/gpu.md.

It runs from the source tree. The members that live on the CPU and the mixing want the compiled
core: without it their share of the time is not what it would be.

The workload: rows of independent normal numbers on the device (of spread 1.5: at a power of two the
unit of a feature would change at every refresh), labels of noise (nearly every example is stored),
a full ring of 10^5 points. ``Classifier`` has its default members, those of the long past with
``expansions.Window(100_000)``; the single model is ``KernelClassifier`` with the same window.
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

from onkel import (  # noqa: E402
    Classifier,
    KernelClassifier,
    KernelRegressor,
    Regressor,
    core,
    expansions,
    kernels,
    rules,
)
from onkel.estimators.mixtures import banks  # noqa: E402

POINTS = 100_000
WIDTHS = (8, 64)
AT_ONCE = 131_072
"""Rows of one call."""
BEGIN, END = "<!-- bank:begin -->", "<!-- bank:end -->"


def with_window(members: list[Any], terms: int) -> list[Any]:
    """Return the members, those of the long past in a window of so many terms."""
    for member in members:
        if getattr(member, "expansion", None) == "window":
            member.expansion = expansions.Window(terms=terms)
    return members


def models(d: int, terms: int) -> dict[str, Any]:
    """Return what is compared: one model, a whole mixture, its members with terms alone."""
    bank = with_window(banks.classifiers(d), terms)
    far = [member for member in bank if hasattr(member, "device")]
    one = KernelClassifier(expansion=expansions.Window(terms=terms), device="cuda")
    return {
        "single": one,
        "Classifier": Classifier(members=bank, device="cuda"),
        "members with terms": Classifier(members=far, device="cuda"),
        "members without": Classifier(members=[m for m in bank if m not in far]),
        "Regressor": Regressor(members=with_window(banks.regressors(d), terms), device="cuda"),
    }


def rows_on_gpu(n: int, d: int, seed: int, labels: bool) -> tuple[Any, np.ndarray]:
    """Return fresh rows on the device, and targets of noise."""
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    X = 1.5 * torch.randn(n, d, device="cuda", generator=generator)
    noise = np.random.default_rng(seed).normal(size=n)
    return X, np.where(noise > 0, 1, -1) if labels else noise


def rate(model: Any, d: int, rounds: int) -> float:
    """Return examples learned per second in a full ring, the median of some rounds."""
    labels = model.task == "classification"
    for seed in range(3):  # fills the ring, compiles, and records what is launched
        model.partial_fit(*rows_on_gpu(AT_ONCE // 2, d, seed, labels))
    found = []
    for seed in range(rounds):
        X, y = rows_on_gpu(AT_ONCE, d, 10 + seed, labels)
        began = time.perf_counter()
        model.partial_fit(X, y)
        found.append(len(y) / (time.perf_counter() - began))
    return float(np.median(found))


def table(quick: bool) -> list[dict[str, Any]]:
    """Measure every model at each width."""
    found = []
    for d in WIDTHS:
        row: dict[str, Any] = {"d": d, "points": POINTS}
        for name, model in models(d, POINTS).items():
            row[name] = rate(model, d, 2 if quick else 5)
            print(f"d={d} {name}: {row[name]:,.0f}/s", flush=True)
        found.append(row)
    return found


def agree(quick: bool) -> list[dict[str, Any]]:
    """Compare the members' scores with the CPU's: smooth losses, a ring that turns often."""
    n, d, found = 5000 if quick else 20_000, 8, []
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d)).astype(np.float32)
    z = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    for kind, y in ((Classifier, np.where(z > 0, 1, -1)), (Regressor, z)):
        for precision in ("float32", "tf32x3"):
            near = [kind(members=smooth(kind, d, precision), device=w) for w in ("cpu", "cuda")]
            for model in near:
                model.partial_fit(X, y)
            want, got = (model._learner.answers(X[-1000:]) for model in near)
            row = {
                "model": kind.__name__, "precision": precision, "rows": n,
                "terms": [model.n_terms_ for model in near],
                "largest": float(np.abs(want - got).max() / np.abs(want).max()),
                "median": float(np.median(np.abs(want - got)) / np.abs(want).max()),
                "weights": float(np.abs(near[0].weights_ - near[1].weights_).max()),
            }  # fmt: skip
            found.append(row)
            print("agree", json.dumps(row), flush=True)
    return found


def smooth(kind: Any, d: int, precision: str) -> list[Any]:
    """Members without decisions that rounding could turn, in a ring that is soon full."""
    own = {"expansion": expansions.Window(terms=2000), "precision": precision}
    parts = kernels.Gaussian(1.0 / d), kernels.Laplacian(1.0 / d), kernels.Laplacian(4.0 / d)
    one, loss = (
        (KernelClassifier, "logistic") if kind is Classifier else (KernelRegressor, "squared")
    )
    rates = (0.5, 0.1)
    return [one(k, loss, rules.Norma(learning_rate=r), **own) for k in parts for r in rates]


def try_tiles(d: int) -> None:
    """Print the rate of the members with terms for several tiles."""
    model = models(d, POINTS)["members with terms"]
    rate(model, d, 1)
    learner = model._learner.parts[-1][0]
    for share in learner.terms.launcher.shares:
        usual = share.tiles
        if not share.packed.l1:
            continue
        for bm, bn, warps in ((64, 64, 4), (64, 32, 4), (64, 128, 8), (128, 64, 8)):
            for per in (2, 3, 4):
                share.tiles = replace(usual, bm=bm, bn=bn, warps=warps, per=per)
                took = _sums(learner, share)
                print(f"d={d} {bm}x{bn}, {warps} warps, {per} programs: {took:.3f} ms", flush=True)
        share.tiles = usual


def _sums(learner: Any, share: Any) -> float:
    """Return the time of a block's sums over the terms, in milliseconds."""
    import torch

    from onkel.gpu.track import sum_up

    track, terms = learner.track, learner.terms
    terms.tell()
    return _timed(lambda: sum_up(terms.launcher, share, track.rows, 0, track.room.block,
                                 terms.held, track.room, track.room.base), torch)  # fmt: skip


def _timed(call: Any, torch: Any, many: int = 10) -> float:
    """Return the time of a call among many, in milliseconds: what launching takes is hidden."""
    call()
    times = []
    for _ in range(5):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        for _ in range(many):
            call()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) / many)
    return sorted(times)[2]


def stages(d: int) -> None:
    """Print where the time of a block goes."""
    import torch

    from onkel.gpu.launch import Ring

    model = models(d, POINTS)["members with terms"]
    rate(model, d, 1)
    learner = model._learner.parts[-1][0]
    track, terms = learner.track, learner.terms
    b = track.room.block
    for i, share in enumerate(terms.launcher.shares):
        print(f"d={d} sums {i}, {share.packed.which}: {_sums(learner, share):.3f} ms")
    terms.tell(MOST=2**40, CAP=2**40)

    def again() -> None:
        terms.held.ring[Ring.ROWS].fill_(b)
        terms.held.ring[Ring.DONE].fill_(0)

    again()
    own = _timed(lambda: terms.launcher.matrix(1, track.rows, 0, b, terms.held, 0, track.own_k,
                                               cursor=True), torch)  # fmt: skip
    print(f"d={d} matrices {own:.3f} ms")
    for constants, who in track.groups:
        took = _timed(lambda c=constants, w=who: track._steps(terms.held, c, w), torch)
        print(f"d={d} steps of {len(who)}: {took:.3f} ms")
    print(f"d={d} what is stored {_timed(lambda: track._store(terms.held), torch):.3f} ms")


# -- tables ------------------------------------------------------------------------------------


def write_docs(path: str) -> None:
    """Write the measured tables into docs/gpu.md, between its two comments."""
    report = json.loads(Path(path).read_text())
    page = Path(__file__).resolve().parent.parent / "docs" / "gpu.md"
    first, _, rest = page.read_text("utf-8").partition(BEGIN)
    text = _rates(report) + _agreement(report)
    page.write_text(f"{first}{BEGIN}\n\n{text.strip()}\n\n{END}{rest.partition(END)[2]}", "utf-8")


def _lines(titles: list[str], rows: list[list[str]]) -> str:
    cells = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells) + "\n"


def _rates(report: dict[str, Any]) -> str:
    names = "Classifier", "members with terms", "Regressor"
    rows = [
        [str(r["d"]), f"{r['single']:,.0f}"]
        + [f"{r[name]:,.0f} ({r[name] / r['single']:.2f})" for name in names]
        for r in report["table"]
    ]
    text = f"On {report['date']}, one {report['device']}: examples learned per second with "
    text += f"{POINTS:,} points (and the share of the single model's rate):\n\n"
    titles = ["features", "`KernelClassifier()`", "`Classifier()`", "its six members with terms"]
    return text + _lines([*titles, "`Regressor()`"], rows)


def _agreement(report: dict[str, Any]) -> str:
    rows = [
        [r["model"], r["precision"], f"{r['median']:.1e}", f"{r['largest']:.1e}"]
        for r in report["agree"]
    ]
    text = f"\nMembers' scores after {report['agree'][0]['rows']:,} rows in a ring of 2000 points, "
    text += "against the CPU's (difference by the largest score):\n\n"
    return text + _lines(["", "precision", "median", "largest"], rows)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "tiles", "stages", "docs"))
    parser.add_argument("file", nargs="?")
    parser.add_argument("--out", help="write everything as JSON here")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.what == "docs":
        write_docs(options.file)
        return
    if options.what in ("tiles", "stages"):
        for d in WIDTHS:
            (try_tiles if options.what == "tiles" else stages)(d)
        return
    import torch

    report: dict[str, Any] = {
        "date": date.today().isoformat(), "device": torch.cuda.get_device_name(),
        "core": core.BACKEND, "agree": agree(options.quick), "table": table(options.quick),
    }  # fmt: skip
    if options.out:
        Path(options.out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
