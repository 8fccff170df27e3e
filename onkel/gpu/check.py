"""A short check of everything on the device: ``python -m onkel.gpu.check [--quick] [--tiles]``.

Every kernel function, loss and rule runs on the device beside the NumPy core in double precision,
and one line each says PASS or FAIL with the largest difference; then each stage is timed, and
several tiles are tried. Needs NumPy, PyTorch and Triton alone.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

from onkel import core, kernels, losses, rules
from onkel.core import numpy_core
from onkel.core.layout import Field
from onkel.gpu import launch
from onkel.gpu.feeding import kind_of, told_of
from onkel.gpu.launch import Launcher, Ring, Terms, encode
from onkel.gpu.timing import first_state, plain_frame, time_stages, try_tiles
from onkel.gpu.track import Track

Array = Any


def device() -> Any:
    """Return where to run: the GPU, or the processor in Triton's interpreter."""
    return torch.device("cpu" if launch.INTERPRETED else "cuda")


def reference(
    kernel: Any, loss: Any, rule: Any, X: Array, Y: Array, weight: Array, cap: int, age: int,
    intercept: bool, state: Array,
) -> dict[str, Any]:  # fmt: skip
    """Run the NumPy core in double precision, the whole stream as one block."""
    n = len(X)
    t = 1 + np.arange(n)
    K = np.asarray(kernel(X.astype(np.float64)), np.float64)
    task = core.StepInput(
        kernel=K, base=np.zeros((n, Y.shape[1])), old_coef=np.zeros((Y.shape[1], 0)),
        diag=np.diag(K).copy(), births=np.zeros(0, np.int64), live=0, first_trial=1,
        y=Y.astype(np.float64), weight=weight, eta=rule.rates(t), lam=rule.lams(t),
        cap=np.full(n, cap), hosts=np.full(n, -1), oldest=t + 1 - age, loss=loss, rule=rule,
        intercept=intercept, needs_norm=rule.needs_norm, average=False, stop_scale=1e-100,
        state=state,
    )  # fmt: skip
    return numpy_core.steps(task)


def simulate(
    kernel: Any, loss: Any, rule: Any, X: Array, Y: Array, weight: Array, cap: int, age: int,
    intercept: bool, mode: int, block: int,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Run the same on the device, block by block; return scores, state and the ring's numbers."""
    dev, (n, d), c = device(), X.shape, Y.shape[1]
    program = encode(kernel.program(), dev)
    launcher = Launcher(program, d, mode, dev, columns=c)
    slots = -(-min(cap, n) // 256) * 256 + 256
    terms = Terms.empty(slots, d, launcher.wide, c, dev)
    t = 1 + np.arange(n)
    told = told_of(rule, rule.rates(t), rule.lams(t), weight, t + 1 - age, Y, 1)
    kind = kind_of(loss, rule, kernel.bound is not None, intercept, told.steady, age < n)
    track = Track(launcher, c, kind.norm, block, n)
    x = torch.from_numpy(X.astype(np.float32)).to(dev)
    launcher.prepare(x, plain_frame(d, dev), kernel.translation_invariant, track.rows)
    track.feed.tell(told, kind.aged)
    track.begin(first_state(loss, rule, c), n)
    track.run(terms, kind, cap, n, block)
    score = track.feed.results[0].cpu().numpy().T
    return score, track.state.cpu().numpy()[:c], terms.ring.cpu().numpy()


def compare(name: str, got: tuple[Array, Array, Array], want: dict[str, Any], tol: float) -> bool:
    """Print one line; a decision within rounding of its threshold ends the comparison there."""
    score, state, ring = got
    n = int(ring[Ring.DONE])
    truth = want["score"][:n]
    size = max(float(np.abs(truth).max(initial=0.0)), 1e-3)
    off = np.abs(score[:n] - truth).max(axis=1) / size
    bad = np.flatnonzero(~(off < tol))
    until = int(bad[0]) if len(bad) else n
    fields = [f for f in Field if f not in (Field.DROPPED_AVERAGE, Field.NORM2)]
    wrong = {}
    for f in fields if until == n == len(want["score"]) else []:
        a, b = state[:, f], want["state"][:, f]
        gap = float(np.max(np.abs(a - b)) / max(float(np.abs(b).max()), 1e-3))
        if not gap < 30 * tol:
            wrong[f.name] = gap
    # A block that stopped since f is far below its scale: the learner folds, and goes on.
    far = ring[Ring.WHY] == 1 and n >= 64
    fine = until == n and (n == len(want["score"]) or far) and not wrong
    where = "" if until == n else f" first at row {until}"
    print(
        f"{'PASS' if fine else 'FAIL'} {name}: rows {n} of {len(want['score'])}, scores off by "
        f"{float(off[:until].max(initial=0.0)):.1e}{where}{' state ' + str(wrong) if wrong else ''}"
        f"{f' stop {ring[Ring.WHY]}' if ring[Ring.WHY] else ''}",
        flush=True,
    )
    return fine


def cases(quick: bool) -> list[tuple[str, Any, Any, Any, int, bool]]:
    """Return name, kernel, loss, rule, outputs and offset of every case."""
    g = kernels.Gaussian(gamma=0.2)
    norma = rules.Norma(learning_rate=0.3, memory=500)
    soft = losses.SoftMargin(margin=1.0)
    found = [
        ("gaussian soft-margin", g, soft, norma, 1, True),
        ("matern 3/2", kernels.Matern(nu=1.5, length=2.0), soft, norma, 1, True),
        ("matern 5/2", kernels.Matern(nu=2.5, length=2.0), soft, norma, 1, True),
        ("laplacian", kernels.Laplacian(gamma=0.1), soft, norma, 1, True),
        ("linear", kernels.Linear(), soft, rules.Norma(learning_rate=0.02, memory=500), 1, True),
        ("polynomial", kernels.Polynomial(degree=3, gamma=0.1, offset=1.0), soft,
         rules.Norma(learning_rate=0.02, memory=500), 1, True),
        ("sum and product", g + 0.5 * kernels.Laplacian(gamma=0.2)
         * kernels.Matern(nu=1.5, length=3.0), soft, norma, 1, True),
        ("nu soft-margin", g, losses.SoftMargin(nu=0.2), norma, 1, True),
        ("power 2", g, losses.SoftMargin(margin=1.0, power=2.0), norma, 1, True),
        ("logistic", g, losses.Logistic(), norma, 1, True),
        ("least squares", g, losses.LeastSquares(), rules.Norma(learning_rate=0.1), 1, True),
        ("exponential", g, losses.Exponential(), rules.Norma(learning_rate=0.1), 1, True),
        ("novelty", g, losses.Novelty(nu=0.1), norma, 1, False),
        ("novelty support", g, losses.Novelty(nu=0.05, support=0.3), norma, 1, False),
        ("squared", g, losses.Squared(), norma, 1, True),
        ("absolute", g, losses.Absolute(), norma, 1, True),
        ("epsilon", g, losses.EpsilonInsensitive(epsilon=0.1), norma, 1, True),
        ("epsilon nu", g, losses.EpsilonInsensitive(nu=0.2), norma, 1, True),
        ("huber", g, losses.Huber(sigma=0.5), norma, 1, True),
        ("huber nu", g, losses.Huber(nu=0.2), norma, 1, True),
        ("regularizer 3", g, soft, rules.Norma(learning_rate=0.3, memory=500, regularizer=3.0),
         1, True),
        ("track norm", g, soft, rules.Norma(learning_rate=0.3, memory=500, track_norm=True),
         1, True),
        ("perceptron", g, losses.SoftMargin(margin=0.0), rules.Perceptron(), 1, False),
        ("alma", g, soft, rules.Alma(radius=2.0, learning_rate=0.2), 1, False),
        ("alma tuning", g, losses.SoftMargin(), rules.Alma(approximation=0.7), 1, False),
        ("projection", g, soft, rules.Projection(), 1, False),
        ("projection ball", g, soft, rules.Projection(radius=2.0), 1, False),
        ("projection regression", g, losses.EpsilonInsensitive(epsilon=0.1), rules.Projection(),
         1, False),
        ("4 classes", g, soft, norma, 4, True),
        ("10 classes logistic", g, losses.Logistic(), norma, 10, True),
        ("3 classes projection ball", g, soft, rules.Projection(radius=2.0), 3, False),
    ]  # fmt: skip
    return found[:: 5 if quick else 1]


def check_steps(quick: bool, n: int, block: int, seed: int = 0) -> int:
    """Compare every case; return how many failed."""
    failed = 0
    for name, kernel, loss, rule, c, intercept in cases(quick):
        rng = np.random.default_rng(seed)
        d = 5 if launch.INTERPRETED else 20
        X = rng.normal(size=(n, d)).astype(np.float32)
        Y = np.sign(X[:, :1] * X[:, 1:2] + 0.3 * rng.normal(size=(n, c)))
        if loss.task == "regression":
            Y = np.sin(X[:, :1]) + 0.2 * rng.normal(size=(n, c))
        bound = rule.bind(loss)
        for mode, tol in ((0, 1e-4),) if quick else ((0, 1e-4), (2, 1e-4)):
            for cap, age in ((block, 10**9), (10**6, 2 * block)):
                weight = rng.uniform(0.5, 1.5, n) if mode else np.ones(n)
                args = kernel, loss, bound, X, Y, weight, cap, age, intercept
                want = reference(*args, first_state(loss, bound, c))
                try:
                    got = simulate(*args, mode, block)
                except Exception as problem:
                    print(f"FAIL {name} mode {mode}: {type(problem).__name__}: {problem}"[:2000])
                    failed += 1
                    break
                label = f"{name} [{'float32' if mode == 0 else 'tf32x3'}, "
                label += f"{'cap' if cap == block else 'age'}]"
                failed += not compare(label, got, want, tol)
    return failed


def main() -> None:
    """Run the check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases and sizes")
    parser.add_argument("--tiles", action="store_true", help="try tiles too")
    parser.add_argument("--time-only", action="store_true", help="no comparison")
    options = parser.parse_args()
    began = time.time()
    if not options.time_only:
        n, block = (150, 64) if launch.INTERPRETED else (1500, 256)
        failed = check_steps(options.quick, n, block)
        print(f"{failed} failed, {time.time() - began:.0f} s")
    if launch.INTERPRETED:
        return
    sizes = [(10_000, 16), (100_000, 16), (100_000, 256), (100_000, 784)]
    if not options.quick:
        sizes += [(1_000_000, 16), (1_000_000, 256), (1_000_000, 784)]
    time_stages(sizes, [1] if options.quick else [1, 2, 0])
    if options.tiles:
        for m, d in ((100_000, 16), (100_000, 256), (200_000, 784)):
            for mode in (1, 2, 0):
                try_tiles(m, d, mode)
    print(f"{time.time() - began:.0f} s in all")


if __name__ == "__main__":
    main()
